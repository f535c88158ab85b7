// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/reactor.h"

#include <atomic>
#include <cstdint>

namespace udapl::soft {

// Tells a RingStream when to free the pages of its ring: when nothing has been sent for some time,
// if many bytes were sent before.
//
// Used like the stream that owns it; only its timer may run in another thread meanwhile. Positions
// are numbers of bytes that were sent so far.
class IdlePages {
 public:
  // `handler` is that of the stream, null while it is not watched. It is called when due().
  IdlePages(Reactor& reactor, Handler* const& handler) noexcept;

  void sent(std::uint64_t position) noexcept {
    if (position >= watch_at_) [[unlikely]]
      start_wait(position);
  }
  // Whether to call end_wait().
  [[nodiscard]] bool due() const noexcept { return due_.load(std::memory_order_relaxed); }
  // Returns whether nothing was sent meanwhile; otherwise waits again. If so, released() must
  // follow.
  [[nodiscard]] bool end_wait(std::uint64_t position) noexcept;
  // The pages were freed at `position`; or not, because something is unread: another attempt
  // follows when something is sent.
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
