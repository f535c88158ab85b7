// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/offer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>

namespace udapl::soft::shm {

namespace {

// The number is the version of the layout of the shared pages and of the protocol that uses them.
// Processes with different versions, as after an upgrade, do not find each other's boxes and use
// TCP.
constexpr char kPrefix[] = "udapl-soft/8/";
constexpr char kMark[] = "udaplshm";
constexpr std::size_t kMarkSize = sizeof kMark - 1;
static_assert(kMarkSize + 16 == kTokenSize);
constexpr int kBacklog = 1024;  // as the TCP listener's; the kernel lowers it to its own limit

constexpr char kNoDescriptor[] = "no descriptor or memory is left for an offer";

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

// Family, port, scope and address, as bytes: abstract names need not be text.
Name name_of(const sockaddr& listener) noexcept {
  Name name;
  name.address.sun_family = AF_UNIX;
  char* at = name.address.sun_path + 1;
  const auto add = [&](const void* bytes, std::size_t size) {
    std::memcpy(at, bytes, size);
    at += size;
  };
  add(kPrefix, sizeof kPrefix - 1);
  add(&listener.sa_family, sizeof listener.sa_family);
  if (listener.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &listener, sizeof v6);
    add(&v6.sin6_port, sizeof v6.sin6_port);
    add(&v6.sin6_scope_id, sizeof v6.sin6_scope_id);
    add(&v6.sin6_addr, sizeof v6.sin6_addr);
  } else {
    sockaddr_in v4;
    std::memcpy(&v4, &listener, sizeof v4);
    add(&v4.sin_port, sizeof v4.sin_port);
    add(&v4.sin_addr, sizeof v4.sin_addr);
  }
  name.size = static_cast<socklen_t>(at - reinterpret_cast<char*>(&name.address));
  return name;
}

UnsharedFd make_socket() noexcept {
  return UnsharedFd::made(
      [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

enum class Place : std::uint8_t { kThisHost, kElsewhere, kUnknown };

// Tells whether an address is one of this host. The box does not tell: any local process may have
// bound the abstract name of a remote address. kUnknown: no descriptor or memory is left to find
// out.
Place place_of(const sockaddr& listener) noexcept {
  sockaddr_storage place{};
  const socklen_t size =
      listener.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&place, &listener, size);
  if (listener.sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(place).sin6_port = 0;
  else
    reinterpret_cast<sockaddr_in&>(place).sin_port = 0;
  const Fd probe = Fd::made(::socket(listener.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return Place::kUnknown;
  const bool here = ::bind(probe.get(), reinterpret_cast<sockaddr*>(&place), size) == 0;
  return here ? Place::kThisHost : Place::kElsewhere;
}

Token make_token() noexcept {
  Token token{};
  std::memcpy(token.data(), kMark, kMarkSize);
  if (::getrandom(token.data() + kMarkSize, kTokenSize - kMarkSize, GRND_NONBLOCK) !=
      static_cast<ssize_t>(kTokenSize - kMarkSize))
    token = Token{};
  return token;
}

// Room for a descriptor, aligned for a cmsghdr.
union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

bool send_with(int socket, const Token& token, int descriptor) noexcept {
  iovec part{const_cast<std::byte*>(token.data()), token.size()};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(token.size());
}

// Receives a token that has arrived, and returns the descriptor that came with it; invalid if none
// did.
Fd receive_descriptor(int socket) noexcept {
  Token token;
  iovec part{token.data(), token.size()};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // the kernel closes further descriptors
  if (::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return {};
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return Fd::made(descriptor);
}

}  // namespace

bool looks_like_token(std::span<const std::byte> bytes) noexcept {
  return bytes.size() == kTokenSize && std::memcmp(bytes.data(), kMark, kMarkSize) == 0;
}

std::optional<Offer> make_offer(const sockaddr& listener, NoOffer& failure) noexcept {
  failure = NoOffer();
  const Name name = name_of(listener);
  UnsharedFd socket = make_socket();
  if (!socket.valid()) {
    failure.why = kNoDescriptor;
    return std::nullopt;
  }
  const bool connected = ::connect(socket.get(), name.get(), name.size) == 0;
  const bool full = !connected && errno == EAGAIN;
  if (!connected && !full) {
    failure.why = "no listener there accepts offers of shared memory";
    return std::nullopt;
  }
  if (const Place place = place_of(listener); place != Place::kThisHost) {
    failure.why = place == Place::kElsewhere ? "it is not on this host" : kNoDescriptor;
    return std::nullopt;
  }
  if (full) {
    failure.why = "too many offers of shared memory wait there";
    failure.later = true;
    return std::nullopt;
  }
  const Token token = make_token();
  Region region = Region::make(Layout::kSize);
  if (!region.valid() || !looks_like_token(token)) {
    failure.why = "no shared memory is available";
    return std::nullopt;
  }
  // The initial state of everything else is zero, so pages that are not needed yet are not
  // allocated.
  auto* const layout = reinterpret_cast<Layout*>(region.bytes().data());
  for (RingControl& control : layout->control) control.reader_sleeps.store(1);
  if (!send_with(socket.get(), token, region.fd())) {
    failure.why = "the offer of shared memory cannot be sent";
    return std::nullopt;
  }
  return Offer{Rings(std::move(socket), std::move(region), true), token};
}

// ---- the box ------------------------------------------------------------------------------------

constinit std::atomic<std::size_t> OfferBox::held_{0};

bool OfferBox::open(const sockaddr& listener, std::size_t share) noexcept {
  const Name name = name_of(listener);
  share_ = std::min(share, kMax);
  socket_ = make_socket();
  try {
    pending_.reserve(kMin + kMax);
  } catch (const std::bad_alloc&) {
    socket_.reset();
  }
  if (socket_.valid() && ::bind(socket_.get(), name.get(), name.size) == 0 &&
      ::listen(socket_.get(), kBacklog) == 0)
    return true;
  const int error = errno;
  socket_.reset();
  errno = error;
  return false;
}

// shutdown(), because a child that has just been forked may still keep the socket open.
void OfferBox::close() noexcept {
  if (socket_.valid()) ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
  held_.fetch_sub(pending_.size(), std::memory_order_relaxed);
  pending_.clear();
}

// Reads the token of an offer, if it has arrived, and leaves the message with its descriptor in the
// socket. Returns false if the offer is unusable.
bool OfferBox::look_at(PendingOffer& offer) noexcept {
  if (offer.arrived) return true;
  const ssize_t got =
      ::recv(offer.socket.get(), offer.token.data(), offer.token.size(), MSG_DONTWAIT | MSG_PEEK);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  offer.arrived = got == static_cast<ssize_t>(offer.token.size());
  return offer.arrived;
}

void OfferBox::drop(std::size_t place) noexcept {
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(place));
  held_.fetch_sub(1, std::memory_order_relaxed);
}

void OfferBox::drop_gone() noexcept {
  for (std::size_t place = pending_.size(); place-- != 0;) {
    pollfd peer{pending_[place]->socket.get(), 0, 0};
    if (::poll(&peer, 1, 0) > 0 && (peer.revents & POLLHUP) != 0) drop(place);
  }
}

Rings OfferBox::take_from(std::size_t place) noexcept {
  const std::unique_ptr<PendingOffer> found = std::move(pending_[place]);
  drop(place);
  Region region = Region::adopt(receive_descriptor(found->socket.get()), Layout::kSize);
  if (!region.valid()) return {};
  return {std::move(found->socket), std::move(region), false};
}

Rings OfferBox::take(std::span<const std::byte> token) noexcept {
  if (!socket_.valid() || !looks_like_token(token)) return {};
  std::size_t place = 0;
  for (int looks = 0; looks < kMaxLooks; ++looks) {
    if (place == pending_.size() && !accept_one(place)) return {};
    PendingOffer& offer = *pending_[place];
    if (!look_at(offer))
      drop(place);
    else if (offer.arrived && std::equal(token.begin(), token.end(), offer.token.begin()))
      return take_from(place);
    else
      ++place;
  }
  return {};
}

// Whether one more offer may be held. A hostile process that fills one box does not take the kMin
// places of other boxes.
bool OfferBox::has_room() const noexcept {
  return pending_.size() < kMin ||
         (pending_.size() < kMin + kMax && held_.load(std::memory_order_relaxed) < share_);
}

// Accepts the next waiting offer and appends it to pending_. If there is no room, drops the oldest
// offer first and decrements `place`. Returns false if there is none, or if descriptors or memory
// are short.
bool OfferBox::accept_one(std::size_t& place) noexcept {
  UnsharedFd socket = UnsharedFd::made(
      [this] { return ::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (!socket.valid()) return false;
  std::unique_ptr<PendingOffer> offer(new (std::nothrow)
                                          PendingOffer{std::move(socket), false, {}});
  if (offer == nullptr) return false;
  if (!has_room()) {
    drop(0);
    --place;
  }
  pending_.push_back(std::move(offer));
  held_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace udapl::soft::shm
