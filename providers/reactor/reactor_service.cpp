// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The service thread of a reactor: drives when no application thread does.
#include <cerrno>

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "common/backoff.h"
#include "common/errno_text.h"
#include "common/signals_blocked.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/reactor/reactor.h"

namespace udapl {

namespace {

constexpr std::size_t kStackSize = 256 * 1024;

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::create(const char* name) {
  Fd epoll = Fd::made(::epoll_create1(EPOLL_CLOEXEC));
  Fd kick = Fd::made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd timer = Fd::made(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kKickData;
  if (!epoll.valid() || !kick.valid() || !timer.valid() ||
      ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, kick.get(), &event) != 0) {
    const int error = errno;
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error,
                        "no descriptors for the service thread");
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  std::unique_ptr<Reactor> reactor(
      new Reactor(std::move(epoll), std::move(kick), std::move(timer)));
  if (!reactor->start_service(name)) return failure(DAT_INSUFFICIENT_RESOURCES);
  return reactor;
}

Reactor::Reactor(Fd epoll, Fd kick, Fd timer) noexcept
    : epoll_(std::move(epoll)), kick_(std::move(kick)), lease_(std::move(timer)) {}

bool Reactor::start_service(const char* name) noexcept {
  const auto entry = [](void* self) -> void* {
    static_cast<Reactor*>(self)->serve();
    return nullptr;
  };
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackSize);
  int error = 0;
  {
    const SignalsBlocked scope;
    error = ::pthread_create(&service_, &attributes, entry, this);
    // A program with much thread-local storage needs a larger stack than ours.
    if (error == EINVAL) error = ::pthread_create(&service_, nullptr, entry, this);
  }
  ::pthread_attr_destroy(&attributes);
  if (error != 0) {
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error,
                        "cannot start the service thread");
    return false;
  }
  has_service_ = true;
  ::pthread_setname_np(service_, name);
  return true;
}

Reactor::~Reactor() {
  if (has_service_) {
    stopping_.store(true, std::memory_order_seq_cst);
    announce_work();
    ::pthread_join(service_, nullptr);
  }
  while (true) {
    Adopted* object = nullptr;
    {
      const ScopedLock guard(lock_);
      if (adopted_.empty()) break;
      object = &adopted_.front();
      adopted_.pop_front();
    }
    delete object;
  }
  retire();
}

// A thread may be polling an EVD that was freed meanwhile. Its turn ends first, and it finds the
// role taken from then on. Not if the reactor is destroyed by its own driver.
void Reactor::retire() noexcept {
  for (Backoff backoff; !claim(); backoff.wait())
    if (driven_here()) return;
  driver_.store(pthread_t{}, std::memory_order_relaxed);
  const ScopedLock guard(lock_);
  called_when_polled_.clear();
  some_when_polled_.store(false, std::memory_order_relaxed);
}

void Reactor::serve() noexcept {
  serving_.store(::pthread_self(), std::memory_order_relaxed);
  while (!stopping_.load(std::memory_order_seq_cst)) {
    if ((has_work() || !application_drives()) && claim()) {
      if (application_drives()) {
        fire_timers();
        run_deferred();
        if (has_work()) look_around();
        release();
      } else {
        guard();
      }
      nominate_follower();
    }
    const bool leader = leader_present_.load(std::memory_order_seq_cst);
    const Deadline timer = next_timer();
    const bool watch = watch_others_.load(std::memory_order_seq_cst);
    const bool ready = lease_.park(leader, timer, watch ? epoll_.get() : -1, [&] {
      return service_wanted() || next_timer() != timer ||
             watch != watch_others_.load(std::memory_order_seq_cst) ||
             (leader && !leader_present_.load(std::memory_order_seq_cst));
    });
    if (!watch) continue;
    // The leader may be asleep without a time limit and without watching the other descriptors.
    if (ready) watch_others_.store(false, std::memory_order_seq_cst);
    wake_sleeper();
  }
}

// Returns whether there is work that cannot wait until the lease ends.
bool Reactor::service_wanted() const noexcept {
  return stopping_.load(std::memory_order_seq_cst) ||
         (has_work() && (role_.load(std::memory_order_seq_cst) & kState) == kFree);
}

// Entered with the role held; returns without it, once the application drives or wants to.
void Reactor::guard() noexcept {
  bool found = false;
  end_direct();
  do {
    turns_.store(0, std::memory_order_relaxed);
    fire_timers();
    run_deferred();
    if (stopping_.load(std::memory_order_seq_cst) ||
        follower_count_.load(std::memory_order_seq_cst) != 0) {
      if (has_work()) look_around();
      return release();
    }
  } while (guard_sleeps(found));
  lease_.after_takeover(!found);
}

// Releases the role, sleeps in epoll, claims the role again and dispatches. Sets `found` if there
// was an event. Returns false, without the role, if another thread has driven meanwhile.
bool Reactor::guard_sleeps(bool& found) noexcept {
  if (pollers_awake()) let_pollers_rest();
  const Deadline timer = next_timer();
  guard_until_.store(timer ? timer->time_since_epoch().count() : kNoTimer,
                     std::memory_order_relaxed);
  driver_.store(pthread_t{}, std::memory_order_relaxed);
  role_.store(kGuarded, std::memory_order_seq_cst);
  const bool work_pending =
      stopping_.load(std::memory_order_seq_cst) || has_queued() || pollers_awake() ||
      follower_count_.load(std::memory_order_seq_cst) != 0 || next_timer() != timer;
  Clock::time_point until = Clock::now();
  if (!work_pending) until += kLongestSleep;
  if (timer && *timer < until) until = *timer;
  // An edge that this thread took could not be given back if it did not get the role.
  wait_for_any(until);
  role_.fetch_and(~(kGuarded | kKicked), std::memory_order_seq_cst);
  if (application_drives() || !claim()) return false;
  epoll_event events[kEventsPerTurn];
  const int count = wait(events, kEventsPerTurn, Clock::now());
  dispatch(events, count);
  found |= count > 0;
  if (pollers_awake()) found |= ask_pollers();
  run_deferred();
  return true;
}

}  // namespace udapl
