// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The service thread of a reactor: drives when no application thread does.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include <sys/eventfd.h>

#include "common/cause.h"
#include "common/errno_text.h"
#include "common/trace.h"
#include "providers/reactor/reactor.h"

namespace udapl {

namespace {

constexpr std::size_t kStackSize = 256 * 1024;

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::create(const char* name) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd kick(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kKickData;
  if (!epoll.valid() || !kick.valid() ||
      ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, kick.get(), &event) != 0) {
    const int error = errno;
    UDAPL_EXPLAIN_ERRNO(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), error,
                        "no descriptors for the service thread");
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  std::unique_ptr<Reactor> reactor(new Reactor(std::move(epoll), std::move(kick)));
  if (!reactor->start_service(name)) return failure(DAT_INSUFFICIENT_RESOURCES);
  return reactor;
}

Reactor::Reactor(Fd epoll, Fd kick) noexcept
    : epoll_(std::move(epoll)),
      kick_(std::move(kick)),
      stamp_((Clock::now() - 2 * kLease).time_since_epoch().count()) {}

bool Reactor::start_service(const char* name) noexcept {
  // The thread inherits a full mask: the application's signals go to its own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto entry = [](void* self) -> void* {
    static_cast<Reactor*>(self)->serve();
    return nullptr;
  };
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackSize);
  int error = ::pthread_create(&service_, &attributes, entry, this);
  // A program with much thread-local storage needs a larger stack than ours.
  if (error == EINVAL) error = ::pthread_create(&service_, nullptr, entry, this);
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
    service_word_.signal();
    wake();
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
}

void Reactor::serve() noexcept {
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const std::uint32_t seen = service_word_.value();
    const bool has_work = deferred_count_.load(std::memory_order_seq_cst) != 0;
    if ((has_work || !application_drives()) && claim()) {
      if (application_drives())
        run_deferred();
      else
        own();
      release();
      nominate_follower();
    }
    if (stopping_.load(std::memory_order_seq_cst)) return;
    park(seen);
  }
}

// Drives until an application thread does or wants to.
void Reactor::own() noexcept {
  const auto has_news = [this] {
    return stopping_.load(std::memory_order_seq_cst) ||
           follower_count_.load(std::memory_order_seq_cst) != 0;
  };
  do {
    fire_timers();
    run_deferred();
    if (has_news()) return;
    fall_asleep();
    sleep(has_news(), std::nullopt);
    run_deferred();
  } while (!has_news() && !lease_valid(Clock::now()));
}

// Sleeps while the application drives: for as long as a leader is there, else for one lease.
void Reactor::park(std::uint32_t seen) noexcept {
  if (leader_present_.load(std::memory_order_seq_cst)) {
    parked_for_leader_.store(true, std::memory_order_seq_cst);
    if (leader_present_.load(std::memory_order_seq_cst)) service_word_.wait(seen, std::nullopt);
    parked_for_leader_.store(false, std::memory_order_seq_cst);
    return;
  }
  const Clock::time_point now = Clock::now();
  const Clock::time_point stamped{Clock::duration(stamp_.load(std::memory_order_relaxed))};
  service_word_.wait(seen, (lease_valid(now) ? stamped : now) + kLease);
}

}  // namespace udapl
