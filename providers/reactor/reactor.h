// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "providers/reactor/callbacks.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl {

// The engine of an adapter: one epoll set, timers, deferred calls and one service thread.
//
// At any time at most one thread *drives*: it waits in epoll and runs handlers, timers and deferred
// calls. Which one, so that no event costs a thread switch that could be avoided:
//  - an application thread inside block(): the leader. Others that block follow on their wait word;
//  - an application thread inside progress(), for one turn;
//  - else the service thread, asleep in epoll without a time limit.
// An application thread that drove leaves a stamp: the service thread stays away for one lease from
// then on. So it wakes once per lease while the application polls, and never in an idle process.
//
// Thread-safe. Owned by the Adapter, outlives everything that was made with it. The destructor ends
// and joins the service thread and destroys what is still adopted.
class Reactor final : private WaitWord::Waker {
 public:
  static constexpr auto kLease = std::chrono::milliseconds(1);

  // Starts the service thread, which gets `name` (15 bytes at most). INSUFFICIENT_RESOURCES.
  static Result<std::unique_ptr<Reactor>> create(const char* name);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // ---- descriptors. Any lock may be held. ----
  // A handler watches one descriptor at a time. INSUFFICIENT_RESOURCES.
  Status watch(int fd, std::uint32_t events, Handler& handler) noexcept;
  void rewatch(int fd, std::uint32_t events, Handler& handler) noexcept;  // if watched
  // Afterwards no new on_ready begins; one that has begun in another thread may still run.
  void unwatch(int fd, Handler& handler) noexcept;
  // Waits for an on_ready that runs in another thread. No lock that it takes may be held. This and
  // what the destructors of Timer and Deferred do returns at once if that thread could not go on
  // before this one does: drivers of two reactors that destroy what the other one calls.
  void quiesce(const Handler& handler) noexcept { wait_while_running(&handler); }

  // ---- driving. No lock may be held. ----
  // One turn without blocking. Returns at once if somebody drives, or if called from a sink.
  void progress() noexcept;
  // transport::Adapter::block.
  WaitResult block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  // Does the application poll these days, so that it will drive again very soon? A hint.
  [[nodiscard]] bool polled() const noexcept {
    return role_.load(std::memory_order_relaxed) == kFree && lease_valid(Clock::now());
  }
  // Is the calling thread inside one of the reactor's calls?
  [[nodiscard]] bool driven_here() const noexcept;

  // ---- ownership ----
  void adopt(std::unique_ptr<Adopted> object) noexcept;  // keeps it until dismiss() or our own end
  void dismiss(Adopted& object) noexcept;                // destroys it: no lock that this takes

 private:
  friend class Timer;
  friend class Deferred;

  // kAsleep: the driver is in epoll_wait, or about to be, and must be woken to see something new.
  enum Role : std::uint32_t { kFree, kActive, kAsleep };

  static constexpr std::uint64_t kKickData = UINT64_MAX;  // the kick's, in the epoll set

  struct Slot {
    Handler* handler = nullptr;
    std::uint32_t generation = 0;
    std::uint32_t next_free = WatchSlot::kNone;
  };
  struct Follower {
    WaitWord* word;
    boost::intrusive::list_member_hook<> hook;
  };
  template <class T, auto Hook>
  using List = boost::intrusive::list<
      T, boost::intrusive::member_hook<T, boost::intrusive::list_member_hook<>, Hook>>;
  using Timers = boost::intrusive::multiset<
      Timer, boost::intrusive::compare<Timer::Earlier>,
      boost::intrusive::member_hook<Timer, boost::intrusive::set_member_hook<>, &Timer::hook_>>;

  Reactor(Fd epoll, Fd kick) noexcept;
  bool start_service(const char* name) noexcept;
  bool forget(Handler& handler) noexcept;

  // The drive role.
  bool claim() noexcept;
  void release() noexcept;
  void announce_work() noexcept;  // something was queued: make sure that a driver looks
  void wake() noexcept override;  // the driver, if it sleeps
  void nominate_follower() noexcept;
  void stamp() noexcept;
  [[nodiscard]] bool lease_valid(Clock::time_point now) const noexcept;
  [[nodiscard]] bool application_drives() const noexcept;

  // Of the driver.
  // In two steps: after the first every news wakes us, so look for news, then take the second.
  void fall_asleep() noexcept { role_.store(kAsleep, std::memory_order_seq_cst); }
  bool sleep(bool has_news, const Deadline& deadline) noexcept;  // false: a signal came
  void dispatch(const epoll_event* events, int count) noexcept;
  void fire_timers() noexcept;
  void run_deferred() noexcept;
  Deadline next_timer() noexcept;
  WaitResult lead(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;

  // Of the service thread.
  void serve() noexcept;
  void own() noexcept;
  void park(std::uint32_t seen) noexcept;

  void begin_call(const void* who) noexcept UDAPL_REQUIRES(lock_) { running_ = who; }
  // quiesce.cpp
  struct Wait;
  void end_call() noexcept;
  [[nodiscard]] bool calls(const void* who) noexcept;
  void disown(const void* who) noexcept;
  void wait_while_running(const void* who) noexcept;

  const Fd epoll_;
  const Fd kick_;  // eventfd, in the epoll set
  pthread_t service_{};
  bool has_service_ = false;

  alignas(64) std::atomic<std::uint32_t> role_{kFree};
  std::atomic<pthread_t> driver_{};  // valid while role_ is not kFree
  std::atomic<std::uint32_t> deferred_count_{0};
  std::atomic<std::uint32_t> follower_count_{0};
  std::atomic<bool> leader_present_{false};
  std::atomic<bool> parked_for_leader_{false};  // the service thread sleeps without a time limit
  std::atomic<bool> stopping_{false};
  WaitWord service_word_;

  alignas(64) std::atomic<Clock::rep> stamp_;  // when the application drove last
  alignas(64) SpinLock lock_;                  // a leaf
  std::vector<Slot> slots_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t free_slot_ UDAPL_GUARDED_BY(lock_) = WatchSlot::kNone;
  Timers timers_ UDAPL_GUARDED_BY(lock_);
  List<Deferred, &Deferred::hook_> deferred_ UDAPL_GUARDED_BY(lock_);
  List<Follower, &Follower::hook> followers_ UDAPL_GUARDED_BY(lock_);
  List<Adopted, &Adopted::hook_> adopted_ UDAPL_GUARDED_BY(lock_);
  const void* running_ UDAPL_GUARDED_BY(lock_) = nullptr;  // the Handler, Timer or Deferred called
  std::uint32_t quiescers_ UDAPL_GUARDED_BY(lock_) = 0;
  WaitWord call_ended_;
};

}  // namespace udapl
