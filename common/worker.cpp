// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/worker.h"

#include <csignal>
#include <exception>
#include <utility>

#include <pthread.h>

namespace udapl {

Worker::~Worker() {
  {
    const ScopedLock lock(lock_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// The thread inherits a full signal mask: the application's threads handle its signals.
bool Worker::start() noexcept {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { work(); });
    ::pthread_setname_np(thread_.native_handle(), name_);
  } catch (const std::exception&) {  // no thread, or no memory
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
