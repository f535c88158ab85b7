// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/wait_word.h"
#include "providers/reactor/sign.h"

#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <cstdint>

// The kinds of objects that a Reactor calls.
namespace udapl {

class Reactor;

// A handler's place in its reactor's table. Used by the reactor only, except for `only_reads`.
class WatchSlot {
 private:
  friend class WatchTable;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t index_ = kNone;

 public:
  // The descriptor is watched for EPOLLIN and never rewatched: a leader may sleep on it alone.
  bool only_reads = false;
};

// Called when a descriptor is ready, by the thread that drives the reactor, with no lock held and
// never concurrently. It does bounded work, makes no sink call except AdapterSink::on_catastrophic
// (all others go through a SinkGate), and may destroy the object to which it belongs as its last
// act.
class Handler {
 public:
  // `events`: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR or-ed. Input that is left unread is reported
  // again, unless it is watched with EPOLLET. If the handler may have been given another descriptor
  // meanwhile, it must check whether the events are of that one.
  virtual void on_ready(std::uint32_t events) noexcept = 0;

  // Called instead of epoll_wait if this handler was ready several times in a row while the
  // application polled. Checks for input, handles it as on_ready would, and returns the outcome.
  // kQuiet: found nothing, and can be asked again soon at little cost.
  enum class Look : std::uint8_t { kNothing, kFound, kNeverLooks, kQuiet };
  // Where look() makes system calls that are cancellation points, it defers the cancellation of the
  // thread (NotCancelled).
  virtual Look look() noexcept { return Look::kNeverLooks; }
  // Pollers only: called before the poller rests; from now on its descriptor must become ready when
  // there is input. Returns false if there is input already: call look() again.
  virtual bool rest() noexcept { return true; }
  // Called as look() is, when input is expected soon and the thread has nothing else to do.
  // Prefetches what look() will need, and changes nothing.
  virtual void prepare() noexcept {}

  // Returns whether input of the handler may stay unread until a thread of the application waits
  // again, because it concerns no other thread. Any thread may change what this reads: after a
  // change to false, it calls Reactor::attend(). Called with the reactor's lock held. Not for a
  // reactor with calls that wait for the next poll (Deferred::post_for_poll).
  [[nodiscard]] virtual bool can_be_left() const noexcept { return false; }
  // Called instead of on_ready, while can_be_left() is true, by a leader that waits for `word` and
  // has slept on this descriptor alone. Either changes the word, or posts what the input means,
  // leaves the input unread and returns true: the thread that waits reads it before it sleeps
  // again. Or returns false: on_ready is then called.
  virtual bool leave_input(WaitWord& /*word*/) noexcept { return false; }

  WatchSlot watch_slot;
  // The sign of a poller, in the reactor's table: valid from Reactor::watch() to unwatch(). Another
  // poller may get it as soon as unwatch() has returned, so a look() that is still running must not
  // write it: call unwatch() under the poller's lock, and write the sign under that lock.
  Sign* sign = nullptr;

 protected:
  Handler() = default;
  ~Handler() = default;
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;
};

// Calls back once at (or soon after) a given time. The rules of Handler::on_ready apply.
// Thread-safe; start and stop may be called with any lock held. The destructor stops the timer and
// waits for a call that runs in another thread: hold no lock that the call acquires.
class Timer {
 public:
  Timer(Reactor& reactor, Call call) noexcept : reactor_(reactor), call_(call) {}
  ~Timer();

  void start(Clock::time_point when) noexcept;  // replaces an earlier start
  void start_after(Clock::duration delay) noexcept { start(Clock::now() + delay); }
  // Like start_after(), but wakes no thread while the application polls: the call may be delayed
  // until the application polls again or its lease ends.
  void start_for_poll(Clock::duration delay) noexcept;
  // Calls back in the next turn, after the descriptors. For work that may continue without end,
  // which must not be a Deferred. Wakes no thread while the application polls.
  void start_next_turn() noexcept;
  // No call begins after this; one that has begun in another thread may still run.
  void stop() noexcept;

 private:
  friend class Reactor;
  friend class CallQueue;
  struct Earlier {
    bool operator()(const Timer& a, const Timer& b) const noexcept { return a.when_ < b.when_; }
  };

  Reactor& reactor_;
  const Call call_;
  Clock::time_point when_{};
  boost::intrusive::set_member_hook<> hook_;

  bool insert(Clock::time_point when) noexcept;  // true: it is now the earliest timer
};

// Calls back once, in the driving thread with no lock held. For work that must not be done by the
// thread that finds it; for sink calls use SinkGate. Thread-safe; any lock may be held, but the
// destructor behaves like ~Timer.
class Deferred {
 public:
  Deferred(Reactor& reactor, Call call) noexcept : reactor_(reactor), call_(call) {}
  ~Deferred() { close(); }

  void post() noexcept;  // one call follows; posting again before it has begun has no effect
  // Like post(), but wakes no thread while the application polls: the call may be delayed until the
  // application polls again or its lease ends.
  void post_for_poll() noexcept;
  void hurry() noexcept;   // a call that was posted so follows as if post() had posted it
  void cancel() noexcept;  // like Timer::stop
  void close() noexcept;   // cancels, and waits for a call that runs in another thread

 private:
  friend class Reactor;
  friend class CallQueue;
  bool enqueue() noexcept;

  Reactor& reactor_;
  const Call call_;
  boost::intrusive::list_member_hook<> hook_;
};

// An object that only the reactor owns (such as a lingering close). It lives until it is dismissed
// or the reactor is destroyed.
class Adopted {
 public:
  virtual ~Adopted() = default;

 private:
  friend class Reactor;
  boost::intrusive::list_member_hook<> hook_;
};

}  // namespace udapl
