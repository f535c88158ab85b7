// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: if the same descriptor wakes the leaders again and again, they sleep on it directly, in
// poll without a time limit, which is cheaper than epoll_wait with one. Meanwhile the parked
// service thread watches the other descriptors and the clock, and wakes the leader for them.
//
// If input of its handler can stay unread (Handler::can_be_left), a leader that ends its wait
// renews no lease: the reactor is unattended. The service thread continues to watch the other
// descriptors and the timers, and fires the timers, until a descriptor is ready, a thread waits, or
// attend() is called.
//
// While leaders sleep on a descriptor directly, that descriptor and the eventfd for kicks are not
// in the epoll set. A thread that takes events from epoll first calls end_direct(), while it holds
// the role. A guard that still sleeps in epoll is woken when a leader releases the role, and parks.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "common/exiting_sleep.h"
#include "providers/reactor/epoll_wait.h"
#include "providers/reactor/reactor.h"

namespace udapl {

// The name of a kick is not that of any handler.
static_assert(EventSet::kKick == WatchTable::kNoName);
static_assert(POLLIN == EPOLLIN && POLLERR == EPOLLERR && POLLHUP == EPOLLHUP);

bool Reactor::watches_direct() noexcept {
  const ScopedLock guard(lock_);
  return table_.find(direct_.name) != nullptr;
}

bool Reactor::can_be_left(const Elsewhere& elsewhere) noexcept {
  if (direct_.name == WatchTable::kNoName || elsewhere.any() || followers_.any()) return false;
  const ScopedLock guard(lock_);
  const WatchTable::Slot* const slot = table_.find(direct_.name);
  return slot != nullptr && slot->handler->can_be_left();
}

// To read the input costs a system call, for which the consumer need not wait: the thread makes it
// before it sleeps again, while its peer works. If another thread sleeps first, the unread input
// wakes that thread, which reads it.
bool Reactor::leave_input(WaitWord& word, const epoll_event* events, int count,
                          const Elsewhere& elsewhere) noexcept {
  if (count != 1 || direct_.fd < 0 || events[0].data.u64 != direct_.name ||
      events[0].events != EPOLLIN || elsewhere.any() || followers_.any())
    return false;
  Handler* handler = nullptr;
  {
    const ScopedLock guard(lock_);
    const WatchTable::Slot* const slot = table_.find(direct_.name);
    if (slot == nullptr || !slot->handler->can_be_left()) return false;
    handler = slot->handler;
    running_.begin(handler, guard);
  }
  const bool left = handler->leave_input(word);
  running_.end();
  return left;
}

// Returns false if the lease must be renewed; then sets `may_leave` if that is only because the
// service thread does not watch yet, or because there were too few wake-ups. Everything that other
// threads change (watch_others_, polls_drive_, followers, can_be_left()) is checked after
// unattended_ was set, which those threads then see.
bool Reactor::leave_unattended(const Elsewhere& elsewhere, bool& may_leave) noexcept {
  const bool begins = direct_.fd < 0 || !watch_others_.load(std::memory_order_relaxed);
  if (begins) {
    may_leave = can_be_left(elsewhere);
    if (!may_leave || direct_.times < tuning::kLeavingWakes || !go_direct()) return false;
  }
  if (!unattended_.load(std::memory_order_seq_cst))
    unattended_.store(true, std::memory_order_seq_cst);
  may_leave = can_be_left(elsewhere);
  if (!may_leave || polls_drive_.load(std::memory_order_seq_cst) ||
      !watch_others_.load(std::memory_order_seq_cst))
    return false;
  lease_.follow(queued_.first_timer());
  // A service thread that is awake parks next and sees the first timer then.
  if (lease_.parked() && !lease_.watches_until(queued_.first_timer())) lease_.wake_service_thread();
  direct_.timer_fired = false;
  return true;
}

// Reads whether the service thread watches the other descriptors after the role says that this
// thread sleeps: when the service thread stops watching, it wakes the sleeper. If it watches, this
// thread also polls the lease's timer, because kicks no longer arrive if the program closes the
// descriptors.
int Reactor::wait_directly(epoll_event* events, const Deadline& until) noexcept {
  if (!watches_direct()) {
    end_direct();
    return 0;
  }
  const bool others = watch_others_.load(std::memory_order_seq_cst) && lease_.watching();
  const int third = others ? lease_.timer() : events_.epoll();
  pollfd fds[] = {
      {direct_.fd, POLLIN, 0}, {events_.kick_descriptor(), POLLIN, 0}, {third, POLLIN, 0}};
  int ready = 0;
  if (until) {
    const timespec left = time_until(*until);
    ready = sleep_in([&] { return ::ppoll(fds, 3, &left, nullptr); });
  } else {
    ready = sleep_in([&] { return ::poll(fds, 3, -1); });
  }
  if (!leads_asleep()) [[unlikely]]
    return -1;
  if (ready < 0 && !poll_allowed(3)) [[unlikely]] {
    end_direct();
    return 0;
  }
  if (ready <= 0) return ready;
  if (((fds[0].revents | fds[1].revents | fds[2].revents) & POLLNVAL) != 0) {
    // The handler may have ended its watch and closed its descriptor.
    if (watches_direct())
      events_.lose(EBADF);
    else
      end_direct();
    return 0;
  }
  int count = 0;
  const auto add = [&](std::uint64_t data, short found) {
    if (found == 0) return;
    events[count].events = static_cast<std::uint32_t>(found);
    events[count++].data.u64 = data;
  };
  add(EventSet::kKick, fds[1].revents);
  add(direct_.name, fds[0].revents);
  if (fds[2].revents != 0 && !others)
    count += std::max(::epoll_wait(third, events + count, tuning::kEventsPerTurn - count, 0), 0);
  // The timer stays readable until the service thread runs, which may take a while, or until the
  // leader postpones the timer.
  if (fds[2].revents != 0 && others) {
    direct_.timer_fired = can_be_left(Elsewhere());
    if (!direct_.timer_fired) watch_others_.store(false, std::memory_order_seq_cst);
  }
  return count;
}

// Decides by what has woken the leader whether leaders sleep, or continue to sleep, on one
// descriptor.
void Reactor::note_wake(const epoll_event* events, int count) noexcept {
  const auto among = [&](std::uint64_t data) {
    return std::any_of(events, events + count,
                       [data](const epoll_event& event) { return event.data.u64 == data; });
  };
  const bool rung = direct_.name != WatchTable::kNoName && among(direct_.name);
  const bool kicked = among(EventSet::kKick);
  const bool others = count > int{rung} + int{kicked};
  if (rung && !others) ++direct_.times;
  if (rung && !others && !kicked) return;
  if (kicked && !others && can_be_left(Elsewhere())) {
    direct_.timer_fired = true;  // the service thread also kicks when the lease's timer has fired
    return;
  }
  watch_others_.store(false, std::memory_order_seq_cst);
  if (rung || others) end_direct();
  direct_.times = 0;
  if (direct_.fd < 0) direct_.name = count == 1 ? events[0].data.u64 : WatchTable::kNoName;
}

// A service thread that is awake now sees watch_others_ when it parks.
bool Reactor::go_direct() noexcept {
  if (events_.lost(std::memory_order_relaxed)) return false;
  if (direct_.fd < 0 && (!poll_allowed(3) || !take_out())) {
    direct_.times = 0;
    return false;
  }
  if (watch_others_.load(std::memory_order_relaxed)) return false;
  watch_others_.store(true, std::memory_order_seq_cst);
  lease_.wake_service_thread();
  return true;
}

// Removes the descriptor from the epoll set under the lock, because unwatch() forgets the handler
// under the lock before it removes the descriptor.
bool Reactor::take_out() noexcept {
  const ScopedLock guard(lock_);
  const WatchTable::Slot* const slot = table_.find(direct_.name);
  if (slot == nullptr || slot->fd < 0 || !events_.remove(slot->fd)) return false;
  events_.remove_kick();
  role_.kick_was_taken();
  direct_.fd = slot->fd;
  return true;
}

void Reactor::end_direct() noexcept {
  if (direct_.fd < 0) return;
  watch_others_.store(false, std::memory_order_seq_cst);
  clear_unattended();
  direct_.timer_fired = false;
  const int fd = std::exchange(direct_.fd, -1);
  direct_.times = 0;
  if (events_.lost()) return;
  bool back = events_.add_kick();
  {
    const ScopedLock guard(lock_);
    if (table_.find(direct_.name) != nullptr) back &= events_.add(fd, EPOLLIN, direct_.name);
  }
  if (!back) events_.lose(errno);
}

}  // namespace udapl
