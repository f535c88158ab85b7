// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/cm_listener.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/cause.h"
#include "common/errno_text.h"
#include "providers/soft/socket_address.h"

namespace udapl::soft {

namespace {

constexpr int kBacklog = 1024;       // in TCP; the kernel lowers it to its own limit
constexpr int kAcceptsPerTurn = 32;  // then the other sockets have their turn
constexpr auto kRetryPause = std::chrono::milliseconds(100);  // when there are no descriptors
constexpr auto kPromptly = std::chrono::milliseconds(250);    // when a peer may have said something
constexpr unsigned kRequestCall = 0;

Status listen_failure(int error, bool any_port) noexcept {
  switch (error) {
    case EADDRINUSE:
      return failure(any_port ? DAT_CONN_QUAL_UNAVAILABLE : DAT_CONN_QUAL_IN_USE);
    case EACCES:
      return failure(DAT_CONN_QUAL_UNAVAILABLE);  // a privileged port
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EINVAL:
      return failure(DAT_INVALID_ADDRESS);
    default:
      return failure(DAT_INSUFFICIENT_RESOURCES);
  }
}

}  // namespace

TcpListener::TcpListener(Reactor& reactor, const Settings& settings, transport::ListenSink& sink)
    : reactor_(reactor),
      settings_(settings),
      sink_(sink),
      retry_(reactor, Call::to<&TcpListener::on_retry>(this)),
      gate_(reactor, SinkGate::to<&TcpListener::deliver, TcpListener>(), this) {}

TcpListener::~TcpListener() {
  {
    const ScopedLock guard(lock_);
    closing_ = true;
  }
  reactor_.unwatch(socket_.get(), *this);
  reactor_.quiesce(*this);
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
  gate_.close();
}

Status TcpListener::start(const transport::SocketAddress& place) noexcept {
  const bool any_port = place.port() == 0;
  const int on = 1;
  int error = 0;
  socket_ = Fd(::socket(place.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (socket_.valid()) {
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (place.family() == AF_INET6)
      ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (!socket_.valid() || ::bind(socket_.get(), place.get(), place.size()) != 0 ||
      ::listen(socket_.get(), kBacklog) != 0)
    error = errno;
  if (error != 0) {
    const Status status = listen_failure(error, any_port);
    UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "cannot listen at %s",
                        to_text(place).c_str());
    return status;
  }
  address_ = place;
  socklen_t size = sizeof address_.storage;
  ::getsockname(socket_.get(), address_.get(), &size);
  return reactor_.watch(socket_.get(), EPOLLIN, *this);
}

void TcpListener::on_ready(std::uint32_t) noexcept {
  for (int i = 0; i < kAcceptsPerTurn && accept_one(); ++i) {
  }
}

bool TcpListener::accept_one() noexcept {
  {
    const ScopedLock guard(lock_);
    if (closing_ || paused_) return false;
  }
  if (!make_room()) return false;
  transport::Endpoints endpoints;
  socklen_t size = sizeof endpoints.remote.storage;
  Fd fd(::accept4(socket_.get(), endpoints.remote.get(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return true;
    UDAPL_TRACE(kError, "cannot take connections at %s: %s", to_text(address_).c_str(),
                ErrnoText(errno).c_str());
    const ScopedLock guard(lock_);
    if (closing_) return false;
    pause();  // else the socket stays readable and we would spin
    retry_.start_after(kRetryPause);
    return false;
  }
  std::unique_ptr<TcpStream> stream(new (std::nothrow)
                                        TcpStream(reactor_, std::move(fd), endpoints));
  if (stream == nullptr) return false;
  stream->refresh_endpoints();
  std::unique_ptr<HalfOpen> half_open(new (std::nothrow)
                                          HalfOpen(*this, std::move(stream), settings_.crc));
  if (half_open == nullptr) return false;
  const ScopedLock guard(lock_);
  if (!half_open->start(settings_.handshake_time).ok()) return true;
  half_open_.push_back(*half_open.release());
  return true;
}

// A place for one more connection. Where all are taken a host that holds more than its share loses
// one; if there is no such host, everybody waits in TCP.
bool TcpListener::make_room() noexcept {
  HalfOpen* dropped = nullptr;
  {
    const ScopedLock guard(lock_);
    if (half_open_.size() < static_cast<std::size_t>(settings_.half_open_limit)) return true;
    dropped = hoarded();
    if (dropped == nullptr) {
      pause();
      retry_.start_after(kRetryPause);
      return false;
    }
    half_open_.erase(half_open_.iterator_to(*dropped));
  }
  UDAPL_TRACE(kNormal, "dropping %s: it has too many connections without an MPA Request",
              to_text(dropped->remote()).c_str());
  delete dropped;  // we are the driver: it is not running
  return true;
}

// The oldest that is its host's one too many and has had the time to send its Request; so a burst
// of good connections from one host loses nothing.
HalfOpen* TcpListener::hoarded() noexcept {
  const Clock::time_point now = Clock::now();
  for (HalfOpen& oldest : half_open_) {
    if (now - oldest.since() < kPromptly) return nullptr;
    const auto held = std::count_if(
        half_open_.begin(), half_open_.end(),
        [&](const HalfOpen& other) { return same_source(other.remote(), oldest.remote()); });
    if (held > settings_.half_open_per_host) return &oldest;
  }
  return nullptr;
}

void TcpListener::pause() noexcept {
  paused_ = true;
  reactor_.rewatch(socket_.get(), 0, *this);
}

void TcpListener::on_retry() noexcept {
  const ScopedLock guard(lock_);
  resume();
}

void TcpListener::resume() noexcept {
  if (!paused_ || closing_) return;
  paused_ = false;
  reactor_.rewatch(socket_.get(), EPOLLIN, *this);
}

void TcpListener::ended(HalfOpen& half_open, std::unique_ptr<TcpIncoming> request) noexcept {
  {
    const ScopedLock guard(lock_);
    if (!half_open.hook.is_linked()) return;  // the destructor has it; `request` is refused
    half_open_.erase(half_open_.iterator_to(half_open));
    resume();
    if (request != nullptr) {
      try {
        complete_.push_back(std::move(request));
        gate_.post(kRequestCall);
      } catch (const std::bad_alloc&) {
        UDAPL_TRACE(kError, "no memory for a connection request");
      }
    }
  }
  // The listener does not wait for what it has lost: it may be gone from here on.
  delete &half_open;
}

// One request a call: the sink may destroy this listener.
void TcpListener::deliver(unsigned) noexcept {
  std::unique_ptr<TcpIncoming> request;
  transport::ListenSink& sink = sink_;
  {
    const ScopedLock guard(lock_);
    if (complete_.empty()) return;
    request = std::move(complete_.front());
    complete_.pop_front();
    if (!complete_.empty()) gate_.post(kRequestCall);
  }
  sink.on_request(std::move(request));
}

}  // namespace udapl::soft
