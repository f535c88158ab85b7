// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// CqChannel: the channel of a single CQ, on which the thread that waits for it sleeps.
#include "providers/verbs/cq_channel.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/exiting_sleep.h"
#include "common/not_cancelled.h"
#include "providers/reactor/coarse_clock.h"
#include "providers/reactor/epoll_wait.h"
#include "providers/verbs/cq.h"

namespace udapl::verbs {

namespace {

constexpr rlim_t kDescriptors = 2;  // that an own channel takes
// All own channels of the process take this part of the descriptors that it may have.
constexpr rlim_t kPart = 4;
constinit std::atomic<rlim_t> taken{0};

bool take_descriptors() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  if (taken.fetch_add(kDescriptors, std::memory_order_relaxed) + kDescriptors <=
      limit.rlim_cur / kPart)
    return true;
  taken.fetch_sub(kDescriptors, std::memory_order_relaxed);
  return false;
}

// Adapters that the thread has destroyed: a signal handler that interrupts a sleep may close the
// IA, and then return.
constinit thread_local std::uint32_t closed_adapters = 0;

constexpr std::chrono::milliseconds kLongestSleep = Reactor::kLongestSleep;

// Then the sleep has no other limit.
bool is_near(const Deadline& deadline) noexcept {
  return deadline && *deadline - coarse_now() <= kLongestSleep + kCoarse;
}

// As poll(). Without a call if the deadline has passed.
int sleep_until(pollfd (&fds)[2], Clock::time_point deadline) {
  const timespec left = time_until(deadline);
  if (left.tv_sec == 0 && left.tv_nsec == 0) return 0;
  return sleep_in([&] { return ::ppoll(fds, 2, &left, nullptr); });
}
int sleep_long(pollfd (&fds)[2]) {
  return sleep_in([&] { return ::poll(fds, 2, static_cast<int>(kLongestSleep.count())); });
}

}  // namespace

std::shared_ptr<CqChannel> CqChannel::create_own(Adapter& adapter) {
  if (!take_descriptors()) return nullptr;
  Fd kick = Fd::made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  auto made = kick.valid() ? create(adapter) : failure(DAT_INSUFFICIENT_RESOURCES);
  if (!made.ok()) {
    give_back_descriptors();
    return nullptr;
  }
  CqChannel& channel = **made;
  channel.kick_ = std::move(kick);
  const ScopedLock guard(channel.lock_);
  channel.open_ = true;
  return *std::move(made);
}

void CqChannel::give_back_descriptors() noexcept {
  taken.fetch_sub(kDescriptors, std::memory_order_relaxed);
}

void CqChannel::note_closed_adapter() noexcept { ++closed_adapters; }

// A thread that sees the waker after it has changed the word ends the sleep; otherwise this one
// sees the change. The sleep may be left by longjmp: then only the waker stays, which does no harm.
std::optional<WaitResult> CqChannel::sleep(WaitWord& word, std::uint32_t seen,
                                           const Deadline& deadline) noexcept {
  if (failed_.load(std::memory_order_relaxed)) return std::nullopt;
  pollfd fds[] = {{channel_->fd, POLLIN, 0}, {kick_.get(), POLLIN, 0}};
  const std::uint32_t closed = closed_adapters;
  word.set_waker(this);
  const bool changed = word.value() != seen;
  const bool near = is_near(deadline);
  const int ready = changed ? 0 : near ? sleep_until(fds, *deadline) : sleep_long(fds);
  const int error = ready < 0 ? errno : 0;
  if (closed_adapters != closed) [[unlikely]]
    return WaitResult::kInterrupted;  // *this may be gone
  word.set_waker(nullptr);
  if (changed) return WaitResult::kChanged;
  if (error == EINTR) return WaitResult::kInterrupted;
  if (ready < 0 || ((fds[0].revents | fds[1].revents) & ~POLLIN) != 0) return std::nullopt;
  if (ready == 0) return near ? WaitResult::kTimedOut : WaitResult::kSleptLong;
  if (fds[1].revents != 0) end_kick();
  if (fds[0].revents != 0 && !leave_input(word)) read_events_of_waiter(word);
  return WaitResult::kChanged;
}

void CqChannel::read_events_of_waiter(WaitWord& word) noexcept {
  do {
    Cq* const cq = next_event();
    if (cq == nullptr) return;
    if (was_left(*cq))
      cq->on_left_event();
    else
      cq->note_event_of_waiter(word);
  } while (armed_cqs_.load(std::memory_order_relaxed) > 0);
}

// The counter does not overflow, and the descriptor does not block: neither call can fail.
void CqChannel::wake() noexcept {
  const NotCancelled scope;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t done = ::write(kick_.get(), &one, sizeof one);
}

void CqChannel::end_kick() noexcept {
  std::uint64_t kicks = 0;
  [[maybe_unused]] const ssize_t done = ::read(kick_.get(), &kicks, sizeof kicks);
}

}  // namespace udapl::verbs
