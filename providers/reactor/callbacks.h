// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/wait_word.h"

#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <cstdint>

// What a Reactor calls.
namespace udapl {

class Reactor;

// Where a handler is entered in its reactor; the reactor's business.
class WatchSlot {
 private:
  friend class Reactor;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t index_ = kNone;

 public:
  // The descriptor is watched for EPOLLIN and never rewatched: a leader may sleep on it alone.
  bool only_reads = false;
};

// Where a poller's input shows: there is none while the word is what it was. Read by any thread
// while the poller is watched; set by the poller under its own lock.
class Sign {
 public:
  // Null: it has to be asked. The word stays where it is until the next call, or unwatch().
  void watch(const std::atomic<std::uint64_t>* word) noexcept {
    word_.store(word, std::memory_order_release);
  }
  void seen(std::uint64_t value) noexcept { seen_.store(value, std::memory_order_relaxed); }
  // Where the next input will probably lie. Only a hint for the cache.
  void next_at(const void* place) noexcept { next_.store(place, std::memory_order_relaxed); }
  [[nodiscard]] bool quiet() const noexcept {
    const std::atomic<std::uint64_t>* const word = word_.load(std::memory_order_acquire);
    if (word == nullptr) return false;
    if (word->load(std::memory_order_relaxed) == seen_.load(std::memory_order_relaxed)) return true;
    __builtin_prefetch(next_.load(std::memory_order_relaxed));
    return false;
  }
  // Of one that is not quiet: whether that is so because the word has changed.
  [[nodiscard]] bool shows_input() const noexcept {
    return word_.load(std::memory_order_relaxed) != nullptr;
  }

 private:
  std::atomic<const std::atomic<std::uint64_t>*> word_{nullptr};
  std::atomic<std::uint64_t> seen_{0};
  std::atomic<const void*> next_{nullptr};
};

// What is told that a descriptor is ready. Called by the thread that drives the reactor, with no
// lock held, never twice at a time; does bounded work, makes no sink call (those go through a
// SinkGate) and may destroy the object it belongs to as its last act.
class Handler {
 public:
  // `events`: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR or-ed. Level-triggered: what is left over is
  // reported again.
  virtual void on_ready(std::uint32_t events) noexcept = 0;

  // In place of epoll, of a handler that was ready again and again while the application polled: it
  // looks whether there is input, and deals with that as on_ready would. What came of it.
  enum class Look : std::uint8_t { kNothing, kFound, kNeverLooks };
  virtual Look look() noexcept { return Look::kNeverLooks; }
  // Of one that is watched as a poller: from now on its descriptor is to become ready when there is
  // something. False: there is something already, look again.
  virtual bool rest() noexcept { return true; }

  WatchSlot watch_slot;
  Sign sign;  // of a poller

 protected:
  Handler() = default;
  ~Handler() = default;
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;
};

// Calls back once at (or soon after) a time. The rules for Handler::on_ready hold for the call.
// Thread-safe; start and stop may be called with any lock held. The destructor stops the timer and
// waits for a call that runs in another thread: destroy it without a lock that the call takes.
class Timer {
 public:
  Timer(Reactor& reactor, Call call) noexcept : reactor_(reactor), call_(call) {}
  ~Timer();

  void start(Clock::time_point when) noexcept;  // replaces an earlier start
  void start_after(Clock::duration delay) noexcept { start(Clock::now() + delay); }
  // In the next turn, when the descriptors have had theirs: for what goes on and on, which must not
  // be a Deferred. While the application polls it wakes nobody.
  void start_next_turn() noexcept;
  // Afterwards no new call begins; one that has begun in another thread may still run.
  void stop() noexcept;

 private:
  friend class Reactor;
  struct Earlier {
    bool operator()(const Timer& a, const Timer& b) const noexcept { return a.when_ < b.when_; }
  };

  Reactor& reactor_;
  const Call call_;
  Clock::time_point when_{};
  boost::intrusive::set_member_hook<> hook_;

  bool insert(Clock::time_point when) noexcept;  // true: it is the first one
};

// Calls back once as soon as the driving thread has released its locks. How everything that may
// not be done in place is done; for sink calls use SinkGate. Thread-safe; any lock may be held. The
// destructor as ~Timer.
class Deferred {
 public:
  Deferred(Reactor& reactor, Call call) noexcept : reactor_(reactor), call_(call) {}
  ~Deferred() { close(); }

  void post() noexcept;  // one call follows; posting again before it began changes nothing
  // As post(), but while the application polls it wakes nobody: the call follows when the
  // application polls again, or when its lease ends.
  void post_for_poll() noexcept;
  void cancel() noexcept;  // as Timer::stop
  void close() noexcept;   // cancel, and wait for a call that runs in another thread

 private:
  friend class Reactor;
  bool enqueue() noexcept;

  Reactor& reactor_;
  const Call call_;
  boost::intrusive::list_member_hook<> hook_;
};

// Something that lives on its own (a lingering close) until it is dismissed or the reactor ends.
class Adopted {
 public:
  virtual ~Adopted() = default;

 private:
  friend class Reactor;
  boost::intrusive::list_member_hook<> hook_;
};

}  // namespace udapl
