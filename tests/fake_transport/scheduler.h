// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace udapl::fake {

// The pending calls of a service thread into sinks, in order. A test decides when to run them.
// Keeps the guarantees of dapl/transport/sink.h. Thread-safe. One per process.
class Scheduler {
 public:
  static Scheduler& instance();

  void defer(const void* owner, std::function<void()> call);
  // Drops the deferred calls of `owner`.
  void drop(const void* owner);
  // Like drop(); also waits for a running call of `owner`, unless this thread runs it.
  void cancel(const void* owner);

  // Runs the oldest call. Returns false if there is none, or if another thread is running one.
  bool run_one();
  // Runs calls until none is left, including those that are deferred meanwhile; returns how many.
  int run();
  [[nodiscard]] std::size_t pending();

 private:
  struct Call {
    const void* owner;
    std::function<void()> function;
  };

  std::mutex mutex_;
  std::condition_variable finished_;
  std::list<Call> calls_;  // a list, so that dropping needs no memory
  bool running_ = false;
  const void* running_owner_ = nullptr;
  std::thread::id running_thread_;
};

}  // namespace udapl::fake
