// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "dapl/transport/mr.h"
#include "providers/soft/shm/grants.h"
#include "providers/soft/stag.h"

#include <boost/intrusive/list.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

namespace udapl::soft {

// Identifies a protection domain or a QP inside the table; 0: none.
using ScopeId = std::uint64_t;

// The rights that an access needs and that an entry can grant: bits of DAT_MEM_PRIV_FLAGS plus the
// IB extension's remote atomic.
enum Right : std::uint32_t {
  kLocalRead = DAT_MEM_PRIV_LOCAL_READ_FLAG,
  kRemoteRead = DAT_MEM_PRIV_REMOTE_READ_FLAG,
  kLocalWrite = DAT_MEM_PRIV_LOCAL_WRITE_FLAG,
  kRemoteWrite = DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
  kRemoteAtomic = DAT_MEM_PRIV_EXTENSION_BASE,
};
inline constexpr std::uint32_t kRemoteRights = kRemoteRead | kRemoteWrite | kRemoteAtomic;

// Why a remote access was refused, in the order of the checks (docs/semantics.md#remote-access).
enum class Refusal : std::uint8_t {
  kNone,
  kInvalidStag,
  kNotThisStream,
  kToWrap,
  kBounds,
  kAccess
};

// Names one life of one entry; stale once the entry has been revoked or rebound.
struct MrRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // 0: names nothing
  bool operator==(const MrRef&) const = default;
};

// A piece of registered memory of this process.
struct Segment {
  std::byte* address;
  std::uint32_t length;
  MrRef ref;
};

// All registrations and windows of an adapter: defines which accesses to which bytes are allowed.
//
// An entry is found by an lmr_context (local, O(1), no lock), by an STag (from the wire, one short
// lock), or by an MrRef (from an earlier look-up, no lock). An access pins the entry, copies, and
// unpins. Revocation first makes the entry invalid and then waits until all pins are released, so
// that afterwards no byte is touched. A thread that holds a pin must neither block nor revoke. Pins
// of registrations may be held for longer by a Keeper, which revocation asks to let go.
//
// Thread-safe. Owned by the adapter; outlives all Mr, Window, Srq and Qp objects. Entries are
// stored in chunks that live as long as the table. Spec: RFC 5042 6.1-6.3,
// docs/semantics.md#local-memory and the two sections behind it.
class MrTable {
 public:
  static constexpr std::uint32_t kIndexBits = 20;
  static constexpr std::uint32_t kMaxEntries = 1U << kIndexBits;

  // Has room for `max_entries` registrations and windows together. Throws std::bad_alloc.
  explicit MrTable(std::uint32_t max_entries = kMaxEntries);
  ~MrTable();
  MrTable(const MrTable&) = delete;
  MrTable& operator=(const MrTable&) = delete;

  // ---- registrations ---------------------------------------------------------------------------
  // INSUFFICIENT_RESOURCES if the table is full.
  [[nodiscard]] Result<MrRef> register_memory(ScopeId pd, const transport::MrInit& init);
  [[nodiscard]] static DAT_LMR_CONTEXT lmr_context(MrRef ref) noexcept;
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context(MrRef ref) const noexcept;
  [[nodiscard]] bool has_windows(MrRef ref) const noexcept;
  // Ends the registration, and unbinds windows that are still bound to it. Returns when no access
  // to the memory is in progress.
  void revoke(MrRef ref) noexcept UDAPL_EXCLUDES(lock_);

  // ---- windows: an index for life, a generation for each binding --------------------------------
  [[nodiscard]] Result<std::uint32_t> create_window(ScopeId pd, transport::WindowScope scope);
  void destroy_window(std::uint32_t window) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] DAT_RMR_CONTEXT window_context(std::uint32_t window) const noexcept;
  [[nodiscard]] std::optional<transport::Binding> window_binding(
      std::uint32_t window) const noexcept UDAPL_EXCLUDES(lock_);

  // A bind takes two steps: prepare_bind at the post (checks, assigns the STag, marks the
  // registration as in use), then exactly one of commit_bind (in queue order) and cancel_bind (if
  // flushed).
  struct PendingBind {
    std::uint32_t window = 0;
    std::uint32_t window_life = 0;  // detects that the window was destroyed meanwhile
    MrRef mr;                       // generation 0: unbind
    std::uint32_t stag = 0;         // 0: unbind
    std::uint32_t rights = 0;
    bool zero_based = false;
    DAT_LMR_TRIPLET range{};
  };
  // `mr` may be null for an unbind (range of length 0). PROTECTION_VIOLATION, INVALID_PARAMETER
  // (range, foreign lmr_context), PRIVILEGES_VIOLATION: docs/semantics.md#binding-an-rmr.
  [[nodiscard]] DAT_RETURN prepare_bind(ScopeId qp_pd, std::uint32_t window, const MrRef* mr,
                                        const transport::BindRequest& request,
                                        PendingBind& out) noexcept UDAPL_EXCLUDES(lock_);
  // Returns false if the window or the registration is gone; the bind is then cancelled. An unbind
  // of a window that is gone succeeds. May wait for accesses in progress in other threads.
  [[nodiscard]] bool commit_bind(const PendingBind& bind, ScopeId qp) noexcept
      UDAPL_EXCLUDES(lock_);
  void cancel_bind(const PendingBind& bind) noexcept UDAPL_EXCLUDES(lock_);
  // Called when the connection of `qp` has ended: unbinds the windows of QP scope that are bound
  // through it.
  void unbind_all(ScopeId qp) noexcept UDAPL_EXCLUDES(lock_);

  // Whether the STag is or was one of this table's.
  [[nodiscard]] bool was_issued(std::uint32_t stag) const noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return stags_.issued(stag);
  }

  // Performs a peer's Send with Invalidate on QP `qp` of domain `pd`. Only a window of QP scope
  // that is bound through this QP can be invalidated. Otherwise returns kInvalidStag,
  // kNotThisStream, or kAccess (a registration or a window of PD scope, which other streams may be
  // using).
  [[nodiscard]] Refusal invalidate(std::uint32_t stag, ScopeId pd, ScopeId qp) noexcept
      UDAPL_EXCLUDES(lock_);

  // ---- local access ----------------------------------------------------------------------------
  // Checks a segment of a consumer's list (docs/semantics.md#local-memory, without the zero-length
  // rule) and translates it: PRIVILEGES_VIOLATION, PROTECTION_VIOLATION, INVALID_PARAMETER.
  // Lock-free.
  [[nodiscard]] DAT_RETURN resolve(const DAT_LMR_TRIPLET& segment, ScopeId pd, std::uint32_t right,
                                   Segment& out) const noexcept;
  // As resolve(), for a segment of a receive, which may reach beyond its registration: `out` then
  // ends where the registration does.
  [[nodiscard]] DAT_RETURN resolve_receive(const DAT_LMR_TRIPLET& segment, ScopeId pd,
                                           Segment& out) const noexcept;

  // The extent and the rights of a registration; they do not change during its life.
  struct Extent {
    DAT_LMR_CONTEXT context = 0;  // 0: of no registration
    std::uint32_t rights = 0;
    ScopeId pd = 0;
    std::uint64_t start = 0;  // of the range of addresses by which consumers name it
    std::uint64_t length = 0;
    std::byte* memory = nullptr;

    // As resolve(), but returns null if the segment is not inside this registration.
    [[nodiscard]] std::byte* resolve(const DAT_LMR_TRIPLET& segment, ScopeId wanted_pd,
                                     std::uint32_t right) const noexcept {
      const std::uint64_t offset = segment.virtual_address - start;
      if (segment.lmr_context != context || wanted_pd != pd || (rights & right) != right ||
          offset > length || segment.segment_length > length - offset) [[unlikely]]
        return nullptr;
      return memory + offset;
    }
  };
  // REQUIRES: the entry is pinned.
  [[nodiscard]] Extent extent(MrRef ref) const noexcept;

  // Keeps one entry from being revoked, until destroyed.
  class Pin {
   public:
    Pin() noexcept = default;
    Pin(Pin&& other) noexcept : users_(std::exchange(other.users_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(users_, other.users_);
      return *this;
    }
    ~Pin() {
      // release: our copies are complete before the revoking thread sees the count drop.
      if (users_ != nullptr) users_->fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const noexcept { return users_ != nullptr; }

   private:
    friend class MrTable;
    explicit Pin(std::atomic<std::uint32_t>* users) noexcept : users_(users) {}
    std::atomic<std::uint32_t>* users_ = nullptr;
  };
  // Returns an empty Pin if that life of the entry is over. Lock-free.
  [[nodiscard]] Pin pin(MrRef ref) noexcept;

  // Holds pins of registrations from one access to the next.
  class Keeper {
   public:
    virtual ~Keeper() = default;
    // Releases the pin of this registration, if there is one, once no access uses it. Called while
    // it is being revoked, by any thread, which holds no pin and no lock of a Qp.
    virtual void let_go(MrRef ref) noexcept = 0;

   private:
    friend class MrTable;
    boost::intrusive::list_member_hook<> hook_;
  };
  void add(Keeper& keeper) noexcept UDAPL_EXCLUDES(keepers_lock_);
  // REQUIRES: the keeper soon releases its pins. No let_go() runs afterwards.
  void remove(Keeper& keeper) noexcept UDAPL_EXCLUDES(keepers_lock_);

  // ---- remote access ---------------------------------------------------------------------------
  struct Access {
    std::uint32_t stag;
    std::uint64_t to;
    std::uint32_t length;  // > 0
    std::uint32_t right;
    ScopeId pd;
    ScopeId qp;
  };
  // If it returns kNone, `out` describes the memory and `pin` holds it.
  [[nodiscard]] Refusal access(const Access& request, Segment& out, Pin& pin) noexcept
      UDAPL_EXCLUDES(lock_);
  // The same if the caller has kept a pin of `kept`, which is a registration with this STag.
  // Lock-free.
  [[nodiscard]] Refusal access_kept(MrRef kept, const Access& request, Segment& out) const noexcept;
  // Whether an entry, which must be pinned, is a registration, so that its pin may be kept.
  [[nodiscard]] bool is_registration(MrRef ref) const noexcept;

  // ---- peers that access memory by themselves (shm/grants.h) -----------------------------------
  // Adds to `grants`, if there is room, the entry of `request`, which access() has just allowed.
  // Revocation of the entry withdraws the grant and waits until the peer no longer uses the memory.
  void grant(const Access& request, shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // The memory of a receive of `qp` where message `number` of the peer will be from byte `before`
  // on.
  struct Offered {
    const Segment& memory;
    std::uint32_t before;
    std::uint32_t number;
    bool at_once;  // also while messages before it are not placed
    ScopeId qp;
  };
  // Adds the memory to `grants`, in place of an earlier offer. Does nothing if it is no longer
  // registered.
  void offer(const Offered& offered, shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // Withdraws these grants when their messages have arrived.
  void end_offers(shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // Withdraws them before that. If the peer is using the memory, waits for it, but not for long.
  void take_back_offers(shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // Called when the connection has ended: withdraws all its grants. Waits for the peer for a short
  // time; if the peer still uses some of the memory then, revocation of that memory waits for it,
  // and wait_ended().
  void end_grants(std::unique_ptr<shm::Grants> grants) noexcept UDAPL_EXCLUDES(lock_);
  // Waits until no peer uses memory that was granted to it through an ended connection of `qp`.
  void wait_ended(ScopeId qp) noexcept UDAPL_EXCLUDES(lock_);

  // Returns an unused STag, which names no memory. It serves as the sink of our own RDMA Reads: the
  // peer only returns it to us.
  [[nodiscard]] std::uint32_t ephemeral_stag() noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return new_stag();
  }

 private:
  enum class Kind : std::uint8_t { kFree, kRegistration, kWindow };
  struct Entry;

  static constexpr std::uint32_t kChunkBits = 8;
  static constexpr std::uint32_t kChunkSize = 1U << kChunkBits;
  static constexpr std::uint32_t kBuckets = 1U << 16;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };

  [[nodiscard]] Entry* find(std::uint32_t index) const noexcept;
  // kRegistration: a segment that reaches beyond its registration is cut off there.
  enum class End : std::uint8_t { kSegment, kRegistration };
  [[nodiscard]] DAT_RETURN resolve_to(End end, const DAT_LMR_TRIPLET& segment, ScopeId pd,
                                      std::uint32_t right, Segment& out) const noexcept;
  [[nodiscard]] Entry& at(std::uint32_t index) const noexcept;  // REQUIRES: the entry exists
  [[nodiscard]] Result<std::uint32_t> allocate(Kind kind, ScopeId pd) UDAPL_EXCLUDES(lock_);
  void release(std::uint32_t index) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] std::uint32_t new_stag() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] std::uint32_t lookup(std::uint32_t stag) const noexcept UDAPL_REQUIRES(lock_);
  void publish(std::uint32_t index, std::uint32_t stag) noexcept UDAPL_REQUIRES(lock_);
  void withdraw(std::uint32_t index) noexcept UDAPL_REQUIRES(lock_);
  void withdraw_window(std::uint32_t index) noexcept UDAPL_REQUIRES(lock_);
  void drop_window_of(MrRef mr) noexcept UDAPL_REQUIRES(lock_);
  void cancel(const PendingBind& bind) noexcept UDAPL_REQUIRES(lock_);
  template <class Matches>
  void withdraw_windows_if(Matches matches) noexcept UDAPL_EXCLUDES(lock_);
  void unbind_windows_of(MrRef mr) noexcept UDAPL_EXCLUDES(lock_);
  static Refusal check(const Entry& entry, const Access& request, Segment& out) noexcept;
  void ask_keepers(const Entry& entry, MrRef ref) noexcept UDAPL_EXCLUDES(lock_, keepers_lock_);
  void wait_unused(Entry& entry) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] static bool reached(const Entry& entry) noexcept;
  void forget_grant(shm::Grants::Grant& grant) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool forget_offer(shm::Grants::Grant& grant) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool forget_unused(Entry& entry, const shm::Users& gone,
                                   std::unique_ptr<shm::Grants>& over) noexcept
      UDAPL_REQUIRES(lock_);
  std::unique_ptr<shm::Grants> take_ended(shm::Grants& grants) noexcept UDAPL_REQUIRES(lock_);
  static void add_users(shm::Grants& grants, shm::Users& users) noexcept;
  [[nodiscard]] bool forget_all_unused(shm::Grants& grants, const shm::Users& gone) noexcept
      UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool forget_ended(ScopeId qp, const shm::Users& gone,
                                  std::unique_ptr<shm::Grants>& over) noexcept
      UDAPL_REQUIRES(lock_);
  [[nodiscard]] shm::Users users_of(const Entry& entry) const noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] shm::Users users_of_ended(ScopeId qp) const noexcept UDAPL_EXCLUDES(lock_);
  void sweep_ended() noexcept UDAPL_EXCLUDES(lock_);

  const std::uint32_t max_entries_;
  mutable SpinLock lock_;
  StagGenerator stags_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t created_ UDAPL_GUARDED_BY(lock_) = 0;        // entries ever taken from the chunks
  std::uint32_t free_head_ UDAPL_GUARDED_BY(lock_) = kNone;  // oldest first: late reuse
  std::uint32_t free_tail_ UDAPL_GUARDED_BY(lock_) = kNone;
  // STag -> entry, chained. Zeroed by the kernel, so that unused pages cost no memory.
  const std::unique_ptr<std::uint32_t[], Free> buckets_ UDAPL_GUARDED_BY(lock_);
  const std::unique_ptr<std::atomic<Entry*>[]> chunks_;
  // Held while a Keeper acquires the lock of its Qp.
  Mutex keepers_lock_;
  boost::intrusive::list<Keeper, boost::intrusive::member_hook<
                                     Keeper, boost::intrusive::list_member_hook<>, &Keeper::hook_>>
      keepers_ UDAPL_GUARDED_BY(keepers_lock_);
  // Grants of connections that have ended, while the peers still use some of the memory.
  std::unique_ptr<shm::Grants> ended_grants_ UDAPL_GUARDED_BY(lock_);
};

}  // namespace udapl::soft
