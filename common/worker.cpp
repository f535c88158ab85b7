// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/worker.h"

#include <exception>
#include <utility>

#include <pthread.h>

#include "common/signals_blocked.h"

namespace udapl {

Worker::~Worker() {
  {
    const ScopedLock lock(lock_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Worker::start() noexcept {
  const SignalsBlocked scope;
  try {
    thread_ = std::thread([this] { work(); });
    ::pthread_setname_np(thread_.native_handle(), name_);
  } catch (const std::exception&) {  // no thread, or no memory
  }
  return thread_.joinable();
}

bool Worker::give(std::unique_ptr<Job>& job) noexcept {
  {
    const ScopedLock lock(lock_);
    if (!thread_.joinable() && !start()) return false;
    std::unique_ptr<Job>* place = &first_;
    while (*place != nullptr) place = &(*place)->next_;
    *place = std::move(job);
  }
  changed_.notify_one();
  return true;
}

void Worker::work() noexcept {
  for (;;) {
    std::unique_ptr<Job> job;
    {
      const ScopedLock lock(lock_);
      while (first_ == nullptr && !stopping_) changed_.wait(lock_);
      if (first_ == nullptr) return;
      job = std::move(first_);
      first_ = std::move(job->next_);
    }
    job->run();
  }
}

}  // namespace udapl
