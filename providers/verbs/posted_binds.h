// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace udapl::verbs {

// The binds and unbinds that a queue has posted most recently, because a failed completion carries
// only the wr_id, and a Window is found by the number of the post (MemoryTable::next_post()). A
// ring as long as the queue: an overwritten entry belongs to a bind that has completed. Its memory
// is allocated at the first bind, so that QPs without windows need none.
//
// Thread-safe; its lock is a leaf. Owned by a Queue.
class PostedBinds {
 public:
  // Forgets all binds. At most `depth` (> 0) binds can be outstanding from now on.
  void reset(std::uint32_t depth) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    binds_.clear();
    next_ = 0;
    depth_ = depth;
  }

  // Makes room for a bind. Returns false if there is no memory.
  [[nodiscard]] bool reserve() noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    if (!binds_.empty()) return true;
    try {
      binds_.resize(depth_);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }
  // REQUIRES: reserve() has succeeded. `number` > 0.
  void add(std::uint64_t wr_id, std::uint64_t number) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    binds_[next_] = {wr_id, number};
    next_ = (next_ + 1) % binds_.size();
  }
  // Undoes the latest add(), because the post was refused.
  void remove_last() noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    next_ = (next_ + binds_.size() - 1) % binds_.size();
    binds_[next_] = {};
  }

  // The number of the latest bind with this wr_id; 0 if there is none. Called for a completion that
  // has failed: that is the latest bind with its wr_id, although entries of earlier ones, which
  // have succeeded, stay until they are overwritten.
  [[nodiscard]] std::uint64_t latest(std::uint64_t wr_id) const noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    std::uint64_t number = 0;
    for (const Bind& bind : binds_)
      if (bind.wr_id == wr_id) number = std::max(number, bind.number);
    return number;
  }
  // Whether binds may be outstanding: true if there was one since reset().
  [[nodiscard]] bool any() const noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return !binds_.empty();
  }

 private:
  struct Bind {
    std::uint64_t wr_id;
    std::uint64_t number;
  };

  mutable SpinLock lock_;
  std::vector<Bind> binds_ UDAPL_GUARDED_BY(lock_);  // empty until reserve()
  std::size_t next_ UDAPL_GUARDED_BY(lock_) = 0;
  std::uint32_t depth_ UDAPL_GUARDED_BY(lock_) = 0;
};

}  // namespace udapl::verbs
