// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// CqChannel: the own channels. A thread that waits for an EVD, or for a CNO, sleeps on the channel
// of its CQ or CQs.
#include "providers/verbs/cq_channel.h"

#include <chrono>

#include <poll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/exiting_sleep.h"
#include "providers/reactor/coarse_clock.h"
#include "providers/reactor/epoll_wait.h"
#include "providers/verbs/cq.h"

namespace udapl::verbs {

namespace {

constexpr rlim_t kDescriptors = 2;  // descriptors of an own channel
// All own channels together have at most 1/kPart of the descriptors that the process may have.
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

// The number of adapters that the calling thread has destroyed. It changes during a sleep if a
// signal handler that interrupts the sleep closes an IA.
constinit thread_local std::uint32_t closed_adapters = 0;

constexpr Clock::duration kLongestSleep = Reactor::kLongestSleep;

// Like poll(). If the deadline has passed, makes no system call unless `must_look`.
int sleep_until(pollfd (&fds)[2], Clock::time_point deadline, bool must_look) {
  const timespec left = time_until(deadline);
  if (left.tv_sec == 0 && left.tv_nsec == 0 && !must_look) return 0;
  return sleep_in([&] { return ::ppoll(fds, 2, &left, nullptr); });
}
int sleep_without_deadline(pollfd (&fds)[2]) {
  return sleep_in([&] { return ::poll(fds, 2, -1); });
}

}  // namespace

std::shared_ptr<CqChannel> CqChannel::create_own(Adapter& adapter) {
  if (!take_descriptors()) return nullptr;
  Fd timer = Fd::made(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  auto made = timer.valid() ? create(adapter) : failure(DAT_INSUFFICIENT_RESOURCES);
  if (!made.ok()) {
    give_back_descriptors();
    return nullptr;
  }
  CqChannel& channel = **made;
  channel.timer_ = std::move(timer);
  const ScopedLock guard(channel.lock_);
  channel.open_ = true;
  return *std::move(made);
}

std::shared_ptr<CqChannel> CqChannel::create_place(Adapter& adapter) {
  std::shared_ptr<CqChannel> channel = create_own(adapter);
  if (channel != nullptr) channel->is_place_ = true;
  return channel;
}

void CqChannel::give_back_descriptors() noexcept {
  taken.fetch_sub(kDescriptors, std::memory_order_relaxed);
}

void CqChannel::note_closed_adapter() noexcept { ++closed_adapters; }

// This thread registers as the word's waker and then reads the word: a thread that changes the word
// later sees the waker and ends the sleep. If the sleep is left by longjmp, the waker stays
// registered, which does no harm. A second waiter of the CNO, which leads in the reactor, may
// replace the waker: it makes this thread leave the place as well.
std::optional<WaitResult> CqChannel::sleep(WaitWord& word, std::uint32_t seen,
                                           const Deadline& deadline) noexcept {
  if (failed_.load(std::memory_order_relaxed)) return std::nullopt;
  Reactor::give_up_left_sleep();
  const Clock::time_point now = coarse_now();
  const bool near = deadline && *deadline - now <= kLongestSleep + kCoarse;
  if (!near) renew_limit(now);
  pollfd fds[] = {{channel_->fd, POLLIN, 0}, {timer_.get(), POLLIN, 0}};
  const std::uint32_t closed = closed_adapters;
  if (!word.try_waker(*this)) return std::nullopt;
  const bool changed = word.value() != seen;
  const int ready = changed ? 0
                    : near  ? sleep_until(fds, *deadline, is_place_)
                            : sleep_without_deadline(fds);
  if (closed_adapters != closed) [[unlikely]]
    return WaitResult::kInterrupted;  // *this may have been destroyed
  word.end_waker(*this);
  if (changed) return WaitResult::kChanged;
  if (ready < 0 && poll_allowed(2)) return WaitResult::kInterrupted;  // whatever errno is
  if (ready < 0 || ((fds[0].revents | fds[1].revents) & ~POLLIN) != 0) return std::nullopt;
  if (ready == 0) return WaitResult::kTimedOut;
  if (fds[1].revents != 0) end_limit();
  if (fds[0].revents == 0)
    return word.value() == seen ? WaitResult::kSleptLong : WaitResult::kChanged;
  if (is_place_)
    read_events(Where::kCaller);
  else if (!leave_input(word))
    read_events_of_waiter(word);
  return WaitResult::kChanged;
}

// If the sleep was interrupted, *this may have been destroyed.
std::optional<WaitResult> WaitPlace::block(WaitWord& word, std::uint32_t seen,
                                           const Deadline& deadline) noexcept {
  if (channel_->given_up()) return std::nullopt;
  const auto result = channel_->sleep(word, seen, deadline);
  if (!result) channel_->give_up();
  return result;
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

// Sets the timer once for many sleeps, because a time limit of poll() costs the kernel time in each
// sleep. The timer fires even if the program has closed its descriptor, as long as a thread sleeps
// on it.
void CqChannel::renew_limit(Clock::time_point now) noexcept {
  if (limit_ - now > kLongestSleep / 2) return;
  limit_ = now + kLongestSleep;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit_.time_since_epoch());
  itimerspec setting{};
  setting.it_value.tv_sec = seconds.count();
  setting.it_value.tv_nsec = std::chrono::nanoseconds(limit_.time_since_epoch() - seconds).count();
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void CqChannel::end_limit() noexcept {
  limit_ = Clock::time_point();
  std::uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t done = ::read(timer_.get(), &expirations, sizeof expirations);
}

// The sleeping thread has set the timer before it registered as the waker, so it does not overwrite
// this.
void CqChannel::wake() noexcept {
  itimerspec at_once{};
  at_once.it_value.tv_nsec = 1000;  // see Lease
  ::timerfd_settime(timer_.get(), 0, &at_once, nullptr);
}

}  // namespace udapl::verbs
