// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/fake_transport/scheduler.h"

#include <utility>

namespace udapl::fake {

Scheduler& Scheduler::instance() {
  static auto* const scheduler = new Scheduler;
  return *scheduler;
}

void Scheduler::defer(const void* owner, std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  calls_.push_back({owner, std::move(call)});
}

void Scheduler::drop(const void* owner) {
  // Destroyed without the lock: a call may own an object whose destructor defers or cancels.
  std::list<Call> dropped;
  const std::scoped_lock lock(mutex_);
  for (auto i = calls_.begin(); i != calls_.end();) {
    const auto call = i++;
    if (call->owner == owner) dropped.splice(dropped.end(), calls_, call);
  }
}

void Scheduler::cancel(const void* owner) {
  drop(owner);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this, owner] {
    return !running_ || running_owner_ != owner || running_thread_ == std::this_thread::get_id();
  });
}

bool Scheduler::run_one() {
  Call call{};
  {
    const std::scoped_lock lock(mutex_);
    if (running_ || calls_.empty()) return false;
    call = std::move(calls_.front());
    calls_.pop_front();
    running_ = true;
    running_owner_ = call.owner;
    running_thread_ = std::this_thread::get_id();
  }
  call.function();
  {
    const std::scoped_lock lock(mutex_);
    running_ = false;
    running_owner_ = nullptr;
  }
  finished_.notify_all();
  return true;
}

int Scheduler::run() {
  int calls = 0;
  while (run_one()) ++calls;
  return calls;
}

std::size_t Scheduler::pending() {
  const std::scoped_lock lock(mutex_);
  return calls_.size();
}

}  // namespace udapl::fake
