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

// The rights that an access needs and that an entry can grant: bits of DAT_MEM_PRIV_FLAGS, and the
// right for remote atomics of the IB extension.
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

// Names an entry until it is revoked or rebound: afterwards the generation no longer matches.
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

// All registrations and windows of an adapter. Decides which accesses to which bytes are allowed.
//
// An entry is found by an lmr_context (local, O(1), no lock), by an STag (from the wire, one short
// lock), or by an MrRef (from an earlier look-up, no lock). A thread pins the entry, copies, and
// unpins it. Revocation first makes the entry invalid and then waits until all pins are released,
// so that no byte is accessed afterwards. A thread that holds a pin must neither block nor revoke.
// Only a Keeper may hold pins of registrations for longer: revocation asks it to release them.
//
// Thread-safe. Owned by the adapter; outlives all Mr, Window, Srq and Qp objects. Entries are
// stored in chunks that live as long as the table. Spec: RFC 5042 6.1-6.3,
// docs/semantics.md#local-memory and the next two sections.
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

  // ---- windows: named by an index, which does not change; each binding has a generation ---------
  [[nodiscard]] Result<std::uint32_t> create_window(ScopeId pd, transport::WindowScope scope);
  void destroy_window(std::uint32_t window) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] DAT_RMR_CONTEXT window_context(std::uint32_t window) const noexcept;
  [[nodiscard]] std::optional<transport::Binding> window_binding(
      std::uint32_t window) const noexcept UDAPL_EXCLUDES(lock_);

  // A bind takes two steps. prepare_bind(), called by the post, checks it, assigns the STag and
  // marks the registration as in use. Then exactly one of commit_bind() (when the bind is executed,
  // in the order of the queue) and cancel_bind() (if it is flushed) must follow.
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
  // Returns false if the window or the registration no longer exists; the bind is then cancelled.
  // An unbind of a window that no longer exists succeeds. May wait for accesses by other threads.
  [[nodiscard]] bool commit_bind(const PendingBind& bind, ScopeId qp) noexcept
      UDAPL_EXCLUDES(lock_);
  void cancel_bind(const PendingBind& bind) noexcept UDAPL_EXCLUDES(lock_);
  // Called when the connection of `qp` has ended: unbinds the windows of QP scope that are bound
  // through it.
  void unbind_all(ScopeId qp) noexcept UDAPL_EXCLUDES(lock_);

  // Whether this table has ever issued the STag.
  [[nodiscard]] bool was_issued(std::uint32_t stag) const noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return stags_.issued(stag);
  }

  // Performs the invalidation that a peer of QP `qp`, in domain `pd`, requests by a Send with
  // Invalidate. Only a window of QP scope that is bound through this QP can be invalidated.
  // Otherwise returns kInvalidStag, kNotThisStream, or kAccess (a registration or a window of PD
  // scope, which other streams may be using).
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
    DAT_LMR_CONTEXT context = 0;  // 0: this describes no registration
    std::uint32_t rights = 0;
    ScopeId pd = 0;
    std::uint64_t start = 0;  // the first of the addresses by which consumers name the memory
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

  // As long as it exists, revocation of the entry waits.
  class Pin {
   public:
    Pin() noexcept = default;
    Pin(Pin&& other) noexcept : users_(std::exchange(other.users_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(users_, other.users_);
      return *this;
    }
    ~Pin() {
      // release: the copies of this thread are complete before the revoking thread sees the new
      // count.
      if (users_ != nullptr) users_->fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const noexcept { return users_ != nullptr; }

   private:
    friend class MrTable;
    explicit Pin(std::atomic<std::uint32_t>* users) noexcept : users_(users) {}
    std::atomic<std::uint32_t>* users_ = nullptr;
  };
  // Returns an empty Pin if `ref` is stale. Lock-free.
  [[nodiscard]] Pin pin(MrRef ref) noexcept;

  // An object that holds pins of registrations from one access to the next: a Qp.
  class Keeper {
   public:
    virtual ~Keeper() = default;
    // Releases the keeper's pin of the registration, if it has one, as soon as no access uses it.
    // Called by the thread that revokes the registration, which holds no pin and no lock of a Qp.
    virtual void let_go(MrRef ref) noexcept = 0;

   private:
    friend class MrTable;
    boost::intrusive::list_member_hook<> hook_;
  };
  void add(Keeper& keeper) noexcept UDAPL_EXCLUDES(keepers_lock_);
  // Afterwards no let_go() of the keeper runs or is called. REQUIRES: the keeper is about to
  // release its pins by itself.
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
  // If the result is kNone, `out` describes the memory, and `pin` pins its entry.
  [[nodiscard]] Refusal access(const Access& request, Segment& out, Pin& pin) noexcept
      UDAPL_EXCLUDES(lock_);
  // The same for a caller that holds a pin of `kept`, the registration with this STag. Lock-free.
  [[nodiscard]] Refusal access_kept(MrRef kept, const Access& request, Segment& out) const noexcept;
  // Whether an entry is a registration, so that its pin may be kept. REQUIRES: the entry is pinned.
  [[nodiscard]] bool is_registration(MrRef ref) const noexcept;

  // ---- direct access by a peer on this host (shm/grants.h) -------------------------------------
  // Adds a grant for the entry of `request`, which access() has just allowed, if there is room.
  // Revocation of the entry withdraws the grant and waits until the peer no longer uses the memory.
  void grant(const Access& request, shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // The memory of a receive of `qp` that message `number` of the peer will take: the place of the
  // message's bytes from byte `before` on.
  struct Offered {
    const Segment& memory;
    std::uint32_t before;
    std::uint32_t number;
    bool at_once;  // the peer may write there before all earlier messages are placed
    ScopeId qp;
  };
  // Adds a grant for the memory, which replaces an earlier offer in the same slot. Does nothing if
  // the memory is no longer registered.
  void offer(const Offered& offered, shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // Withdraws the offers of messages that have arrived.
  void end_offers(shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // Withdraws offers whose messages have not arrived. Waits for a short time for a peer that is
  // using the memory.
  void take_back_offers(shm::Grants& grants) noexcept UDAPL_EXCLUDES(lock_);
  // Called when the connection has ended: withdraws all its grants. Waits for a short time for a
  // peer that is using the memory. If the peer still uses some of it then, revocation of that
  // memory and wait_ended() wait for the peer.
  void end_grants(std::unique_ptr<shm::Grants> grants) noexcept UDAPL_EXCLUDES(lock_);
  // Waits until no peer uses memory that was granted to it through an ended connection of `qp`.
  void wait_ended(ScopeId qp) noexcept UDAPL_EXCLUDES(lock_);

  // Returns a new STag, which names no memory. It is used as the sink of our own RDMA Reads,
  // because the peer only returns that STag to us.
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
  // kRegistration: a segment that reaches beyond its registration is shortened to end there.
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
  std::uint32_t free_head_ UDAPL_GUARDED_BY(lock_) = kNone;  // freed longest ago, reused next
  std::uint32_t free_tail_ UDAPL_GUARDED_BY(lock_) = kNone;
  // A hash table of entries by STag, with chains. The kernel provides zeroed pages, so unused pages
  // take no memory.
  const std::unique_ptr<std::uint32_t[], Free> buckets_ UDAPL_GUARDED_BY(lock_);
  const std::unique_ptr<std::atomic<Entry*>[]> chunks_;
  // Held during Keeper::let_go(), so it is acquired before the lock of a Qp.
  Mutex keepers_lock_;
  boost::intrusive::list<Keeper, boost::intrusive::member_hook<
                                     Keeper, boost::intrusive::list_member_hook<>, &Keeper::hook_>>
      keepers_ UDAPL_GUARDED_BY(keepers_lock_);
  // The list of grants of connections that have ended while the peer still used some of the memory.
  std::unique_ptr<shm::Grants> ended_grants_ UDAPL_GUARDED_BY(lock_);
};

}  // namespace udapl::soft
