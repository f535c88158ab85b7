// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace udapl::fake {

// What a service thread would do next: calls into sinks, in order. A test runs them when it wants
// to. Keeps the promises of dapl/transport/sink.h. Thread-safe. One per process.
class Scheduler {
 public:
  static Scheduler& instance();

  void defer(const void* owner, std::function<void()> call);
  // Drops what is deferred for `owner`.
  void drop(const void* owner);
  // Also waits for a running call of `owner`, unless it is this thread's.
  void cancel(const void* owner);

  // Runs the oldest call. False: none was there, or another thread is at it.
  bool run_one();
  // Runs calls until none is left, also those that come up meanwhile; returns how many.
  int run();
  [[nodiscard]] std::size_t pending();

 private:
  struct Call {
    const void* owner;
    std::function<void()> function;
  };

  std::mutex mutex_;
  std::condition_variable finished_;
  std::list<Call> calls_;  // to drop some takes no memory
  bool running_ = false;
  const void* running_owner_ = nullptr;
  std::thread::id running_thread_;
};

}  // namespace udapl::fake
