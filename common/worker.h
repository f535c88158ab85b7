// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <condition_variable>
#include <memory>
#include <thread>
#include <utility>

#include "common/annotations.h"
#include "common/mutex.h"

namespace udapl {

// A thread that runs jobs one after the other, in the order of the calls of give(). The first job
// starts it. Thread-safe. The destructor waits until all jobs are done; no job may call it.
class Worker {
 public:
  class Job {
   public:
    explicit Job(const void* owner) noexcept : owner_(owner) {}
    virtual ~Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    virtual void run() noexcept = 0;

   private:
    friend class Worker;
    const void* const owner_;
    std::unique_ptr<Job> next_;
  };

  explicit Worker(const char* name) : name_(name) {}  // 15 bytes at most; throws std::bad_alloc
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns false if no thread can be created; the caller then keeps the job.
  bool give(std::unique_ptr<Job>& job) noexcept UDAPL_EXCLUDES(lock_);
  // Destroys the jobs of `owner` that have not begun.
  void cancel(const void* owner) noexcept UDAPL_EXCLUDES(lock_) {
    cancel_if(owner, [](Job&) { return true; });
  }
  // Destroys those of them for which `unwanted(job)` returns true. `unwanted` is called with the
  // lock held, so it may also change a job.
  template <class Unwanted>
  void cancel_if(const void* owner, Unwanted unwanted) noexcept UDAPL_EXCLUDES(lock_);

 private:
  bool start() noexcept UDAPL_REQUIRES(lock_);
  void work() noexcept UDAPL_EXCLUDES(lock_);

  const char* const name_;
  Mutex lock_;
  std::condition_variable_any changed_;
  std::unique_ptr<Job> first_ UDAPL_GUARDED_BY(lock_);
  bool stopping_ UDAPL_GUARDED_BY(lock_) = false;
  std::thread thread_;
};

template <class Unwanted>
void Worker::cancel_if(const void* owner, Unwanted unwanted) noexcept {
  std::unique_ptr<Job> cancelled;  // destroyed without the lock
  const ScopedLock lock(lock_);
  std::unique_ptr<Job>* place = &first_;
  while (*place != nullptr) {
    if ((*place)->owner_ != owner || !unwanted(**place)) {
      place = &(*place)->next_;
      continue;
    }
    std::unique_ptr<Job> job = std::move(*place);
    *place = std::move(job->next_);
    job->next_ = std::move(cancelled);
    cancelled = std::move(job);
  }
}

}  // namespace udapl
