// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <concepts>

#include "common/annotations.h"
#include "common/spin_lock.h"

// The lock policy of the posts of a provider table. TakeLock for entries marked threadsafe; NoLock
// for nonthreadsafe ones, where the consumer itself serialises posts on one EP or one SRQ. Data
// that another thread may access concurrently with such a post has its own lock in both cases: that
// of a CQ, an SRQ's cookies, an EVD's ring.
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
};

template <class G>
concept Guard = requires {
  { G::kThreadSafe } -> std::convertible_to<bool>;
  typename G::Scope;
};

}  // namespace udapl::dapl
