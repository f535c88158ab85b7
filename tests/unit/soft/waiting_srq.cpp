// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Messages that wait for the receives of an SRQ.
#include "tests/unit/soft/waiting.h"

namespace udapl::soft::test {
namespace {

using transport::BreakReason;
using transport::DisconnectMode;

constexpr Side::Options with_srq() {
  Side::Options options;
  options.srq = true;
  return options;
}
struct SrqFixture : WaitingPair {
  SrqFixture() : WaitingPair(with_srq()) {}
};

BOOST_AUTO_TEST_SUITE(waiting)

BOOST_FIXTURE_TEST_CASE(a_send_waits_for_the_srq, SrqFixture) {
  for (WorkId id = 0; id < 20; ++id) REQUIRE_OK(send(id, 3000, id));
  BOOST_TEST(quiet(*b.recv_cq));
  for (WorkId id = 0; id < 20; ++id) {
    REQUIRE_OK(receive(id, 3000));
    expect_received(id, 3000, id);
  }
}

BOOST_FIXTURE_TEST_CASE(a_hard_watermark_counts_what_is_taken, SrqFixture) {
  b.qp->set_watermarks(-1, 0);
  REQUIRE_OK(send(1, 10));
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(b.sink.calls() == "established");  // a held message occupies no buffer
  REQUIRE_OK(receive(1, 10));
  expect_calls("established broken", "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kWatermark));
}

// Two connections on one SRQ get every other buffer each, although one has many more messages.
BOOST_FIXTURE_TEST_CASE(connections_of_an_srq_take_turns, SrqFixture) {
  Side c;  // a second peer of b
  RecordingSink sink;
  const std::unique_ptr<Qp> second = b.make_qp(sink);
  auto [active, passive] = tcp_pair();
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*b.reactor, std::move(passive), transport::Endpoints{});
  auto responder = negotiated(false);
  responder.reply = kReply;
  BOOST_REQUIRE(second->attach(stream, responder).ok());
  attach_initiator(c, std::move(active), negotiated(true));
  BOOST_REQUIRE(eventually([&] { return sink.calls() == "established"; }, {&a, &b, &c}));
  const auto c_mr = c.reg(near);
  const auto short_message = local(*c_mr, near.data(), 1);
  for (WorkId id = 0; id < 40; ++id) REQUIRE_OK(send(id, 2));
  for (WorkId id = 0; id < 10; ++id) REQUIRE_OK(c.qp->post_send(id, &short_message, 1, kSignalled));
  for (int i = 0; i < 20; ++i) {
    for (Side* const s : {&a, &b, &c}) s->reactor->progress();
    std::this_thread::sleep_for(1ms);
  }
  int of_c = 0;
  for (WorkId id = 0; id < 20; ++id) {
    REQUIRE_OK(receive(id, 10));
    Completion got{};
    BOOST_REQUIRE(eventually([&] { return b.recv_cq->poll(&got, 1) == 1; }, {&a, &b, &c}));
    BOOST_TEST(got.id == id);
    if (got.length == 1) ++of_c;
  }
  BOOST_TEST(of_c == 10);
}

// A buffer promised to an EP that ends goes to the next waiter.
BOOST_FIXTURE_TEST_CASE(a_buffer_promised_to_a_dead_connection, SrqFixture) {
  RecordingSink sink;
  std::unique_ptr<Qp> second = b.make_qp(sink);
  auto [active, passive] = tcp_pair();
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*b.reactor, std::move(passive), transport::Endpoints{});
  auto responder = negotiated(false);
  responder.reply = kReply;
  BOOST_REQUIRE(second->attach(stream, responder).ok());
  Side c;
  attach_initiator(c, std::move(active), negotiated(true));
  BOOST_REQUIRE(eventually([&] { return sink.calls() == "established"; }, {&a, &b, &c}));
  REQUIRE_OK(c.qp->post_send(1, nullptr, 0, kSignalled));
  for (int i = 0; i < 20; ++i) {
    for (Side* const s : {&b, &c}) s->reactor->progress();
    std::this_thread::sleep_for(1ms);
  }
  REQUIRE_OK(send(1, 50));
  BOOST_TEST(quiet(*b.recv_cq));
  REQUIRE_OK(receive(1, 50));  // promised to the second connection
  second.reset();
  Completion got{};
  // The second connection may have taken the buffer before it ended.
  BOOST_REQUIRE(eventually([&] { return b.recv_cq->poll(&got, 1) == 1 || b.srq->available() == 0; },
                           {&a, &b}));
  REQUIRE_OK(receive(2, 50));
  BOOST_REQUIRE(got.length == 50 ||
                wait([&] { return b.recv_cq->poll(&got, 1) == 1 && got.length == 50; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
