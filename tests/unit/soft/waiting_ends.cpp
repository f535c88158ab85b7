// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The end of a connection while messages wait for their receives.
#include "tests/unit/soft/raw_peer.h"
#include "tests/unit/soft/waiting.h"

namespace udapl::soft::test {
namespace {

using transport::BreakReason;
using transport::DisconnectMode;

BOOST_AUTO_TEST_SUITE(waiting)

// The receives are posted a little later than the peer's FIN arrives.
BOOST_FIXTURE_TEST_CASE(messages_before_a_graceful_disconnect_arrive, WaitingPair) {
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(send(id, 1000, id));
  a.qp->disconnect(DisconnectMode::kGraceful);
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(b.sink.calls() == "established");
  for (WorkId id = 0; id < 10; ++id) {
    REQUIRE_OK(receive(id, 1000));
    expect_received(id, 1000, id);
  }
  expect_calls("established disconnected", "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(graceful_end_without_receives_is_delivered, WaitingPair) {
  REQUIRE_OK(send(1, 1000));
  a.qp->disconnect(DisconnectMode::kGraceful);
  expect_calls("established disconnected", "established disconnected");
  BOOST_TEST(b.recv_cq->size() == 0);
}

// The FIN is behind more data than b can hold, which is therefore not read.
BOOST_FIXTURE_TEST_CASE(a_disconnect_behind_more_than_is_held, WaitingPair) {
  REQUIRE_OK(send(1, 1400000));
  a.qp->disconnect(DisconnectMode::kGraceful);
  expect_calls("established disconnected", "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(our_graceful_disconnect_while_messages_wait, WaitingPair) {
  for (WorkId id = 0; id < 3; ++id) REQUIRE_OK(send(id, 900000, id));
  // Long enough for b to read as much as it can hold, also on a slow machine.
  for (int i = 0; i < 5; ++i) BOOST_TEST(quiet(*b.recv_cq));
  b.qp->disconnect(DisconnectMode::kGraceful);
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  BOOST_TEST(b.sink.calls() == "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(our_abrupt_disconnect_while_messages_wait, WaitingPair) {
  REQUIRE_OK(send(1, 1000));
  expect_sent(1);
  BOOST_TEST(quiet(*b.recv_cq));
  b.qp->disconnect(DisconnectMode::kAbrupt);
  BOOST_REQUIRE(wait([&] { return a.sink.ended(); }));
  REQUIRE_OK(receive(1, 1000));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_FLUSHED);
  REQUIRE_OK(b.qp->reset().code());
  REQUIRE_OK(a.qp->reset().code());
  connect();  // without any remains of the old connection
  REQUIRE_OK(receive(2, 10));
  REQUIRE_OK(send(2, 10, 9));
  expect_received(2, 10, 9);
}

BOOST_FIXTURE_TEST_CASE(a_reset_of_the_peer_ends_the_waiting, RawPeer) {
  const auto message = pattern(100, 5);
  const iwarp::IoSpan span{message.data(), message.size()};
  sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 100);
  flush();
  for (int i = 0; i < 20; ++i) side.reactor->progress();
  reset_peer();
  expect_broken(BreakReason::kTransportLost);
}

// The reset is noticed even if so much is held that the QP has stopped reading.
BOOST_FIXTURE_TEST_CASE(a_reset_of_the_peer_while_nothing_is_read, RawPeer) {
  const auto message = pattern(1500000, 5);
  const iwarp::IoSpan span{message.data(), message.size()};
  sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, 1500000);
  while (sender.busy()) {
    sender.fill(batch, 1);
    raw(bytes());
    batch.consume(batch.pending_bytes());
    for (int i = 0; i < 5; ++i) side.reactor->progress();
  }
  reset_peer();
  expect_broken(BreakReason::kTransportLost);
}

BOOST_FIXTURE_TEST_CASE(a_terminate_of_the_peer_ends_the_waiting, RawPeer) {
  sender.begin_send(iwarp::Opcode::kSend, 0, {}, 0);
  flush();
  sender.begin_terminate(iwarp::make_terminate(iwarp::TerminateCode::kRdmapLocalCatastrophic));
  flush();
  expect_broken(BreakReason::kRemoteFault);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
