// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>

// Detects forks, for this copy of the library. Thread-safe. Children that are not created by fork()
// (but by posix_spawn or vfork) do not count: they do not use this library.
namespace udapl::forks {

using Handler = void (*)() noexcept;

// Starts to detect forks. `in_child` then runs in every child before fork() returns there. It may
// only access memory of this library: the other threads of the parent are gone, but the locks that
// they held are not released. Called once per process. Returns false if out of memory.
bool watch(Handler in_child) noexcept;

// Base of a cache that has a lock. If another thread of the parent held the lock at the fork, it
// would stay locked in the child for good: so the child empties the cache and unlocks it.
class Cache {
 public:
  // From now on repair() runs in every child before fork() returns there. Call it before the lock
  // is first held while the cache has contents. Thread-safe; cheap.
  void watch_forks() noexcept {
    if (!watched_.load(std::memory_order_relaxed)) [[unlikely]]
      enlist();
  }

 protected:
  using Repair = void (*)(Cache&) noexcept;  // empties the cache and unlocks it
  explicit constexpr Cache(Repair repair) noexcept : repair_(repair) {}

 private:
  friend void repair_caches() noexcept;
  void enlist() noexcept;

  const Repair repair_;
  std::atomic<bool> watched_{false};
  Cache* next_ = nullptr;
};

// The number of forks between the process that called watch() and this one.
[[nodiscard]] unsigned generation() noexcept;

// Whether a related process may share descriptors with this one; then closing one does not end its
// connection. A child shares them until fork() returns in it (unshared_fd.h).
[[nodiscard]] bool descriptors_may_be_shared() noexcept;

}  // namespace udapl::forks
