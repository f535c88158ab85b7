// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/cm/incoming.h"

#include <array>
#include <new>

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "dapl/transport/qp.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/cm/connector.h"
#include "providers/soft/cm/listener.h"
#include "providers/soft/connector.h"
#include "providers/soft/io/lingering_close.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/iwarp/mpa_negotiation.h"

namespace udapl::soft {

// ---- a complete request ------------------------------------------------------------------------

namespace {

// Returns the token behind the consumer's part of a Request's private data; empty if there is none.
std::span<const std::byte> token_of(const iwarp::MpaFrame& request) noexcept {
  if (!request.rings || request.private_data.size() < shm::kTokenSize) return {};
  const std::span<const std::byte> last = request.private_data.last(shm::kTokenSize);
  return shm::looks_like_token(last) ? last : std::span<const std::byte>{};
}

const char* why_not_shared(const Settings& settings, std::span<const std::byte> token) noexcept {
  if (settings.path == Settings::Path::kTcp) return "path=tcp is set";
  return token.empty() ? "it has offered none" : "its offer is not here, or cannot be mapped";
}

iwarp::MpaFrame without_token(iwarp::MpaFrame request) noexcept {
  const std::size_t token = token_of(request).size();
  request.private_data = request.private_data.first(request.private_data.size() - token);
  return request;
}

}  // namespace

TcpIncoming::TcpIncoming(std::unique_ptr<TcpStream> stream, const MpaReader& reader,
                         shm::Rings rings, const Settings& settings) noexcept
    : reactor_(stream->reactor()),
      fd_(stream->fd()),
      reader_(reader),
      request_(without_token(reader_.frame())),
      endpoints_(stream->endpoints()),
      crc_(settings.crc),
      direct_(settings.direct),
      rings_(std::move(rings)) {
  wait(std::move(stream));
}

TcpIncoming::~TcpIncoming() {
  if (std::unique_ptr<TcpStream> stream = take(); stream != nullptr) {
    UDAPL_TRACE(kNormal, "refusing %s: neither accepted nor rejected",
                to_text(endpoints_.remote).c_str());
    answer(*stream, make_refusal(request_));
    close_gently(std::move(stream), LingerKind::kStranger);
  }
  reactor_.quiesce(*this);
}

// Watches the descriptor directly, not through stream_, as HalfOpen does. A peer sends nothing
// before our Reply, so only its FIN is awaited. If watching fails, the only consequence is that the
// descriptor stays open for longer after the peer has gone.
void TcpIncoming::wait(std::unique_ptr<TcpStream> stream) noexcept {
  const ScopedLock guard(lock_);
  state_ = State::kWaiting;
  stream_ = std::move(stream);
  static_cast<void>(reactor_.watch(fd_, EPOLLRDHUP, *this));
}

std::unique_ptr<TcpStream> TcpIncoming::take() noexcept {
  const ScopedLock guard(lock_);
  if (state_ == State::kWaiting) reactor_.unwatch(fd_, *this);
  if (state_ != State::kPeerGone) state_ = State::kDecided;
  return std::move(stream_);
}

void TcpIncoming::on_ready(std::uint32_t) noexcept {
  const ScopedLock guard(lock_);
  if (state_ != State::kWaiting) return;
  UDAPL_TRACE(kNormal, "%s has gone before it was accepted or rejected",
              to_text(endpoints_.remote).c_str());
  state_ = State::kPeerGone;
  reactor_.unwatch(fd_, *this);
  stream_.reset();
}

int TcpIncoming::depth(std::uint16_t word) const noexcept {
  return request_.enhanced && word != iwarp::kDepthNotNegotiated ? word : -1;
}

Status TcpIncoming::accept(transport::Qp& qp, transport::PrivateData private_data) {
  auto* const end = dynamic_cast<ConnectionEnd*>(&qp);
  if (end == nullptr) return failure(DAT_INVALID_PARAMETER);
  iwarp::MpaConfig config = end->mpa_config();
  config.crc = crc_;
  iwarp::ReplyDecision decision = iwarp::make_reply(config, request_, private_data);
  if (rings_.valid()) {
    decision.reply.rings = true;
    decision.agreed.crc = decision.agreed.markers_to_send = false;
  }
  std::array<std::byte, iwarp::kMpaMaxFrameSize> frame;
  const std::size_t size = iwarp::encode(decision.reply, frame);
  if (size == 0) return failure(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
  const Negotiated negotiated{false, decision.agreed, {}, std::span(frame).first(size)};

  std::unique_ptr<TcpStream> stream = take();
  if (stream != nullptr) {
    const Status attached = hand_over(stream, *end, negotiated);
    if (!attached.ok()) wait(std::move(stream));
    return attached;
  }
  {
    const ScopedLock guard(lock_);
    if (state_ == State::kDecided) return failure(DAT_INVALID_PARAMETER);
  }
  // The peer has gone. The QP gets an unconnected socket instead, so that it reports the failure as
  // usual.
  Fd unconnected = Fd::made(::socket(endpoints_.remote.family(),
                                     SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!unconnected.valid()) return failure(DAT_INSUFFICIENT_RESOURCES);
  std::unique_ptr<ByteStream> substitute =
      std::make_unique<TcpStream>(reactor_, std::move(unconnected), endpoints_);
  return end->attach(substitute, negotiated);
}

// Hands the stream to the Qp. If the Qp does not take it, it is in `stream` again.
Status TcpIncoming::hand_over(std::unique_ptr<TcpStream>& stream, ConnectionEnd& end,
                              const Negotiated& negotiated) {
  std::unique_ptr<ByteStream> taken;
  TcpStream* const tcp = stream.get();
  RingStream* rings = nullptr;
  if (rings_.valid()) {
    rings = new (std::nothrow) RingStream(std::move(stream), std::move(rings_), direct_);
    if (rings == nullptr) return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    taken.reset(rings);
  } else {
    taken = std::move(stream);
  }
  const Status attached = end.attach(taken, negotiated);
  if (taken == nullptr) return attached;
  if (rings != nullptr) {
    stream = rings->take_apart(rings_);
  } else {
    static_cast<void>(taken.release());
    stream.reset(tcp);
  }
  return attached;
}

void TcpIncoming::reject(transport::PrivateData private_data) noexcept {
  std::unique_ptr<TcpStream> stream = take();
  if (stream == nullptr) return;
  iwarp::MpaConfig config;
  config.crc = crc_;
  answer(*stream, iwarp::make_reject(config, request_, private_data));
  close_gently(std::move(stream), LingerKind::kStranger);
}

void TcpIncoming::answer(TcpStream& stream, const iwarp::MpaFrame& reply) noexcept {
  std::array<std::byte, iwarp::kMpaMaxFrameSize> frame;
  const std::size_t size = iwarp::encode(reply, frame);
  // The socket buffer is empty, so it accepts the whole frame. A peer that has gone needs no
  // answer.
  stream.send(std::span<const std::byte>(frame).first(size));
}

// ---- an incomplete request ---------------------------------------------------------------------

HalfOpen::HalfOpen(TcpListener& listener, std::unique_ptr<TcpStream> stream) noexcept
    : listener_(listener),
      reactor_(stream->reactor()),
      fd_(stream->fd()),
      remote_(stream->endpoints().remote),
      network_(network_of(remote_)),
      stream_(std::move(stream)),
      timeout_(reactor_, Call::to<&HalfOpen::on_timeout>(this)) {}

// The descriptor is watched directly, not through stream_, so that the destructor can end that
// while the driving thread uses stream_.
HalfOpen::~HalfOpen() {
  reactor_.unwatch(fd_, *this);
  reactor_.quiesce(*this);
}

Status HalfOpen::start(Clock::duration limit) noexcept {
  timeout_.start_after(limit);
  return reactor_.watch(fd_, EPOLLIN, *this);
}

void HalfOpen::on_ready(std::uint32_t) noexcept { static_cast<void>(collect()); }

bool HalfOpen::collect() noexcept {
  std::unique_ptr<TcpIncoming> request;
  const MpaReader::Progress progress = reader_.read(*stream_);
  if (progress == MpaReader::Progress::kMore) return true;
  if (progress == MpaReader::Progress::kFrame) {
    reactor_.unwatch(fd_, *this);
    request = make_request();
  } else {
    UDAPL_TRACE(kNormal, "dropping %s: %s", to_text(stream_->endpoints().remote).c_str(),
                progress == MpaReader::Progress::kBad ? iwarp::name(reader_.why())
                                                      : "it closed the connection");
  }
  listener_.ended(*this, std::move(request));
  return false;
}

// Returns null if memory runs out, or if path=shm is set and the peer has left no shared memory.
std::unique_ptr<TcpIncoming> HalfOpen::make_request() noexcept {
  const Settings& settings = listener_.settings();
  const std::span<const std::byte> token = token_of(reader_.frame());
  shm::Rings rings = listener_.take_offer(token);
  if (rings.valid()) {
    UDAPL_TRACE(kNormal, "shared memory with %s", to_text(remote_).c_str());
  } else {
    UDAPL_TRACE(kNormal, "no shared memory with %s: %s", to_text(remote_).c_str(),
                why_not_shared(settings, token));
    if (settings.path == Settings::Path::kShm) {
      static constinit trace::RateLimit limit;
      UDAPL_TRACE_LIMITED(limit, kError,
                          "dropping %s: path=shm, and there is no shared memory with it",
                          to_text(remote_).c_str());
      return nullptr;
    }
  }
  return std::unique_ptr<TcpIncoming>(
      new (std::nothrow) TcpIncoming(std::move(stream_), reader_, std::move(rings), settings));
}

void HalfOpen::on_timeout() noexcept { drop("no complete MPA Request in time"); }

// Resets the connection: the peer's Request may be on its way, and the peer would take an ordinary
// end of the stream for an answer to it.
void HalfOpen::drop(const char* why) noexcept {
  if (stream_ == nullptr) return;  // the Request is complete, and its TcpIncoming has the stream
  // The Request may have arrived while the process was stopped or busy, and not been read.
  if (!collect()) return;
  UDAPL_TRACE(kNormal, "dropping %s: %s", to_text(remote_).c_str(), why);
  stream_->abort_on_close();
  listener_.ended(*this, nullptr);
}

}  // namespace udapl::soft
