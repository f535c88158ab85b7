// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RDMA Writes complete when the peer has placed them: over shared memory (docs/adr/0039), and over
// TCP (0084). The peer stands still while nothing may be placed.
#include "tests/unit/soft/confirmed.h"

namespace udapl::soft::test {

BOOST_FIXTURE_TEST_SUITE(confirmed, ConfirmedPair)

BOOST_AUTO_TEST_CASE(a_write_completes_once_it_is_placed) {
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{8}, std::size_t{4096}, near.size()}) {
    if (!b_stands) b_stands.emplace(*b.reactor);
    std::ranges::copy(pattern(near.size(), static_cast<unsigned>(length)), near.begin());
    REQUIRE_OK(write(1, length));
    const bool early = completes();
    BOOST_TEST((!early || (is_direct() && placed(length))));  // done by direct access
    b_stands.reset();
    expect(1);
    BOOST_TEST(placed(length));
  }
}

BOOST_AUTO_TEST_CASE(a_send_does_not_wait) {
  REQUIRE_OK(receive(9));
  REQUIRE_OK(send(1));
  BOOST_TEST(completes());
  expect(1);
}

// It may be the only signalled request of a batch, and then tells that all of them are done.
BOOST_AUTO_TEST_CASE(a_send_behind_a_write_waits) {
  REQUIRE_OK(receive(9));
  for (WorkId id = 1; id <= 10; ++id) REQUIRE_OK(write(id, 500, 0));
  REQUIRE_OK(send(11));
  BOOST_TEST(!completes());
  b_stands.reset();
  expect(11);
  BOOST_TEST(placed(500));
  BOOST_TEST(quiet(*a.request_cq));
}

BOOST_AUTO_TEST_CASE(write_before_an_unreceived_send_completes) {
  REQUIRE_OK(write(1, 64));
  REQUIRE_OK(send(2, 0));
  REQUIRE_OK(write(3, 4096));
  REQUIRE_OK(send(4, 0));
  REQUIRE_OK(write(5, 8000));
  b_stands.reset();
  expect(1);
  BOOST_TEST(quiet(*a.request_cq));
  REQUIRE_OK(receive(9));
  expect(3);
  BOOST_TEST(placed(4096));
  BOOST_TEST(quiet(*a.request_cq));
  BOOST_TEST(!placed(8000));
  REQUIRE_OK(receive(9));
  expect(5);
  BOOST_TEST(placed(8000));
}

// What b answers after it has seen a Write does not overtake the completion of that Write.
BOOST_AUTO_TEST_CASE(an_answer_comes_after_the_completion) {
  b_stands.reset();
  std::vector<std::byte> in(64);
  const auto in_mr = a.reg(in);
  const auto sink = local(*in_mr, in);
  const auto from = local(*inbox_mr, inbox.data(), 64);
  for (WorkId id = 1; id <= 200; ++id) {
    near[7] = static_cast<std::byte>(id);
    REQUIRE_OK(a.qp->post_recv(id, &sink, 1, kSignalled));
    REQUIRE_OK(write(id, 8));
    BOOST_REQUIRE(eventually([&] { return placed(8); }, {&b}));
    REQUIRE_OK(b.qp->post_send(id, &from, 1, 0));
    b.reactor->progress();
    BOOST_REQUIRE(eventually([&] { return a.recv_cq->size() == 1; }, {&a}));
    BOOST_REQUIRE(a.request_cq->size() == 1);
    expect(id);
    BOOST_TEST(next(*a.recv_cq).id == id);
  }
}

// Among requests that wait for an answer, or for nothing.
BOOST_AUTO_TEST_CASE(completions_keep_their_order) {
  std::vector<std::byte> sink(64);
  const auto sink_mr = a.reg(sink);
  const auto segment = local(*sink_mr, sink);
  b_stands.reset();
  for (int round = 0; round < 50; ++round) {
    for (WorkId id = 0; id < 5; ++id) REQUIRE_OK(receive(id));
    for (WorkId id = 0; id < 20; ++id) {
      if (id % 4 == 0)
        REQUIRE_OK(send(id));
      else if (id % 4 == 1)
        REQUIRE_OK(a.qp->post_rdma_read(id, &segment, 1,
                                        remote(far_mr->rmr_context(), far.data(), 64), kSignalled));
      else
        REQUIRE_OK(write(id, id % 4 == 2 ? 8 : 20'000,
                         id % 8 == 3 ? WorkFlags{0} : WorkFlags{kSignalled}));
    }
    for (WorkId id = 0; id < 20; ++id)
      if (id % 8 != 3) expect(id);
  }
  BOOST_TEST(quiet(*a.request_cq));
}

// The consumer may post any number of requests whose completion it does not see.
BOOST_AUTO_TEST_CASE(suppressed_ones_do_not_fill_the_queue) {
  for (WorkId id = 1; id <= 1000; ++id)
    REQUIRE_OK(write(id, 64, id % 10 == 0 ? kSignalled | kUnseen : 0U));
  b_stands.reset();
  Completion c{};
  REQUIRE_OK(write(1001, 128));
  do {
    c = next(*a.request_cq);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  } while (c.id != 1001);
  BOOST_TEST(placed(128));
}

BOOST_AUTO_TEST_CASE(a_full_queue_sends_what_was_gathered) {
  b_stands.reset();
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 8; ++i) REQUIRE_OK(receive(9));
    BOOST_REQUIRE(wait([&] { return a.reactor->polled(); }));
    for (WorkId id = 1; id <= 8; ++id) REQUIRE_OK(send(id));
    a.qp->complete_requests();
    BOOST_TEST(a.request_cq->size() == 8);
    for (WorkId id = 1; id <= 8; ++id) expect(id);
    BOOST_REQUIRE(wait([&] { return b.recv_cq->size() == 8; }));
    for (int i = 0; i < 8; ++i) (void)next(*b.recv_cq);
  }
}

// ... but what it sees tells that they are done, also if they have given up their places just now.
BOOST_AUTO_TEST_CASE(the_next_completion_waits_for_suppressed_ones) {
  const int half = a.options.max_request / 2;
  for (int count = half - 2; count <= half + 2; ++count) {
    if (!b_stands) b_stands.emplace(*b.reactor);
    REQUIRE_OK(receive(9));
    std::ranges::copy(pattern(64, static_cast<unsigned>(count)), near.begin());
    for (int i = 0; i < count; ++i) REQUIRE_OK(write(1, 64, 0));
    REQUIRE_OK(send(2));
    const bool early = completes();
    BOOST_TEST((!early || (is_direct() && placed(64))));
    b_stands.reset();
    expect(2);
    BOOST_TEST(placed(64));
  }
}

// The peer reports why: it is the Write's own error, and those before it have succeeded.
BOOST_AUTO_TEST_CASE(a_refused_write_never_succeeds) {
  REQUIRE_OK(write(1, 64));
  REQUIRE_OK(write(2, 64, 0));
  REQUIRE_OK(write_outside(3));
  REQUIRE_OK(write(4, 64));
  REQUIRE_OK(send(5));
  b_stands.reset();
  expect(1);
  expect(3, DAT_DTO_ERR_REMOTE_ACCESS);
  expect(4, DAT_DTO_ERR_FLUSHED);
  expect(5, DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(a_refused_write_is_reported_even_if_suppressed) {
  REQUIRE_OK(write_outside(1, 0));
  b_stands.reset();
  expect(1, DAT_DTO_ERR_REMOTE_ACCESS);
}

// The end of the connection finds the first Write confirmed and the other one not.
BOOST_AUTO_TEST_CASE(a_qp_is_destroyed_while_the_peer_holds_a_write) {
  REQUIRE_OK(write(1, 64));
  REQUIRE_OK(send(2));  // no receive: the peer will never get past it
  REQUIRE_OK(write(3, 4096));
  const Standstill a_stands(*a.reactor);
  b_stands.reset();
  BOOST_REQUIRE(eventually([&] { return placed(64); }, {&b}));
  a.qp.reset();
  BOOST_TEST(a.request_cq->size() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
