// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <concepts>

#include "common/annotations.h"
#include "common/spin_lock.h"

// The lock policy of the posts of a provider table: TakeLock for dat.conf entries marked
// threadsafe, NoLock for nonthreadsafe ones, where the consumer itself serialises the posts on one
// EP or SRQ. Data that other threads may access concurrently with a post has its own lock under
// both policies: a CQ, the cookies of an SRQ, the ring of an EVD.
//
// No object ends during a post on it. With TakeLock, the thread that ends the object acquires the
// lock. With NoLock, a post sets a flag in the header of the object before it checks whether it may
// proceed, and the thread that ends the object waits until the flag is cleared (await_posts.h).
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
  // Satisfies the lock analysis without acquiring the lock: the consumer serialises these posts.
  class UDAPL_SCOPED_CAPABILITY Scope {
   public:
    explicit Scope(SpinLock& lock) noexcept UDAPL_ACQUIRE(lock) { static_cast<void>(lock); }
    ~Scope() UDAPL_RELEASE() {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  // Needs no memory fence: await_posts() makes all processors execute one.
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
