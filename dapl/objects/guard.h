// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <concepts>

#include "common/annotations.h"
#include "common/spin_lock.h"

// The lock policy of the posts of a provider table. TakeLock for entries marked threadsafe; NoLock
// for nonthreadsafe ones, where the consumer itself serialises posts on one EP or one SRQ. Data
// that another thread may access concurrently with such a post has its own lock in both cases: that
// of a CQ, an SRQ's cookies, an EVD's ring.
//
// Posts also exclude the end of their object. With TakeLock its end acquires the lock. With NoLock
// the post announces itself in the header of the object, before it looks whether it may proceed,
// and the end of the object waits for it (await_posts.h).
namespace udapl::dapl {

struct TakeLock {
  static constexpr bool kThreadSafe = true;
  class UDAPL_SCOPED_CAPABILITY Scope {
   public:
    explicit Scope(SpinLock& lock) noexcept UDAPL_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
    ~Scope() UDAPL_RELEASE() { lock_.unlock(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SpinLock& lock_;
  };
  static void enter(std::atomic<bool>&) noexcept {}
  static void leave(std::atomic<bool>&) noexcept {}
};

struct NoLock {
  static constexpr bool kThreadSafe = false;
  // Claims the capability without acquiring the lock, since the consumer serialises these posts.
  class UDAPL_SCOPED_CAPABILITY Scope {
   public:
    explicit Scope(SpinLock& lock) noexcept UDAPL_ACQUIRE(lock) { static_cast<void>(lock); }
    ~Scope() UDAPL_RELEASE() {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  // No fence: await_posts() has all processors execute one.
  static void enter(std::atomic<bool>& posting) noexcept {
    posting.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  static void leave(std::atomic<bool>& posting) noexcept {
    posting.store(false, std::memory_order_release);
  }
};

template <class G>
concept Guard = requires(std::atomic<bool>& posting) {
  { G::kThreadSafe } -> std::convertible_to<bool>;
  typename G::Scope;
  { G::enter(posting) }
  noexcept;
  { G::leave(posting) }
  noexcept;
};

}  // namespace udapl::dapl
