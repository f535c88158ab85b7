// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/io/idle_pages.h"

#include <chrono>
#include <cstddef>
#include <limits>

namespace udapl::soft {

namespace {

constexpr auto kIdle = std::chrono::seconds(1);
constexpr std::uint64_t kMinReleased = 16 * 1024;

}  // namespace

IdlePages::IdlePages(Reactor& reactor, Handler* const& handler) noexcept
    : reactor_(reactor),
      handler_(handler),
      watch_at_(kMinReleased),
      timer_(reactor, Call::to<&IdlePages::on_idle>(this)) {}

// Starts the timer, unless a thread polls the reactor: with a timer running, the thread would have
// to read the clock in each turn.
void IdlePages::start_wait(std::uint64_t position) noexcept {
  watch_at_ = position + kMinReleased;
  if (handler_ == nullptr || reactor_.polled()) return;
  watch_at_ = std::numeric_limits<std::uint64_t>::max();
  started_at_ = position;
  timer_.start_after(kIdle);
}

// Called by the timer, without the lock of the stream. So it only requests a call of the handler,
// which does the work.
void IdlePages::on_idle() noexcept {
  due_.store(true, std::memory_order_relaxed);
  reactor_.request_call(*handler_);
}

bool IdlePages::end_wait(std::uint64_t position) noexcept {
  due_.store(false, std::memory_order_relaxed);
  if (position == started_at_) return true;
  start_wait(position);
  return false;
}

void IdlePages::released(std::uint64_t position, bool all_read) noexcept {
  watch_at_ = all_read ? position + kMinReleased : position + 1;
}

}  // namespace udapl::soft
