// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/sim/descriptor.h"

#include <algorithm>
#include <utility>

namespace udapl::sim {

std::string to_text(const Weather& weather) {
  static constexpr const char* kNames[] = {"no fault",      "reset",        "silence",
                                           "a changed bit", "deaf for 1 s", "deaf for 60 s"};
  return std::string(kNames[static_cast<int>(weather.fault)]) + " at byte " +
         std::to_string(weather.at) + " of the " + (weather.from_client ? "client" : "server") +
         ", pieces " + std::to_string(weather.piece) + ", buffer " +
         std::to_string(weather.buffer) + ", MSS " + std::to_string(weather.mss) + ", delay " +
         std::to_string(weather.delay_us) + " us";
}

Kernel& Kernel::instance() {
  static Kernel kernel;
  return kernel;
}

void Kernel::reset(std::uint64_t seed, const Weather& weather) {
  rng_.seed(seed);
  weather_ = weather;
  fault_happened_ = fault_injected_ = false;
  events_.clear();
  descriptors_.clear();
  next_descriptor_ = kFirstDescriptor;
  next_port_ = 40000;
  now_ = Clock::time_point(std::chrono::hours(1));
}

// ---- time

void Kernel::at(Clock::time_point when, std::function<void()> what) {
  events_.emplace(std::pair(when, sequence_++), std::move(what));
}

void Kernel::run_due() {
  while (!events_.empty() && events_.begin()->first.first <= now_) {
    const auto what = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    what();
  }
}

void Kernel::advance(Clock::duration span) {
  const Clock::time_point until = now_ + span;
  while (!events_.empty() && events_.begin()->first.first <= until) {
    now_ = std::max(now_, events_.begin()->first.first);
    run_due();
  }
  now_ = until;
}

bool Kernel::next_event() {
  if (events_.empty()) return false;
  now_ = std::max(now_, events_.begin()->first.first);
  run_due();
  return true;
}

Clock::duration Kernel::delay() {
  return std::chrono::nanoseconds(1 + below(std::uint64_t{weather_.delay_us} * 1000));
}

// ---- descriptors

Kernel::Descriptor* Kernel::find(int fd) const {
  const auto found = descriptors_.find(fd);
  return found == descriptors_.end() ? nullptr : found->second.get();
}

int Kernel::add(const Ref& descriptor) {
  descriptors_.emplace(next_descriptor_, descriptor);
  return next_descriptor_++;
}

int Kernel::socket() { return add(std::make_shared<Descriptor>()); }

int Kernel::event_descriptor() {
  const int fd = add(std::make_shared<Descriptor>());
  find(fd)->kind = Descriptor::Kind::kEvent;
  return fd;
}

int Kernel::epoll_create() {
  const int fd = add(std::make_shared<Descriptor>());
  find(fd)->kind = Descriptor::Kind::kEpoll;
  return fd;
}

long Kernel::read_event(int fd) {
  Descriptor* const event = find(fd);
  if (event == nullptr) return fail(EBADF);
  if (event->counter == 0) return fail(EAGAIN);
  event->counter = 0;
  return 8;
}

void Kernel::write_event(int fd) {
  if (Descriptor* const event = find(fd); event != nullptr) ++event->counter;
}

int Kernel::close(int fd) {
  const auto found = descriptors_.find(fd);
  if (found == descriptors_.end()) return fail(EBADF);
  const Ref gone = found->second;
  descriptors_.erase(found);
  for (const auto& [number, other] : descriptors_) other->watched.erase(fd);
  gone->closed = true;
  for (const Ref& waiting : gone->backlog) break_both(waiting, ECONNRESET);
  if (gone->kind != Descriptor::Kind::kSocket || gone->state != Descriptor::State::kConnected ||
      gone->broken != 0)
    return 0;
  if (!gone->lingers || !gone->unread.empty()) {
    const Clock::time_point when = std::max(gone->last_arrival, now_) + delay();
    at(when, [peer = gone->peer] {
      if (const Ref other = peer.lock(); other != nullptr && !other->silent)
        break_one(*other, ECONNRESET);
    });
    return 0;
  }
  if (!gone->write_closed) transport(gone, {});
  return 0;
}

// ---- epoll

std::uint32_t Kernel::readiness(const Descriptor& descriptor) const {
  if (descriptor.kind == Descriptor::Kind::kEvent) return descriptor.counter > 0 ? EPOLLIN : 0U;
  if (descriptor.state == Descriptor::State::kListening)
    return descriptor.backlog.empty() ? 0U : EPOLLIN;
  if (descriptor.broken != 0) return EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP;
  if (descriptor.state != Descriptor::State::kConnected) return 0;
  std::uint32_t ready = 0;
  const bool reads = descriptor.stalled_until <= now_;
  if (reads && (!descriptor.unread.empty() || descriptor.read_closed)) ready |= EPOLLIN;
  if (reads && descriptor.read_closed) ready |= EPOLLRDHUP;
  if (room(descriptor) > 0) ready |= EPOLLOUT;
  if (descriptor.read_closed && descriptor.write_closed) ready |= EPOLLHUP;
  return ready;
}

int Kernel::epoll_control(int epoll, int operation, int fd, const epoll_event* event) {
  Descriptor* const set = find(epoll);
  if (set == nullptr || find(fd) == nullptr) return fail(EBADF);
  const bool known = set->watched.contains(fd);
  switch (operation) {
    case EPOLL_CTL_ADD:
      if (known) return fail(EEXIST);
      break;
    case EPOLL_CTL_MOD:
      if (!known) return fail(ENOENT);
      break;
    default:
      if (!known) return fail(ENOENT);
      set->watched.erase(fd);
      return 0;
  }
  set->watched[fd] = *event;
  return 0;
}

int Kernel::epoll_wait(int epoll, epoll_event* events, int max) {
  Descriptor* const set = find(epoll);
  if (set == nullptr) return fail(EBADF);
  int count = 0;
  for (const auto& [fd, wanted] : set->watched) {
    const Descriptor* const watched = find(fd);
    if (watched == nullptr || count == max) continue;
    const std::uint32_t ready = readiness(*watched) & (wanted.events | EPOLLERR | EPOLLHUP);
    if (ready == 0) continue;
    events[count] = wanted;
    events[count++].events = ready;
  }
  return count;
}

}  // namespace udapl::sim
