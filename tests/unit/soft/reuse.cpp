// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A QP that is used again after its connection: reset, modify.
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

BOOST_AUTO_TEST_SUITE(reuse)

BOOST_FIXTURE_TEST_CASE(reset_and_connect_again_many_times, Pair) {
  for (int round = 0; round < 20; ++round) {
    REQUIRE_OK(b.qp->post_recv(1, nullptr, 0, kSignalled));
    REQUIRE_OK(a.qp->post_send(2, nullptr, 0, kSignalled));
    BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
    BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
    BOOST_TEST(a.qp->reset().code() == dat_error(DAT_INVALID_STATE));
    Side& ender = round % 2 == 0 ? a : b;
    Side& other = round % 2 == 0 ? b : a;
    const std::string before = other.sink.calls();
    ender.qp->disconnect(transport::DisconnectMode::kAbrupt);
    // A late "established" from the start of the connection must not be mistaken for its end.
    BOOST_REQUIRE(wait([&] {
      const std::string now = other.sink.calls();
      return now != before && !now.ends_with("established");
    }));
    REQUIRE_OK(a.qp->reset().code());
    REQUIRE_OK(b.qp->reset().code());
    REQUIRE_OK(a.qp->reset().code());  // no effect on an idle QP
    connect();
  }
}

BOOST_AUTO_TEST_CASE(modify_keeps_posted_receives) {
  Pair pair;
  pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_REQUIRE(pair.wait([&] { return pair.a.sink.ended(); }));
  REQUIRE_OK(pair.a.qp->reset().code());
  REQUIRE_OK(pair.b.qp->reset().code());
  auto data = pattern(10);
  std::vector<std::byte> room(10);
  auto from = pair.a.reg(data);
  auto to = pair.b.reg(room);
  for (WorkId id = 0; id < 10; ++id) {
    const auto one = local(*to, &room[id], 1);
    REQUIRE_OK(pair.b.qp->post_recv(id, &one, 1, kSignalled));
  }
  auto init = pair.b.init(pair.b.sink);
  init.max_recv = 5;
  BOOST_TEST(pair.b.qp->modify(init).code() == dat_error(DAT_INVALID_PARAMETER));
  CountingCqSink other_sink;
  auto other_cq = std::make_unique<Cq>(*pair.b.reactor, 100, other_sink);
  init.max_recv = 100;
  init.max_recv_segments = 1;
  init.max_request = 200;
  init.recv_cq = other_cq.get();
  REQUIRE_OK(pair.b.qp->modify(init).code());
  for (WorkId id = 10; id < 100; ++id) REQUIRE_OK(pair.b.qp->post_recv(id, nullptr, 0, kSignalled));
  pair.connect();
  BOOST_TEST(pair.b.qp->modify(init).code() == dat_error(DAT_INVALID_STATE));
  for (WorkId id = 0; id < 10; ++id) {
    const auto one = local(*from, &data[id], 1);
    REQUIRE_OK(pair.a.qp->post_send(id, &one, 1, 0));
  }
  for (WorkId id = 0; id < 10; ++id) BOOST_TEST(pair.next(*other_cq).id == id);
  BOOST_TEST((room == data));
  BOOST_TEST(pair.b.recv_cq->size() == 0);
  pair.b.qp.reset();
}

// After the QP has changed its protection domain, a receive posted in the old domain fails and does
// not write into memory.
BOOST_AUTO_TEST_CASE(change_of_domain_ends_the_old_receives) {
  for (const bool back : {false, true}) {
    Pair pair;
    auto data = pattern(10);
    std::vector<std::byte> room(10);
    auto from = pair.a.reg(data);
    auto to = pair.b.reg(room);
    const auto sink = local(*to, room);
    const auto source = local(*from, data);
    for (WorkId id = 10; id != 20; ++id) {  // the registration stays pinned
      REQUIRE_OK(pair.b.qp->post_recv(id, &sink, 1, kSignalled));
      REQUIRE_OK(pair.a.qp->post_send(id, &source, 1, 0));
      BOOST_REQUIRE(pair.next(*pair.b.recv_cq).id == id);
    }
    std::ranges::fill(room, std::byte{0});
    pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt);
    BOOST_REQUIRE(pair.wait([&] { return pair.a.sink.ended(); }));
    REQUIRE_OK(pair.a.qp->reset().code());
    REQUIRE_OK(pair.b.qp->reset().code());
    REQUIRE_OK(pair.b.qp->post_recv(1, nullptr, 0, kSignalled));  // without memory
    REQUIRE_OK(pair.b.qp->post_recv(2, &sink, 1, kSignalled));
    Pd other(77);
    auto init = pair.b.init(pair.b.sink);
    init.pd = &other;
    REQUIRE_OK(pair.b.qp->modify(init).code());
    if (back) REQUIRE_OK(pair.b.qp->modify(pair.b.init(pair.b.sink)).code());
    pair.connect();
    REQUIRE_OK(pair.a.qp->post_send(1, nullptr, 0, 0));
    BOOST_TEST(pair.next(*pair.b.recv_cq).status == DAT_DTO_SUCCESS);
    REQUIRE_OK(pair.a.qp->post_send(2, &source, 1, 0));
    const Completion c = pair.next(*pair.b.recv_cq);
    BOOST_TEST(c.id == 2U);
    BOOST_TEST(c.status == (back ? DAT_DTO_SUCCESS : DAT_DTO_ERR_LOCAL_PROTECTION));
    BOOST_TEST((room == data) == back);
    if (back) continue;
    BOOST_REQUIRE(pair.wait([&] { return pair.a.sink.ended() && pair.b.sink.ended(); }));
    BOOST_TEST(pair.b.sink.calls().ends_with("established broken"));
    BOOST_TEST((pair.b.sink.reason == transport::BreakReason::kLocalFault));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
