// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Negotiates the connection's parameters. Pure functions of our configuration and the peer's frame.
// Stateless; safe from any thread. Spec: RFC 5044 §7.1, RFC 6581 §4, §6, §9.
//
//   initiator: f = make_request(cfg, data)      -> encode, send;  Reply -> evaluate_reply(cfg, f)
//   responder: Request -> consumer's decision   -> make_reply() or make_reject() -> encode, send
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "providers/soft/iwarp/mpa_frame.h"
#include "providers/soft/iwarp/terminate.h"

namespace udapl::iwarp {

struct MpaConfig {
  bool crc = true;                      // only the administrator may disable it (RFC 5044 §4.4)
  std::uint8_t revision = 2;            // initiator: revision of the Request; 1 as a fallback
  bool peer_to_peer = true;             // initiator: ask for an RTR message
  std::uint8_t rtr_request = kRtrRead;  // initiator: set requested
  std::uint8_t rtr_supported = kRtrWrite | kRtrRead;  // set we can send (or receive)
  std::uint16_t ird = 0;  // RDMA Reads we serve at a time, 0..0x3FFE, or kDepthNotNegotiated
  std::uint16_t ord = 0;  // RDMA Reads we want outstanding, same range
  // The depths used when the frames carry none (revision 1, or no enhanced words).
  std::uint16_t unnegotiated_ird = 0;
  std::uint16_t unnegotiated_ord = 0;
};

// The negotiated parameters.
struct Agreed {
  std::uint8_t revision = 2;
  bool enhanced = false;
  bool crc = true;               // both directions: generate and check
  bool markers_to_send = false;  // the peer wants markers in what we send
  RtrSet rtr = kRtrNone;         // message the initiator sends first; kRtrNone: none agreed
  std::uint16_t ird = 0;         // inbound Reads to accept, kDepthNotNegotiated only if configured
  std::uint16_t ord = 0;         // outbound Reads the consumer may have; the RTR Read is extra
  std::uint16_t peer_ird = 0;    // from the peer's frame (0x3FFF possible), for the consumer
  std::uint16_t peer_ord = 0;

  friend bool operator==(const Agreed&, const Agreed&) = default;
};

// ---- initiator ---------------------------------------------------------------------------------

// The Request for `config`. `private_data` must live until the frame is encoded.
MpaFrame make_request(const MpaConfig& config, std::span<const std::byte> private_data) noexcept;

enum class ReplyOutcome : std::uint8_t {
  kAccepted,          // `agreed` is valid
  kRejected,          // by the peer's consumer; reply.private_data is its reason
  kRevisionMismatch,  // close; another attempt with revision 1 is allowed
  kTerminate,         // send `terminate` (no FPDU before it), close
};

struct ReplyResult {
  ReplyOutcome outcome = ReplyOutcome::kRejected;
  Agreed agreed;
  TerminateCode terminate = TerminateCode::kMpaLocalCatastrophic;
};

// Evaluates a decoded Reply against the Request we sent. kTerminate: kMpaInsufficientIrd (peer
// wants more Reads than we serve, or a Read RTR that it has no room for) or kMpaNoMatchingRtr.
// Tolerates deviations of real peers: uses an RTR type that we support but did not ask for
// (Chelsio); ignores depths in answer to "not negotiated" (siw); if A is missing, there is no RTR
// message.
ReplyResult evaluate_reply(const MpaConfig& config, const MpaFrame& request,
                           const MpaFrame& reply) noexcept;

// ---- responder ---------------------------------------------------------------------------------

struct ReplyDecision {
  MpaFrame reply;
  Agreed agreed;
};

// Accepts `request`. The revision, S and A follow the Request; one RTR type is selected, Write
// before Read; IRD is raised to 1 for a Read RTR. Never asks for markers.
ReplyDecision make_reply(const MpaConfig& config, const MpaFrame& request,
                         std::span<const std::byte> private_data) noexcept;

// Refuses `request` (R=1) with the consumer's private data.
MpaFrame make_reject(const MpaConfig& config, const MpaFrame& request,
                     std::span<const std::byte> private_data) noexcept;

}  // namespace udapl::iwarp
