// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A QP whose peer's stream ends at any byte, is random, or has one changed field in a frame.
#include <random>

#include "providers/soft/iwarp/crc32c.h"
#include "tests/unit/soft/raw_peer.h"

namespace udapl::soft::test {
namespace {

using transport::BreakReason;

BOOST_FIXTURE_TEST_SUITE(damaged_streams, RawPeer)

// The peer ends a stream of all kinds of messages at every byte, by FIN or by RST.
BOOST_AUTO_TEST_CASE(peer_that_is_gone_at_any_byte) {
  std::vector<std::byte> stream;
  const auto data = pattern(200);
  const iwarp::IoSpan span{data.data(), data.size()};
  for (int i = 0; i < 2; ++i) {
    sender.begin_send(iwarp::Opcode::kSendSolicited, 0, {&span, 1}, 200);
    build();
    sender.begin_write(mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()),
                       {&span, 1}, 200);
    build();
    sender.begin_read_request(
        {77, 0, 4096, mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data())});
    build();
    sender.begin_immediate({}, false);
    build();
  }
  stream = bytes();
  std::mt19937 random(1);
  for (std::size_t end = 0; end < stream.size(); end += 1 + random() % 23) {
    side.qp->disconnect(transport::DisconnectMode::kAbrupt);
    REQUIRE_OK(side.qp->reset().code());
    Completion c{};
    while (side.recv_cq->poll(&c, 1) == 1) {
    }
    std::vector<std::byte> room(200);
    auto room_mr = side.reg(room);
    const auto receive = local(*room_mr, room);
    for (WorkId id = 0; id < 5; ++id) REQUIRE_OK(side.qp->post_recv(id, &receive, 1, kSignalled));
    open();
    const std::string before = side.sink.calls();
    raw(std::span<const std::byte>(stream).first(end));
    if (random() % 2 == 0)
      reset_peer();
    else
      ::shutdown(peer.get(), SHUT_WR);
    BOOST_REQUIRE_MESSAGE(wait([&] { return side.sink.calls() != before; }), "cut at " << end);
    // Every receive has completed exactly once, in order.
    WorkId next = 0;
    while (side.recv_cq->poll(&c, 1) == 1) BOOST_REQUIRE_EQUAL(c.id, next++);
    BOOST_REQUIRE_EQUAL(next, 5U);
  }
  check_intact();
}

BOOST_AUTO_TEST_CASE(random_bytes_do_no_harm) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    side.qp->disconnect(transport::DisconnectMode::kAbrupt);
    REQUIRE_OK(side.qp->reset().code());
    std::vector<std::byte> room(200);
    auto room_mr = side.reg(room);
    const auto receive = local(*room_mr, room);
    REQUIRE_OK(side.qp->post_recv(1, &receive, 1, kSignalled));
    open();
    const std::string before = side.sink.calls();
    std::vector<std::byte> noise(1 + random() % 4000);
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    raw(noise);
    ::shutdown(peer.get(), SHUT_WR);
    BOOST_REQUIRE(wait([&] { return side.sink.calls() != before; }));
    BOOST_REQUIRE(side.sink.calls().ends_with("broken"));
    Completion c{};
    while (side.recv_cq->poll(&c, 1) == 1) {
    }
  }
  check_intact();
}

// Valid frames with one changed field and a recomputed CRC.
BOOST_AUTO_TEST_CASE(mutated_frames_with_good_crc) {
  std::mt19937 random(11);
  const auto data = pattern(64);
  const iwarp::IoSpan span{data.data(), data.size()};
  for (int round = 0; round < 600; ++round) {
    side.qp->disconnect(transport::DisconnectMode::kAbrupt);
    REQUIRE_OK(side.qp->reset().code());
    std::vector<std::byte> room(64);
    auto room_mr = side.reg(room);
    const auto receive = local(*room_mr, room);
    for (WorkId id = 0; id < 4; ++id) REQUIRE_OK(side.qp->post_recv(id, &receive, 1, kSignalled));
    open();
    switch (random() % 6) {
      case 0:
        sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 64);
        break;
      case 1:
        sender.begin_write(mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()),
                           {&span, 1}, 64);
        break;
      case 2:
        sender.begin_read_request(
            {77, 0, 64, mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data())});
        break;
      case 3:
        sender.begin_atomic_request(iwarp::AtomicRequest::fetch_add(
            1, mr->rmr_context(), reinterpret_cast<std::uint64_t>(memory.data()) & ~7ULL, 1));
        break;
      case 4:
        sender.begin_immediate({}, true);
        break;
      default:
        sender.begin_send(iwarp::Opcode::kSendInvalidate, mr->rmr_context(), {&span, 1}, 64);
        break;
    }
    build();
    auto frame = bytes();
    const std::size_t covered = frame.size() - 4;
    const std::size_t at = 2 + random() % std::min<std::size_t>(covered - 2, 60);
    frame[at] ^= static_cast<std::byte>(1U << random() % 8);
    iwarp::store_crc(frame.data() + covered, iwarp::crc32c(frame.data(), covered));
    raw(frame);
    ::shutdown(peer.get(), SHUT_WR);
    BOOST_REQUIRE(wait([&] {
      return side.sink.calls().ends_with("broken") || side.sink.calls().ends_with("disconnected");
    }));
    Completion c{};
    while (side.recv_cq->poll(&c, 1) == 1) {
    }
  }
  check_intact();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
