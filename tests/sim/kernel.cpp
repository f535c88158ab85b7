// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/sim/kernel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>

namespace udapl::sim {

namespace {

constexpr auto kSenderNotices = std::chrono::seconds(20);  // TCP_USER_TIMEOUT
constexpr auto kReaderNotices = std::chrono::seconds(40);  // keepalive

int fail(int error) {
  errno = error;
  return -1;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

struct Kernel::Descriptor {
  enum class Kind : std::uint8_t { kSocket, kEvent, kEpoll } kind = Kind::kSocket;
  enum class State : std::uint8_t { kNew, kListening, kConnecting, kConnected } state = State::kNew;
  sockaddr_in local{};
  sockaddr_in remote{};
  std::weak_ptr<Descriptor> peer;
  bool client = false;
  bool closed = false;               // by the application
  bool lingers = true;               // false: close() resets
  bool write_closed = false;         // FIN is sent
  bool read_closed = false;          // the peer's has arrived
  int broken = 0;                    // errno of every further call
  int pending_error = 0;             // SO_ERROR
  std::string unread;                // arrived
  std::size_t under_way = 0;         // bytes that this end has sent and that have not arrived
  std::uint64_t sent = 0;            // bytes, ever
  bool silent = false;               // what this end sends gets lost
  Clock::time_point last_arrival{};  // of what this end has sent
  std::deque<Ref> backlog;
  std::uint64_t counter = 0;  // of an event descriptor
  std::map<int, epoll_event> watched;
};

Kernel& Kernel::instance() {
  static Kernel kernel;
  return kernel;
}

void Kernel::reset(std::uint64_t seed, const Weather& weather) {
  rng_.seed(seed);
  weather_ = weather;
  fault_happened_ = false;
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

// ---- connections

int Kernel::bind(int fd, const sockaddr* address) {
  Descriptor* const socket = find(fd);
  if (socket == nullptr) return fail(EBADF);
  std::memcpy(&socket->local, address, sizeof socket->local);
  return 0;
}

int Kernel::listen(int fd) {
  Descriptor* const socket = find(fd);
  if (socket == nullptr) return fail(EBADF);
  for (const auto& [number, other] : descriptors_)
    if (other->state == Descriptor::State::kListening &&
        other->local.sin_port == socket->local.sin_port)
      return fail(EADDRINUSE);
  if (socket->local.sin_port == 0) socket->local.sin_port = htons(next_port_++);
  socket->state = Descriptor::State::kListening;
  return 0;
}

int Kernel::connect(int fd, const sockaddr* address) {
  const auto found = descriptors_.find(fd);
  if (found == descriptors_.end()) return fail(EBADF);
  const Ref socket = found->second;
  std::memcpy(&socket->remote, address, sizeof socket->remote);
  socket->local = loopback(next_port_++);
  socket->state = Descriptor::State::kConnecting;
  socket->client = true;
  at(now_ + delay(), [this, socket] {
    if (socket->closed) return;
    const auto listener =
        std::find_if(descriptors_.begin(), descriptors_.end(), [&](const auto& entry) {
          return entry.second->state == Descriptor::State::kListening &&
                 entry.second->local.sin_port == socket->remote.sin_port;
        });
    if (listener == descriptors_.end()) {
      socket->pending_error = ECONNREFUSED;
      socket->broken = ECONNREFUSED;
      return;
    }
    const auto other = std::make_shared<Descriptor>();
    other->local = socket->remote;
    other->remote = socket->local;
    other->state = socket->state = Descriptor::State::kConnected;
    other->peer = socket;
    socket->peer = other;
    listener->second->backlog.push_back(other);
  });
  return fail(EINPROGRESS);
}

int Kernel::accept(int fd, sockaddr* address) {
  Descriptor* const listener = find(fd);
  if (listener == nullptr) return fail(EBADF);
  if (listener->backlog.empty()) return fail(EAGAIN);
  const Ref socket = listener->backlog.front();
  listener->backlog.pop_front();
  std::memcpy(address, &socket->remote, sizeof socket->remote);
  return add(socket);
}

int Kernel::name(int fd, sockaddr* address, bool peer) {
  const Descriptor* const socket = find(fd);
  if (socket == nullptr) return fail(EBADF);
  if (peer && socket->state != Descriptor::State::kConnected) return fail(ENOTCONN);
  std::memcpy(address, peer ? &socket->remote : &socket->local, sizeof socket->local);
  return 0;
}

int Kernel::take_error(int fd) {
  Descriptor* const socket = find(fd);
  return socket == nullptr ? EBADF : std::exchange(socket->pending_error, 0);
}

void Kernel::linger(int fd) {
  if (Descriptor* const socket = find(fd); socket != nullptr) socket->lingers = false;
}

// ---- bytes

int Kernel::unacknowledged(int fd) const {
  const Descriptor* const socket = find(fd);
  return socket == nullptr ? 0 : static_cast<int>(socket->under_way);
}

std::size_t Kernel::room(const Descriptor& sender) const {
  const Ref peer = sender.peer.lock();
  const std::size_t used =
      sender.under_way + (peer != nullptr && !peer->closed ? peer->unread.size() : 0);
  return used >= weather_.buffer ? 0 : weather_.buffer - used;
}

long Kernel::send(int fd, const void* data, std::size_t size) {
  const auto found = descriptors_.find(fd);
  if (found == descriptors_.end()) return fail(EBADF);
  const Ref& socket = found->second;
  if (socket->broken != 0) return fail(socket->broken);
  if (socket->state != Descriptor::State::kConnected) return fail(ENOTCONN);
  if (socket->write_closed) return fail(EPIPE);
  std::size_t count = std::min(size, room(*socket));
  // The start of a connection fits an empty buffer whole, as in a real kernel.
  const bool begins = socket->sent < 2048 && socket->under_way == 0;
  if (!begins) {
    if (weather_.spurious_blocking && below(8) == 0) count = 0;
    count = std::min(count, weather_.piece);
    if (count > 1 && below(3) == 0) count = 1 + below(count);
  }
  if (count == 0 && size > 0) return fail(EAGAIN);
  transport(socket, std::string(static_cast<const char*>(data), count));
  return static_cast<long>(count);
}

// An empty string is a FIN.
void Kernel::transport(const Ref& sender, std::string bytes) {
  const Ref peer = sender->peer.lock();
  const std::uint64_t begin = sender->sent;
  sender->sent += bytes.size();
  const bool hit = weather_.fault != Weather::Fault::kNone &&
                   sender->client == weather_.from_client && weather_.at >= begin &&
                   weather_.at < sender->sent;
  if (hit) {
    fault_happened_ = true;
    switch (weather_.fault) {
      case Weather::Fault::kCorrupt:
        bytes[weather_.at - begin] ^= static_cast<char>(1 << below(8));
        break;
      case Weather::Fault::kReset:
        bytes.resize(weather_.at - begin);
        at(std::max(sender->last_arrival, now_) + delay(),
           [sender] { break_both_now(sender, ECONNRESET); });
        break;
      case Weather::Fault::kSilence:
        bytes.resize(weather_.at - begin);
        sender->silent = true;
        if (peer != nullptr) peer->silent = true;
        at(now_ + kSenderNotices, [sender] { break_one(*sender, ETIMEDOUT); });
        at(now_ + kReaderNotices, [peer] {
          if (peer != nullptr) break_one(*peer, ETIMEDOUT);
        });
        break;
      case Weather::Fault::kNone:
        break;
    }
    if (bytes.empty() && weather_.fault != Weather::Fault::kCorrupt) return;
  }
  if (bytes.empty()) sender->write_closed = true;
  if (peer == nullptr || (sender->silent && !hit)) return;
  do {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + below(weather_.piece));
    std::string piece = bytes.substr(0, size);
    bytes.erase(0, size);
    sender->under_way += size;
    sender->last_arrival = std::max(sender->last_arrival, now_) + delay();
    at(sender->last_arrival, [this, sender, peer, piece = std::move(piece)]() mutable {
      sender->under_way -= piece.size();
      deliver(peer, std::move(piece));
    });
  } while (!bytes.empty());
}

void Kernel::deliver(const Ref& to, std::string bytes) {
  if (to->broken != 0) return;
  if (bytes.empty()) {
    to->read_closed = true;
  } else if (to->closed) {
    break_both(to, ECONNRESET);  // nobody is there to read it
  } else {
    to->unread += bytes;
  }
}

void Kernel::break_one(Descriptor& one, int error) {
  if (one.broken != 0) return;
  one.broken = one.pending_error = error;
}

void Kernel::break_both_now(const Ref& one, int error) {
  break_one(*one, error);
  if (const Ref peer = one->peer.lock(); peer != nullptr) break_one(*peer, error);
}

void Kernel::break_both(const Ref& one, int error) {
  at(now_ + delay(), [one, error] { break_both_now(one, error); });
}

long Kernel::receive(int fd, void* room, std::size_t size, bool peek) {
  Descriptor* const socket = find(fd);
  if (socket == nullptr) return fail(EBADF);
  if (socket->unread.empty()) {
    if (socket->broken != 0) return fail(socket->broken);
    if (socket->state != Descriptor::State::kConnected) return fail(ENOTCONN);
    return socket->read_closed ? 0 : fail(EAGAIN);
  }
  std::size_t count = std::min({size, socket->unread.size(), weather_.piece});
  if (!peek && count > 1 && below(4) == 0) count = 1 + below(count);
  std::memcpy(room, socket->unread.data(), count);
  if (!peek) socket->unread.erase(0, count);
  return static_cast<long>(count);
}

int Kernel::shutdown_write(int fd) {
  const auto found = descriptors_.find(fd);
  if (found == descriptors_.end()) return fail(EBADF);
  const Ref socket = found->second;
  if (socket->broken != 0 || socket->state != Descriptor::State::kConnected) return fail(ENOTCONN);
  if (!socket->write_closed) transport(socket, {});
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
  if (!descriptor.unread.empty() || descriptor.read_closed) ready |= EPOLLIN;
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
