// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/fd.h"
#include "common/mutex.h"
#include "common/quarantine.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "providers/reactor/callbacks.h"
#include "providers/reactor/lease.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl {

// The engine of an adapter: one epoll set, timers, deferred calls and one service thread.
//
// At any time at most one thread *drives*: it waits in epoll and runs handlers, timers and deferred
// calls. To avoid needless thread switches, that thread is
//  - an application thread inside block(): the leader. Other threads that block follow, each asleep
//    on its wait word;
//  - an application thread inside progress() or poll(), for one turn;
//  - otherwise the service thread: the guard, asleep in epoll without a time limit. Other threads
//    take the role from a sleeping guard without waking it. When it wakes, it sees that they have
//    driven.
// While the application keeps driving, the service thread is not in epoll but parked at the Lease,
// so that it does not wake for events that the application is about to see. docs/adr/0025.
//
// Thread-safe. Owned by the Adapter; outlives everything that was made with it. The destructor ends
// and joins the service thread and destroys the objects that are still adopted. A thread that is in
// poll() meanwhile, or that calls it a moment later, returns.
class Reactor final : private WaitWord::Waker {
 public:
  // A sleeping thread wakes this often to check whether its descriptors still exist: without them,
  // nothing else would wake it.
  static constexpr auto kLongestSleep = Lease::kLongestSleep;

  // Starts the service thread, which gets `name` (15 bytes at most). INSUFFICIENT_RESOURCES.
  static Result<std::unique_ptr<Reactor>> create(const char* name);
  ~Reactor();
  static void operator delete(void* memory, std::align_val_t alignment) noexcept {
    Quarantine<Reactor>::release(memory, alignment);
  }
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // ---- descriptors. Any lock may be held. ----
  // A handler watches one descriptor at a time. With EPOLLET in `events` each edge is reported, at
  // least once. INSUFFICIENT_RESOURCES.
  //
  // A poller is either resting or awake; its descriptor announces input only while it rests. It
  // starts out resting. Once its descriptor was ready, or request_call() named it, it is awake:
  // each turn of a driver calls look() until it has found nothing for long, or the driver goes to
  // sleep; then rest() is called.
  enum class Kind : std::uint8_t { kByDescriptor, kPoller };
  Status watch(int fd, std::uint32_t events, Handler& handler,
               Kind kind = Kind::kByDescriptor) noexcept;
  // Wakes a poller that rests: a driver will call it.
  void request_call(Handler& poller) noexcept;
  // The same once the application polls: no thread is woken for it.
  void call_when_polled(Handler& poller) noexcept;
  void rewatch(int fd, std::uint32_t events, Handler& handler) noexcept;  // if watched
  // Afterwards no new on_ready begins; one that has begun in another thread may still run.
  void unwatch(int fd, Handler& handler) noexcept;
  // Waits for an on_ready that runs in another thread. No lock that on_ready takes may be held.
  // Returns at once, as do the destructors of Timer and Deferred, if that thread in turn waits for
  // the caller: the drivers of two reactors may each destroy an object that the other one calls.
  void quiesce(const Handler& handler) noexcept { wait_while_running(&handler); }

  // ---- driving. No lock may be held. ----
  // Makes one turn without blocking. Returns at once if another thread drives, or if called from a
  // sink.
  void progress() noexcept;
  // Called by a consumer whose poll has found nothing. Usually makes a turn; in a long row of such
  // calls only every kStride-th makes one, and some yield the processor. Returns false if there was
  // no turn.
  bool poll() noexcept {
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed) + 1;
    polls_.store(polls, std::memory_order_relaxed);
    // Another thread's poll that has begun before polls_ was reset may set turn_at_ far ahead.
    if (turn_at_.load(std::memory_order_relaxed) - polls - 1 >= kStride ||
        deferred_count_.load(std::memory_order_relaxed) != 0)
      return poll_turn(polls);
    return false;
  }
  // Called by a consumer that has taken several items in a row without needing a turn. It counts as
  // polling, so that the service thread stays away.
  void found_without_poll() noexcept {
    if (!polled()) start_polling();
  }
  // Called by such a consumer after every several items, before it polls. If the last call was not
  // long ago, the service thread stays away for longer: it would only get in the way of a consumer
  // that is posting for each item that it takes.
  void found_many() noexcept;
  // Implements transport::Adapter::block. Makes at least one turn, unless another thread drives.
  WaitResult block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  // Returns whether the application is polling at present, so that it will drive again very soon. A
  // hint; while it is true, the service thread takes over when the lease ends.
  [[nodiscard]] bool polled() const noexcept {
    // seq_cst: a caller that has queued work either sees the driver, or the driver sees the work.
    return role_.load(std::memory_order_seq_cst) == kFree && lease_.parked();
  }
  // Called by an application thread that moves so much data that this takes longer than the lease
  // after a poll, and that is going to poll again: keeps the service thread from taking over
  // meanwhile. Any lock may be held.
  void works_long() noexcept {
    if (lease_.parked()) lease_.extend(Clock::now());
  }
  // Counts the looks at the descriptors after which all that were ready had been called. For calls
  // of the reactor only.
  [[nodiscard]] std::uint32_t looks() const noexcept { return looks_; }
  // Returns whether the calling thread is inside one of the reactor's calls.
  [[nodiscard]] bool driven_here() const noexcept;

  // Returns whether the calling thread is the service thread.
  [[nodiscard]] bool in_service_thread() const noexcept {
    return ::pthread_equal(serving_.load(std::memory_order_relaxed), ::pthread_self()) != 0;
  }

  // ---- the loss of its descriptors ----
  // Sets the function to be called once if the program closes the reactor's descriptors: then no
  // watched descriptor will be reported any more. Called by the thread that notices, with any lock
  // held, so it should post a SinkGate. Set it before anything is watched.
  void on_descriptors_lost(Call call) noexcept {
    on_lost_ = call;
    reports_lost_.store(true, std::memory_order_release);
  }

  // ---- ownership ----
  // Keeps the object until dismiss() or the reactor's destruction.
  void adopt(std::unique_ptr<Adopted> object) noexcept;
  // Destroys the object: hold no lock that its destructor takes.
  void dismiss(Adopted& object) noexcept;

 private:
  friend class Timer;
  friend class Deferred;

  // The value of role_: one of the first three, plus flags. kAsleep: the leader is in epoll, or
  // about to be, and must be woken to see new work. kGuarded: likewise the guard, which does not
  // hold the role. kKicked: the guard is being woken.
  enum Role : std::uint32_t { kFree, kActive, kAsleep, kState = 3, kGuarded = 4, kKicked = 8 };

  // Polls that find nothing: the first kEagerPolls make a turn each, then only every kStride-th.
  static constexpr std::uint32_t kEagerPolls = 4;
  static constexpr std::uint32_t kStride = 4;
  // A long yield makes the peer wait long, so that it yields, too: hence the patience.
  static constexpr std::uint32_t kPatientPolls = 32;        // before the first yield, if others ran
  static constexpr std::uint32_t kContendedStride = 12;     // between yields, if others ran
  static constexpr std::uint32_t kUncontendedStride = 512;  // before each yield, if none ran
  static constexpr auto kContendedYield = std::chrono::microseconds(2);
  // While polling: a handler that was the only ready one kHot times in a row is called directly
  // (look), until that has found nothing kColdAfter times in a row; meanwhile epoll is polled only
  // every kLooksPerWait-th turn.
  static constexpr std::uint32_t kHot = 4;
  static constexpr std::uint32_t kColdAfter = 64;
  static constexpr std::uint32_t kLooksPerWait = 8;
  // A poller rests when this many turns have asked it in vain; if there are more than kManyPollers,
  // after the first. If there are at most kFewPollers, all stay awake as long as a thread polls;
  // new ones are woken after some of its turns.
  static constexpr std::uint32_t kRestAfter = 4096;
  static constexpr std::size_t kManyPollers = 1024;
  static constexpr std::uint32_t kFewPollers = 8;
  static constexpr std::uint32_t kWakeFewAfter = 32;
  static constexpr std::uint32_t kWakeFewEvery = 1024;
  // While a poller is awake, a polling thread only checks the signs in most polls, and makes a turn
  // at the latest after kGlancesPerTurn of them. Epoll is polled in every kTurnsPerWait-th turn
  // that finds nothing, and half as often each time it reports nothing, down to every
  // kFoundPerWait-th. If some pollers rest, whose wake-ups arrive through epoll, each turn that
  // finds nothing polls epoll: after kGlancesIfSomeRest polls, and after twice as many each time it
  // reports nothing, up to kGlancesPerTurn. Of the turns that find something, every
  // kFoundPerWait-th polls epoll. One poller with a quiet sign is called in every
  // kTurnsPerQuietCall-th turn.
  static constexpr std::uint32_t kGlancesPerTurn = 16;
  static constexpr std::uint32_t kGlancesIfSomeRest = 2;
  static constexpr std::uint32_t kTurnsPerWait = 4;
  static constexpr std::uint32_t kFoundPerWait = 64;
  static constexpr std::uint32_t kTurnsPerQuietCall = 8;
  // If many are awake, a glance checks kGlanced signs, the first kGlancedNext of them behind the
  // poller that was served last, and a turn asks kAskedPerTurn pollers: neither takes longer the
  // more there are.
  static constexpr std::size_t kGlanced = 64;
  static constexpr std::size_t kGlancedNext = 8;
  static constexpr std::size_t kAskedPerTurn = 128;
  // If the last n guesses which poller has input next were right, as many glances check only that
  // one, kMostTrust at most.
  static constexpr std::uint32_t kMostTrust = 16;
  // After this many turns that found something, the timers are checked.
  static constexpr std::uint32_t kTimersPerFound = 8;
  // After this many polls in a row that find a leader asleep, the leader is asked to make way.
  static constexpr std::uint32_t kMaxBlockedPolls = 64;
  // A thread that releases the role runs deferred calls at most this often; any others are left to
  // the next driver.
  static constexpr int kMostRounds = 8;
  // After this many turns without a wait or the service thread, the application counts as polling.
  static constexpr std::uint32_t kHabit = 8;

  // After this many short waits in a row that the same descriptor has ended, leaders sleep on that
  // descriptor.
  static constexpr std::uint32_t kManyWakes = 32;
  static constexpr auto kShortWait = std::chrono::milliseconds(2);

  static constexpr Clock::rep kNoTimer = INT64_MAX;
  static constexpr int kEventsPerTurn = 64;
  static constexpr std::uint64_t kKickData = UINT64_MAX;  // epoll data of kick_

  struct Slot {
    Handler* handler = nullptr;
    int fd = -1;  // valid only if WatchSlot::only_reads
    std::uint32_t generation = 0;
    std::uint32_t next_free = WatchSlot::kNone;
    bool poller = false;
    bool awake = false;
    bool when_polled = false;  // in called_when_polled_
  };
  // A poller that is awake. Every turn walks through all of them, so they are stored contiguously.
  struct Awake {
    const Sign* sign;
    std::uint32_t slot;
    std::uint32_t misses;    // in a row
    std::uint32_t follower;  // the place that had input after this one the last time: a hint
  };
  // Allocated together, because each poll reads the signs of many pollers.
  using Signs = std::array<Sign, 64>;
  // The handler that was ready last. Used by the thread that holds the role.
  struct Habit {
    std::uint64_t data = kKickData;
    std::uint32_t times = 0;   // in a row
    std::uint32_t looks = 0;   // turns since it became hot
    std::uint32_t misses = 0;  // in a row
  };
  // The handler on whose descriptor leaders sleep, or may soon sleep, instead of in epoll. Used by
  // the thread that holds the role.
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
  void retire() noexcept;
  bool forget(Handler& handler) noexcept;
  Sign& sign_of(std::uint32_t slot) UDAPL_REQUIRES(lock_);  // a clear one

  // The drive role.
  bool claim() noexcept;
  void release() noexcept;
  void become(Role state) noexcept;  // called by the thread that holds the role
  void announce_work() noexcept;     // something was queued: makes sure that a driver sees it
  void announce_timer(Clock::time_point when) noexcept;  // for a timer that is now the earliest
  void wake() noexcept override;                         // wakes the thread that sleeps in epoll
  bool wake_sleeper() noexcept;                          // false: no thread was asleep
  void wake_guard() noexcept;                            // if it sleeps and no thread drives
  void nominate_follower() noexcept;
  [[nodiscard]] bool application_drives() const noexcept;

  // Called by the driver.
  bool turn() noexcept;          // true: something was found
  bool lone_turn() noexcept;     // the same, then releases the role
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
  void note_served(std::size_t place) noexcept UDAPL_REQUIRES(lock_);
  bool serve(std::size_t place, const Poller& poller) noexcept;
  void let_rest(const Poller& poller) noexcept;
  bool ask_pollers() noexcept;                   // true: one had input
  void let_pollers_rest() noexcept;              // except those that have input
  void wake_few_pollers() noexcept;              // all, if there are at most kFewPollers
  bool poll_turn(std::uint32_t polls) noexcept;  // true: there was a turn
  void wake_for_poll() noexcept;
  void start_polling() noexcept;
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
  // Whether there are deferred calls, or request_call() named a poller.
  [[nodiscard]] bool has_queued() const noexcept {
    return deferred_count_.load(std::memory_order_seq_cst) != 0 ||
           call_requested_.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] bool has_work() const noexcept;  // the same, or a timer that is due
  void look_around() noexcept;
  void note_first_timer() noexcept UDAPL_REQUIRES(lock_);
  WaitResult lead(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  WaitResult follow(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  // Sleeps in epoll (not if `work_pending`) and dispatches. Returns false if a signal interrupted
  // it.
  bool leader_sleeps(bool work_pending, const Deadline& deadline) noexcept;
  [[nodiscard]] Clock::time_point leader_wakes_at(const Deadline& deadline,
                                                  const Deadline& suspend) const noexcept;

  // reactor_direct.cpp
  [[nodiscard]] bool direct() const noexcept;  // whether leaders sleep on a descriptor
  // Whether the leader need not watch the clock for `when`, because the service thread does.
  [[nodiscard]] bool service_thread_times(const Deadline& when) const noexcept {
    return direct_.fd >= 0 && watch_others_.load(std::memory_order_relaxed) &&
           lease_.watches_until(when);
  }
  // Both like wait(), but after a moment not interrupted unless a signal handler ran.
  int wait_in_epoll(epoll_event* events, const Deadline& until) noexcept;
  int wait_directly(epoll_event* events, const Deadline& until) noexcept;
  void note_wake(const epoll_event* events, int count) noexcept;
  void go_direct() noexcept;   // and has the other descriptors watched
  void end_direct() noexcept;  // back into epoll
  // Whether direct_ names a handler that is still watched.
  [[nodiscard]] bool names_watched() const noexcept UDAPL_REQUIRES(lock_);
  bool take_out() noexcept;

  // descriptors_lost.cpp
  int wait(epoll_event* events, int max, const Deadline& until) noexcept;  // like epoll_wait
  // The same, but takes no event, and is not interrupted unless a signal handler ran. Returns 1 if
  // there may be an event.
  int wait_for_any(const Deadline& until) noexcept;
  // After a failure of epoll_wait: the events there are now, -1 with EINTR, or 0 if the descriptors
  // are lost.
  int after_failure(epoll_event* events, int max, int error) noexcept;
  int wait_without_descriptors(const Deadline& until) noexcept;
  int wait_without_poll(const Deadline& until) noexcept;  // for a moment, like wait_for_any
  void lose_descriptors(int error) noexcept;

  // Called by the service thread.
  void serve() noexcept;
  void guard() noexcept;
  bool guard_sleeps(bool& found) noexcept;
  [[nodiscard]] bool service_wanted() const noexcept;

  void begin_call(const void* object) noexcept UDAPL_REQUIRES(lock_) {
    running_.store(object, std::memory_order_relaxed);
  }
  // quiesce.cpp
  struct Wait;
  void end_call() noexcept;
  // Returns true if call_ended_ must be signalled after the lock is released.
  [[nodiscard]] bool end_call_locked() noexcept UDAPL_REQUIRES(lock_) {
    running_.store(nullptr, std::memory_order_relaxed);
    return quiescers_.load(std::memory_order_relaxed) != 0;
  }
  [[nodiscard]] bool calls(const void* object) noexcept;
  void disown(const void* object) noexcept;
  void wait_while_running(const void* object) noexcept;

  const Fd epoll_;
  const Fd kick_;  // eventfd, in the epoll set
  Lease lease_;
  pthread_t service_{};
  bool has_service_ = false;
  std::atomic<pthread_t> serving_{};  // the service thread, once it runs

  alignas(64) std::atomic<std::uint32_t> role_{kFree};
  std::atomic<pthread_t> driver_{};  // valid while the role is held
  std::atomic<std::uint32_t> deferred_count_{0};
  std::atomic<std::uint32_t> follower_count_{0};
  std::atomic<std::uint32_t> awake_count_{0};  // of awake_
  std::uint32_t pollers_ UDAPL_GUARDED_BY(lock_) = 0;
  std::atomic<bool> some_rest_{false};
  std::atomic<bool> some_when_polled_{false};
  std::atomic<bool> call_requested_{false};  // of a poller; no driver has called it since
  std::atomic<bool> leader_present_{false};
  std::atomic<Clock::rep> first_timer_{kNoTimer};
  std::atomic<bool> next_turn_{false};             // a timer was started by start_next_turn
  std::atomic<Clock::rep> guard_until_{kNoTimer};  // when a sleeping guard next checks the timers
  std::atomic<bool> stopping_{false};
  std::atomic<bool> lost_{false};  // the program has closed the descriptors
  WaitWord lost_word_;             // replaces epoll to sleep on once lost_
  Call on_lost_{};                 // valid once reports_lost_
  std::atomic<bool> reports_lost_{false};

  std::atomic<Clock::rep> found_many_at_{0};          // the last call of found_many()
  std::atomic<std::uint32_t> polled_among_takes_{0};  // the value of polls_ in the poll after it

  // Written by polling threads; increments may get lost when two threads poll.
  alignas(64) std::atomic<std::uint32_t> polls_{0};  // in a row that found nothing
  std::atomic<std::uint32_t> turn_at_{0};            // the poll that makes the next turn
  std::atomic<std::uint32_t> yield_at_{kUncontendedStride};
  Habit habit_;
  // Down to found_: used by the thread that holds the role.
  std::uint32_t looks_ = 0;        // at the descriptors
  std::uint32_t waits_saved_ = 0;  // turns without epoll_wait, weighted
  std::uint32_t turns_per_wait_ = kTurnsPerWait;
  std::uint32_t asks_ = 0;                 // calls of ask_pollers()
  std::size_t asked_ = 0;                  // if many are awake: where the next turn begins
  std::uint32_t found_ = 0;                // turns that found something, since timers were checked
  std::atomic<std::uint32_t> glances_{0};  // polls in a row that only checked the signs
  std::atomic<std::uint32_t> glances_if_some_rest_{kGlancesIfSomeRest};  // ... before a turn
  std::atomic<std::uint32_t> blocked_polls_{0};  // polls in a row that found a leader asleep
  std::atomic<bool> polls_drive_{false};         // the leader has made way, or is asked to
  std::atomic<bool> contended_{false};           // others ran when the application yielded last
  std::atomic<long> switches_{0};                // context switches of the thread that yielded last
  std::atomic<std::uint32_t> turns_{0};          // in a row, without a wait or the service thread
  Direct direct_;
  Clock::time_point slept_at_;             // when a leader that reads the clock went to sleep
  Clock::time_point led_since_;            // when the leader first read the clock
  bool leads_for_long_ = false;            // it has led for some seconds, and returns to its caller
  std::atomic<bool> watch_others_{false};  // the service thread watches the set, or is asked to
  alignas(64) SpinLock lock_;              // a leaf lock
  std::vector<Slot> slots_ UDAPL_GUARDED_BY(lock_);
  std::uint32_t free_slot_ UDAPL_GUARDED_BY(lock_) = WatchSlot::kNone;
  // By slot; null: they have had no poller.
  std::vector<std::unique_ptr<Signs>> signs_ UDAPL_GUARDED_BY(lock_);
  // watch() reserves these two.
  std::vector<Awake> awake_ UDAPL_GUARDED_BY(lock_);
  std::vector<std::uint32_t> called_when_polled_ UDAPL_GUARDED_BY(lock_);  // slots
  std::size_t served_ UDAPL_GUARDED_BY(lock_) = 0;   // the place in awake_ that was served last
  std::size_t glanced_ UDAPL_GUARDED_BY(lock_) = 0;  // if many are awake: the place checked last
  std::uint32_t trust_ UDAPL_GUARDED_BY(lock_) = 0;  // right guesses in a row, at most kMostTrust
  std::uint32_t expectant_ UDAPL_GUARDED_BY(lock_) = 0;  // glances that still check only the guess
  std::uint32_t rest_after_ UDAPL_GUARDED_BY(lock_) = UINT32_MAX;  // misses
  Timers timers_ UDAPL_GUARDED_BY(lock_);
  List<Deferred, &Deferred::hook_> deferred_ UDAPL_GUARDED_BY(lock_);
  List<Follower, &Follower::hook> followers_ UDAPL_GUARDED_BY(lock_);
  List<Adopted, &Adopted::hook_> adopted_ UDAPL_GUARDED_BY(lock_);
  // The Handler, Timer or Deferred that is called, and the number of threads that wait for the end
  // of a call. Changed under lock_, except that serve() ends a call without it.
  std::atomic<const void*> running_{nullptr};
  std::atomic<std::uint32_t> quiescers_{0};
  WaitWord call_ended_;
};

}  // namespace udapl
