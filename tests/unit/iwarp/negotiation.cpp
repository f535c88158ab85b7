// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Both sides of the MPA negotiation: every combination of the bits, checked against the rules of
// RFC 5044 §7.1 and RFC 6581 §9; then the known peculiarities of real peers.
#include "providers/soft/iwarp/mpa_negotiation.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/support.h"

using namespace iwarp_test;

namespace {

constexpr std::uint16_t kOpen = kDepthNotNegotiated;
constexpr std::uint16_t kDepths[] = {0, 1, 8, kDepthMax, kOpen};

bool single(unsigned set) { return set == kRtrSend || set == kRtrWrite || set == kRtrRead; }

template <class Visit>
void for_each_frame(MpaKind kind, Visit visit) {
  for (unsigned bits = 0; bits < 1U << 9; ++bits) {
    MpaFrame f;
    f.kind = kind;
    f.markers = bits & 1;
    f.crc = bits & 2;
    f.enhanced = bits & 4;
    f.revision = bits & 8 ? 2 : 1;
    f.peer_to_peer = bits & 16;
    f.rtr = bits >> 5 & 7;
    f.reject = kind == MpaKind::kReply && (bits & 256);
    if (kind == MpaKind::kRequest && (bits & 256)) continue;
    if (f.enhanced && f.revision == 1) continue;
    for (const std::uint16_t ird : kDepths) {
      for (const std::uint16_t ord : kDepths) {
        f.ird = ird;
        f.ord = ord;
        visit(f);
        if (!f.enhanced) break;
      }
      if (!f.enhanced) break;
    }
  }
}

template <class Visit>
void for_each_config(Visit visit) {
  for (unsigned bits = 0; bits < 1U << 5; ++bits) {
    MpaConfig c;
    c.crc = bits & 1;
    c.revision = bits & 2 ? 2 : 1;
    c.peer_to_peer = bits & 4;
    c.rtr_request = bits & 8 ? kRtrRead : kRtrRead | kRtrWrite;
    c.rtr_supported = bits & 16 ? kRtrRead | kRtrWrite : kRtrWrite;
    c.unnegotiated_ird = 3;
    c.unnegotiated_ord = 2;
    for (const std::uint16_t ird : kDepths) {
      for (const std::uint16_t ord : kDepths) {
        c.ird = ird;
        c.ord = ord;
        visit(c);
      }
    }
  }
}

// BOOST_REQUIRE for a million combinations: it costs nothing while the condition holds.
#define HOLDS(condition)                      \
  do {                                        \
    if (!(condition)) BOOST_FAIL(#condition); \
  } while (false)

void check_reply(const MpaConfig& c, const MpaFrame& request, const ReplyDecision& d) {
  const MpaFrame& reply = d.reply;
  HOLDS(reply.kind == MpaKind::kReply);
  HOLDS(!reply.reject);
  HOLDS(!reply.markers);  // we never request them
  HOLDS(d.agreed.markers_to_send == request.markers);
  HOLDS(reply.revision == request.revision);
  HOLDS(reply.enhanced == request.enhanced);
  HOLDS(d.agreed.crc == (c.crc || request.crc));
  HOLDS((reply.crc || request.crc) == d.agreed.crc);  // the peer's conclusion
  if (!request.enhanced) {
    HOLDS(d.agreed.rtr == kRtrNone);
    HOLDS(d.agreed.ird == 3);
    HOLDS(d.agreed.ord == 2);
    return;
  }
  HOLDS(reply.peer_to_peer == request.peer_to_peer);
  HOLDS(reply.rtr == d.agreed.rtr);
  if (!request.peer_to_peer) {
    HOLDS(reply.rtr == kRtrNone);
  } else {
    HOLDS(single(reply.rtr));
    HOLDS((reply.rtr & c.rtr_supported) != 0);
    const unsigned common = request.rtr & c.rtr_supported;
    if (common) HOLDS((reply.rtr & common) != 0);
    if (common & kRtrWrite) HOLDS(reply.rtr == kRtrWrite);
    if (reply.rtr == kRtrRead) HOLDS(reply.ird >= 1);
  }
  HOLDS(d.agreed.ird >= std::min(c.ird, kOpen));
  if (request.ird == kOpen) {
    HOLDS(reply.ord == kOpen);
    HOLDS(d.agreed.ord == c.ord);
  } else {
    HOLDS(reply.ord <= request.ird);
    HOLDS(d.agreed.ord == std::min(c.ord, request.ird));
  }
  if (request.ord == kOpen) HOLDS(reply.ird == kOpen);
  if (request.ord != kOpen && c.ird >= request.ord) HOLDS(reply.ird >= request.ord);
  HOLDS(d.agreed.peer_ird == request.ird);
  HOLDS(d.agreed.peer_ord == request.ord);
}

void check_evaluation(const MpaConfig& c, const MpaFrame& request, const MpaFrame& reply) {
  const ReplyResult r = evaluate_reply(c, request, reply);
  if (reply.reject) {
    HOLDS(r.outcome == ReplyOutcome::kRejected);
    return;
  }
  if (reply.revision != request.revision) {
    HOLDS(r.outcome == ReplyOutcome::kRevisionMismatch);
    return;
  }
  const bool enhanced = request.enhanced && reply.enhanced;
  if (enhanced) {
    if (request.ird != kOpen && reply.ord != kOpen && reply.ord > request.ird) {
      HOLDS(r.outcome == ReplyOutcome::kTerminate);
      HOLDS(r.terminate == TerminateCode::kMpaInsufficientIrd);
      return;
    }
    if (request.peer_to_peer && reply.peer_to_peer) {
      unsigned usable = reply.rtr & c.rtr_supported;
      if (usable == 0) {
        HOLDS(r.outcome == ReplyOutcome::kTerminate);
        HOLDS(r.terminate == TerminateCode::kMpaNoMatchingRtr);
        return;
      }
      if (usable == kRtrRead && reply.ird == 0) {
        HOLDS(r.outcome == ReplyOutcome::kTerminate);
        HOLDS(r.terminate == TerminateCode::kMpaInsufficientIrd);
        return;
      }
      HOLDS(single(r.agreed.rtr));
      HOLDS((r.agreed.rtr & usable) != 0);
      if (r.agreed.rtr == kRtrRead) HOLDS(reply.ird != 0);
    } else {
      HOLDS(r.agreed.rtr == kRtrNone);
    }
    HOLDS(r.agreed.ird == c.ird);
    const bool local = request.ord == kOpen || reply.ird == kOpen;
    HOLDS(r.agreed.ord == (local ? c.ord : std::min(c.ord, reply.ird)));
  } else {
    HOLDS(r.agreed.rtr == kRtrNone);
    HOLDS(r.agreed.ird == 3);
    HOLDS(r.agreed.ord == 2);
  }
  HOLDS(r.outcome == ReplyOutcome::kAccepted);
  HOLDS(r.agreed.enhanced == enhanced);
  HOLDS(r.agreed.crc == (request.crc || reply.crc));
  HOLDS(r.agreed.markers_to_send == reply.markers);
}

MpaFrame request_of(std::uint8_t rtr) {
  MpaFrame f;
  f.kind = MpaKind::kRequest;
  f.peer_to_peer = rtr != kRtrNone;
  f.rtr = rtr;
  f.ird = f.ord = 8;
  return f;
}
MpaFrame reply_of(std::uint8_t rtr, std::uint16_t ird = 8, std::uint16_t ord = 8) {
  MpaFrame f = request_of(rtr);
  f.kind = MpaKind::kReply;
  f.ird = ird;
  f.ord = ord;
  return f;
}
MpaConfig config_of(std::uint16_t depth) {
  MpaConfig c;
  c.ird = c.ord = depth;
  return c;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(negotiation)

BOOST_AUTO_TEST_CASE(responder_every_combination) {
  std::size_t count = 0;
  for_each_config([&](const MpaConfig& c) {
    for_each_frame(MpaKind::kRequest, [&](const MpaFrame& request) {
      ++count;
      check_reply(c, request, make_reply(c, request, {}));
    });
  });
  BOOST_TEST_MESSAGE(count << " combinations");
  BOOST_TEST(count > 400000U);
}

BOOST_AUTO_TEST_CASE(initiator_every_combination) {
  std::size_t count = 0;
  for_each_config([&](const MpaConfig& c) {
    const MpaFrame request = make_request(c, {});
    for_each_frame(MpaKind::kReply, [&](const MpaFrame& reply) {
      ++count;
      check_evaluation(c, request, reply);
    });
  });
  BOOST_TEST_MESSAGE(count << " combinations");
  BOOST_TEST(count > 800000U);
}

// Our initiator and our responder reach the same result, whatever their configurations are.
BOOST_AUTO_TEST_CASE(both_ends_agree) {
  std::size_t accepted = 0;
  for_each_config([&](const MpaConfig& a) {
    const MpaFrame request = make_request(a, {});
    for_each_config([&](const MpaConfig& b) {
      if (b.revision == 1 || !b.peer_to_peer) return;  // meaningless for a responder
      const ReplyDecision d = make_reply(b, request, {});
      const ReplyResult r = evaluate_reply(a, request, d.reply);
      if (r.outcome == ReplyOutcome::kTerminate) {
        // The only possible reason is that there is no common RTR type: the depths always match.
        BOOST_REQUIRE((r.terminate == TerminateCode::kMpaNoMatchingRtr));
        BOOST_REQUIRE((b.rtr_supported & a.rtr_supported & d.reply.rtr) == 0);
        return;
      }
      ++accepted;
      BOOST_REQUIRE((r.outcome == ReplyOutcome::kAccepted));
      BOOST_REQUIRE_EQUAL(r.agreed.crc, d.agreed.crc);
      BOOST_REQUIRE_EQUAL(r.agreed.rtr, d.agreed.rtr);
      BOOST_REQUIRE_EQUAL(r.agreed.revision, d.agreed.revision);
      BOOST_REQUIRE_EQUAL(r.agreed.enhanced, d.agreed.enhanced);
      if (!r.agreed.enhanced || a.ird == kOpen || a.ord == kOpen || b.ird == kOpen ||
          b.ord == kOpen) {
        return;
      }
      BOOST_REQUIRE(r.agreed.ord <= d.agreed.ird);
      BOOST_REQUIRE(d.agreed.ord <= r.agreed.ird);
    });
  });
  BOOST_TEST(accepted > 0U);
}

BOOST_AUTO_TEST_CASE(request_has_the_default_settings) {
  const MpaFrame f = make_request(config_of(0), as_bytes("x"));
  BOOST_TEST(f.crc);
  BOOST_TEST(!f.markers);
  BOOST_TEST(f.revision == 2);
  BOOST_TEST(f.enhanced);
  BOOST_TEST(f.peer_to_peer);
  BOOST_TEST(f.rtr == kRtrRead);
  BOOST_TEST(f.ird == 0);
  BOOST_TEST(f.ord == 1);  // room for the RTR Read itself
  BOOST_TEST(to_hex(f.private_data) == "78");

  MpaConfig old = config_of(8);
  old.revision = 1;
  const MpaFrame g = make_request(old, {});
  BOOST_TEST(!g.enhanced);
  BOOST_TEST(g.revision == 1);
}

BOOST_AUTO_TEST_CASE(raised_ord_is_not_given_to_the_consumer) {
  const MpaConfig c = config_of(0);
  const ReplyResult r = evaluate_reply(c, make_request(c, {}), reply_of(kRtrRead, 1, 0));
  BOOST_TEST((r.outcome == ReplyOutcome::kAccepted));
  BOOST_TEST(r.agreed.rtr == kRtrRead);
  BOOST_TEST(r.agreed.ord == 0);
}

BOOST_AUTO_TEST_CASE(siw_as_initiator) {
  // rping's Request: bytes 16.. 10 02 0004 0001 0001 (C=0, A=0).
  MpaFrame request = request_of(kRtrNone);
  request.crc = false;
  request.ird = request.ord = 1;
  const ReplyDecision d = make_reply(config_of(8), request, {});
  BOOST_TEST(d.agreed.crc);  // our Reply has C=1, which siw obeys
  BOOST_TEST(d.reply.crc);
  BOOST_TEST(d.agreed.rtr == kRtrNone);
  BOOST_TEST(d.agreed.ord == 1);
  BOOST_TEST(d.reply.ord == 1);
  BOOST_TEST(d.reply.ird == 8);
}

BOOST_AUTO_TEST_CASE(siw_answers_not_negotiated_with_numbers) {
  const MpaConfig c = config_of(kOpen);
  const ReplyResult r = evaluate_reply(c, make_request(c, {}), reply_of(kRtrRead, 128, 128));
  BOOST_TEST((r.outcome == ReplyOutcome::kAccepted));
  BOOST_TEST(r.agreed.ird == kOpen);
  BOOST_TEST(r.agreed.ord == kOpen);
}

BOOST_AUTO_TEST_CASE(chelsio_answers_its_own_rtr_type) {
  const MpaConfig c = config_of(8);
  const ReplyResult r = evaluate_reply(c, make_request(c, {}), reply_of(kRtrWrite));
  BOOST_TEST((r.outcome == ReplyOutcome::kAccepted));
  BOOST_TEST(r.agreed.rtr == kRtrWrite);
}

BOOST_AUTO_TEST_CASE(intel_asks_for_both) {
  const ReplyDecision d = make_reply(config_of(8), request_of(kRtrWrite | kRtrRead), {});
  BOOST_TEST(d.reply.rtr == kRtrWrite);
}

BOOST_AUTO_TEST_CASE(requested_type_before_any_other) {
  const MpaConfig c = config_of(8);
  const ReplyResult r = evaluate_reply(c, make_request(c, {}), reply_of(kRtrWrite | kRtrRead));
  BOOST_TEST(r.agreed.rtr == kRtrRead);
}

BOOST_AUTO_TEST_CASE(read_rtr_without_room_becomes_a_write) {
  const MpaConfig c = config_of(8);
  const ReplyResult r =
      evaluate_reply(c, make_request(c, {}), reply_of(kRtrWrite | kRtrRead, 0, 0));
  BOOST_TEST((r.outcome == ReplyOutcome::kAccepted));
  BOOST_TEST(r.agreed.rtr == kRtrWrite);
}

BOOST_AUTO_TEST_CASE(unsupported_request_gets_a_type_of_ours) {
  const ReplyDecision d = make_reply(config_of(8), request_of(kRtrSend), {});
  BOOST_TEST(d.reply.peer_to_peer);
  BOOST_TEST(d.reply.rtr == kRtrWrite);
}

BOOST_AUTO_TEST_CASE(rejection_answers_in_the_requests_form) {
  for_each_frame(MpaKind::kRequest, [&](const MpaFrame& request) {
    const MpaFrame reply = make_reject(config_of(8), request, as_bytes("no"));
    BOOST_REQUIRE(reply.reject);
    BOOST_REQUIRE_EQUAL(reply.revision, request.revision);
    BOOST_REQUIRE_EQUAL(reply.enhanced, request.enhanced);
    BOOST_REQUIRE_EQUAL(to_hex(reply.private_data), "6e6f");
  });
}

BOOST_AUTO_TEST_SUITE_END()
