// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/mpa_negotiation.h"

#include <algorithm>

namespace udapl::iwarp {
namespace {

constexpr std::uint16_t to_depth(std::uint16_t v) noexcept {
  return v <= kDepthNotNegotiated ? v : kDepthMax;
}

// Selects one type if several are possible. Write needs no Read credit; Send would consume a
// receive of the peer's consumer.
constexpr RtrSet pick_rtr(unsigned set) noexcept {
  if (set & kRtrWrite) return kRtrWrite;
  if (set & kRtrRead) return kRtrRead;
  return set & kRtrSend ? kRtrSend : kRtrNone;
}

Agreed common_part(const MpaConfig& config, const MpaFrame& peer, bool crc) noexcept {
  Agreed agreed;
  agreed.revision = peer.revision;
  agreed.crc = crc;
  agreed.markers_to_send = peer.markers;
  agreed.ird = config.unnegotiated_ird;
  agreed.ord = config.unnegotiated_ord;
  if (peer.enhanced) {
    agreed.peer_ird = peer.ird;
    agreed.peer_ord = peer.ord;
  }
  return agreed;
}

// The fields that both kinds of Reply share.
MpaFrame reply_frame(const MpaConfig& config, const MpaFrame& request,
                     std::span<const std::byte> private_data) noexcept {
  MpaFrame reply;
  reply.kind = MpaKind::kReply;
  reply.crc = config.crc || request.crc;
  reply.enhanced = request.enhanced;
  reply.revision = request.revision;
  reply.private_data = private_data;
  return reply;
}

ReplyResult terminate(TerminateCode code) noexcept {
  ReplyResult result;
  result.outcome = ReplyOutcome::kTerminate;
  result.terminate = code;
  return result;
}

}  // namespace

MpaFrame make_request(const MpaConfig& config, std::span<const std::byte> private_data) noexcept {
  MpaFrame request;
  request.kind = MpaKind::kRequest;
  request.crc = config.crc;
  request.revision = config.revision;
  request.enhanced = config.revision >= 2;
  request.private_data = private_data;
  if (!request.enhanced) return request;
  request.ird = to_depth(config.ird);
  request.ord = to_depth(config.ord);
  request.peer_to_peer = config.peer_to_peer;
  if (!config.peer_to_peer) return request;
  request.rtr = config.rtr_request;
  // The RTR Read is subject to the peer's IRD like any other (RFC 6581 §9.2).
  if ((request.rtr & kRtrRead) && request.ord == 0) request.ord = 1;
  return request;
}

ReplyResult evaluate_reply(const MpaConfig& config, const MpaFrame& request,
                           const MpaFrame& reply) noexcept {
  ReplyResult result;
  if (reply.reject) return result;
  if (reply.revision != request.revision) {
    result.outcome = ReplyOutcome::kRevisionMismatch;
    return result;
  }
  result.outcome = ReplyOutcome::kAccepted;
  Agreed& agreed = result.agreed;
  agreed = common_part(config, reply, request.crc || reply.crc);
  if (!request.enhanced || !reply.enhanced) return result;

  agreed.enhanced = true;
  agreed.ird = request.ird;
  agreed.ord = to_depth(config.ord);
  const bool ird_open = request.ird == kDepthNotNegotiated || reply.ord == kDepthNotNegotiated;
  if (!ird_open && reply.ord > request.ird) return terminate(TerminateCode::kMpaInsufficientIrd);
  const bool ord_open = request.ord == kDepthNotNegotiated || reply.ird == kDepthNotNegotiated;
  if (!ord_open) agreed.ord = std::min(agreed.ord, reply.ird);

  if (!request.peer_to_peer || !reply.peer_to_peer) return result;
  const unsigned possible = reply.rtr & config.rtr_supported;
  const unsigned requested = possible & request.rtr;
  agreed.rtr = pick_rtr(requested != 0 ? requested : possible);
  if (agreed.rtr == kRtrRead && reply.ird == 0) {
    agreed.rtr = pick_rtr(possible & ~unsigned{kRtrRead});
    if (agreed.rtr == kRtrNone) return terminate(TerminateCode::kMpaInsufficientIrd);
  }
  if (agreed.rtr == kRtrNone) return terminate(TerminateCode::kMpaNoMatchingRtr);
  return result;
}

ReplyDecision make_reply(const MpaConfig& config, const MpaFrame& request,
                         std::span<const std::byte> private_data) noexcept {
  ReplyDecision decision;
  MpaFrame& reply = decision.reply;
  Agreed& agreed = decision.agreed;
  reply = reply_frame(config, request, private_data);
  agreed = common_part(config, request, reply.crc);
  if (!request.enhanced) return decision;

  agreed.enhanced = true;
  if (request.peer_to_peer) {
    const unsigned common = request.rtr & config.rtr_supported;
    agreed.rtr = pick_rtr(common != 0 ? common : config.rtr_supported);
    reply.peer_to_peer = true;
    reply.rtr = agreed.rtr;
  }
  agreed.ird = to_depth(config.ird);
  if (agreed.rtr == kRtrRead && agreed.ird == 0) agreed.ird = 1;
  reply.ird = request.ord == kDepthNotNegotiated ? kDepthNotNegotiated : agreed.ird;
  agreed.ord = to_depth(config.ord);
  if (request.ird != kDepthNotNegotiated) agreed.ord = std::min(agreed.ord, request.ird);
  reply.ord = request.ird == kDepthNotNegotiated ? kDepthNotNegotiated : agreed.ord;
  return decision;
}

MpaFrame make_reject(const MpaConfig& config, const MpaFrame& request,
                     std::span<const std::byte> private_data) noexcept {
  MpaFrame reply = reply_frame(config, request, private_data);
  reply.reject = true;
  return reply;
}

}  // namespace udapl::iwarp
