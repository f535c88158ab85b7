// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/quarantine.h"
#include "common/result.h"
#include "common/spin_lock.h"
#include "common/wait_word.h"
#include "providers/reactor/ask_order.h"
#include "providers/reactor/call_queue.h"
#include "providers/reactor/callbacks.h"
#include "providers/reactor/drive_role.h"
#include "providers/reactor/elsewhere.h"
#include "providers/reactor/event_set.h"
#include "providers/reactor/followers.h"
#include "providers/reactor/hot_handler.h"
#include "providers/reactor/lease.h"
#include "providers/reactor/lease_use.h"
#include "providers/reactor/poll_policy.h"
#include "providers/reactor/poller_set.h"
#include "providers/reactor/running_call.h"
#include "providers/reactor/service_thread.h"
#include "providers/reactor/turn_policy.h"
#include "providers/reactor/watch_table.h"
#include "providers/reactor/write_ahead.h"

#include <sys/epoll.h>

#include <boost/intrusive/list.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace udapl {

// The engine of an adapter: one epoll set, timers, deferred calls and one service thread.
//
// At any time at most one thread *drives*: it waits in epoll and runs handlers, timers and deferred
// calls. To avoid needless thread switches, that thread is
//  - an application thread inside block(), the leader. Other threads inside block() follow: each
//    sleeps on its wait word. A leader makes way if it gives up the role before its wait has ended;
//  - an application thread inside progress() or poll(), for one turn;
//  - otherwise the service thread, then called the guard. It sleeps in epoll without a time limit
//    and without the role: another thread can claim the role without waking the guard, which sees
//    when it wakes that the other thread has driven.
// While the application keeps driving, the service thread does not sleep in epoll but on the timer
// of the Lease (it is parked), so that events that the application is about to handle do not wake
// it. docs/adr/0025.
//
// Thread-safe. Owned by the Adapter; outlives everything that was created with it. The destructor
// ends and joins the service thread and destroys the objects that are still adopted. A thread that
// is inside poll() or end_unused_lease() meanwhile, or calls one of them a moment later, returns.
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
  // A poller is a handler whose input arrives in memory. It rests at first, and while it rests, its
  // descriptor announces input. When the descriptor is ready, or request_call() names the poller,
  // it is awake: the turns of the driving thread call look(). When look() has found nothing for
  // long, or the driving thread is about to sleep, rest() is called.
  enum class Kind : std::uint8_t { kByDescriptor, kPoller };
  Status watch(int fd, std::uint32_t events, Handler& handler,
               Kind kind = Kind::kByDescriptor) noexcept;
  // Wakes a poller that rests: a driving thread will call it.
  void request_call(Handler& poller) noexcept;
  // Like request_call(), but wakes no thread: the next poll of the application wakes the poller.
  void call_when_polled(Handler& poller) noexcept;
  // Changes `events`, if the handler is watched.
  void rewatch(int fd, std::uint32_t events, Handler& handler) noexcept;
  // No on_ready begins after this; one that has begun in another thread may still run.
  void unwatch(int fd, Handler& handler) noexcept;
  // Waits for an on_ready that runs in another thread. No lock that on_ready acquires may be held.
  // Like the destructors of Timer and Deferred, returns at once if that thread in turn waits for
  // the calling thread: two driving threads may each destroy an object that the other one is
  // calling.
  void quiesce(const Handler& handler) noexcept { running_.wait_for_end(&handler); }

  // ---- driving. No lock may be held. ----
  // Makes one turn without blocking. Returns at once if another thread drives, or if called from a
  // sink.
  void progress() noexcept;
  // Called by a consumer whose poll has found nothing. Usually makes a turn; in a long series of
  // such calls only some make one, and some yield the processor. Returns false if there was no
  // turn.
  bool poll() noexcept {
    const std::uint32_t poll = poll_policy_.count();
    if (!poll_policy_.due(poll) && queued_.deferred.load(std::memory_order_relaxed) == 0)
      return false;
    return poll_turn(poll);
  }
  // Called by a consumer whose poll has found nothing, if such polls make no turns. If they
  // continue while no thread drives, ends the lease, so that the service thread takes over;
  // likewise for other reactors that the calling thread has driven. Makes no calls to handlers.
  void end_unused_lease() noexcept;
  // Called by a consumer that has taken several items in a row without needing a turn. It counts as
  // polling, so that the service thread stays away.
  void found_without_poll() noexcept {
    if (!polled()) start_polling();
  }
  // Called by such a consumer after every several items, before it polls. If the previous call was
  // not long ago, extends the lease: the consumer probably posts for each item that it takes, and
  // the service thread would only delay it.
  void found_many() noexcept;
  // Called when input of a handler may no longer stay unread until a thread waits
  // (Handler::can_be_left). Any lock may be held.
  void attend() noexcept {
    // seq_cst: either the leader that leaves block() sees the change of the handler, or this thread
    // sees that the leader has left the reactor unattended.
    if (unattended_.load(std::memory_order_seq_cst)) [[unlikely]]
      end_unattended();
  }
  // Implements transport::Adapter::block. A wait whose deadline is very near is a series of polls,
  // at least one. Any other wait makes at least one turn, unless another thread drives.
  WaitResult block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept;
  // For a thread that is about to sleep outside of block(): if a signal handler has left an earlier
  // sleep in block(), gives up what that sleep has claimed.
  static void give_up_left_sleep() noexcept {
    if (sleep_was_left()) [[unlikely]]
      give_up_sleep();
  }
  // Returns whether the application is polling at present, so that it will drive again very soon. A
  // hint; while it is true, the service thread takes over when the lease ends.
  [[nodiscard]] bool polled() const noexcept {
    // seq_cst: either a caller that has queued work sees that a thread drives, or that thread sees
    // the work.
    return role_.unguarded() && lease_.parked();
  }
  // Inside one of the reactor's calls: whether the calling thread drives in a poll of the
  // application.
  [[nodiscard]] bool polled_here() const noexcept {
    return driven_here() && lease_.parked() && !leader_present_.load(std::memory_order_relaxed);
  }
  // Inside one of the reactor's calls: whether the calling thread drives in a wait.
  [[nodiscard]] bool leads_here() const noexcept {
    return driven_here() && leader_present_.load(std::memory_order_relaxed);
  }
  // Called by an application thread that moves so much data that it takes longer than the lease
  // after a poll, and that will poll again: extends the lease, so that the service thread does not
  // take over meanwhile. Any lock may be held.
  void works_long() noexcept {
    if (lease_.parked()) lease_.extend(Clock::now());
  }
  // Tells where the next message will probably be written: polls that find nothing fetch that into
  // the cache. A hint; any lock may be held.
  void will_write(const void* at, std::size_t bytes) noexcept { write_ahead_.expect(at, bytes); }
  // A number that changes when a thread of the application has polled, and found something or made
  // a turn. A hint.
  [[nodiscard]] std::uint32_t turns() const noexcept { return turn_policy_.turns(); }
  // The number of times that epoll was polled and all handlers that were ready were called. Exact
  // in calls of the reactor.
  [[nodiscard]] std::uint32_t looks() const noexcept {
    return looks_.load(std::memory_order_relaxed);
  }
  // Returns whether the calling thread is inside one of the reactor's calls.
  [[nodiscard]] bool driven_here() const noexcept { return role_.held_here(); }

  // Returns whether the calling thread is the service thread.
  [[nodiscard]] bool in_service_thread() const noexcept { return service_.here(); }

  // ---- the loss of its descriptors ----
  // Sets the function to be called once if the program closes the reactor's descriptors, after
  // which no watched descriptor is reported any more. The thread that notices the loss calls it,
  // with any lock held, so it should post a SinkGate. Set it before anything is watched.
  void on_descriptors_lost(Call call) noexcept { events_.on_lost(call); }

  // ---- ownership ----
  // Keeps the object until dismiss() or the reactor's destruction.
  void adopt(std::unique_ptr<Adopted> object) noexcept;
  // Destroys the object: hold no lock that its destructor acquires.
  void dismiss(Adopted& object) noexcept;

 private:
  friend class Timer;
  friend class Deferred;

  // The handler on whose descriptor leaders sleep, or may soon sleep, instead of in epoll. Used by
  // the thread that holds the role.
  struct Direct {
    WatchTable::Name name = WatchTable::kNoName;
    int fd = -1;               // -1: they sleep in epoll
    std::uint32_t times = 0;   // waits in a row that this descriptor alone has ended
    bool timer_fired = false;  // the leader has seen the lease's timer fire, or was kicked for it
  };
  using AdoptedHook =
      boost::intrusive::member_hook<Adopted, boost::intrusive::list_member_hook<>, &Adopted::hook_>;

  class All;

  Reactor(Fd epoll, Fd kick, Fd timer) noexcept;
  void retire() noexcept;
  bool forget(Handler& handler) noexcept;

  // reactor_role.cpp
  void release() noexcept;
  [[nodiscard]] bool run_queued(bool direct) noexcept;
  void announce_work() noexcept;  // something was queued: makes sure that a driving thread sees it
  void announce_timer(Clock::time_point when) noexcept;  // for a timer that is now the earliest
  void wake() noexcept override;                         // wakes the thread that sleeps in epoll
  bool wake_sleeper() noexcept;                          // false: no thread was asleep
  void wake_guard() noexcept;                            // if it sleeps and no thread drives
  [[nodiscard]] bool application_drives() const noexcept;
  // Whether the service thread takes over soon unless the application drives again.
  [[nodiscard]] bool leased() const noexcept {
    return !unattended_.load(std::memory_order_seq_cst) && lease_.valid(Clock::now());
  }
  void end_unattended() noexcept;
  // Called before the lease is renewed, and when the descriptor on which leaders sleep is watched
  // again.
  void clear_unattended() noexcept {
    if (unattended_.load(std::memory_order_relaxed)) [[unlikely]]
      unattended_.store(false, std::memory_order_seq_cst);
  }
  // Whether there are deferred calls, or request_call() named a poller.
  [[nodiscard]] bool has_queued() const noexcept {
    return queued_.any_deferred() || call_requested_.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] bool has_work() const noexcept;  // has_queued(), or a timer is due

  // Called by the driving thread. Those that return bool return whether something was found.
  bool turn() noexcept;
  bool lone_turn() noexcept;     // turn(), then releases the role
  bool wait_or_look() noexcept;  // in a turn: polls epoll, or calls the hot handler instead
  bool look() noexcept;
  [[nodiscard]] Handler* begin_look() noexcept;  // null: the hot handler was removed
  bool looked(Handler::Look result) noexcept;
  // Whether a poll need only call the hot handler; lone_look() makes that call and releases the
  // role.
  [[nodiscard]] bool look_suffices() const noexcept;
  bool lone_look() noexcept;
  void prepare_soon() noexcept;
  void look_around() noexcept;
  void dispatch(const epoll_event* events, int count) noexcept;
  void count_look() noexcept { looks_.store(looks() + 1, std::memory_order_relaxed); }
  Deadline fire_timers() noexcept;
  bool run_deferred() noexcept { return queued_.any_deferred() && run_all_deferred(); }
  bool run_all_deferred() noexcept;

  // pollers.cpp
  struct Poller;
  [[nodiscard]] bool pollers_awake() const noexcept {
    return poller_counts_.awake.load(std::memory_order_seq_cst) != 0;
  }
  [[nodiscard]] bool some_pollers_rest() const noexcept {
    return poller_counts_.some_rest.load(std::memory_order_relaxed);
  }
  [[nodiscard]] Poller begin_call(const PollerSet::Member& awake,
                                  const RunningCall::Held& guard) noexcept UDAPL_REQUIRES(lock_);
  [[nodiscard]] bool begin_poller(std::size_t& place, std::size_t end, std::size_t quiet,
                                  Poller& poller) noexcept;
  [[nodiscard]] bool end_poller(std::size_t place, const Poller& poller, bool found) noexcept;
  // What a poll finds when it looks at the signs of the pollers that are awake.
  enum class Glance : std::uint8_t {
    kQuiet,   // nothing: the poll needs no turn
    kServed,  // one had input and was called instead of a turn
    kTurnDue
  };
  [[nodiscard]] Glance glance_at_pollers(bool& found) noexcept;
  bool serve_poller(std::size_t place, const Poller& poller) noexcept;
  void let_rest(const Poller& poller) noexcept;
  bool ask_pollers() noexcept;       // true: one had input
  void let_pollers_rest() noexcept;  // except those that have input
  void wake_for_poll() noexcept {    // wakes the pollers named by call_when_polled()
    if (!poller_counts_.some_when_polled.load(std::memory_order_relaxed)) [[likely]]
      return;
    const ScopedLock guard(lock_);
    pollers_.wake_for_poll();
  }

  // reactor_poll.cpp
  bool poll_turn(std::uint32_t poll) noexcept;  // true: there was a turn
  void start_polling() noexcept;
  void ask_for_role() noexcept;
  [[nodiscard]] std::uint32_t uses() const noexcept;
  [[nodiscard]] bool unused(Clock::time_point now) noexcept;  // no thread has driven for long

  // reactor_wait.cpp
  [[nodiscard]] bool polls_drive() noexcept;
  [[nodiscard]] bool ends_soon(Clock::time_point deadline) const noexcept;
  WaitResult poll_until(WaitWord& word, std::uint32_t seen, Clock::time_point deadline) noexcept;
  void nominate() noexcept;
  WaitResult lead(WaitWord& word, std::uint32_t seen, const Deadline& deadline,
                  bool& idle) noexcept;
  WaitResult follow(WaitWord& word, std::uint32_t& seen, const Deadline& deadline, bool idle,
                    bool& left) noexcept;
  // Polls epoll, asleep unless `work_pending`, and dispatches. kInterrupted: by a signal. kLeft: a
  // signal handler has made calls, so that this thread no longer leads; the reactor may be
  // destroyed.
  enum class Slept : std::uint8_t { kWoken, kInterrupted, kLeft };
  [[nodiscard]] Slept leader_sleeps(WaitWord& word, bool work_pending, const Deadline& deadline,
                                    Elsewhere& elsewhere) noexcept;
  [[nodiscard]] Clock::time_point leader_wakes_at(const Deadline& deadline,
                                                  const Deadline& suspend) const noexcept;

  // reactor_direct.cpp
  // Whether the leader need not wake at `when` itself, because the service thread will wake it.
  [[nodiscard]] bool service_thread_times(const Deadline& when) const noexcept {
    return direct_.fd >= 0 && watch_others_.load(std::memory_order_relaxed) &&
           lease_.watches_until(when);
  }
  [[nodiscard]] bool watches_direct() noexcept;  // whether direct_.fd is still watched
  [[nodiscard]] bool can_be_left(const Elsewhere& elsewhere) noexcept;
  [[nodiscard]] bool leave_unattended(const Elsewhere& elsewhere, bool& may_leave) noexcept;
  // If only the direct handler's input has woken the leader: whether the handler leaves it unread.
  [[nodiscard]] bool leave_input(WaitWord& word, const epoll_event* events, int count,
                                 const Elsewhere& elsewhere) noexcept;
  // Sleeps on direct_.fd; otherwise like EventSet::wait_long().
  int wait_directly(epoll_event* events, const Deadline& until) noexcept;
  void note_wake(const epoll_event* events, int count) noexcept;
  // Makes leaders sleep on direct_.name's descriptor, and the service thread watch all others:
  // returns true if that was woken for this.
  bool go_direct() noexcept;
  void end_direct() noexcept;  // leaders sleep in epoll again
  bool take_out() noexcept;

  // reactor_left.cpp
  void begin_leading_sleep(WaitWord& word) noexcept;
  // Returns whether the calling thread still leads: not if a signal handler has made calls.
  [[nodiscard]] bool end_leading_sleep() noexcept;
  [[nodiscard]] bool leads_asleep() const noexcept;
  // Sets `number`, which follows_still() needs to tell whether the thread still follows.
  Followers::Follower& begin_following(WaitWord& word, std::uint32_t seen, bool idle,
                                       std::uint32_t& number) noexcept;
  [[nodiscard]] static bool follows_still(std::uint32_t number) noexcept;
  static void end_following() noexcept;
  // Whether the calling thread makes this call although it sleeps in another one: a signal handler
  // has interrupted that sleep, or left it by longjmp.
  [[nodiscard]] static bool sleep_was_left() noexcept;
  static void give_up_sleep() noexcept;       // the calling thread's, in any reactor
  [[nodiscard]] bool retake_role() noexcept;  // false: the reactor was destroyed

  // reactor_elsewhere.cpp
  [[nodiscard]] static bool exists(const Reactor& reactor) noexcept;
  void enlist() noexcept;
  void strike_out() noexcept;
  void note_driven() noexcept;  // the calling thread has renewed the lease
  // Whether another reactor, which the calling thread has driven before, may still have a lease.
  [[nodiscard]] bool drives_others() const noexcept;
  [[nodiscard]] bool left_by_caller(Clock::time_point now) const noexcept;
  // Makes a turn of each such reactor, and makes the leader watch its epoll set.
  void look_elsewhere(Elsewhere& elsewhere) noexcept;
  bool turn_of_sleeper() noexcept;  // called by the holder of the role, which it releases
  void leave_others() noexcept;     // ends their leases: their service threads take over
  // Likewise for those that no thread has driven for a while. Called by a thread that polls.
  void leave_unused_others(Clock::time_point now) noexcept;

  // reactor_service.cpp
  void serve() noexcept;
  void guard() noexcept;
  bool guard_sleeps(bool& found) noexcept;
  [[nodiscard]] bool service_wanted() const noexcept;

  EventSet events_;
  Lease lease_;
  ServiceThread service_;
  Followers followers_;

  Reactor* next_older_ = nullptr;  // used by All, as are the next two
  std::uint64_t number_ = 0;
  int claims_ = 0;                           // by threads in look_elsewhere() and the like
  std::atomic<pthread_t> driven_last_by_{};  // the application thread that has renewed the lease

  alignas(64) DriveRole role_;
  QueuedCalls queued_;
  PollerCounts poller_counts_;
  std::atomic<bool> call_requested_{false};  // of a poller; no driving thread has called it since
  std::atomic<bool> leader_present_{false};
  std::atomic<bool> next_turn_{false};              // a timer was started by start_next_turn
  std::atomic<Clock::rep> guard_until_{INT64_MAX};  // when a sleeping guard next checks the timers
  std::atomic<bool> stopping_{false};
  // The reactor is unattended: the leader has left without a lease, because its descriptor needs no
  // thread until one waits again, and the service thread watches the other descriptors. May also be
  // true while a thread leads.
  std::atomic<bool> unattended_{false};
  std::atomic<bool> watch_others_{false};  // the service thread watches the epoll set, or shall
  std::atomic<bool> polls_drive_{false};   // the leader has made way for polls, or shall

  alignas(64) LeaseUse lease_use_;
  alignas(64) PollPolicy poll_policy_;
  WriteAhead write_ahead_;
  // Used by the thread that holds the role.
  TurnPolicy turn_policy_;
  HotHandler hot_;
  AskOrder ask_order_;
  std::atomic<std::uint32_t> looks_{0};  // see looks()
  Direct direct_;
  Clock::time_point slept_at_;   // when a leader that reads the clock went to sleep
  Clock::time_point led_since_;  // when the leader first read the clock
  bool leads_for_long_ = false;  // it has led for some seconds, and returns to its caller

  alignas(64) SpinLock lock_;  // a leaf lock
  WatchTable table_ UDAPL_GUARDED_BY(lock_);
  PollerSet pollers_ UDAPL_GUARDED_BY(lock_){poller_counts_};
  CallQueue calls_ UDAPL_GUARDED_BY(lock_){queued_};
  boost::intrusive::list<Adopted, AdoptedHook> adopted_ UDAPL_GUARDED_BY(lock_);
  RunningCall running_{lock_, role_};
};

}  // namespace udapl
