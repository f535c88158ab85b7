// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"

#include <boost/intrusive/list.hpp>

#include <atomic>
#include <cstdint>

namespace udapl {

// The application threads that wait, each on its word, while another thread drives. Owned by a
// Reactor. Thread-safe.
class Followers {
 public:
  // The calling thread, which waits on this word; until the end of a scope.
  class Follower {
   public:
    Follower(Followers& all, WaitWord& word) noexcept : all_(all), word_(word) {
      const ScopedLock guard(all_.lock_);
      all_.list_.push_back(*this);
      all_.count_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Follower() {
      const ScopedLock guard(all_.lock_);
      all_.list_.erase(all_.list_.iterator_to(*this));
      all_.count_.fetch_sub(1, std::memory_order_relaxed);
    }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

   private:
    friend class Followers;
    Followers& all_;
    WaitWord& word_;
    boost::intrusive::list_member_hook<> hook_;
  };

  // Sequentially consistent: a driver that has released the role checks for followers, and a thread
  // that follows checks the role once it is one.
  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_seq_cst) != 0; }
  // Wakes the first. It returns to its caller, which waits again and then finds the role free. The
  // word is signalled under the lock, because it may be destroyed once its thread has left the
  // list.
  void nominate() noexcept {
    if (!any()) return;
    const ScopedLock guard(lock_);
    if (!list_.empty()) list_.front().word_.signal();
  }

 private:
  using Hook = boost::intrusive::member_hook<Follower, boost::intrusive::list_member_hook<>,
                                             &Follower::hook_>;

  std::atomic<std::uint32_t> count_{0};
  SpinLock lock_;
  boost::intrusive::list<Follower, Hook> list_ UDAPL_GUARDED_BY(lock_);
};

}  // namespace udapl
