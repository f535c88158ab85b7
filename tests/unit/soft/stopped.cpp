// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A process that was stopped and continues: timers that are due run before the descriptors are
// looked at, and what the peer has sent meanwhile must count.
#include "tests/unit/soft/raw_peer.h"
#include "tests/unit/soft/standstill.h"

namespace udapl::soft::test {
namespace {

BOOST_AUTO_TEST_SUITE(stopped)

// Long enough for the service thread to take over, so that it is the one that stands still.
constexpr auto kLease = 100ms;

struct Fixture {
  explicit Fixture(Clock::duration peer_timeout) : peer({.peer_timeout = peer_timeout}) {
    BOOST_REQUIRE(peer.side.qp->post_recv(7, &triplet, 1, kSignalled) == DAT_SUCCESS);
    const iwarp::IoSpan span{data.data(), data.size()};
    peer.sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 100);
    peer.build();
  }
  void expect_received() {
    Completion c{};
    BOOST_REQUIRE(eventually([&] { return peer.side.recv_cq->poll(&c, 1) == 1; }));
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST((room == data));
  }

  RawPeer peer;
  std::vector<std::byte> data = pattern(100);
  std::vector<std::byte> room = std::vector<std::byte>(100);
  std::unique_ptr<Mr> room_mr = peer.side.reg(room);
  DAT_LMR_TRIPLET triplet = local(*room_mr, room);
};

BOOST_AUTO_TEST_CASE(rest_of_a_frame_has_arrived) {
  constexpr auto kLimit = 1s;
  Fixture f(kLimit);
  const auto frame = f.peer.bytes();
  f.peer.raw(std::span(frame).first(50));
  std::this_thread::sleep_for(kLease);
  {
    const Standstill stopped(*f.peer.side.reactor);
    f.peer.raw(std::span(frame).subspan(50));
    std::this_thread::sleep_for(kLimit);
  }
  f.expect_received();
  BOOST_TEST(f.peer.side.sink.calls() == "established");
}

// After our graceful disconnect the peer has two seconds for its own.
BOOST_AUTO_TEST_CASE(last_message_has_arrived) {
  Fixture f(20s);
  f.peer.side.qp->disconnect(transport::DisconnectMode::kGraceful);
  std::this_thread::sleep_for(kLease);
  {
    const Standstill stopped(*f.peer.side.reactor);
    f.peer.raw(f.peer.bytes());
    std::this_thread::sleep_for(2100ms);
  }
  f.expect_received();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
