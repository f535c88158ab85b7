// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/fd.h"
#include "common/mutex.h"

#include <utility>

#include <sys/types.h>

namespace udapl {

// Owns a descriptor that forked children do not keep open. A child that kept a connection or a
// listener open would prevent peers from noticing the death of this process. In a child, the number
// refers to /dev/null before fork() returns, so that closing it is harmless (docs/adr/0041).
// Children of _Fork(), vfork() and posix_spawn() keep the descriptor until they exec.
//
// Movable, not copyable. Like an Fd, one object is not used by several threads at once. A call may
// wait for a fork of another thread, and closes the descriptor with a lock held.
class UnsharedFd {
 public:
  UnsharedFd() noexcept = default;
  // Takes ownership of a descriptor. Children that were forked after it was opened keep it.
  UnsharedFd(Fd fd) noexcept;  // NOLINT(google-explicit-constructor): nothing is lost
  UnsharedFd(UnsharedFd&& other) noexcept { *this = std::move(other); }
  UnsharedFd& operator=(UnsharedFd&& other) noexcept;
  ~UnsharedFd() { reset(); }

  // Calls `open`, which makes one system call and returns a descriptor, and takes ownership as
  // Fd::made does. No fork can take place in between, so `open` must not block.
  template <class Open>
  [[nodiscard]] static UnsharedFd made(Open open) noexcept {
    UnsharedFd result;
    result.open([](void* call) noexcept -> int { return (*static_cast<Open*>(call))(); }, &open);
    return result;
  }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }
  void reset() noexcept;

 private:
  using Call = int (*)(void* argument) noexcept;
  void open(Call call, void* argument) noexcept UDAPL_EXCLUDES(lock_);
  void enter() noexcept UDAPL_REQUIRES(lock_);
  void leave() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool is_still_ours() const noexcept;

  static void detect_forks() noexcept;
  static void before_fork() noexcept UDAPL_ACQUIRE(lock_);
  static void in_parent() noexcept UDAPL_RELEASE(lock_);
  static void in_child() noexcept UDAPL_RELEASE(lock_);

  // The list of all valid objects. A thread that forks holds the lock.
  static constinit Mutex lock_;
  static constinit UnsharedFd* first_ UDAPL_GUARDED_BY(lock_);

  Fd fd_;
  bool entered_ = false;
  UnsharedFd* next_ = nullptr;
  UnsharedFd* previous_ = nullptr;
  dev_t device_ = 0;  // with inode_: the file of the descriptor when it was entered into the list
  ino_t inode_ = 0;
};

}  // namespace udapl
