// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// TcpHandshake: the MPA Request, with the offer of rings, and the Reply.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/cm/handshake.h"
#include "providers/soft/io/lingering_close.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/iwarp/sender.h"
#include "providers/soft/iwarp/terminate.h"

namespace udapl::soft {

namespace {

// If the peer's box is full, an offer is made again after 5, 10, 20, 40 and 80 ms, and then no
// more: the peer may drop a connection without a Request after 250 ms when it needs the place.
constexpr int kOffersPutOff = 5;

void send_terminate(TcpStream& stream, iwarp::TerminateCode code, bool crc) noexcept {
  try {
    iwarp::TxBatch batch(0, 0);  // the minimum size
    iwarp::Sender sender({crc, false, stream.effective_mss()});
    const iwarp::Terminate message = iwarp::make_terminate(code);
    sender.begin_terminate(message);
    sender.fill(batch);
    stream.send(batch.spans(), 0);  // a partial send does not matter: the connection ends
  } catch (const std::bad_alloc&) {
    // The peer sees the connection end without a reason.
  }
}

// Traces the reason, because the event that the consumer gets does not tell that the setting is it.
void report_path_shm(const transport::SocketAddress& remote, const char* why) noexcept {
  static constinit trace::RateLimit limit;
  UDAPL_TRACE_LIMITED(limit, kError, "not connecting to %s: path=shm, and %s",
                      to_text(remote).c_str(), why);
}

}  // namespace

void TcpHandshake::connected(Verdict& verdict) noexcept {
  if (const int error = stream_->pending_error(); error != 0) {
    UDAPL_TRACE(kNormal, "connecting to %s: %s", to_text(remote_).c_str(),
                ErrnoText(error).c_str());
    if (!schedule_retry(error)) fail(meaning(error), verdict);
    return;
  }
  stream_->set_peer_timeout(peer_timeout_);
  stream_->refresh_endpoints();
  endpoints_ = stream_->endpoints();
  switch (offer_rings()) {
    case MayRequest::kNow:
      break;
    case MayRequest::kLater:
      state_ = State::kAwaitingOffer;
      stream_->set_events(0);
      return;
    case MayRequest::kNever:
      return fail(SetupFailure::kUnreachable, verdict);
  }
  std::array<std::byte, iwarp::kMpaMaxPrivateData + shm::kTokenSize> data;
  auto end = std::copy(private_data_.begin(), private_data_.end(), data.begin());
  if (offer_) end = std::copy(offer_->token.begin(), offer_->token.end(), end);
  iwarp::MpaFrame request = iwarp::make_request(config_, {data.begin(), end});
  request.rings = offer_.has_value();
  std::array<std::byte, iwarp::kMpaMaxFrameSize> frame;
  const std::size_t size = iwarp::encode(request, frame);
  // The socket buffer is empty, so it accepts the whole frame. TCP sends it in one segment, which
  // some peers require.
  const IoResult sent = stream_->send(std::span<const std::byte>(frame).first(size));
  if (sent.kind == IoResult::kBroken) return broken(sent.error, verdict);
  if (sent.kind != IoResult::kDone || sent.bytes != size)
    return fail(SetupFailure::kUnreachable, verdict);
  state_ = State::kAwaitingReply;
  stream_->set_events(EPOLLIN);
}

TcpHandshake::MayRequest TcpHandshake::offer_rings() noexcept {
  offer_.reset();
  shm::NoOffer failure{"path=tcp is set"};
  if (path_ != Settings::Path::kTcp) make_offer(failure);
  if (offer_) return MayRequest::kNow;
  if (failure.later && offers_put_off_ != kOffersPutOff) {
    retry_.start_after(kFirstRetry * (1 << offers_put_off_++));
    return MayRequest::kLater;
  }
  UDAPL_TRACE(kNormal, "no shared memory with %s: %s", to_text(remote_).c_str(), failure.why);
  if (path_ != Settings::Path::kShm) return MayRequest::kNow;
  report_path_shm(remote_, failure.why);
  return MayRequest::kNever;
}

void TcpHandshake::make_offer(shm::NoOffer& failure) noexcept {
  if (config_.revision < 2)
    failure.why = "MPA revision 1 has no place for an offer";
  else if (private_data_.size() + shm::kTokenSize > iwarp::max_private_data(true))
    failure.why = "the private data leaves no room for an offer";
  else
    offer_ = shm::make_offer(*remote_.get(), failure);
}

// Makes the stream that the Reply selects: rings or TCP. Returns false if shared memory is required
// and the peer has not accepted the offer, or if memory ran out.
bool TcpHandshake::take_path(const iwarp::MpaFrame& reply, Verdict& verdict) noexcept {
  if (!offer_ || !reply.rings) {
    if (offer_)
      UDAPL_TRACE(kNormal, "no shared memory with %s: it has not taken the offer",
                  to_text(remote_).c_str());
    verdict.stream = std::move(stream_);
    if (path_ != Settings::Path::kShm) return true;
    report_path_shm(remote_, "it has not taken the offer of shared memory");
    return false;
  }
  auto* const rings =
      new (std::nothrow) RingStream(std::move(stream_), std::move(offer_->rings), direct_);
  verdict.stream.reset(rings);
  verdict.agreed.crc = verdict.agreed.markers_to_send = false;
  UDAPL_TRACE(kNormal, "shared memory with %s", to_text(remote_).c_str());
  return rings != nullptr;
}

void TcpHandshake::receive_reply(Verdict& verdict) noexcept {
  switch (reader_.read(*stream_)) {
    case MpaReader::Progress::kMore:
      return;
    case MpaReader::Progress::kFrame:
      return evaluate_reply(verdict);
    case MpaReader::Progress::kEnded:
      return hung_up(verdict);
    case MpaReader::Progress::kBroken:
      return broken(reader_.error(), verdict);
    case MpaReader::Progress::kBad:
      UDAPL_TRACE(kNormal, "%s does not speak MPA: %s", to_text(remote_).c_str(),
                  iwarp::name(reader_.why()));
      return fail(SetupFailure::kRefused, verdict);
  }
}

// After a reset, connects again if possible: the kernel resets the connections in the backlog of a
// listener that ends, and the next listener may already be there.
void TcpHandshake::broken(int error, Verdict& verdict) noexcept {
  const bool reset = error == ECONNRESET || error == EPIPE;
  if (reader_.empty() && schedule_retry(reset ? ECONNRESET : error)) return;
  if (reset && reader_.empty() && may_be_an_answer()) return fall_back(verdict);
  fail(meaning(error), verdict);
}

// Called when the peer has closed the connection. If it did so before our Request arrived, its
// kernel also sends a reset, which may not have arrived yet.
void TcpHandshake::hung_up(Verdict& verdict) noexcept {
  if (!reader_.empty()) return fail(SetupFailure::kRefused, verdict);
  if (offer_ || stream_->pending_error() != 0 || !ended_on_request())
    return broken(ECONNRESET, verdict);
  fall_back(verdict);
}

// Tries revision 1, if that is allowed: a peer that knows only revision 1 closes the connection
// without an answer (RFC 6581 §6). Not after an offer of shared memory: a peer that has a box for
// offers knows revision 2.
void TcpHandshake::fall_back(Verdict& verdict) noexcept {
  if (!may_fall_back_ || offer_ || config_.revision == 1)
    return fail(SetupFailure::kRefused, verdict);
  UDAPL_TRACE(kNormal, "%s closed the connection: retrying with MPA revision 1",
              to_text(remote_).c_str());
  config_.revision = 1;
  stream_.reset();
  state_ = State::kConnecting;
  if (!begin_attempt().ok()) fail(SetupFailure::kRefused, verdict);
}

void TcpHandshake::evaluate_reply(Verdict& verdict) noexcept {
  const iwarp::MpaFrame reply = reader_.frame();
  const iwarp::MpaFrame request = iwarp::make_request(config_, {});
  const iwarp::ReplyResult result = iwarp::evaluate_reply(config_, request, reply);
  if (result.outcome == iwarp::ReplyOutcome::kRevisionMismatch) {
    reader_.clear();
    return fall_back(verdict);
  }
  if (result.outcome == iwarp::ReplyOutcome::kTerminate) {
    UDAPL_TRACE(kNormal, "%s: incompatible: %s", to_text(remote_).c_str(),
                iwarp::name(result.terminate));
    send_terminate(*stream_, result.terminate, request.crc || reply.crc);
    close_gently(std::move(stream_));
    return fail(SetupFailure::kRefused, verdict);
  }
  std::memcpy(verdict.data.data(), reply.private_data.data(), reply.private_data.size());
  verdict.data_size = reply.private_data.size();
  if (result.outcome == iwarp::ReplyOutcome::kRejected)
    return fail(is_refusal(reply) ? SetupFailure::kRefused : SetupFailure::kRejected, verdict);
  state_ = State::kOver;
  timeout_.stop();
  retry_.stop();
  stream_->unwatch();
  verdict.what = Verdict::kAccepted;
  verdict.agreed = result.agreed;
  if (!take_path(reply, verdict)) fail(SetupFailure::kUnreachable, verdict);
}

}  // namespace udapl::soft
