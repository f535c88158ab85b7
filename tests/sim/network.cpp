// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Kernel: TCP connections, the bytes that pass through them, and the effects of the weather.
#include "tests/sim/descriptor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace udapl::sim {

namespace {

constexpr auto kSenderNotices = std::chrono::seconds(20);  // peer_timeout
constexpr auto kReaderNotices = std::chrono::seconds(40);  // keepalive
constexpr auto kStalledReader = std::chrono::seconds(1);   // shorter than every time limit
constexpr auto kLongStall = std::chrono::seconds(60);      // longer than every time limit

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

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
  // The first bytes of a connection always fit into the empty buffer, as in a real kernel.
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
    fault_injected_ = true;
    fault_happened_ = fault_happened_ || weather_.fault != Weather::Fault::kStalledReader;
    switch (weather_.fault) {
      case Weather::Fault::kCorrupt:
        bytes[weather_.at - begin] ^= static_cast<char>(1 << below(8));
        break;
      case Weather::Fault::kReset:
        bytes.resize(weather_.at - begin);
        sender->silent = true;  // bytes sent before the reset is noticed must not arrive after it
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
      case Weather::Fault::kStalledReader:
      case Weather::Fault::kLongStall:
        stop_reading(sender, peer);
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

// The application of the receiving end reads nothing for a while. A sender whose buffers stay full
// for too long gives up.
void Kernel::stop_reading(const Ref& sender, const Ref& reader) {
  if (reader == nullptr) return;
  const bool long_time = weather_.fault == Weather::Fault::kLongStall;
  reader->stalled_until = now_ + (long_time ? kLongStall : kStalledReader);
  at(reader->stalled_until, [] {});  // so that the clock gets there
  if (!long_time) return;
  at(now_ + kSenderNotices, [this, sender, reader] {
    if (room(*sender) != 0) return;
    break_one(*sender, ETIMEDOUT);
    at(now_ + kReaderNotices, [reader] { break_one(*reader, ECONNRESET); });
  });
}

void Kernel::deliver(const Ref& to, std::string bytes) {
  if (to->broken != 0) return;
  if (bytes.empty()) {
    to->read_closed = true;
  } else if (to->closed) {
    break_both(to, ECONNRESET);  // no application reads it
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
  if (socket->stalled_until > now_) return fail(EAGAIN);
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

}  // namespace udapl::sim
