// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/memory/pz.h"
#include "dapl/objects/object.h"
#include "dapl/posted/srq_cookies.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"

#include <atomic>
#include <memory>

namespace udapl::dapl {

// A shared receive queue. EPs created with it count as its users. Owned by an Ia.
//
// Thread safety: posts hold post_lock() (datapath.h); everything else may run at any time.
class Srq : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_SRQ;

  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc. REQUIRES: attributes checked.
  static Result<Owned<Srq>> create(Ia& ia, Pz& pz, const DAT_SRQ_ATTR& attributes);
  // Use create(). Public for make_object.
  Srq(Ia& owner, Pz& pz, const DAT_SRQ_ATTR& attributes);
  // Waits for a post in progress.
  ~Srq();

  [[nodiscard]] transport::Srq& queue() const noexcept { return *queue_; }
  [[nodiscard]] Pz& pz() const noexcept { return *pz_.get(); }
  SpinLock& post_lock() noexcept { return post_lock_; }

  // The cookies, whose limit is max_recv_dtos.
  [[nodiscard]] SrqCookies& cookies() noexcept { return cookies_; }

  [[nodiscard]] int max_recv_iov() const noexcept { return max_recv_iov_; }
  [[nodiscard]] int max_recv_dtos() const noexcept { return cookies_.counts().limit; }
  void query(DAT_SRQ_PARAM* param) const noexcept;
  // Blocks. INVALID_STATE: `max_recv_dtos` is less than are outstanding, or than the low watermark.
  Status resize(int max_recv_dtos) UDAPL_EXCLUDES(resize_lock_);
  Status set_low_watermark(int mark) noexcept UDAPL_EXCLUDES(resize_lock_);

 private:
  struct Sink final : transport::SrqSink {
    explicit Sink(Srq& owner) noexcept : srq(owner) {}
    void on_low_watermark() noexcept override;
    void on_async_error() noexcept override;
    Srq& srq;
  };

  // Sets the limit of the cookies at the end of its scope: to the old one unless final_limit was
  // changed.
  struct LimitChange {
    explicit LimitChange(Srq& owner) noexcept;
    ~LimitChange();
    LimitChange(const LimitChange&) = delete;
    LimitChange& operator=(const LimitChange&) = delete;
    Srq& srq;
    int final_limit;
  };

  void set_marks(int mark) noexcept UDAPL_REQUIRES(resize_lock_);

  const Use<Pz> pz_;
  const int max_recv_iov_;

  SpinLock post_lock_;
  SrqCookies cookies_;
  // Both are written under resize_lock_. Until dat_srq_set_lw sets a mark, queries report that of
  // dat_srq_create, although only dat_srq_set_lw arms one (docs/compatibility.md C63).
  std::atomic<int> low_watermark_{0};
  std::atomic<int> reported_watermark_;
  Mutex resize_lock_;
  std::atomic<bool> failed_{false};

  Sink sink_;
  std::unique_ptr<transport::Srq> queue_;  // last: its end waits for a running sink call
};

}  // namespace udapl::dapl
