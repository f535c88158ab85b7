// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/reactor.h"

#include <utility>

namespace udapl {

// The one timer of an object that is in one phase at a time, each with its own time limit. `Phase`:
// an enumeration with kNothing, the phase without a limit.
//
// Not thread-safe: its functions are called under the owner's lock. The callback runs without a
// lock (see Timer), and the timer may have been started again meanwhile: so the callback calls
// take_due(). Declare it among the last members: the destructor waits for a call that runs in
// another thread.
template <class Phase>
class PhaseTimer {
 public:
  PhaseTimer(Reactor& reactor, Call call) noexcept : timer_(reactor, call) {}

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  // Replaces the current phase. `phase` is not kNothing.
  void start(Phase phase, Clock::duration delay) noexcept {
    phase_ = phase;
    due_ = Clock::now() + delay;
    timer_.start(due_);
  }
  void stop() noexcept {
    phase_ = Phase::kNothing;
    timer_.stop();
  }
  // Called in the callback: ends the phase whose time limit has passed and returns it; kNothing if
  // the time limit of the current phase has not passed.
  [[nodiscard]] Phase take_due() noexcept {
    if (phase_ == Phase::kNothing || Clock::now() < due_) return Phase::kNothing;
    return std::exchange(phase_, Phase::kNothing);
  }

 private:
  Phase phase_ = Phase::kNothing;
  Clock::time_point due_{};
  Timer timer_;
};

}  // namespace udapl
