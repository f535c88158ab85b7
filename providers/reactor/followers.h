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
//
// A follower is *idle* if it waits for rare events, such as errors or connection requests. If an
// idle thread led, each event for another thread would wake two threads. So a leader that has seen
// only events for others makes way: it becomes an idle follower, and the threads that have followed
// all the time while it led become idle as well.
class Followers {
 public:
  // Makes the calling thread a follower, which waits until its word differs from `seen`; until
  // leave() or the end of the scope.
  class Follower {
   public:
    Follower(Followers& all, WaitWord& word, std::uint32_t seen, bool idle = false) noexcept
        : all_(all), word_(word), seen_(seen) {
      const ScopedLock guard(all_.lock_);
      all_.enter(*this, idle);
    }
    ~Follower() { leave(); }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

    // Returns the value that the word has if only nominations have changed it.
    std::uint32_t leave() noexcept {
      const ScopedLock guard(all_.lock_);
      all_.leave(*this);
      return seen_;
    }

   private:
    friend class Followers;
    [[nodiscard]] bool waits() const noexcept { return word_.value() == seen_; }

    Followers& all_;
    WaitWord& word_;
    std::uint32_t seen_;
    bool nominated_ = false;
    std::uint32_t number_ = 0;  // in the order in which they have begun to follow
    boost::intrusive::list_member_hook<> hook_;
  };

  // Sequentially consistent: a driving thread that has released the role then checks for followers,
  // and a thread that has become a follower then checks the role.
  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_seq_cst) != 0; }
  // Wakes a follower that still waits, so that it leads: the one that has begun last, since it
  // probably waits often. Does nothing if that one is nominated already. Changes the word under the
  // lock, because the word may be destroyed once its thread has left the list; wakes the thread
  // after the unlock, because the thread acquires the lock first.
  enum class Whom : std::uint8_t { kAny, kNotIdle };
  void nominate(Whom whom) noexcept {
    if (!any()) return;
    WaitWord::Wakeup wakeup;
    const ScopedLock guard(lock_);
    for (auto last = list_.rbegin(); last != list_.rend(); ++last) {
      if (whom == Whom::kNotIdle && is_idle(*last)) return;
      if (!last->waits()) continue;
      if (!last->nominated_) {
        last->nominated_ = true;
        ++last->seen_;
        wakeup = last->word_.change();
      }
      return;
    }
  }

  // ---- for the leader --------------------------------------------------------------------------
  // The term of a leader: counts what has happened since it began to lead.
  class Term {
   public:
    explicit Term(Followers& all) noexcept
        : all_(all),
          served_(all.served_.load(std::memory_order_relaxed)),
          begun_(all.begun_.load(std::memory_order_relaxed)) {}
    // The number of waits of followers that have ended because their words have changed.
    [[nodiscard]] std::uint32_t served() const noexcept {
      return all_.served_.load(std::memory_order_relaxed) - served_;
    }
    // Makes those threads idle that had begun to follow before the term and still do.
    void make_way() noexcept {
      const ScopedLock guard(all_.lock_);
      if (before(all_.idle_, begun_)) all_.idle_ = begun_;
    }

   private:
    Followers& all_;
    const std::uint32_t served_;
    const std::uint32_t begun_;
  };

 private:
  using Hook = boost::intrusive::member_hook<Follower, boost::intrusive::list_member_hook<>,
                                             &Follower::hook_>;

  void enter(Follower& follower, bool idle) noexcept UDAPL_REQUIRES(lock_) {
    if (idle) {
      follower.number_ = idle_;
      list_.push_front(follower);
    } else {
      follower.number_ = begun_.load(std::memory_order_relaxed) + 1;
      begun_.store(follower.number_, std::memory_order_relaxed);
      list_.push_back(follower);
    }
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  void leave(Follower& follower) noexcept UDAPL_REQUIRES(lock_) {
    if (!follower.hook_.is_linked()) return;
    list_.erase(list_.iterator_to(follower));
    count_.fetch_sub(1, std::memory_order_relaxed);
    if (!follower.waits()) served_.fetch_add(1, std::memory_order_relaxed);
  }

  // Whether `one` is the earlier number; numbers wrap around.
  [[nodiscard]] static bool before(std::uint32_t one, std::uint32_t other) noexcept {
    return static_cast<std::int32_t>(one - other) < 0;
  }
  [[nodiscard]] bool is_idle(const Follower& follower) const noexcept UDAPL_REQUIRES(lock_) {
    return !before(idle_, follower.number_);
  }

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> served_{0};  // this and the next are written under the lock
  std::atomic<std::uint32_t> begun_{0};   // how many have begun to follow, without the idle ones
  SpinLock lock_;
  // The idle ones come first.
  boost::intrusive::list<Follower, Hook> list_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t idle_ UDAPL_GUARDED_BY(lock_) = 0;  // followers up to this number are idle
};

}  // namespace udapl
