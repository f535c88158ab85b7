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

static_assert(POLLIN == EPOLLIN && POLLERR == EPOLLERR && POLLHUP == EPOLLHUP);

bool Reactor::direct() const noexcept {
  return direct_.fd >= 0 && !lost_.load(std::memory_order_acquire);
}

// Whether the service thread watches the other descriptors is read after kAsleep was set: when it
// stops watching, it wakes the sleeper. Without a time limit, the end of the lease must wake the
// leader, too, because kicks no longer arrive once the program has closed the descriptors.
int Reactor::wait_directly(epoll_event* events, const Deadline& until) noexcept {
  bool watched = false;
  {
    const ScopedLock guard(lock_);
    watched = names_watched();
  }
  if (!watched) {
    end_direct();
    return 0;
  }
  const bool others = watch_others_.load(std::memory_order_seq_cst) && lease_.watching();
  const int third = others ? lease_.timer() : epoll_.get();
  pollfd fds[] = {{direct_.fd, POLLIN, 0}, {kick_.get(), POLLIN, 0}, {third, POLLIN, 0}};
  int ready = 0;
  if (until) {
    const timespec left = time_until(*until);
    ready = ::ppoll(fds, 3, &left, nullptr);
  } else {
    ready = ::poll(fds, 3, -1);
  }
  if (ready < 0 && !poll_allowed(3)) [[unlikely]] {
    end_direct();
    return 0;
  }
  if (ready <= 0) return ready;
  if (((fds[0].revents | fds[1].revents | fds[2].revents) & POLLNVAL) != 0) {
    lose_descriptors(EBADF);
    return 0;
  }
  int count = 0;
  const auto add = [&](std::uint64_t data, short found) {
    if (found == 0) return;
    events[count].events = static_cast<std::uint32_t>(found);
    events[count++].data.u64 = data;
  };
  add(kKickData, fds[1].revents);
  add(direct_.data, fds[0].revents);
  if (fds[2].revents != 0 && !others)
    count += std::max(::epoll_wait(third, events + count, kEventsPerTurn - count, 0), 0);
  // The service thread may not have got a processor yet; the timer stays readable until it does.
  if (fds[2].revents != 0 && others) watch_others_.store(false, std::memory_order_seq_cst);
  return count;
}

// A kick comes from another thread, or means that the wait has become long.
void Reactor::note_wake(const epoll_event* events, int count) noexcept {
  if (count == 1 && events[0].data.u64 == direct_.data) {
    ++direct_.times;
    return;
  }
  const bool kicked = count == 1 && events[0].data.u64 == kKickData;
  watch_others_.store(false, std::memory_order_seq_cst);
  if (!kicked) end_direct();
  direct_.times = 0;
  if (direct_.fd < 0) direct_.data = count == 1 ? events[0].data.u64 : kKickData;
}

void Reactor::go_direct() noexcept {
  if (!lease_.parked() || lost_.load(std::memory_order_relaxed)) return;
  if (direct_.fd < 0 && (!poll_allowed(3) || !take_out())) {
    direct_.times = 0;
    return;
  }
  if (watch_others_.load(std::memory_order_relaxed)) return;
  watch_others_.store(true, std::memory_order_seq_cst);
  lease_.wake_service_thread();
}

bool Reactor::names_watched() const noexcept {
  if (direct_.data == kKickData) return false;
  const Slot& slot = slots_[static_cast<std::uint32_t>(direct_.data)];
  return slot.handler != nullptr && slot.generation == direct_.data >> 32;
}

// Holds the lock, because unwatch() first forgets the handler and then removes the descriptor from
// the epoll set.
bool Reactor::take_out() noexcept {
  const ScopedLock guard(lock_);
  if (!names_watched()) return false;
  const int fd = slots_[static_cast<std::uint32_t>(direct_.data)].fd;
  epoll_event unused{};
  if (fd < 0 || ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused) != 0) return false;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, kick_.get(), &unused);
  direct_.fd = fd;
  return true;
}

void Reactor::end_direct() noexcept {
  if (direct_.fd < 0) return;
  watch_others_.store(false, std::memory_order_seq_cst);
  const int fd = std::exchange(direct_.fd, -1);
  direct_.times = 0;
  if (lost_.load(std::memory_order_acquire)) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kKickData;
  bool back = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, kick_.get(), &event) == 0;
  {
    const ScopedLock guard(lock_);
    event.data.u64 = direct_.data;
    if (names_watched()) back &= ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  if (!back) lose_descriptors(errno);
}

}  // namespace udapl
