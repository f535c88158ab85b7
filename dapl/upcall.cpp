// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/upcall.h"

#include "dapl/evd.h"
#include "dapl/ia.h"

#include <utility>

namespace udapl::dapl {

namespace {

// Somebody left some Ia. One word for all, because an Ia may be gone when its last visitor would
// still have to wake the thread that closes it.
WaitWord somebody_left;

// The agents that run in this thread, innermost first: an agent may post an event that calls
// another one.
struct RunningAgent {
  const Ia* ia;
  const RunningAgent* outer;
};
thread_local const RunningAgent* running_agents = nullptr;

}  // namespace

void Visits::leave() noexcept {
  // release: what the visitor did is done before the Ia ends.
  inside_.fetch_sub(1, std::memory_order_release);
  somebody_left.signal();
}

void Visits::wait_until_empty() noexcept {
  for (;;) {
    const std::uint32_t seen = somebody_left.value();
    if (inside_.load(std::memory_order_acquire) == 0) return;
    somebody_left.wait(seen, std::nullopt);
  }
}

Upcall::Upcall(Ia& ia, const DAT_OS_WAIT_PROXY_AGENT& agent, Evd* evd) noexcept
    : ia_(&ia), evd_(evd), agent_(agent) {
  ia.visits().enter();
}

Upcall Upcall::overflow(Evd& evd) noexcept {
  return Upcall(*evd.ia, DAT_OS_WAIT_PROXY_AGENT{nullptr, nullptr}, &evd);
}

Upcall::Upcall(Upcall&& other) noexcept
    : ia_(std::exchange(other.ia_, nullptr)), evd_(other.evd_), agent_(other.agent_) {}

Upcall& Upcall::operator=(Upcall&& other) noexcept {
  if (this == &other) return *this;
  run();
  ia_ = std::exchange(other.ia_, nullptr);
  evd_ = other.evd_;
  agent_ = other.agent_;
  return *this;
}

void Upcall::run() noexcept {
  Ia* const ia = std::exchange(ia_, nullptr);
  if (ia == nullptr) return;
  if (agent_.proxy_agent_func != nullptr) {
    const RunningAgent frame{ia, running_agents};
    running_agents = &frame;
    agent_.proxy_agent_func(agent_.instance_data, evd_);
    running_agents = frame.outer;
  } else {
    ia->report(DAT_ASYNC_ERROR_EVD_OVERFLOW, evd_, DAT_EVD_OVERFLOW_ERROR);
  }
  ia->visits().leave();
}

bool Upcall::running_in_this_thread(const Ia& ia) noexcept {
  for (const RunningAgent* agent = running_agents; agent != nullptr; agent = agent->outer)
    if (agent->ia == &ia) return true;
  return false;
}

}  // namespace udapl::dapl
