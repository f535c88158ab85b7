// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/cm/listener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/errno_text.h"
#include "common/fork.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace_limit.h"
#include "providers/connecting/failures.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/io/descriptor_limit.h"

namespace udapl::soft {

namespace {

constexpr int kBacklog = 1024;                   // in TCP; the kernel lowers it to its own limit
constexpr int kAcceptsPerTurn = 32;              // afterwards other sockets are handled
constexpr std::size_t kDescriptorsPerOffer = 4;  // unclaimed offers may hold a quarter of them
constexpr auto kRetryPause = std::chrono::milliseconds(100);  // until accepting is tried again
constexpr auto kOffersKept = std::chrono::seconds(2);  // until offers of gone peers are dropped
constexpr auto kRequestGrace = std::chrono::milliseconds(250);  // for a peer to send its Request

// Whether a connection waits to be accepted.
bool has_waiting(int listener) noexcept {
  pollfd query{listener, POLLIN, 0};
  return ::poll(&query, 1, 0) != 0;
}

// Whether the error of accept() concerns a single connection, which has then been removed. Other
// errors concern the next connections as well: lack of descriptors or memory, a security module, a
// sandbox.
bool concerns_one_connection(int error) noexcept {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
      return true;
    default:
      return false;
  }
}

}  // namespace

TcpListener::TcpListener(Reactor& reactor, const Settings& settings, AccessViolations& violations,
                         transport::ListenSink& sink)
    : reactor_(reactor),
      settings_(settings),
      violations_(violations),
      complete_(reactor, sink),
      retry_(reactor, Call::to<&TcpListener::on_retry>(this)),
      offers_due_(reactor, Call::to<&TcpListener::on_offers_due>(this)) {}

TcpListener::~TcpListener() {
  {
    const ScopedLock guard(lock_);
    closing_ = true;
  }
  reactor_.unwatch(socket_.get(), *this);
  reactor_.quiesce(*this);
  // A child that has just been forked may still keep the socket open.
  if (forks::descriptors_may_be_shared()) ::shutdown(socket_.get(), SHUT_RD);
  socket_.reset();
  while (true) {
    HalfOpen* half_open = nullptr;
    {
      const ScopedLock guard(lock_);
      if (half_open_.empty()) break;
      half_open = &half_open_.front();
      half_open_.pop_front();
    }
    delete half_open;
  }
  complete_.close();
}  // closes offers_, which HalfOpen objects and the timer have used until now

Status TcpListener::start(transport::SocketAddress place, DAT_CONN_QUAL conn_qual) noexcept {
  place.set_port(transport::port_of(conn_qual));
  const int on = 1;
  int error = 0;
  socket_ = UnsharedFd::made([&] {
    return ::socket(place.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  });
  if (socket_.valid()) {
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (place.family() == AF_INET6)
      ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (!socket_.valid() || !bind_to(place) || ::listen(socket_.get(), kBacklog) != 0) error = errno;
  if (error != 0) {
    const Status status = listen_failure(error, conn_qual == 0);
    UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "cannot listen at %s (qualifier %llu)",
                        to_text(place).c_str(), static_cast<unsigned long long>(conn_qual));
    return status;
  }
  address_ = place;
  socklen_t size = sizeof address_.storage;
  ::getsockname(socket_.get(), address_.get(), &size);
  conn_qual_ = conn_qual != 0 ? conn_qual : address_.port();
  open_box();
  return reactor_.watch(socket_.get(), EPOLLIN, *this);
}

// Returns false with errno set. Changes the port of `place` if this user may not use it.
bool TcpListener::bind_to(transport::SocketAddress& place) noexcept {
  if (::bind(socket_.get(), place.get(), place.size()) == 0) return true;
  const std::uint16_t open_to_all = port_for_users(place.port());
  if (errno != EACCES || open_to_all == 0) return false;
  place.set_port(open_to_all);
  return ::bind(socket_.get(), place.get(), place.size()) == 0;
}

void TcpListener::open_box() noexcept {
  if (settings_.path == Settings::Path::kTcp) return;
  if (offers_.open(*address_.get(), descriptor_limit() / kDescriptorsPerOffer)) return;
  UDAPL_TRACE(kNormal, "no shared memory for peers of this host at %s: %s",
              to_text(address_).c_str(), ErrnoText(errno).c_str());
}

// Leaves the last descriptors of the process unused, so that unknown peers cannot take them.
void TcpListener::on_ready(std::uint32_t) noexcept {
  const std::size_t free = unreserved_descriptors(socket_.get());
  if (free == 0) return on_refused(EMFILE);
  const std::size_t accepts = std::min<std::size_t>(kAcceptsPerTurn, free);
  for (std::size_t i = 0; i < accepts && accept_one(); ++i) {
  }
}

bool TcpListener::accept_one() noexcept {
  {
    const ScopedLock guard(lock_);
    if (closing_ || pause_ != Pause::kNone) return false;
  }
  if (!make_room()) return false;
  transport::Endpoints endpoints;
  socklen_t size = sizeof endpoints.remote.storage;
  UnsharedFd fd = UnsharedFd::made([&] {
    return ::accept4(socket_.get(), endpoints.remote.get(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  });
  if (fd.valid()) {
    {
      const ScopedLock guard(lock_);
      refused_ = false;
    }
    begin(std::move(fd), endpoints);
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
  if (concerns_one_connection(errno)) return true;
  on_refused(errno);
  return false;
}

// The box also takes in the offers that came before the wanted one. If the peer of one of these was
// killed before its Request arrived, the offer is never claimed. A timer drops such offers, because
// there may be no further connection whose offer would replace them.
shm::Rings TcpListener::take_offer(std::span<const std::byte> token) noexcept {
  shm::Rings rings = offers_.take(token);
  if (offers_.holds_any() && !std::exchange(offers_watched_, true))
    offers_due_.start_after(kOffersKept);
  return rings;
}

void TcpListener::on_offers_due() noexcept {
  offers_.drop_gone();
  offers_watched_ = offers_.holds_any();
  const ScopedLock guard(lock_);
  if (offers_watched_ && !closing_) offers_due_.start_after(kOffersKept);
}

// Makes a HalfOpen of an accepted connection. If that fails, the connection is closed.
void TcpListener::begin(UnsharedFd socket, const transport::Endpoints& endpoints) noexcept {
  std::unique_ptr<TcpStream> stream(new (std::nothrow)
                                        TcpStream(reactor_, std::move(socket), endpoints));
  if (stream == nullptr) return on_no_memory(endpoints);
  if (violations_.too_many(endpoints.remote)) return stream->abort_on_close();
  stream->refresh_endpoints();
  stream->set_peer_timeout(settings_.peer_timeout);
  std::unique_ptr<HalfOpen> half_open(new (std::nothrow) HalfOpen(*this, std::move(stream)));
  if (half_open == nullptr) return on_no_memory(endpoints);
  const ScopedLock guard(lock_);
  if (half_open->start(settings_.handshake_time).ok()) half_open_.push_back(*half_open.release());
}

void TcpListener::on_no_memory(const transport::Endpoints& endpoints) noexcept {
  static constinit trace::RateLimit limit;
  UDAPL_TRACE_LIMITED(limit, kError, "no memory for a connection from %s",
                      to_text(endpoints.remote).c_str());
}

// Makes room for one more connection: if the limit is reached, drops the oldest connection of the
// network that has most. Returns false if that connection is still too young; new connections then
// wait in the TCP backlog.
bool TcpListener::make_room() noexcept {
  HalfOpen* dropped = nullptr;
  {
    const ScopedLock guard(lock_);
    if (half_open_.size() < static_cast<std::size_t>(settings_.half_open_limit)) return true;
    if (!has_waiting(socket_.get())) return false;
    dropped = oldest_of_largest_network();
    if (Clock::now() - dropped->since() < kRequestGrace) {
      pause(Pause::kPlace);
      return false;
    }
  }
  // This is the driving thread, so no callback of `dropped` is running, and the destructor of this
  // listener, in another thread, waits for the running callback.
  dropped->drop("its network has most connections without an MPA Request");
  return true;
}

// REQUIRES: there is at least one half-open connection, and there are at most kMaxHalfOpen.
HalfOpen* TcpListener::oldest_of_largest_network() noexcept {
  struct Place {
    Network network;
    HalfOpen* half_open;
  };
  std::array<Place, Settings::kMaxHalfOpen> places;
  std::size_t count = 0;
  for (HalfOpen& half_open : half_open_) places[count++] = {half_open.network(), &half_open};
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(count);
  // A stable sort keeps the order of the list within each network: the oldest first.
  std::stable_sort(places.begin(), end,
                   [](const Place& a, const Place& b) { return a.network < b.network; });
  HalfOpen* oldest = nullptr;
  std::ptrdiff_t most = 0;
  for (auto first = places.begin(); first != end;) {
    const auto next = std::find_if(
        first, end, [&](const Place& place) { return place.network != first->network; });
    const std::ptrdiff_t held = next - first;
    if (held > most || (held == most && first->half_open->since() < oldest->since())) {
      most = held;
      oldest = first->half_open;
    }
    first = next;
  }
  return oldest;
}

// Called when the system refuses accept(). Pauses accepting, because the socket stays readable, and
// the driving thread would spin.
void TcpListener::on_refused(int error) noexcept {
  static constinit trace::RateLimit limit;
  const ScopedLock guard(lock_);
  if (closing_) return;
  if (!std::exchange(refused_, true))
    UDAPL_TRACE_LIMITED(
        limit, kError, "not accepting connections at %s for now: %s", to_text(address_).c_str(),
        error == EMFILE ? "the process has run out of descriptors" : ErrnoText(error).c_str());
  pause(Pause::kRefused);
}

void TcpListener::pause(Pause reason) noexcept {
  pause_ = reason;
  reactor_.rewatch(socket_.get(), 0, *this);
  retry_.start_after(kRetryPause);
}

void TcpListener::on_retry() noexcept {
  const ScopedLock guard(lock_);
  resume();
}

void TcpListener::resume() noexcept {
  if (pause_ == Pause::kNone || closing_) return;
  pause_ = Pause::kNone;
  reactor_.rewatch(socket_.get(), EPOLLIN, *this);
}

void TcpListener::ended(HalfOpen& half_open, RequestQueue::Request request) noexcept {
  {
    const ScopedLock guard(lock_);
    if (!half_open.hook.is_linked()) return;  // the destructor deletes it; `request` is refused
    half_open_.erase(half_open_.iterator_to(half_open));
    if (pause_ == Pause::kPlace) resume();
    if (request != nullptr && !complete_.add(request)) {
      static constinit trace::RateLimit no_memory;
      UDAPL_TRACE_LIMITED(no_memory, kError, "no memory for a connection request");
    }
  }
  // The destructor does not wait for an object that is no longer in the list, so *this may be
  // destroyed from here on.
  delete &half_open;
}

}  // namespace udapl::soft
