// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RDMA Writes that are confirmed by the index of the ring's reader (docs/adr/0039).
#include "tests/unit/soft/confirmed.h"

namespace udapl::soft::test {

BOOST_FIXTURE_TEST_SUITE(confirmed_by_rings, ConfirmedPair)

// No side is driven: a's service thread sleeps until b's wakes it, because a's completion is wanted
// before or after it has gone to sleep. The Writes are so small that no timer of the rings wakes
// it.
BOOST_AUTO_TEST_CASE(a_sleeping_writer_is_woken) {
  for (WorkId id = 1; id <= 20; ++id) {
    if (!b_stands) b_stands.emplace(*b.reactor);
    if (id % 4 == 0) a.request_cq->arm();
    REQUIRE_OK(write(2 * id, 100, 0));
    REQUIRE_OK(write(2 * id + 1, 64));
    std::this_thread::sleep_for(5ms);
    if (!is_direct()) BOOST_TEST(a.request_cq->size() == 0U);
    if (id % 4 == 1) a.request_cq->arm();
    b_stands.reset();
    if (id % 4 == 2) std::this_thread::sleep_for(5ms);
    if (id % 4 >= 2) a.request_cq->arm();
    BOOST_REQUIRE(eventually([&] { return a.request_cq->size() == 1; }));
    expect(2 * id + 1);
  }
}

// No thread waits, so none is woken, but the next poll finds it.
BOOST_AUTO_TEST_CASE(polls_find_what_has_woken_nobody) {
  b_stands.reset();
  for (WorkId id = 1; id <= 10; ++id) {
    REQUIRE_OK(write(id, 64));
    std::this_thread::sleep_for(2ms);
    BOOST_REQUIRE(eventually([&] { return a.request_cq->size() == 1; }, {&a}));
    expect(id);
  }
}

// A program that has seen the peer's reaction in memory may post again without a poll.
BOOST_AUTO_TEST_CASE(a_full_queue_looks_for_the_confirmation) {
  for (WorkId id = 1; id <= 4; ++id) REQUIRE_OK(write(id, 64));
  const Standstill a_stands(*a.reactor);
  b_stands.reset();
  BOOST_REQUIRE(wait([&] {
    b.reactor->progress();
    return same_bytes(near, far, 64);
  }));
  BOOST_REQUIRE(wait([&] {
    a.qp->complete_requests();
    return a.request_cq->size() == 4;
  }));
}

BOOST_AUTO_TEST_CASE(one_that_the_peer_never_reads_does_not_succeed) {
  REQUIRE_OK(write(1, 64));
  REQUIRE_OK(write(2, 64));
  b.qp->disconnect(transport::DisconnectMode::kAbrupt);
  b_stands.reset();
  BOOST_TEST(next(*a.request_cq).status != DAT_DTO_SUCCESS);
  expect(2, DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(a_graceful_disconnect_does_not_wait) {
  REQUIRE_OK(write(1, 64));
  REQUIRE_OK(send(2));  // no receive: the peer will never get past it
  REQUIRE_OK(write(3, 64));
  a.qp->disconnect(transport::DisconnectMode::kGraceful);
  b_stands.reset();
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  BOOST_TEST(a.sink.calls() == "established disconnected");
  expect(1);
  expect(2);
  expect(3, DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
