// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "dapl/transport/mr.h"
#include "providers/soft/stag.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace udapl::soft {

// Identifies a protection domain or a QP inside the table; 0 is nobody.
using ScopeId = std::uint64_t;

// What an access wants. A subset of the rights that an entry can grant (bits of
// DAT_MEM_PRIV_FLAGS plus the IB extension's remote atomic).
enum Right : std::uint32_t {
  kLocalRead = DAT_MEM_PRIV_LOCAL_READ_FLAG,
  kRemoteRead = DAT_MEM_PRIV_REMOTE_READ_FLAG,
  kLocalWrite = DAT_MEM_PRIV_LOCAL_WRITE_FLAG,
  kRemoteWrite = DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
  kRemoteAtomic = DAT_MEM_PRIV_EXTENSION_BASE,
};
inline constexpr std::uint32_t kRemoteRights = kRemoteRead | kRemoteWrite | kRemoteAtomic;

// Why a remote access was refused, in the order of soft-transport.md 1.8.
enum class Refusal : std::uint8_t {
  kNone,
  kInvalidStag,
  kNotThisStream,
  kToWrap,
  kBounds,
  kAccess
};

// Names one life of one entry; becomes stale when the entry is revoked or rebound.
struct MrRef {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  // 0: names nothing
};

// Every registration and window of an adapter: who may touch which bytes.
//
// Three ways in: an lmr_context (local, O(1), no lock), an STag (from the wire, one short lock), an
// MrRef (from an earlier look-up, no lock). An access pins the entry, copies, unpins; revocation
// makes the entry invalid first and then waits for the pins to go, so after revoke() returned not
// one byte is touched. Whoever pins must not block, nor revoke, until it has unpinned.
//
// Thread-safe. Owned by the adapter; outlives all Mr, Window and Qp objects. Entry storage grows in
// chunks that live as long as the table. Spec: RFC 5042 6.1-6.3, udapl-semantics 6.3-6.6.
class MrTable {
 public:
  static constexpr std::uint32_t kIndexBits = 20;
  static constexpr std::uint32_t kMaxEntries = 1U << kIndexBits;

  // Room for `max_entries` registrations and windows together (clamped to kMaxEntries).
  explicit MrTable(std::uint32_t max_entries = kMaxEntries);
  ~MrTable();
  MrTable(const MrTable&) = delete;
  MrTable& operator=(const MrTable&) = delete;

  // ---- registrations ---------------------------------------------------------------------------
  // INSUFFICIENT_RESOURCES when full.
  [[nodiscard]] Result<MrRef> register_memory(ScopeId pd, const transport::MrInit& init);
  [[nodiscard]] static DAT_LMR_CONTEXT lmr_context(MrRef ref) noexcept;
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context(MrRef ref) const noexcept;
  [[nodiscard]] bool has_windows(MrRef ref) const noexcept;
  // Ends the registration; returns when no access to the memory runs. The entry is reused later.
  void revoke(MrRef ref) noexcept UDAPL_EXCLUDES(lock_);

  // ---- windows ---------------------------------------------------------------------------------
  // A window keeps its index for life; each binding has a generation of its own.
  [[nodiscard]] Result<std::uint32_t> create_window(ScopeId pd, transport::WindowScope scope);
  void destroy_window(std::uint32_t window) noexcept UDAPL_EXCLUDES(lock_);
  [[nodiscard]] DAT_RMR_CONTEXT window_context(std::uint32_t window) const noexcept;
  [[nodiscard]] std::optional<transport::Binding> window_binding(
      std::uint32_t window) const noexcept UDAPL_EXCLUDES(lock_);

  // A bind in two steps: prepare_bind at the post (checks, allots the STag, marks the MR as in
  // use), then exactly one of commit_bind (in queue order) and cancel_bind (flushed).
  struct PendingBind {
    std::uint32_t window = 0;
    std::uint32_t window_life = 0;  // detects a window that was destroyed meanwhile
    MrRef mr;                       // generation 0: unbind
    std::uint32_t stag = 0;         // 0: unbind
    DAT_LMR_TRIPLET range{};
    std::uint32_t rights = 0;
    bool zero_based = false;
  };
  // INVALID_PARAMETER (range), PRIVILEGES_VIOLATION, PROTECTION_VIOLATION: udapl-semantics 6.5.
  [[nodiscard]] DAT_RETURN prepare_bind(ScopeId qp_pd, std::uint32_t window, const MrRef* mr,
                                        const transport::BindRequest& request,
                                        PendingBind& out) noexcept UDAPL_EXCLUDES(lock_);
  // False: the window or the registration is gone; the bind failed and is cancelled.
  [[nodiscard]] bool commit_bind(const PendingBind& bind, ScopeId qp) noexcept
      UDAPL_EXCLUDES(lock_);
  void cancel_bind(const PendingBind& bind) noexcept UDAPL_EXCLUDES(lock_);
  // Unbinds what is bound to QP scope over `qp`; the connection is over.
  void unbind_all(ScopeId qp) noexcept UDAPL_EXCLUDES(lock_);

  // A peer's Send with Invalidate on QP `qp` of domain `pd`. Only windows of QP scope bound through
  // this QP may be invalidated: kInvalidStag, kNotThisStream, kAccess (a registration, or a window
  // of PD scope).
  [[nodiscard]] Refusal invalidate(std::uint32_t stag, ScopeId pd, ScopeId qp) noexcept
      UDAPL_EXCLUDES(lock_);

  // ---- local access: one segment of a consumer's list ------------------------------------------
  // udapl-semantics 6.4 without the zero-length rule: PRIVILEGES_VIOLATION, PROTECTION_VIOLATION,
  // INVALID_PARAMETER or DAT_SUCCESS. Lock-free. `pd` 0 skips the domain check.
  [[nodiscard]] DAT_RETURN check_local(const DAT_LMR_TRIPLET& segment, ScopeId pd,
                                       std::uint32_t right) const noexcept;

  // Keeps one entry from being revoked. Movable; releases in the destructor.
  class Pin {
   public:
    Pin() noexcept = default;
    Pin(Pin&& other) noexcept : users_(std::exchange(other.users_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(users_, other.users_);
      return *this;
    }
    ~Pin() { reset(); }
    explicit operator bool() const noexcept { return users_ != nullptr; }
    void reset() noexcept {
      // release: our copies are over before the revoker sees the count drop.
      if (users_ != nullptr) users_->fetch_sub(1, std::memory_order_release);
      users_ = nullptr;
    }

   private:
    friend class MrTable;
    explicit Pin(std::atomic<std::uint32_t>* users) noexcept : users_(users) {}
    std::atomic<std::uint32_t>* users_ = nullptr;
  };

  // Pins the registration of a local segment that check_local accepted at its post; empty when it
  // was freed since. Lock-free.
  [[nodiscard]] Pin pin_local(DAT_LMR_CONTEXT context) noexcept;
  [[nodiscard]] Pin pin(MrRef ref) noexcept;

  // ---- remote access ---------------------------------------------------------------------------
  struct RemoteRequest {
    std::uint32_t stag;
    std::uint64_t to;
    std::uint64_t length;  // > 0
    std::uint32_t right;
    ScopeId pd;
    ScopeId qp;
  };
  struct RemoteAccess {
    Refusal refusal = Refusal::kInvalidStag;
    std::byte* address = nullptr;  // with kNone: where TO is in this process
    MrRef ref;                     // with kNone
    Pin pin;                       // with kNone: held
  };
  [[nodiscard]] RemoteAccess access(const RemoteRequest& request) noexcept UDAPL_EXCLUDES(lock_);
};

}  // namespace udapl::soft
