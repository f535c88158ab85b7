// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/cm_active.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/io/lingering_close.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/iwarp/sender.h"
#include "providers/soft/iwarp/terminate.h"

namespace udapl::soft {

namespace {

// Where nobody listens: after 5, 10, 20 and 40 ms once more.
constexpr int kRetries = 4;
constexpr auto kFirstRetry = std::chrono::milliseconds(5);

// A socket that will connect from the host address `local`.
Fd make_socket(const transport::SocketAddress& local) noexcept {
  Fd fd =
      Fd::made(::socket(local.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd.valid()) return fd;
  const int on = 1;
  // The local port is chosen by connect(), which has more of them to choose from than bind(), and
  // does not keep a listener off that port.
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

bool lacks_resources(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
         error == EADDRNOTAVAIL || error == EAGAIN || error == EADDRINUSE;
}

// What an error of the socket before the end of the handshake means to the consumer.
ConnectFailure meaning(int error) noexcept {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EPROTO:
      return ConnectFailure::kRefused;
    default:  // ETIMEDOUT, ENETUNREACH, EHOSTUNREACH, ENETDOWN, EINVAL (from a loopback address)
              // ...
      return ConnectFailure::kUnreachable;
  }
}

void send_terminate(TcpStream& stream, iwarp::TerminateCode code, bool crc) noexcept {
  try {
    iwarp::TxBatch batch(0, 0);  // the least there is
    iwarp::Sender sender({crc, false, stream.effective_mss()});
    const iwarp::Terminate message = iwarp::make_terminate(code);
    sender.begin_terminate(message);
    sender.fill(batch);
    stream.send(batch.spans());  // all or nothing matters to nobody: the connection ends
  } catch (const std::bad_alloc&) {
    // The peer sees the connection end without a reason.
  }
}

}  // namespace

struct ActiveHandshake::Verdict {
  enum What : std::uint8_t { kNothing, kFailed, kAccepted } what = kNothing;
  ConnectFailure why = ConnectFailure::kRefused;
  std::unique_ptr<ByteStream> stream;
  iwarp::Agreed agreed;
  std::size_t data_size = 0;
  std::array<std::byte, iwarp::kMpaMaxPrivateData> data;  // the handshake may go while it is told
};

ActiveHandshake::ActiveHandshake(Reactor& reactor, const transport::SocketAddress& local,
                                 const transport::SocketAddress& remote,
                                 transport::PrivateData private_data,
                                 const iwarp::MpaConfig& config, const Settings& settings,
                                 ConnectionEnd& end)
    : reactor_(reactor),
      local_(local),
      remote_(remote),
      private_data_(private_data.begin(), private_data.end()),
      end_(end),
      peer_timeout_(settings.peer_timeout),
      path_(settings.path),
      config_(config),
      may_fall_back_(settings.revision1_fallback && config.revision > 1),
      timeout_(reactor, Call::to<&ActiveHandshake::on_timeout>(this)),
      retry_(reactor, Call::to<&ActiveHandshake::on_retry>(this)),
      failed_early_(reactor, Call::to<&ActiveHandshake::tell_failure>(this)) {}

ActiveHandshake::~ActiveHandshake() {
  timeout_.stop();
  retry_.stop();
  {
    const ScopedLock guard(lock_);
    state_ = State::kOver;
    stream_.reset();  // the peer sees the connection end
  }
  reactor_.quiesce(*this);
}

transport::Endpoints ActiveHandshake::endpoints() const noexcept {
  const ScopedLock guard(lock_);
  return endpoints_;
}

Status ActiveHandshake::start(DAT_TIMEOUT timeout_us) noexcept {
  const ScopedLock guard(lock_);  // keeps the first event back until everything is in place
  const Status status = begin_attempt();
  if (status.ok() && timeout_us != DAT_TIMEOUT_INFINITE)
    timeout_.start_after(std::chrono::microseconds(timeout_us));
  return status;
}

// A failure of the kind that a peer or the network causes is told later, also when it is known now.
Status ActiveHandshake::begin_attempt() noexcept {
  endpoints_.remote = remote_;
  endpoints_.remote_port = remote_.port();
  endpoints_.local = local_;
  Fd fd = make_socket(local_);
  int error = fd.valid() ? 0 : errno;
  if (error == 0) {
    if (::connect(fd.get(), remote_.get(), remote_.size()) != 0 && errno != EINPROGRESS)
      error = errno;
    try {
      stream_ = std::make_unique<TcpStream>(reactor_, std::move(fd), endpoints_);
    } catch (const std::bad_alloc&) {
      return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
  }
  if (error == 0) {
    stream_->set_peer_timeout(peer_timeout_);
    stream_->refresh_endpoints();
    endpoints_.local = stream_->endpoints().local;
    endpoints_.local_port = stream_->endpoints().local_port;
    return stream_->watch(EPOLLOUT, *this);
  }
  UDAPL_TRACE(kNormal, "cannot connect to %s: %s", to_text(remote_).c_str(),
              ErrnoText(error).c_str());
  if (schedule_retry(error)) return Status();
  stream_.reset();
  if (error == EAFNOSUPPORT || lacks_resources(error)) {
    const Status status = error == EAFNOSUPPORT
                              ? failure(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED)
                              : failure(DAT_INSUFFICIENT_RESOURCES);
    cause::note(status.code(), "cannot connect to %s: %s%s", to_text(remote_).c_str(),
                ErrnoText(error).c_str(), cause::remedy(error));
    return status;
  }
  early_failure_ = meaning(error);
  failed_early_.post();
  return Status();
}

bool ActiveHandshake::schedule_retry(int error) noexcept {
  if (error != ECONNREFUSED || retries_ == kRetries) return false;
  stream_.reset();
  retry_.start_after(kFirstRetry * (1 << retries_++));
  return true;
}

void ActiveHandshake::tell_failure() noexcept {
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kOver) return;
    fail(early_failure_, verdict);
  }
  announce(end, verdict);
}

void ActiveHandshake::on_timeout() noexcept {
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kOver) return;
    UDAPL_TRACE(kNormal, "connecting to %s: time is over", to_text(remote_).c_str());
    fail(ConnectFailure::kTimedOut, verdict);
  }
  announce(end, verdict);
}

void ActiveHandshake::on_retry() noexcept {
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kOver) return;
    if (!begin_attempt().ok()) fail(ConnectFailure::kRefused, verdict);
  }
  announce(end, verdict);
}

void ActiveHandshake::on_ready(std::uint32_t) noexcept {
  Verdict verdict;
  ConnectionEnd& end = end_;
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kConnecting)
      connected(verdict);
    else if (state_ == State::kAwaitingReply)
      receive_reply(verdict);
  }
  announce(end, verdict);
}

void ActiveHandshake::connected(Verdict& verdict) noexcept {
  if (const int error = stream_->pending_error(); error != 0) {
    UDAPL_TRACE(kNormal, "connecting to %s: %s", to_text(remote_).c_str(),
                ErrnoText(error).c_str());
    if (!schedule_retry(error)) fail(meaning(error), verdict);
    return;
  }
  stream_->refresh_endpoints();
  endpoints_ = stream_->endpoints();
  if (!offer_rings()) return fail(ConnectFailure::kUnreachable, verdict);
  std::array<std::byte, iwarp::kMpaMaxPrivateData + shm::kTokenSize> data;
  auto end = std::copy(private_data_.begin(), private_data_.end(), data.begin());
  if (offer_) end = std::copy(offer_->token.begin(), offer_->token.end(), end);
  iwarp::MpaFrame request = iwarp::make_request(config_, {data.begin(), end});
  request.rings = offer_.has_value();
  std::array<std::byte, iwarp::kMpaMaxFrameSize> frame;
  const std::size_t size = iwarp::encode(request, frame);
  // An empty socket buffer takes the frame whole, in one segment as some peers need it.
  const IoResult sent = stream_->send(std::span<const std::byte>(frame).first(size));
  if (sent.kind == IoResult::kBroken) return hung_up(sent.error, verdict);
  if (sent.kind != IoResult::kDone || sent.bytes != size)
    return fail(ConnectFailure::kUnreachable, verdict);
  state_ = State::kAwaitingReply;
  stream_->set_events(EPOLLIN);
}

// False: there must be shared memory, and there is none.
bool ActiveHandshake::offer_rings() noexcept {
  offer_.reset();
  if (path_ == Settings::Path::kTcp) return true;
  const char* why = "the private data leaves no room for it";
  const bool has_room = config_.revision >= 2 &&
                        private_data_.size() + shm::kTokenSize <= iwarp::max_private_data(true);
  if (has_room) offer_ = shm::make_offer(*remote_.get(), why);
  if (offer_) return true;
  UDAPL_TRACE(kDetail, "no shared memory with %s: %s", to_text(remote_).c_str(), why);
  if (path_ == Settings::Path::kAuto) return true;
  UDAPL_TRACE(kNormal, "not connecting to %s: path=shm, and %s", to_text(remote_).c_str(), why);
  return false;
}

// False: there must be shared memory, and the peer has not taken what was offered.
bool ActiveHandshake::take_path(const iwarp::MpaFrame& reply, Verdict& verdict) noexcept {
  if (!offer_ || !reply.rings) {
    verdict.stream = std::move(stream_);
    return path_ != Settings::Path::kShm;
  }
  auto* const rings =
      new (std::nothrow) RingStream(std::move(stream_), std::move(offer_->rings), peer_timeout_);
  verdict.stream.reset(rings);
  verdict.agreed.crc = verdict.agreed.markers_to_send = false;
  UDAPL_TRACE(kDetail, "shared memory with %s", to_text(remote_).c_str());
  return rings != nullptr;
}

void ActiveHandshake::receive_reply(Verdict& verdict) noexcept {
  switch (reader_.read(*stream_)) {
    case MpaReader::Progress::kMore:
      return;
    case MpaReader::Progress::kFrame:
      return evaluate_reply(verdict);
    case MpaReader::Progress::kEnded:
      return hung_up(ECONNRESET, verdict);
    case MpaReader::Progress::kBroken:
      return hung_up(reader_.error(), verdict);
    case MpaReader::Progress::kBad:
      UDAPL_TRACE(kNormal, "%s does not speak MPA: %s", to_text(remote_).c_str(),
                  iwarp::name(reader_.why()));
      return fail(ConnectFailure::kRefused, verdict);
  }
}

// A peer that knows only revision 1 closes the connection without an answer (RFC 6581 §6).
void ActiveHandshake::hung_up(int error, Verdict& verdict) noexcept {
  const bool closed = error == ECONNRESET || error == EPIPE;
  if (!closed || !may_fall_back_ || !reader_.empty()) return fail(meaning(error), verdict);
  UDAPL_TRACE(kNormal, "%s closed the connection: once more with MPA revision 1",
              to_text(remote_).c_str());
  may_fall_back_ = false;
  config_.revision = 1;
  stream_.reset();
  state_ = State::kConnecting;
  if (!begin_attempt().ok()) fail(ConnectFailure::kRefused, verdict);
}

void ActiveHandshake::evaluate_reply(Verdict& verdict) noexcept {
  const iwarp::MpaFrame reply = reader_.frame();
  const iwarp::MpaFrame request = iwarp::make_request(config_, {});
  const iwarp::ReplyResult result = iwarp::evaluate_reply(config_, request, reply);
  if (result.outcome == iwarp::ReplyOutcome::kRevisionMismatch) {
    reader_.clear();
    return hung_up(ECONNRESET, verdict);
  }
  if (result.outcome == iwarp::ReplyOutcome::kTerminate) {
    UDAPL_TRACE(kNormal, "%s: incompatible: %s", to_text(remote_).c_str(),
                iwarp::name(result.terminate));
    send_terminate(*stream_, result.terminate, request.crc || reply.crc);
    close_gently(std::move(stream_));
    return fail(ConnectFailure::kRefused, verdict);
  }
  std::memcpy(verdict.data.data(), reply.private_data.data(), reply.private_data.size());
  verdict.data_size = reply.private_data.size();
  if (result.outcome == iwarp::ReplyOutcome::kRejected)
    return fail(is_refusal(reply) ? ConnectFailure::kRefused : ConnectFailure::kRejected, verdict);
  state_ = State::kOver;
  timeout_.stop();
  retry_.stop();
  stream_->unwatch();
  verdict.what = Verdict::kAccepted;
  verdict.agreed = result.agreed;
  if (!take_path(reply, verdict)) fail(ConnectFailure::kUnreachable, verdict);
}

void ActiveHandshake::fail(ConnectFailure why, Verdict& verdict) noexcept {
  state_ = State::kOver;
  timeout_.stop();
  retry_.stop();
  stream_.reset();
  verdict.what = Verdict::kFailed;
  verdict.why = why;
}

// No member is used: the handshake is gone as soon as its Qp has been told.
void ActiveHandshake::announce(ConnectionEnd& end, Verdict& verdict) noexcept {
  const transport::PrivateData data(verdict.data.data(), verdict.data_size);
  switch (verdict.what) {
    case Verdict::kNothing:
      return;
    case Verdict::kFailed:
      return end.connect_failed(verdict.why, data);
    case Verdict::kAccepted: {
      const Status attached = end.attach(verdict.stream, {true, verdict.agreed, data, {}});
      static_cast<void>(attached);  // a Qp that was disconnected meanwhile
    }
  }
}

}  // namespace udapl::soft
