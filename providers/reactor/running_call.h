// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/mutex.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "providers/reactor/drive_role.h"

#include <atomic>
#include <cstdint>

namespace udapl {

// Records which Handler, Timer or Deferred the driving thread of a reactor is calling, and lets a
// thread that destroys such an object wait until the call has ended. Owned by a Reactor.
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
  // Like end(), but without the lock, together with a change of the role: see wait_for_end().
  template <class ChangeRole>
  void end_with(ChangeRole change) noexcept {
    object_.store(nullptr, std::memory_order_release);
    change();
    if (waiting_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake_waiters();
  }
  void wake_waiters() noexcept { ended_.signal(); }

  // ---- called by any thread, without the lock --------------------------------------------------
  // Waits while another thread calls the object, unless that thread waits for this one.
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
