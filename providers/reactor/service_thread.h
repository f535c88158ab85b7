// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"

#include <pthread.h>

#include <atomic>

namespace udapl {

// A reactor's own thread, in which the application's signals are blocked. Owned by a Reactor.
class ServiceThread {
 public:
  // Starts it with this name (15 bytes at most). Returns 0 or the error of pthread_create.
  int start(const char* name, Call entry) noexcept;
  // Waits for the end of the entry, if it was started.
  void join() noexcept;
  // Returns whether the calling thread is this one. Thread-safe.
  [[nodiscard]] bool here() const noexcept {
    return ::pthread_equal(running_.load(std::memory_order_relaxed), ::pthread_self()) != 0;
  }

 private:
  static void* run(void* self) noexcept;

  Call entry_{};
  pthread_t thread_{};
  bool started_ = false;
  std::atomic<pthread_t> running_{};  // set by the thread itself
};

}  // namespace udapl
