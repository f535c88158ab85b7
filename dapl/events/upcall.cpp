// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/events/upcall.h"

#include "dapl/events/async_evds.h"
#include "dapl/events/evd.h"
#include "dapl/objects/ia.h"

#include <memory>
#include <new>
#include <utility>

namespace udapl::dapl {

Upcall::Upcall(Ia& ia, const DAT_OS_WAIT_PROXY_AGENT& agent, Evd* evd, const void* owner) noexcept
    : ia_(&ia), evd_(evd), agent_(agent), owner_(owner) {
  ia.visits().enter();
}

Upcall Upcall::overflow(Evd& evd) noexcept {
  return Upcall(*evd.ia, DAT_OS_WAIT_PROXY_AGENT{nullptr, nullptr}, &evd, nullptr);
}

Upcall::Upcall(Upcall&& other) noexcept
    : ia_(std::exchange(other.ia_, nullptr)),
      evd_(other.evd_),
      agent_(other.agent_),
      owner_(other.owner_) {}

Upcall& Upcall::operator=(Upcall&& other) noexcept {
  if (this == &other) return *this;
  run();
  ia_ = std::exchange(other.ia_, nullptr);
  evd_ = other.evd_;
  agent_ = other.agent_;
  owner_ = other.owner_;
  return *this;
}

// The job of the agent thread.
struct Upcall::Later final : Worker::Job {
  explicit Later(Upcall&& later) noexcept : Job(later.owner_), upcall(std::move(later)) {}
  ~Later() override { upcall.forget(); }
  void run() noexcept override { upcall.run_here(); }
  Upcall upcall;
};

// Returns false if there is no memory or no thread. The caller then calls the agent in its own
// thread, which is better than not calling it.
bool Upcall::hand_over() noexcept {
  Worker& agents = ia_->agents();
  auto* const later = new (std::nothrow) Later(std::move(*this));
  if (later == nullptr) return false;
  std::unique_ptr<Worker::Job> job(later);
  if (agents.give(job)) return true;
  *this = std::move(later->upcall);
  return false;
}

bool Upcall::is_queued(Ia& ia, const void* owner, const Evd& evd) noexcept {
  bool found = false;
  ia.agents().cancel_if(owner, [&](Worker::Job& job) {
    found |= static_cast<Later&>(job).upcall.evd_ == &evd;
    return false;
  });
  return found;
}

bool Upcall::redirect(Ia& ia, const void* owner, const Evd& evd, Evd* to) noexcept {
  bool dropped = false;
  ia.agents().cancel_if(owner, [&](Worker::Job& job) {
    Upcall& upcall = static_cast<Later&>(job).upcall;
    if (upcall.evd_ != &evd) return false;
    upcall.evd_ = to;
    dropped |= to == nullptr;
    return to == nullptr;
  });
  return dropped;
}

void Upcall::forget() noexcept {
  if (Ia* const ia = std::exchange(ia_, nullptr); ia != nullptr) ia->visits().leave();
}

void Upcall::run() noexcept {
  const bool calls_agent = agent_.proxy_agent_func != nullptr && evd_ != nullptr;
  if (ia_ == nullptr || (calls_agent && hand_over())) return;
  run_here();
}

void Upcall::run_here() noexcept {
  Ia* const ia = std::exchange(ia_, nullptr);
  if (ia == nullptr) return;
  if (agent_.proxy_agent_func != nullptr) {
    const Inside agent(ia);
    agent_.proxy_agent_func(agent_.instance_data, evd_);
  } else {
    report_async(*ia, DAT_ASYNC_ERROR_EVD_OVERFLOW, evd_, DAT_EVD_OVERFLOW_ERROR);
  }
  ia->visits().leave();
}

bool Upcall::running_in_this_thread(const Ia& ia) noexcept { return Inside::of(&ia); }

}  // namespace udapl::dapl
