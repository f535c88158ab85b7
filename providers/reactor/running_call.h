// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/mutex.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "providers/reactor/drive_role.h"

#include <atomic>
#include <cstdint>

namespace udapl {

// Which Handler, Timer or Deferred the driving thread of a reactor calls at present, and the
// threads that wait for the end of that call: a thread that destroys an object waits until the
// object is no longer being called. Owned by a Reactor.
class RunningCall {
 public:
  using Held = ScopedLock<SpinLock>;  // the reactor's lock is held

  RunningCall(SpinLock& lock, DriveRole& role) noexcept : lock_(lock), role_(role) {}
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  // ---- called by the driving thread ------------------------------------------------------------
  void begin(const void* object, const Held&) noexcept {
    object_.store(object, std::memory_order_relaxed);
  }
  void end() noexcept {
    bool has_waiters = false;
    {
      const Held guard(lock_);
      has_waiters = end(guard);
    }
    if (has_waiters) wake_waiters();
  }
  // Returns true if wake_waiters() must be called after the lock is released.
  [[nodiscard]] bool end(const Held&) noexcept {
    object_.store(nullptr, std::memory_order_relaxed);
    return waiting_.load(std::memory_order_relaxed) != 0;
  }
  // The same as end(), without the lock, around a change of the role: see wait_for_end().
  template <class ChangeRole>
  void end_with(ChangeRole change) noexcept {
    object_.store(nullptr, std::memory_order_release);
    change();
    if (waiting_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake_waiters();
  }
  void wake_waiters() noexcept { ended_.signal(); }

  // ---- called by any thread, without the lock --------------------------------------------------
  // Waits while the object is called, unless by this thread or by one that waits for it.
  void wait_for_end(const void* object) noexcept;

 private:
  struct Wait;
  [[nodiscard]] bool is(const void* object) noexcept;
  void disown(const void* object) noexcept;

  SpinLock& lock_;
  DriveRole& role_;
  std::atomic<const void*> object_{nullptr};
  std::atomic<std::uint32_t> waiting_{0};
  WaitWord ended_;
};

}  // namespace udapl
