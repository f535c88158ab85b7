// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/cm_passive.h"

#include <array>
#include <new>

#include "common/trace.h"
#include "dapl/transport/qp.h"
#include "providers/soft/cm.h"
#include "providers/soft/cm_listener.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "providers/soft/negotiated.h"
#include "providers/soft/socket_address.h"

namespace udapl::soft {

// ---- a complete request ------------------------------------------------------------------------

TcpIncoming::TcpIncoming(std::unique_ptr<TcpStream> stream, const MpaReader& reader,
                         bool crc) noexcept
    : stream_(std::move(stream)),
      reader_(reader),
      request_(reader_.frame()),
      endpoints_(stream_->endpoints()),
      crc_(crc) {}

TcpIncoming::~TcpIncoming() {
  if (stream_ == nullptr) return;
  UDAPL_TRACE(kNormal, "refusing %s: nobody decided", to_text(endpoints_.remote).c_str());
  answer(make_refusal(request_));
}

int TcpIncoming::depth(std::uint16_t word) const noexcept {
  return request_.enhanced && word != iwarp::kDepthNotNegotiated ? word : -1;
}

Status TcpIncoming::accept(transport::Qp& qp, transport::PrivateData private_data) {
  auto* const end = dynamic_cast<ConnectionEnd*>(&qp);
  if (end == nullptr || stream_ == nullptr) return failure(DAT_INVALID_PARAMETER);
  iwarp::MpaConfig config = end->mpa_config();
  config.crc = crc_;
  const iwarp::ReplyDecision decision = iwarp::make_reply(config, request_, private_data);
  std::array<std::byte, iwarp::kMpaMaxFrameSize> frame;
  const std::size_t size = iwarp::encode(decision.reply, frame);
  if (size == 0) return failure(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
  return end->attach(stream_, {false, decision.agreed, {}, std::span(frame).first(size)});
}

void TcpIncoming::reject(transport::PrivateData private_data) noexcept {
  if (stream_ == nullptr) return;
  iwarp::MpaConfig config;
  config.crc = crc_;
  answer(iwarp::make_reject(config, request_, private_data));
}

void TcpIncoming::answer(const iwarp::MpaFrame& reply) noexcept {
  std::array<std::byte, iwarp::kMpaMaxFrameSize> frame;
  const std::size_t size = iwarp::encode(reply, frame);
  // An empty socket buffer takes it whole; a peer that is gone needs no answer.
  stream_->send(std::span<const std::byte>(frame).first(size));
  close_gently(std::move(stream_));
}

// ---- an incomplete one -------------------------------------------------------------------------

HalfOpen::HalfOpen(TcpListener& listener, std::unique_ptr<TcpStream> stream, bool crc) noexcept
    : listener_(listener),
      reactor_(stream->reactor()),
      fd_(stream->fd()),
      remote_(stream->endpoints().remote),
      crc_(crc),
      stream_(std::move(stream)),
      timeout_(reactor_, Call::to<&HalfOpen::on_timeout>(this)) {}

// Watched without the help of stream_: unwatching is then safe against the driving thread.
HalfOpen::~HalfOpen() {
  reactor_.unwatch(fd_, *this);
  reactor_.quiesce(*this);
}

Status HalfOpen::start(Clock::duration limit) noexcept {
  timeout_.start_after(limit);
  return reactor_.watch(fd_, EPOLLIN, *this);
}

void HalfOpen::on_ready(std::uint32_t) noexcept {
  std::unique_ptr<TcpIncoming> request;
  const MpaReader::Progress progress = reader_.read(*stream_);
  if (progress == MpaReader::Progress::kMore) return;
  if (progress == MpaReader::Progress::kFrame) {
    reactor_.unwatch(fd_, *this);
    request.reset(new (std::nothrow) TcpIncoming(std::move(stream_), reader_, crc_));
  } else {
    UDAPL_TRACE(kNormal, "dropping %s: %s", to_text(stream_->endpoints().remote).c_str(),
                progress == MpaReader::Progress::kBad ? iwarp::name(reader_.why())
                                                      : "it closed the connection");
  }
  listener_.ended(*this, std::move(request));
}

void HalfOpen::on_timeout() noexcept {
  UDAPL_TRACE(kNormal, "dropping %s: no complete MPA Request in time",
              to_text(stream_->endpoints().remote).c_str());
  listener_.ended(*this, nullptr);
}

}  // namespace udapl::soft
