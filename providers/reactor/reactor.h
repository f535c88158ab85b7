// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "providers/reactor/callbacks.h"
#include "providers/reactor/lease.h"

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
//  - an application thread inside progress() or poll(), for one turn;
//  - else the service thread: the guard, asleep in epoll without a time limit. The others take the
//    role from a sleeping guard without waking it. When it wakes up it sees that they have driven.
// While the application drives again and again, the service thread is not in epoll but parked at
// the Lease, so that it does not wake for what the application is about to see. docs/adr/0025.
//
// Thread-safe. Owned by the Adapter, outlives everything that was made with it. The destructor ends
// and joins the service thread and destroys what is still adopted.
class Reactor final : private WaitWord::Waker {
 public:
  // Then a sleeper looks whether its descriptors are still there: nothing wakes it without them.
  static constexpr auto kLongestSleep = Lease::kLongestSleep;

  // Starts the service thread, which gets `name` (15 bytes at most). INSUFFICIENT_RESOURCES.
  static Result<std::unique_ptr<Reactor>> create(const char* name);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // ---- descriptors. Any lock may be held. ----
  // A handler watches one descriptor at a time. INSUFFICIENT_RESOURCES.
  //
  // A poller has input that its descriptor does not tell of, unless it rests. It does when it is
  // watched. Once its descriptor was ready, or it was roused, it is awake: each turn of a driver
  // asks it (look) until it has found nothing for long, or the driver goes to sleep (rest).
  enum class Kind : std::uint8_t { kByDescriptor, kPoller };
  Status watch(int fd, std::uint32_t events, Handler& handler,
               Kind kind = Kind::kByDescriptor) noexcept;
  // A poller that rests has something to do: a driver will ask it.
  void rouse(Handler& poller) noexcept;
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
  // Of a consumer that polls and has found nothing: a turn, most of the time. In a long row of them
  // only every kStride-th makes one, and some let other processes run.
  // Returns whether there was a turn.
  bool poll() noexcept {
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed) + 1;
    polls_.store(polls, std::memory_order_relaxed);
    const std::uint32_t turn_at = turn_at_.load(std::memory_order_relaxed);
    if (static_cast<std::int32_t>(polls - turn_at) >= 0 ||
        deferred_count_.load(std::memory_order_relaxed) != 0)
      return poll_turn(polls);
    return false;
  }
  // Of a consumer that has found several things in a row, for which no turn was needed: it polls,
  // too, and the service thread is to know.
  void found_without_poll() noexcept {
    if (!polled()) take_up_polling();
  }
  // transport::Adapter::block. One turn at least, unless somebody else drives.
  WaitResult block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  // Does the application poll these days, so that it will drive again very soon? A hint; while it
  // is true the service thread comes when the lease ends.
  [[nodiscard]] bool polled() const noexcept {
    return role_.load(std::memory_order_relaxed) == kFree && lease_.parked();
  }
  // A thread of the application moves so much that it takes longer than the lease after a poll, and
  // is going to poll again: the service thread does not take over meanwhile. Any lock may be held.
  void works_long() noexcept {
    if (lease_.parked()) lease_.extend(Clock::now());
  }
  // Is the calling thread inside one of the reactor's calls?
  [[nodiscard]] bool driven_here() const noexcept;

  // Is the calling thread the service thread?
  [[nodiscard]] bool in_service_thread() const noexcept {
    return ::pthread_equal(serving_.load(std::memory_order_relaxed), ::pthread_self()) != 0;
  }

  // ---- the end of its descriptors ----
  // Calls once when they do not work any more, because the program has closed them: nothing that is
  // watched will be ready again. By whoever notices, any lock may be held: post a SinkGate. Before
  // anything is watched.
  void on_descriptors_lost(Call call) noexcept {
    on_lost_ = call;
    tells_lost_.store(true, std::memory_order_release);
  }

  // ---- ownership ----
  void adopt(std::unique_ptr<Adopted> object) noexcept;  // keeps it until dismiss() or our own end
  void dismiss(Adopted& object) noexcept;                // destroys it: no lock that this takes

 private:
  friend class Timer;
  friend class Deferred;

  // What role_ is made of: one of the first three, and flags. kAsleep: the leader is in epoll, or
  // about to be, and must be woken to see something new. kGuarded: the same of the guard, which
  // does not hold the role. kKicked: the guard is being woken.
  enum Role : std::uint32_t { kFree, kActive, kAsleep, kState = 3, kGuarded = 4, kKicked = 8 };

  // Of polls that find nothing: the first so many make a turn each, then every kStride-th.
  static constexpr std::uint32_t kEagerPolls = 4;
  static constexpr std::uint32_t kStride = 4;
  // A yield that takes long makes the peer wait long, who yields then, too: hence the patience.
  static constexpr std::uint32_t kPatientPolls = 32;   // before the first yield, if others ran
  static constexpr std::uint32_t kCrowdedStride = 12;  // between yields, if they did
  static constexpr std::uint32_t kLonelyStride = 512;  // before each, if not
  static constexpr auto kOthersRan = std::chrono::microseconds(2);
  // Of polling: a handler that alone was ready so many times in a row looks itself, until it has
  // found nothing for so long; epoll is asked every kLooksPerWait-th turn.
  static constexpr std::uint32_t kHot = 4;
  static constexpr std::uint32_t kColdAfter = 64;
  static constexpr std::uint32_t kLooksPerWait = 8;
  // A poller that has found nothing in so many turns that asked it rests; where there are more than
  // kManyPollers, after the first. But where there are few, all are awake as long as a thread
  // polls, new ones after some of its turns.
  static constexpr std::uint32_t kRestAfter = 4096;
  static constexpr std::size_t kManyPollers = 1024;
  static constexpr std::uint32_t kFewPollers = 8;
  static constexpr std::uint32_t kWakeFewAfter = 32;
  static constexpr std::uint32_t kWakeFewEvery = 1024;
  // While one is awake, a thread that polls makes a turn after kGlancesPerTurn polls at the latest,
  // and epoll is asked every kTurnsPerWait-th turn that finds nothing, and half as often each time
  // that it had nothing to tell, up to every kFoundPerWait-th; where others rest, whose bells epoll
  // hears, after kGlancesIfSomeRest and in every turn. It is asked in every kFoundPerWait-th that
  // finds something. Of those with quiet signs one is called in every
  // kAsksOfOne-th turn.
  static constexpr std::uint32_t kGlancesPerTurn = 16;
  static constexpr std::uint32_t kGlancesIfSomeRest = 2;
  static constexpr std::uint32_t kTurnsPerWait = 4;
  static constexpr std::uint32_t kFoundPerWait = 64;
  static constexpr std::uint32_t kAsksOfOne = 8;
  // Of many that are awake a glance looks at so many, the first kGlancedNext of them behind the one
  // that was served last; and a turn asks so many, so that neither takes longer the more there are.
  static constexpr std::size_t kGlanced = 64;
  static constexpr std::size_t kGlancedNext = 8;
  static constexpr std::size_t kAskedPerTurn = 128;
  // Of turns that find something every kTimersPerFound-th looks for timers.
  static constexpr std::uint32_t kTimersPerFound = 8;
  // So many polls in a row that find a leader asleep, and it is asked to make way.
  static constexpr std::uint32_t kManyShutOut = 64;
  // Who gives the role up runs deferred calls that often; if there are more, others do.
  static constexpr int kMostRounds = 8;
  // So many turns since another way of driving, and the application is said to poll.
  static constexpr std::uint32_t kHabit = 8;

  // Of waits: so many short ones in a row by the same descriptor, and leaders sleep on that.
  static constexpr std::uint32_t kManyWakes = 32;
  static constexpr auto kShortWait = std::chrono::milliseconds(2);

  static constexpr Clock::rep kNoTimer = INT64_MAX;
  static constexpr int kEventsPerTurn = 64;
  static constexpr std::uint64_t kKickData = UINT64_MAX;  // the kick's, in the epoll set

  struct Slot {
    Handler* handler = nullptr;
    int fd = -1;  // if it only reads
    std::uint32_t generation = 0;
    std::uint32_t next_free = WatchSlot::kNone;
    bool poller = false;
    bool awake = false;
  };
  // A poller that is awake. All are walked through in every turn, so they lie close together.
  struct Awake {
    const Sign* sign;
    std::uint32_t slot;
    std::uint32_t misses;  // in a row
  };
  // The handler that was ready last. By whoever holds the role.
  struct Habit {
    std::uint64_t data = kKickData;
    std::uint32_t times = 0;   // in a row
    std::uint32_t looks = 0;   // since epoll was asked
    std::uint32_t misses = 0;  // in a row
  };
  // The handler whose descriptor leaders sleep on instead of epoll, or may soon. By whoever holds
  // the role.
  struct Direct {
    std::uint64_t data = kKickData;
    int fd = -1;              // -1: they sleep in epoll
    std::uint32_t times = 0;  // short waits in a row that it alone has ended
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

  Reactor(Fd epoll, Fd kick, Fd timer) noexcept;
  bool start_service(const char* name) noexcept;
  bool forget(Handler& handler) noexcept;

  // The drive role.
  bool claim() noexcept;
  void release() noexcept;
  void become(Role state) noexcept;  // of the thread that holds the role
  void announce_work() noexcept;     // something was queued: make sure that a driver looks
  void announce_timer(Clock::time_point when) noexcept;  // it is the first one now
  void wake() noexcept override;                         // whoever sleeps in epoll
  bool wake_sleeper() noexcept;                          // false: nobody was asleep
  void wake_guard() noexcept;                            // if it sleeps and nobody drives
  void nominate_follower() noexcept;
  [[nodiscard]] bool application_drives() const noexcept;

  // Of the driver.
  bool turn() noexcept;          // true: something was found
  bool lone_turn() noexcept;     // the same, and gives the role up
  bool wait_or_look() noexcept;  // in a turn: epoll, or the handler that is usually ready
  bool look() noexcept;
  // pollers.cpp
  [[nodiscard]] bool pollers_awake() const noexcept {
    return awake_count_.load(std::memory_order_seq_cst) != 0;
  }
  struct Poller;
  void wake_poller(std::uint32_t index) noexcept UDAPL_REQUIRES(lock_);
  void end_awake(std::uint32_t index) noexcept UDAPL_REQUIRES(lock_);
  void count_awake() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool begin_poller(std::size_t& place, std::size_t end, std::size_t quiet,
                                  Poller& poller) noexcept;
  [[nodiscard]] bool end_poller(std::size_t place, const Poller& poller, bool found) noexcept;
  // What a poll finds when it looks at the signs of the pollers that are awake.
  enum class Glance : std::uint8_t {
    kQuiet,   // nothing: the poll needs no turn
    kServed,  // one had input and was called, in place of a turn
    kTurnDue
  };
  [[nodiscard]] Glance glance_at_pollers(bool& found) noexcept;
  [[nodiscard]] Awake* next_with_input() noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] Awake* next_with_input(std::size_t& place, std::size_t most) noexcept
      UDAPL_REQUIRES(lock_);
  bool serve(std::size_t place, const Poller& poller) noexcept;
  void let_rest(const Poller& poller) noexcept;
  bool ask_pollers() noexcept;                   // true: one had something
  void let_pollers_rest() noexcept;              // those that can
  void wake_few_pollers() noexcept;              // all, if they are few
  bool poll_turn(std::uint32_t polls) noexcept;  // true: there was a turn
  void take_up_polling() noexcept;
  void ask_for_role() noexcept;
  [[nodiscard]] bool polls_drive() noexcept;
  std::uint32_t yield() noexcept;
  [[nodiscard]] bool others_ran() noexcept;
  void dispatch(const epoll_event* events, int count) noexcept;
  void fire_timers() noexcept;
  bool run_deferred() noexcept {  // true: there was one
    return deferred_count_.load(std::memory_order_seq_cst) != 0 && run_all_deferred();
  }
  bool run_all_deferred() noexcept;
  [[nodiscard]] Deadline next_timer() const noexcept;
  [[nodiscard]] bool has_queued() const noexcept {  // deferred calls, or a poller that was roused
    return deferred_count_.load(std::memory_order_seq_cst) != 0 ||
           roused_.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] bool has_work() const noexcept;  // the same, or a timer that is due
  void look_around() noexcept;
  void note_first_timer() noexcept UDAPL_REQUIRES(lock_);
  WaitResult lead(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  WaitResult follow(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  // Sleeps in epoll and dispatches. `news`: does not sleep. False: a signal came.
  bool leader_sleeps(bool news, const Deadline& deadline) noexcept;
  [[nodiscard]] Clock::time_point leader_wakes_at(const Deadline& deadline,
                                                  const Deadline& suspend) const noexcept;

  // reactor_direct.cpp
  [[nodiscard]] bool direct() const noexcept;  // leaders sleep on a descriptor
  // The leader need not look at the clock for that: the service thread will.
  [[nodiscard]] bool timed_for_us(const Deadline& when) const noexcept {
    return direct_.fd >= 0 && watch_others_.load(std::memory_order_relaxed) &&
           lease_.watches_until(when);
  }
  int wait_directly(epoll_event* events, const Deadline& until) noexcept;  // as wait()
  void note_wake(const epoll_event* events, int count) noexcept;
  void go_direct() noexcept;   // and have the others watched
  void end_direct() noexcept;  // back into epoll
  [[nodiscard]] bool names_watched() const noexcept UDAPL_REQUIRES(lock_);  // does direct_?
  bool take_out() noexcept;

  // descriptors_lost.cpp
  int wait(epoll_event* events, int max, const Deadline& until) noexcept;  // as epoll_wait
  int wait_without_descriptors(const Deadline& until) noexcept;
  void lose_descriptors(int error) noexcept;

  // Of the service thread.
  void serve() noexcept;
  void guard() noexcept;
  bool guard_sleeps(bool& found) noexcept;
  [[nodiscard]] bool service_wanted() const noexcept;

  void begin_call(const void* who) noexcept UDAPL_REQUIRES(lock_) { running_ = who; }
  // quiesce.cpp
  struct Wait;
  void end_call() noexcept;
  // Inside a section of the lock; true: call_ended_ is to be signalled behind it.
  [[nodiscard]] bool end_call_locked() noexcept UDAPL_REQUIRES(lock_) {
    running_ = nullptr;
    return quiescers_ != 0;
  }
  [[nodiscard]] bool calls(const void* who) noexcept;
  void disown(const void* who) noexcept;
  void wait_while_running(const void* who) noexcept;

  const Fd epoll_;
  const Fd kick_;  // eventfd, in the epoll set
  Lease lease_;
  pthread_t service_{};
  bool has_service_ = false;
  std::atomic<pthread_t> serving_{};  // the service thread, since it runs

  alignas(64) std::atomic<std::uint32_t> role_{kFree};
  std::atomic<pthread_t> driver_{};  // valid while the role is held
  std::atomic<std::uint32_t> deferred_count_{0};
  std::atomic<std::uint32_t> follower_count_{0};
  std::atomic<std::uint32_t> awake_count_{0};  // of awake_
  std::uint32_t pollers_ UDAPL_GUARDED_BY(lock_) = 0;
  std::atomic<bool> some_rest_{false};
  std::atomic<bool> roused_{false};  // and no driver has asked since
  std::atomic<bool> leader_present_{false};
  std::atomic<Clock::rep> first_timer_{kNoTimer};
  std::atomic<bool> next_turn_{false};             // a timer was started by start_next_turn
  std::atomic<Clock::rep> guard_until_{kNoTimer};  // when a guard that sleeps looks for timers
  std::atomic<bool> stopping_{false};
  std::atomic<bool> lost_{false};  // the descriptors
  WaitWord lost_word_;             // what sleeps in epoll otherwise sleeps on then
  Call on_lost_{};                 // once tells_lost_
  std::atomic<bool> tells_lost_{false};

  // Of pollers; counts may get lost when two threads poll.
  alignas(64) std::atomic<std::uint32_t> polls_{0};  // in a row that found nothing
  std::atomic<std::uint32_t> turn_at_{0};            // the poll that makes the next turn
  std::atomic<std::uint32_t> yield_at_{kLonelyStride};
  Habit habit_;
  std::uint32_t waits_saved_ = 0;  // in a row; by whoever holds the role, as the next three
  std::uint32_t turns_per_wait_ = kTurnsPerWait;
  std::uint32_t asks_ = 0;                  // of pollers
  std::size_t asked_ = 0;                   // of many: where the next turn begins
  std::uint32_t found_ = 0;                 // turns that found something, since timers were fired
  std::atomic<std::uint32_t> glances_{0};   // in place of turns, in a row
  std::atomic<std::uint32_t> shut_out_{0};  // polls in a row that found a leader asleep
  std::atomic<bool> polls_drive_{false};    // and it has made way, or is to
  std::atomic<bool> crowded_{false};        // others ran when the application yielded last
  std::atomic<long> switches_{0};           // of a thread that yielded, then
  std::atomic<std::uint32_t> turns_{0};     // in a row, without a wait or the service thread
  Direct direct_;
  Clock::time_point slept_at_;             // when a leader that reads the clock went to sleep
  std::atomic<bool> watch_others_{false};  // the service thread is to, or does
  alignas(64) SpinLock lock_;              // a leaf
  std::vector<Slot> slots_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t free_slot_ UDAPL_GUARDED_BY(lock_) = WatchSlot::kNone;
  std::vector<Awake> awake_ UDAPL_GUARDED_BY(lock_);  // room is reserved
  std::size_t served_ UDAPL_GUARDED_BY(lock_) = 0;    // place of the one served last
  std::size_t glanced_ UDAPL_GUARDED_BY(lock_) = 0;   // of many: the last one looked at
  std::uint32_t rest_after_ UDAPL_GUARDED_BY(lock_) = UINT32_MAX;  // misses
  Timers timers_ UDAPL_GUARDED_BY(lock_);
  List<Deferred, &Deferred::hook_> deferred_ UDAPL_GUARDED_BY(lock_);
  List<Follower, &Follower::hook> followers_ UDAPL_GUARDED_BY(lock_);
  List<Adopted, &Adopted::hook_> adopted_ UDAPL_GUARDED_BY(lock_);
  const void* running_ UDAPL_GUARDED_BY(lock_) = nullptr;  // the Handler, Timer or Deferred called
  std::uint32_t quiescers_ UDAPL_GUARDED_BY(lock_) = 0;
  WaitWord call_ended_;
};

}  // namespace udapl
