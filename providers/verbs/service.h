// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/call.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/result.h"
#include "common/wait_word.h"

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl::verbs {

class Service;

// Calls back whenever a descriptor is readable. Called by the service thread, with no lock held;
// level-triggered. Does bounded work and makes no sink call (those go through a SinkGate).
// Thread-safe. The destructor as ~Timer.
class Watch {
 public:
  Watch(Service& service, Call call) noexcept : service_(service), call_(call) {}
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // `fd` stays open until stop(). INSUFFICIENT_RESOURCES. Throws std::bad_alloc. Once.
  Status start(int fd);
  // No call begins any more; waits for one that runs in another thread. Idempotent.
  void stop() noexcept;

 private:
  friend class Service;
  Service& service_;
  const Call call_;
  int fd_ = -1;
};

// Calls back once at (or soon after) a time, in the service thread, with no lock held, and may
// destroy the object it belongs to as its last act. Thread-safe; start and stop may be called with
// any lock held. The destructor stops the timer and waits for a call that runs in another thread:
// destroy it without a lock that the call takes.
class Timer {
 public:
  Timer(Service& service, Call call) noexcept : service_(service), call_(call) {}
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(Clock::time_point when) noexcept;  // replaces an earlier start
  void start_after(Clock::duration delay) noexcept { start(Clock::now() + delay); }
  // Afterwards no new call begins; one that has begun in another thread may still run.
  void stop() noexcept;

 private:
  friend class Service;
  struct Earlier {
    bool operator()(const Timer& a, const Timer& b) const noexcept { return a.when_ < b.when_; }
  };

  Service& service_;
  const Call call_;
  Clock::time_point when_{};
  boost::intrusive::set_member_hook<> hook_;
};

// Calls back once, as soon as possible, in the service thread, with no lock held, and may destroy
// the object it belongs to as its last act. How everything that may not be done in place is done;
// for sink calls use SinkGate. Thread-safe; any lock may be held. The destructor as ~Timer.
class Deferred {
 public:
  Deferred(Service& service, Call call) noexcept : service_(service), call_(call) {}
  ~Deferred() { close(); }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

  void post() noexcept;    // one call follows; posting again before it began changes nothing
  void cancel() noexcept;  // as Timer::stop
  void close() noexcept;   // cancel, and wait for a call that runs in another thread

 private:
  friend class Service;
  Service& service_;
  const Call call_;
  boost::intrusive::list_member_hook<> hook_;
};

// The service thread of an adapter: descriptors, timers and deferred calls, one call at a time.
// Application threads never run any of them. Thread-safe. Owned by the Adapter, outlives everything
// that was made with it. The destructor ends and joins the thread.
class Service {
 public:
  // Starts the thread, all signals blocked in it. INSUFFICIENT_RESOURCES.
  static Result<std::unique_ptr<Service>> create();
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Is the calling thread the service thread?
  [[nodiscard]] bool here() const noexcept { return pthread_equal(pthread_self(), thread_) != 0; }

 private:
  friend class Watch;
  friend class Timer;
  friend class Deferred;

  template <class T, auto Hook>
  using List = boost::intrusive::list<
      T, boost::intrusive::member_hook<T, boost::intrusive::list_member_hook<>, Hook>>;
  using Timers = boost::intrusive::multiset<
      Timer, boost::intrusive::compare<Timer::Earlier>,
      boost::intrusive::member_hook<Timer, boost::intrusive::set_member_hook<>, &Timer::hook_>>;

  Service(Fd epoll, Fd kick) noexcept;
  bool start() noexcept;
  void run() noexcept;
  [[nodiscard]] int time_to_sleep() noexcept UDAPL_EXCLUDES(lock_);
  void dispatch(const Watch* watch) noexcept UDAPL_EXCLUDES(lock_);
  void fire_timers() noexcept UDAPL_EXCLUDES(lock_);
  void run_deferred() noexcept UDAPL_EXCLUDES(lock_);
  void end_call() noexcept UDAPL_EXCLUDES(lock_);
  void wake() noexcept;
  // Waits for a call of `who` that runs, unless the caller is the service thread.
  void quiesce(const void* who) noexcept UDAPL_EXCLUDES(lock_);

  const Fd epoll_;
  const Fd kick_;  // eventfd
  pthread_t thread_{};
  bool started_ = false;

  Mutex lock_;  // a leaf
  std::vector<Watch*> watches_ UDAPL_GUARDED_BY(lock_);
  Timers timers_ UDAPL_GUARDED_BY(lock_);
  List<Deferred, &Deferred::hook_> deferred_ UDAPL_GUARDED_BY(lock_);
  const void* running_ UDAPL_GUARDED_BY(lock_) = nullptr;  // the Watch, Timer or Deferred called
  std::uint32_t quiescers_ UDAPL_GUARDED_BY(lock_) = 0;
  std::atomic<bool> stopping_{false};
  WaitWord call_ended_;
};

}  // namespace udapl::verbs
