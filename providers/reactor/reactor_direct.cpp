// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reactor: if the same descriptor wakes the leaders again and again, they sleep on it directly, in
// poll without a time limit, which is cheaper than epoll_wait with one. Meanwhile the parked
// service thread watches the other descriptors and the clock, and wakes the leader for them.
//
// That descriptor and the kick are then not in the epoll set. A thread that enters epoll calls
// end_direct() first, while it holds the role.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "providers/reactor/epoll_wait.h"
#include "providers/reactor/reactor.h"

namespace udapl {

// A kick names no handler.
static_assert(EventSet::kKick == WatchTable::kNoName);
static_assert(POLLIN == EPOLLIN && POLLERR == EPOLLERR && POLLHUP == EPOLLHUP);

bool Reactor::watches_direct() noexcept {
  const ScopedLock guard(lock_);
  return table_.find(direct_.name) != nullptr;
}

// Whether the service thread watches the other descriptors is read after the role says that this
// thread sleeps: when it stops watching, it wakes the sleeper. Without a time limit, the end of the
// lease must wake the leader, too, because kicks no longer arrive once the program has closed the
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
    ready = ::ppoll(fds, 3, &left, nullptr);
  } else {
    ready = ::poll(fds, 3, -1);
  }
  if (!leads_asleep()) [[unlikely]]
    return -1;
  if (ready < 0 && !poll_allowed(3)) [[unlikely]] {
    end_direct();
    return 0;
  }
  if (ready <= 0) return ready;
  if (((fds[0].revents | fds[1].revents | fds[2].revents) & POLLNVAL) != 0) {
    // The handler may have closed its descriptor, after it has ended its watch.
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
  // The service thread may not have got a processor yet; the timer stays readable until it does.
  if (fds[2].revents != 0 && others) watch_others_.store(false, std::memory_order_seq_cst);
  return count;
}

// A kick comes from another thread, or means that the wait has become long.
void Reactor::note_wake(const epoll_event* events, int count) noexcept {
  if (count == 1 && events[0].data.u64 == direct_.name) {
    ++direct_.times;
    return;
  }
  const bool kicked = count == 1 && events[0].data.u64 == EventSet::kKick;
  watch_others_.store(false, std::memory_order_seq_cst);
  if (!kicked) end_direct();
  direct_.times = 0;
  if (direct_.fd < 0) direct_.name = count == 1 ? events[0].data.u64 : WatchTable::kNoName;
}

void Reactor::go_direct() noexcept {
  if (!lease_.parked() || events_.lost(std::memory_order_relaxed)) return;
  if (direct_.fd < 0 && (!poll_allowed(3) || !take_out())) {
    direct_.times = 0;
    return;
  }
  if (watch_others_.load(std::memory_order_relaxed)) return;
  watch_others_.store(true, std::memory_order_seq_cst);
  lease_.wake_service_thread();
}

// Holds the lock, because unwatch() first forgets the handler and then removes the descriptor from
// the epoll set.
bool Reactor::take_out() noexcept {
  const ScopedLock guard(lock_);
  const WatchTable::Slot* const slot = table_.find(direct_.name);
  if (slot == nullptr || slot->fd < 0 || !events_.remove(slot->fd)) return false;
  events_.remove_kick();
  direct_.fd = slot->fd;
  return true;
}

void Reactor::end_direct() noexcept {
  if (direct_.fd < 0) return;
  watch_others_.store(false, std::memory_order_seq_cst);
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
