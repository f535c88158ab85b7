// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/service.h"

#include "common/trace.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

namespace udapl::verbs {

namespace {

constexpr std::size_t kStackSize = 256 * 1024;
constexpr int kEventsPerTurn = 16;

}  // namespace

// ---- Watch, Timer, Deferred --------------------------------------------------------------------

Status Watch::start(int fd) {
  {
    const ScopedLock lock(service_.lock_);
    service_.watches_.push_back(this);
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;
  if (::epoll_ctl(service_.epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    fd_ = fd;
    return Status();
  }
  UDAPL_TRACE(kError, "cannot watch a descriptor: %s", std::strerror(errno));
  const ScopedLock lock(service_.lock_);
  std::erase(service_.watches_, this);
  return failure(DAT_INSUFFICIENT_RESOURCES);
}

void Watch::stop() noexcept {
  if (fd_ < 0) return;
  ::epoll_ctl(service_.epoll_.get(), EPOLL_CTL_DEL, fd_, nullptr);
  fd_ = -1;
  {
    const ScopedLock lock(service_.lock_);
    std::erase(service_.watches_, this);
  }
  service_.quiesce(this);
}

Timer::~Timer() {
  stop();
  service_.quiesce(this);
}

void Timer::start(Clock::time_point when) noexcept {
  bool first = false;
  {
    const ScopedLock lock(service_.lock_);
    if (hook_.is_linked()) service_.timers_.erase(service_.timers_.iterator_to(*this));
    when_ = when;
    service_.timers_.insert(*this);
    first = &*service_.timers_.begin() == this;
  }
  if (first) service_.wake();
}

void Timer::stop() noexcept {
  const ScopedLock lock(service_.lock_);
  if (hook_.is_linked()) service_.timers_.erase(service_.timers_.iterator_to(*this));
}

void Deferred::post() noexcept {
  bool first = false;
  {
    const ScopedLock lock(service_.lock_);
    if (hook_.is_linked()) return;
    first = service_.deferred_.empty();
    service_.deferred_.push_back(*this);
  }
  if (first) service_.wake();
}

void Deferred::cancel() noexcept {
  const ScopedLock lock(service_.lock_);
  if (hook_.is_linked()) service_.deferred_.erase(service_.deferred_.iterator_to(*this));
}

void Deferred::close() noexcept {
  cancel();
  service_.quiesce(this);
}

// ---- Service -----------------------------------------------------------------------------------

Result<std::unique_ptr<Service>> Service::create() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd kick(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!epoll.valid() || !kick.valid() ||
      ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, kick.get(), &event) != 0) {
    UDAPL_TRACE(kError, "no descriptors for the service thread: %s", std::strerror(errno));
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  std::unique_ptr<Service> service(new Service(std::move(epoll), std::move(kick)));
  if (!service->start()) return failure(DAT_INSUFFICIENT_RESOURCES);
  return service;
}

Service::Service(Fd epoll, Fd kick) noexcept : epoll_(std::move(epoll)), kick_(std::move(kick)) {}

Service::~Service() {
  if (!started_) return;
  stopping_.store(true, std::memory_order_release);
  wake();
  ::pthread_join(thread_, nullptr);
}

bool Service::start() noexcept {
  // The thread inherits a full mask: the application's signals go to its own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto entry = [](void* self) -> void* {
    static_cast<Service*>(self)->run();
    return nullptr;
  };
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackSize);
  int error = ::pthread_create(&thread_, &attributes, entry, this);
  // A program with much thread-local storage needs a larger stack than ours.
  if (error == EINVAL) error = ::pthread_create(&thread_, nullptr, entry, this);
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    UDAPL_TRACE(kError, "cannot start the service thread: %s", std::strerror(error));
    return false;
  }
  started_ = true;
  ::pthread_setname_np(thread_, "udapl-verbs");
  return true;
}

void Service::run() noexcept {
  std::array<epoll_event, kEventsPerTurn> events;
  while (!stopping_.load(std::memory_order_acquire)) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, time_to_sleep());
    for (int i = 0; i < count; ++i) {
      const auto* const watch =
          static_cast<const Watch*>(events[static_cast<unsigned>(i)].data.ptr);
      if (watch != nullptr) {
        dispatch(watch);
        continue;
      }
      std::uint64_t kicks = 0;
      [[maybe_unused]] const ssize_t got = ::read(kick_.get(), &kicks, sizeof kicks);
    }
    fire_timers();
    run_deferred();
  }
}

// Milliseconds, rounded up; -1: no limit.
int Service::time_to_sleep() noexcept {
  const ScopedLock lock(lock_);
  if (!deferred_.empty()) return 0;
  if (timers_.empty()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->when_ - Clock::now());
  return static_cast<int>(
      std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, std::numeric_limits<int>::max()));
}

void Service::dispatch(const Watch* watch) noexcept {
  Call call{};
  {
    const ScopedLock lock(lock_);
    // It may have been stopped, and destroyed, since epoll reported it.
    if (std::find(watches_.begin(), watches_.end(), watch) == watches_.end()) return;
    call = watch->call_;
    running_ = watch;
  }
  call.function(call.object);
  end_call();
}

void Service::fire_timers() noexcept {
  const Clock::time_point now = Clock::now();
  while (true) {
    Call call{};
    {
      const ScopedLock lock(lock_);
      if (timers_.empty() || timers_.begin()->when_ > now) return;
      const Timer& timer = *timers_.begin();
      call = timer.call_;
      running_ = &timer;
      timers_.erase(timers_.begin());
    }
    call.function(call.object);
    end_call();
  }
}

// What is posted meanwhile has its turn after the descriptors.
void Service::run_deferred() noexcept {
  std::size_t left = 0;
  {
    const ScopedLock lock(lock_);
    left = deferred_.size();
  }
  for (; left > 0; --left) {
    Call call{};
    {
      const ScopedLock lock(lock_);
      if (deferred_.empty()) return;
      const Deferred& first = deferred_.front();
      call = first.call_;
      running_ = &first;
      deferred_.pop_front();
    }
    call.function(call.object);
    end_call();
  }
}

void Service::end_call() noexcept {
  const ScopedLock lock(lock_);
  running_ = nullptr;
  if (quiescers_ != 0) call_ended_.signal();
}

void Service::quiesce(const void* who) noexcept {
  if (here()) return;
  while (true) {
    std::uint32_t seen = 0;
    {
      const ScopedLock lock(lock_);
      if (running_ != who) return;
      ++quiescers_;
      seen = call_ended_.value();
    }
    call_ended_.wait(seen, std::nullopt);
    const ScopedLock lock(lock_);
    --quiescers_;
  }
}

void Service::wake() noexcept {
  if (here()) return;  // looks before it sleeps
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(kick_.get(), &one, sizeof one);
}

}  // namespace udapl::verbs
