// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/reactor.h"

#include <atomic>
#include <cstdint>

namespace udapl::soft {

// Tells a RingStream when to free the pages of its ring: when many bytes were sent, and then
// nothing for some time.
//
// Used under the lock of the stream that owns it; only the timer's call needs no lock, and may run
// in another thread meanwhile. Positions are numbers of bytes that were sent so far.
class IdlePages {
 public:
  // `handler`: the handler of the stream; null while the stream is not watched. The reactor calls
  // it when due().
  IdlePages(Reactor& reactor, Handler* const& handler) noexcept;

  void sent(std::uint64_t position) noexcept {
    if (position >= watch_at_) [[unlikely]]
      start_wait(position);
  }
  // Whether to call end_wait().
  [[nodiscard]] bool due() const noexcept { return due_.load(std::memory_order_relaxed); }
  // Called when due(). Returns true if nothing was sent during the wait; then released() must
  // follow. Otherwise waits again.
  [[nodiscard]] bool end_wait(std::uint64_t position) noexcept;
  // Called when the pages were freed at `position`, or, with `all_read` false, could not be freed
  // because the peer has not read everything. In the latter case, the next bytes that are sent
  // start another attempt.
  void released(std::uint64_t position, bool all_read) noexcept;
  // Waits for a timer that is running.
  void stop() noexcept { timer_.stop(); }

 private:
  void start_wait(std::uint64_t position) noexcept;
  void on_idle() noexcept;

  Reactor& reactor_;
  Handler* const& handler_;
  std::uint64_t watch_at_;        // the position at which start_wait() is due
  std::uint64_t started_at_ = 0;  // the position at which the timer was started
  std::atomic<bool> due_{false};
  Timer timer_;  // last: it calls this object
};

}  // namespace udapl::soft
