// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// TcpHandshake: the TCP connection, time limits, and the report of the outcome.
#include "providers/soft/cm/handshake.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/connecting/failures.h"
#include "providers/connecting/socket_address.h"

namespace udapl::soft {

namespace {

// If there is no listener, or it has ended, another attempt follows after 5, 10, 20 and 40 ms.
constexpr int kRetries = 4;
// If the Request was lost, another attempt follows after 5 ms, 10 ms and so on; without a time
// limit, eight times.
constexpr int kLossesWithoutLimit = 8;
constexpr auto kLongestPause = std::chrono::seconds(1);
// If there is a time limit, TCP repeats a SYN twice and then gives up, after 3 or 7 s in all, and
// another attempt follows. TCP alone would double its pauses, up to a minute, and so find a host
// that has returned much later.
constexpr int kSynRetries = 2;
// A peer that does not know the revision ends the connection at once. A listener that gets no
// Request drops the connection later: a listener of this provider after 250 ms or more.
constexpr auto kAtOnce = std::chrono::milliseconds(200);
constexpr auto kSoon = std::chrono::seconds(1);

// Returns a socket that will connect from the host address `local`.
UnsharedFd make_socket(const transport::SocketAddress& local) noexcept {
  UnsharedFd fd = UnsharedFd::made([&] {
    return ::socket(local.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  });
  if (!fd.valid()) return fd;
  const int on = 1;
  // Lets connect() choose the local port: it has more ports to choose from than bind(), and does
  // not prevent a listener from using that port.
  ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  transport::SocketAddress from = local;
  from.set_port(0);
  if (::bind(fd.get(), from.get(), from.size()) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

// Returns 0 if the socket is connected or will report the outcome later. bind() has shown that the
// local address exists, so EADDRNOTAVAIL from connect() means that no port is free.
int begin_connect(const UnsharedFd& fd, const transport::SocketAddress& to) noexcept {
  if (::connect(fd.get(), to.get(), to.size()) == 0 || errno == EINPROGRESS) return 0;
  return errno == EADDRNOTAVAIL ? EADDRINUSE : errno;
}

}  // namespace

// Returns the failure to report to the consumer for a socket error before the end of the handshake.
SetupFailure TcpHandshake::meaning(int error) noexcept {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EPROTO:
      return SetupFailure::kRefused;
    default:  // ETIMEDOUT, EHOSTUNREACH and others; EINVAL from a loopback address
      return SetupFailure::kUnreachable;
  }
}

TcpHandshake::TcpHandshake(Reactor& reactor, const transport::SocketAddress& local,
                           const transport::SocketAddress& remote,
                           transport::PrivateData private_data, const iwarp::MpaConfig& config,
                           const Settings& settings, ConnectionEnd& end)
    : reactor_(reactor),
      local_(local),
      asked_(remote),
      private_data_(private_data.begin(), private_data.end()),
      end_(end),
      subject_(trace::this_thread().subject),
      peer_timeout_(settings.peer_timeout),
      direct_(settings.direct),
      path_(settings.path),
      revision_(config.revision),
      may_fall_back_(settings.revision1_fallback),
      remote_(remote),
      config_(config),
      timeout_(reactor, Call::to<&TcpHandshake::on_timeout>(this)),
      retry_(reactor, Call::to<&TcpHandshake::on_retry>(this)),
      failed_early_(reactor, Call::to<&TcpHandshake::report_failure>(this)) {}

TcpHandshake::~TcpHandshake() {
  timeout_.stop();
  retry_.stop();
  {
    const ScopedLock guard(lock_);
    state_ = State::kOver;
    stream_.reset();  // the peer sees the connection end
  }
  reactor_.quiesce(*this);
}

transport::Endpoints TcpHandshake::endpoints() const noexcept {
  const ScopedLock guard(lock_);
  return endpoints_;
}

Status TcpHandshake::start(DAT_TIMEOUT timeout_us) noexcept {
  const ScopedLock guard(lock_);  // delays the first event until everything is set up
  limited_ = timeout_us != DAT_TIMEOUT_INFINITE;
  const Status status = begin_attempt();
  if (status.ok() && limited_) timeout_.start_after(std::chrono::microseconds(timeout_us));
  return status;
}

// Begins to connect. Returns only local errors. A failure that the peer or the network has caused
// is reported later, even if connect() returns it.
Status TcpHandshake::begin_attempt() noexcept {
  began_ = Clock::now();
  endpoints_.remote = remote_;
  endpoints_.remote_port = remote_.port();
  endpoints_.local = local_;
  UnsharedFd fd = make_socket(local_);
  int error = fd.valid() ? 0 : errno;
  if (error == 0) {
    if (limited_) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_SYNCNT, &kSynRetries, sizeof kSynRetries);
    if (same_host(local_, remote_)) TcpStream::choose_unpaced(fd.get());
    error = begin_connect(fd, remote_);
    try {
      stream_ = std::make_unique<TcpStream>(reactor_, std::move(fd), endpoints_);
    } catch (const std::bad_alloc&) {
      return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
  }
  if (error == 0) {
    stream_->refresh_endpoints();
    endpoints_.local = stream_->endpoints().local;
    endpoints_.local_port = stream_->endpoints().local_port;
    return stream_->watch(EPOLLOUT, *this);
  }
  UDAPL_TRACE(kNormal, "cannot connect to %s: %s", to_text(remote_).c_str(),
              ErrnoText(error).c_str());
  if (schedule_retry(error)) return Status();
  stream_.reset();
  if (const Status status = connect_failure(error); !status.ok()) {
    cause::note(status.code(), "cannot connect to %s: %s%s", to_text(remote_).c_str(),
                ErrnoText(error).c_str(), cause::remedy(error));
    return status;
  }
  early_failure_ = meaning(error);
  failed_early_.post();
  return Status();
}

// After a reset, bytes that the peer's host had not acknowledged still count as unacknowledged.
bool TcpHandshake::ended_on_request() const noexcept {
  return state_ == State::kAwaitingReply && stream_->unacknowledged() == 0 &&
         Clock::now() - began_ < kSoon;
}

// If the end came at once, the Request need not be acknowledged: an adapter that implements TCP
// itself may acknowledge the Request only with its reset.
bool TcpHandshake::may_be_an_answer() const noexcept {
  return Clock::now() - began_ < kAtOnce || ended_on_request();
}

// Called after "host unreachable": whether the host may answer later. A host that has not answered
// ARP may. If a router reports that it has no route, the failure comes at once, and again in the
// next attempt. A single failure at once does not count: the kernel reports one if ARP had begun
// for another connect.
bool TcpHandshake::may_appear() noexcept {
  const bool at_once = Clock::now() - began_ < kSoon;
  return !std::exchange(unreachable_at_once_, at_once) || !at_once;
}

// Returns the address and port to try after so many refusals: first those that the consumer has
// named. A listener on this host may be bound to the adapter's address only, while the host's name
// stands for another address. And the listener of an ordinary user may have another port than that
// of a low qualifier.
transport::SocketAddress TcpHandshake::place_after(int refusals) const noexcept {
  const std::uint16_t other_port = port_for_users(asked_.port());
  const bool here = (is_loopback(local_) || is_loopback(asked_)) && !same_host(local_, asked_);
  const int ports = other_port != 0 ? 2 : 1;
  const int turn = refusals % (here ? 2 * ports : ports);
  transport::SocketAddress place = turn < ports ? asked_ : local_;
  place.set_port(turn % ports == 0 ? asked_.port() : other_port);
  return place;
}

bool TcpHandshake::schedule_retry(int error) noexcept {
  Clock::duration pause = kFirstRetry;
  if (error == ECONNREFUSED && retries_ != kRetries) {
    pause *= 1 << retries_++;
    remote_ = place_after(retries_);
  } else if (error == ECONNRESET && !may_be_an_answer()) {
    if (!limited_ && losses_ == kLossesWithoutLimit) return false;
    pause = std::min<Clock::duration>(pause * (1 << losses_), kLongestPause);
    losses_ = std::min(losses_ + 1, kLossesWithoutLimit);
    resets_ = 0;
  } else if (error == ECONNRESET && resets_ != kRetries) {
    pause *= 1 << resets_++;
  } else if (!limited_ || (error != ETIMEDOUT && (error != EHOSTUNREACH || !may_appear()))) {
    return false;
  }
  config_.revision = revision_;  // the next listener may be another peer
  stream_.reset();
  state_ = State::kConnecting;
  retry_.start_after(pause);
  return true;
}

void TcpHandshake::report_failure() noexcept {
  const trace::About about(subject_);
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kOver) return;
    fail(early_failure_, verdict);
  }
  announce(end, verdict);
}

void TcpHandshake::on_timeout() noexcept {
  const trace::About about(subject_);
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kOver) return;
    // The Reply may have arrived while the process was stopped, and not been read.
    if (state_ == State::kAwaitingReply) receive_reply(verdict);
    if (verdict.what == Verdict::kNothing) {
      UDAPL_TRACE(kNormal, "connecting to %s: timed out", to_text(remote_).c_str());
      fail(SetupFailure::kTimedOut, verdict);
    }
  }
  announce(end, verdict);
}

void TcpHandshake::on_retry() noexcept {
  const trace::About about(subject_);
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kOver) return;
    if (state_ == State::kAwaitingOffer)
      connected(verdict);
    else if (!begin_attempt().ok())
      fail(SetupFailure::kRefused, verdict);
  }
  announce(end, verdict);
}

void TcpHandshake::on_ready(std::uint32_t) noexcept {
  const trace::About about(subject_);
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kConnecting || state_ == State::kAwaitingOffer)
      connected(verdict);
    else if (state_ == State::kAwaitingReply)
      receive_reply(verdict);
  }
  announce(end, verdict);
}

void TcpHandshake::fail(SetupFailure why, Verdict& verdict) noexcept {
  state_ = State::kOver;
  timeout_.stop();
  retry_.stop();
  stream_.reset();
  verdict.what = Verdict::kFailed;
  verdict.why = why;
}

// Uses no members: the Qp may destroy the handshake in the call.
void TcpHandshake::announce(ConnectionEnd& end, Verdict& verdict) noexcept {
  const transport::PrivateData data(verdict.data.data(), verdict.data_size);
  switch (verdict.what) {
    case Verdict::kNothing:
      return;
    case Verdict::kFailed:
      return end.on_failed(verdict.why, data);
    case Verdict::kAccepted: {
      const Status attached = end.attach(verdict.stream, {true, verdict.agreed, data, {}});
      static_cast<void>(attached);  // fails if the Qp was disconnected meanwhile
    }
  }
}

}  // namespace udapl::soft
