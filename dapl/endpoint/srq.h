// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/endpoint/cookie_ring.h"
#include "dapl/memory/pz.h"
#include "dapl/objects/object.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"

#include <atomic>
#include <memory>
#include <vector>

namespace udapl::dapl {

class Srq;

// The cookie of a buffer on an SRQ. `ep` is null: the completion names the EP that consumed it.
struct SrqCookie : Cookie {
  Srq* srq;
  SrqCookie* next_free;
};

// A shared receive queue. EPs created with it count as its users. Owned by an Ia.
//
// Thread safety: posts hold post_lock() (datapath.h); everything else may run at any time. A buffer
// is outstanding from its post until its completion has been turned into an event; then its cookie
// is free again. Cookies are returned out of order, by any dequeuing thread.
class Srq : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_SRQ;

  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc. REQUIRES: attributes checked.
  static Result<Owned<Srq>> create(Ia& ia, Pz& pz, const DAT_SRQ_ATTR& attributes);
  // Use create(). Public for make_object.
  Srq(Ia& owner, Pz& pz, const DAT_SRQ_ATTR& attributes);

  [[nodiscard]] transport::Srq& queue() const noexcept { return *queue_; }
  [[nodiscard]] Pz& pz() const noexcept { return *pz_.get(); }
  SpinLock& post_lock() noexcept { return post_lock_; }

  // A free cookie with srq set, or null when max_recv_dtos buffers are outstanding.
  [[nodiscard]] SrqCookie* claim() noexcept UDAPL_EXCLUDES(cookie_lock_);
  // Frees a cookie whose post was refused or whose completion has become an event.
  void retire(SrqCookie& cookie) noexcept UDAPL_EXCLUDES(cookie_lock_);

  [[nodiscard]] int max_recv_iov() const noexcept { return max_recv_iov_; }
  [[nodiscard]] int max_recv_dtos() const noexcept UDAPL_EXCLUDES(cookie_lock_);
  void query(DAT_SRQ_PARAM* param) const noexcept UDAPL_EXCLUDES(cookie_lock_);
  // Blocks. INVALID_STATE: fewer than are outstanding or than the low watermark.
  Status resize(int max_recv_dtos) UDAPL_EXCLUDES(resize_lock_, cookie_lock_);
  Status set_low_watermark(int mark) noexcept UDAPL_EXCLUDES(resize_lock_, cookie_lock_);

 private:
  struct Sink final : transport::SrqSink {
    explicit Sink(Srq& owner) noexcept : srq(owner) {}
    void on_low_watermark() noexcept override;
    void on_async_error() noexcept override;
    Srq& srq;
  };

  // Sets the limit at the end of its scope: to the old value unless a new one was chosen.
  struct LimitChange {
    explicit LimitChange(Srq& owner) noexcept;
    ~LimitChange();
    LimitChange(const LimitChange&) = delete;
    LimitChange& operator=(const LimitChange&) = delete;
    Srq& srq;
    int final_limit;
  };

  [[nodiscard]] int cookie_count() const noexcept UDAPL_EXCLUDES(cookie_lock_);
  // Allocates `count` more cookies. If it throws std::bad_alloc, nothing has changed.
  void add_cookies(int count) UDAPL_EXCLUDES(cookie_lock_);

  const Use<Pz> pz_;
  const int max_recv_iov_;

  SpinLock post_lock_;
  mutable SpinLock cookie_lock_;  // a leaf
  std::vector<std::unique_ptr<SrqCookie[]>> blocks_ UDAPL_GUARDED_BY(cookie_lock_);
  SrqCookie* free_ UDAPL_GUARDED_BY(cookie_lock_) = nullptr;
  int cookies_ UDAPL_GUARDED_BY(cookie_lock_) = 0;      // in all blocks
  int limit_ UDAPL_GUARDED_BY(cookie_lock_) = 0;        // max_recv_dtos
  int outstanding_ UDAPL_GUARDED_BY(cookie_lock_) = 0;  // claimed and not retired
  int low_watermark_ UDAPL_GUARDED_BY(cookie_lock_) = 0;
  Mutex resize_lock_ UDAPL_ACQUIRED_BEFORE(cookie_lock_);
  std::atomic<bool> failed_{false};

  Sink sink_;
  std::unique_ptr<transport::Srq> queue_;  // last: its end waits for a running sink call
};

}  // namespace udapl::dapl
