// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/posted/cookie_ring.h"

#include <memory>
#include <vector>

namespace udapl::dapl {

class SrqCookies;

// The cookie of a buffer on an SRQ. `ep` is null: the completion names the EP that consumed it.
struct SrqCookie : Cookie {
  SrqCookies* owner;
  SrqCookie* next_free;
};

// The cookies of an SRQ. A buffer is outstanding from its post until its completion has been turned
// into an event; then its cookie is free again. Cookies are returned out of order, by any dequeuing
// thread. Thread-safe; the lock is a leaf. Owned by an Srq.
class SrqCookies {
 public:
  // Throws std::bad_alloc.
  explicit SrqCookies(int limit);

  // A free cookie, or null when as many buffers as the limit are outstanding.
  [[nodiscard]] SrqCookie* claim() noexcept UDAPL_EXCLUDES(lock_);
  // Frees a cookie whose post was refused or whose completion has become an event.
  void retire(SrqCookie& cookie) noexcept UDAPL_EXCLUDES(lock_);

  struct Counts {
    int limit;
    int outstanding;
  };
  [[nodiscard]] Counts counts() const noexcept UDAPL_EXCLUDES(lock_);
  // Makes sure that there are `count` cookies; the limit stays. If it throws std::bad_alloc,
  // nothing has changed. One thread at a time.
  void reserve(int count) UDAPL_EXCLUDES(lock_);
  // Lowers the limit to `limit` if it is higher. False: more buffers are outstanding.
  [[nodiscard]] bool lower_limit(int limit) noexcept UDAPL_EXCLUDES(lock_);
  // REQUIRES: there are that many cookies.
  void set_limit(int limit) noexcept UDAPL_EXCLUDES(lock_);

 private:
  mutable SpinLock lock_;
  std::vector<std::unique_ptr<SrqCookie[]>> blocks_ UDAPL_GUARDED_BY(lock_);
  SrqCookie* free_ UDAPL_GUARDED_BY(lock_) = nullptr;
  int count_ UDAPL_GUARDED_BY(lock_) = 0;  // in all blocks
  int limit_ UDAPL_GUARDED_BY(lock_);
  int outstanding_ UDAPL_GUARDED_BY(lock_) = 0;  // claimed and not retired
};

}  // namespace udapl::dapl
