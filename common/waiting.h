// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <pthread.h>

namespace udapl {

// Marks, for a scope, that the calling thread is inside a call into the application on behalf of an
// object (e.g. for the proxy agent of an IA). Scopes nest. Not thread-safe; on the stack.
class Inside {
 public:
  explicit Inside(const void* what) noexcept : what_(what), outer_(innermost_) {
    innermost_ = this;
  }
  ~Inside() { innermost_ = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  // Whether the calling thread is inside a call on behalf of `what`.
  [[nodiscard]] static bool of(const void* what) noexcept { return among(innermost_, what); }

 private:
  friend class Waiting;
  static bool among(const Inside* inside, const void* what) noexcept;

  const void* const what_;
  const Inside* const outer_;
  static constinit thread_local const Inside* innermost_;
};

// A thread that waits until other threads have left an object or a call. All such threads of a
// library are in a list, so that a thread that would complete a cycle of waits detects that before
// it waits (docs/adr/0034).
//
// Thread-safe: an object belongs to the thread that created it, the list to all threads. begin()
// and end() may be called with any lock held except those that is_blocked_by() acquires.
class Waiting {
 public:
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Returns false if the caller would wait for a thread that waits, directly or through others, for
  // the caller. The wait has not begun then, and the caller must not wait.
  [[nodiscard]] bool begin() noexcept;
  void end() noexcept;  // no effect unless begun

  // For is_blocked_by(): whether `thread` has created this object.
  [[nodiscard]] bool is_thread(pthread_t thread) const noexcept {
    return ::pthread_equal(thread_, thread) != 0;
  }
  // Whether the thread of this object is inside a call on behalf of `what`.
  [[nodiscard]] bool is_inside(const void* what) const noexcept {
    return Inside::among(inside_, what);
  }

 protected:
  Waiting() noexcept : thread_(::pthread_self()), inside_(Inside::innermost_) {}
  ~Waiting() = default;  // REQUIRES: end() was called

  // Whether the thread of `other` keeps this one waiting right now. Called with the list's spin
  // lock held: acquires spin locks only.
  [[nodiscard]] virtual bool is_blocked_by(const Waiting& other) const noexcept = 0;

 private:
  struct List;

  const pthread_t thread_;
  const Inside* const inside_;
  bool begun_ = false;
  bool seen_ = false;  // a search has visited it
  Waiting* next_ = nullptr;
};

}  // namespace udapl
