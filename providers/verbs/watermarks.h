// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "providers/verbs/qp_shared.h"

#include <atomic>

namespace udapl::verbs {

// The high watermarks of a receive queue. The soft mark fires once, the hard one as long as it is
// exceeded; a negative value means that the mark is not set.
//
// Under the lock of the Qp, except that any thread may call armed(). Owned by a Queue.
class Watermarks {
 public:
  struct Exceeded {
    bool soft;
    bool hard;
  };

  void set(int soft, int hard) noexcept UDAPL_REQUIRES(qp_locked) {
    soft_ = soft;
    hard_ = hard;
    update();
  }
  // Returns which marks `held` receives exceed. Disarms the soft mark if it is one of them.
  [[nodiscard]] Exceeded check(int held) noexcept UDAPL_REQUIRES(qp_locked) {
    const Exceeded exceeded{soft_ >= 0 && held > soft_, hard_ >= 0 && held > hard_};
    if (exceeded.soft) soft_ = -1;
    update();
    return exceeded;
  }
  // Whether a mark is set, so that posted receives have to be counted.
  [[nodiscard]] bool armed() const noexcept { return armed_.load(std::memory_order_relaxed); }

 private:
  void update() noexcept UDAPL_REQUIRES(qp_locked) {
    armed_.store(soft_ >= 0 || hard_ >= 0, std::memory_order_relaxed);
  }

  int soft_ UDAPL_GUARDED_BY(qp_locked) = -1;
  int hard_ UDAPL_GUARDED_BY(qp_locked) = -1;
  std::atomic<bool> armed_{false};
};

}  // namespace udapl::verbs
