// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What each side sees when something fails: the table of docs/semantics.md#failed-transfers.
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

using transport::BreakReason;

struct Fixture : Pair {
  explicit Fixture(const Side::Options& b_options = {}) : Pair({}, b_options) {}

  std::vector<std::byte> near = pattern(4096, 3);
  std::vector<std::byte> far = pattern(4096, 4);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  DAT_RETURN send(WorkId id, std::size_t length) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_send(id, &segment, 1, kSignalled);
  }
  DAT_RETURN receive(WorkId id, std::size_t length) {
    const auto segment = local(*far_mr, far.data(), length);
    return b.qp->post_recv(id, &segment, 1, kSignalled);
  }
  DAT_RETURN read(WorkId id, const DAT_RMR_TRIPLET& from) {
    const auto segment = local(*near_mr, near.data(), from.segment_length);
    return a.qp->post_rdma_read(id, &segment, 1, from, kSignalled);
  }
  DAT_RETURN write(WorkId id, const DAT_RMR_TRIPLET& to) {
    const auto segment = local(*near_mr, near.data(), to.segment_length);
    return a.qp->post_rdma_write(id, &segment, 1, to, kSignalled);
  }
  void both_end() {
    BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  }
  // A refused Read: REMOTE_ACCESS and BROKEN on our side, BROKEN and no completion on the peer's.
  void refused(const DAT_RMR_TRIPLET& from) {
    REQUIRE_OK(read(1, from));
    REQUIRE_OK(send(2, 8));
    Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == 1U);
    BOOST_TEST(c.status == DAT_DTO_ERR_REMOTE_ACCESS);
    BOOST_TEST(c.operation == DAT_DTO_RDMA_READ);
    c = next(*a.request_cq);
    BOOST_TEST(c.id == 2U);
    BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
    both_end();
    BOOST_TEST(a.sink.calls() == "established broken");
    BOOST_TEST(b.sink.calls() == "established broken");
    BOOST_TEST((a.sink.reason == BreakReason::kRemoteFault));
    BOOST_TEST((b.sink.reason == BreakReason::kProtocol));
    BOOST_TEST(b.recv_cq->size() == 0);
    BOOST_TEST(b.request_cq->size() == 0);
  }
  // A refused Write.
  void write_refused(const DAT_RMR_TRIPLET& to) {
    const auto before = far;
    REQUIRE_OK(write(1, to));
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == 1U);
    BOOST_TEST(c.status == DAT_DTO_ERR_REMOTE_ACCESS);
    both_end();
    BOOST_TEST(a.sink.calls() == "established broken");
    BOOST_TEST(b.sink.calls() == "established broken");
    BOOST_TEST((far == before));
    // Later posts are flushed.
    REQUIRE_OK(write(2, to));
    BOOST_TEST(next(*a.request_cq).status == DAT_DTO_ERR_FLUSHED);
  }
};

BOOST_FIXTURE_TEST_SUITE(errors, Fixture)

BOOST_AUTO_TEST_CASE(receive_too_small) {
  REQUIRE_OK(receive(1, 99));
  REQUIRE_OK(receive(2, 99));
  REQUIRE_OK(send(10, 100));
  Completion c = next(*b.recv_cq);
  BOOST_TEST(c.id == 1U);
  BOOST_TEST(c.status == DAT_DTO_ERR_LOCAL_LENGTH);
  BOOST_TEST(c.length == 0U);
  BOOST_TEST(c.operation == DAT_DTO_RECEIVE);
  c = next(*b.recv_cq);
  BOOST_TEST(c.id == 2U);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
  both_end();
  BOOST_TEST(b.sink.calls() == "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kLocalFault));
  BOOST_TEST(a.sink.calls() == "established broken");
}

BOOST_AUTO_TEST_CASE(unreported_send_gets_the_error) {
  REQUIRE_OK(receive(1, 99));
  REQUIRE_OK(read(9, remote(far_mr->rmr_context(), far.data(), 4096)));
  REQUIRE_OK(send(10, 100));
  REQUIRE_OK(send(11, 100));
  both_end();
  // The Read may or may not be answered before the Send breaks the connection.
  Completion c = next(*a.request_cq);
  BOOST_TEST(c.id == 9U);
  const bool answered = c.status == DAT_DTO_SUCCESS;
  c = next(*a.request_cq);
  BOOST_TEST(c.id == 10U);
  if (!answered) BOOST_TEST(c.status == DAT_DTO_ERR_REMOTE_RESPONDER);
  c = next(*a.request_cq);
  BOOST_TEST(c.id == 11U);
  if (!answered) BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
}

struct StrictFixture : Fixture {
  StrictFixture() : Fixture({.no_receive_limit = Clock::duration::zero()}) {}
};

BOOST_FIXTURE_TEST_CASE(no_receive_posted, StrictFixture) {
  REQUIRE_OK(send(10, 100));
  both_end();
  BOOST_TEST(b.sink.calls() == "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kNoReceive));
  BOOST_TEST(a.sink.calls() == "established broken");
  BOOST_TEST((a.sink.reason == BreakReason::kRemoteFault));
}

BOOST_AUTO_TEST_CASE(read_with_an_unknown_context) {
  refused(remote(far_mr->rmr_context() + 1, far.data(), 10));
}
BOOST_AUTO_TEST_CASE(read_with_a_freed_context) {
  const auto context = far_mr->rmr_context();
  far_mr.reset();
  refused(remote(context, far.data(), 10));
}
BOOST_AUTO_TEST_CASE(read_one_byte_beyond) {
  refused(remote(far_mr->rmr_context(), far.data() + 1, 4096));
}
BOOST_AUTO_TEST_CASE(read_one_byte_before) {
  refused(remote(far_mr->rmr_context(), far.data() - 1, 4096));
}
BOOST_AUTO_TEST_CASE(read_whose_range_wraps) {
  refused({UINT64_MAX - 5, 10, far_mr->rmr_context()});
}
BOOST_AUTO_TEST_CASE(read_without_the_right) {
  auto mr = b.reg(far, static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
  refused(remote(mr->rmr_context(), far.data(), 10));
}
BOOST_AUTO_TEST_CASE(read_of_another_domain) {
  auto mr = b.reg(far.data(), far.size(), kAll, DAT_VA_TYPE_VA, 2);
  refused(remote(mr->rmr_context(), far.data(), 10));
}

BOOST_AUTO_TEST_CASE(write_with_an_unknown_context) {
  write_refused(remote(far_mr->rmr_context() + 1, far.data(), 10));
}
BOOST_AUTO_TEST_CASE(write_one_byte_beyond) {
  write_refused(remote(far_mr->rmr_context(), far.data() + 1, 4096));
}
BOOST_AUTO_TEST_CASE(write_without_the_right) {
  auto mr = b.reg(far, static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG));
  write_refused(remote(mr->rmr_context(), far.data(), 10));
}
BOOST_AUTO_TEST_CASE(write_into_another_domain) {
  auto mr = b.reg(far.data(), far.size(), kAll, DAT_VA_TYPE_VA, 2);
  write_refused(remote(mr->rmr_context(), far.data(), 10));
}

BOOST_AUTO_TEST_CASE(bad_local_segments_are_refused_at_the_post) {
  auto read_only = a.reg(near, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  auto foreign = a.reg(near.data(), near.size(), kAll, DAT_VA_TYPE_VA, 2);
  const DAT_RMR_TRIPLET to = remote(*far_mr, far);
  const auto expect = [&](DAT_LMR_TRIPLET segment, DAT_RETURN source, DAT_RETURN sink) {
    BOOST_TEST(a.qp->post_send(1, &segment, 1, kSignalled) == source);
    BOOST_TEST(a.qp->post_send_invalidate(1, &segment, 1, 5, kSignalled) == source);
    BOOST_TEST(a.qp->post_rdma_write(1, &segment, 1, to, kSignalled) == source);
    BOOST_TEST(a.qp->post_write_immediate(1, &segment, 1, to, 0, kSignalled) == source);
    DAT_RMR_TRIPLET from = to;
    from.segment_length = 1;
    BOOST_TEST(a.qp->post_rdma_read(1, &segment, 1, from, kSignalled) == sink);
    BOOST_TEST(a.qp->post_recv(1, &segment, 1, kSignalled) == sink);
  };
  const DAT_RETURN privileges = dat_error(DAT_PRIVILEGES_VIOLATION);
  const DAT_RETURN protection = dat_error(DAT_PROTECTION_VIOLATION);
  const DAT_RETURN invalid = dat_error(DAT_INVALID_PARAMETER);
  expect({reinterpret_cast<DAT_VADDR>(near.data()), 8, 0xFFFFFFFF}, privileges, privileges);
  expect(local(*foreign, near), protection, protection);
  expect(local(*near_mr, near.data() + 4097, 8), invalid, invalid);
  const auto beyond = local(*near_mr, near.data() + 1, 4096);  // would do for a receive
  BOOST_TEST(a.qp->post_send(1, &beyond, 1, kSignalled) == invalid);
  BOOST_TEST(a.qp->post_rdma_read(1, &beyond, 1, to, kSignalled) == invalid);
  const auto readable = local(*read_only, near.data(), 8);
  BOOST_TEST(a.qp->post_recv(1, &readable, 1, kSignalled) == privileges);
  BOOST_TEST(a.qp->post_rdma_read(1, &readable, 1, remote(far_mr->rmr_context(), far.data(), 8),
                                  kSignalled) == privileges);
  // The second of two segments is invalid: the first one leaves no pin behind.
  const DAT_LMR_TRIPLET two[] = {local(*near_mr, near), local(*foreign, near)};
  BOOST_TEST(a.qp->post_send(1, two, 2, kSignalled) == protection);
  // More segments than the QP was created for.
  const std::vector<DAT_LMR_TRIPLET> many(9, local(*near_mr, near.data(), 1));
  BOOST_TEST(a.qp->post_send(1, many.data(), 9, kSignalled) == invalid);
  BOOST_TEST(a.qp->post_rdma_read(1, many.data(), 2, to, kSignalled) ==
             dat_error(DAT_LENGTH_ERROR));
  BOOST_TEST(quiet(*a.request_cq));

  REQUIRE_OK(receive(1, 8));
  REQUIRE_OK(send(2, 8));
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
}

// As on verbs devices (docs/compatibility.md C1).
BOOST_AUTO_TEST_CASE(reading_ones_own_memory_needs_no_right) {
  auto write_only = a.reg(near, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  const auto segment = local(*write_only, near.data(), 100);
  REQUIRE_OK(receive(1, 100));
  REQUIRE_OK(a.qp->post_send(2, &segment, 1, kSignalled));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
  BOOST_TEST((std::memcmp(near.data(), far.data(), 100) == 0));
}

BOOST_AUTO_TEST_CASE(receive_into_freed_memory) {
  REQUIRE_OK(receive(1, 100));
  REQUIRE_OK(receive(2, 100));
  far_mr.reset();
  const auto before = far;
  REQUIRE_OK(send(10, 100));
  Completion c = next(*b.recv_cq);
  BOOST_TEST(c.id == 1U);
  BOOST_TEST(c.status == DAT_DTO_ERR_LOCAL_PROTECTION);
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_FLUSHED);
  both_end();
  BOOST_TEST((far == before));
  BOOST_TEST(b.sink.calls() == "established broken");
}

BOOST_AUTO_TEST_CASE(read_into_freed_memory) {
  std::vector<std::byte> sink(100);
  auto sink_mr = a.reg(sink);
  // Because of its fence the second Read is not started before the first is complete; its memory is
  // freed meanwhile.
  REQUIRE_OK(read(1, remote(far_mr->rmr_context(), far.data(), 4096)));
  const auto segment = local(*sink_mr, sink);
  REQUIRE_OK(a.qp->post_rdma_read(2, &segment, 1, remote(far_mr->rmr_context(), far.data(), 100),
                                  kSignalled | kFence));
  sink_mr.reset();
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
  const Completion c = next(*a.request_cq);
  BOOST_TEST(c.id == 2U);
  // SUCCESS if the Read was faster than the test.
  BOOST_TEST((c.status == DAT_DTO_ERR_LOCAL_PROTECTION || c.status == DAT_DTO_SUCCESS));
}

BOOST_AUTO_TEST_CASE(queued_send_whose_memory_is_freed) {
  std::vector<std::byte> source(100);
  auto source_mr = a.reg(source);
  for (WorkId id = 0; id < 4; ++id)
    REQUIRE_OK(read(id, remote(far_mr->rmr_context(), far.data(), 4096)));
  const auto segment = local(*source_mr, source);
  REQUIRE_OK(receive(1, 100));
  REQUIRE_OK(a.qp->post_send(5, &segment, 1, kSignalled | kFence));
  source_mr.reset();
  for (WorkId id = 0; id < 4; ++id) BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
  const Completion c = next(*a.request_cq);
  BOOST_TEST(c.id == 5U);
  BOOST_TEST((c.status == DAT_DTO_ERR_LOCAL_PROTECTION || c.status == DAT_DTO_SUCCESS));
  if (c.status != DAT_DTO_SUCCESS) {
    both_end();
    BOOST_TEST((a.sink.reason == BreakReason::kLocalFault));
  }
}

BOOST_AUTO_TEST_CASE(everything_is_flushed_in_order_behind_a_failure) {
  for (WorkId id = 0; id < 5; ++id) REQUIRE_OK(receive(id, 100));
  for (WorkId id = 0; id < 5; ++id) {
    const auto segment = local(*near_mr, near.data(), 100);
    REQUIRE_OK(a.qp->post_recv(id, &segment, 1, kSignalled));
  }
  REQUIRE_OK(read(20, remote(far_mr->rmr_context() + 1, far.data(), 10)));
  // Suppressed requests are reported, too: a flush is not a success.
  for (WorkId id = 21; id < 26; ++id) {
    const auto segment = local(*near_mr, near.data(), 8);
    REQUIRE_OK(
        a.qp->post_rdma_write(id, &segment, 1, remote(far_mr->rmr_context(), far.data(), 8), 0));
  }
  both_end();
  Completion c = next(*a.request_cq);
  BOOST_TEST(c.id == 20U);
  BOOST_TEST(c.status == DAT_DTO_ERR_REMOTE_ACCESS);
  for (WorkId id = 21; id < 26; ++id) {
    c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
    BOOST_TEST(c.operation == DAT_DTO_RDMA_WRITE);
  }
  for (Side* const side : {&a, &b}) {
    for (WorkId id = 0; id < 5; ++id) {
      c = next(*side->recv_cq);
      BOOST_TEST(c.id == id);
      BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
      BOOST_TEST(c.operation == DAT_DTO_RECEIVE);
    }
  }
  // In the error state every post completes at once, after the earlier ones.
  for (WorkId id = 30; id < 500; ++id) {
    REQUIRE_OK(send(id, 8));
    const auto segment = local(*near_mr, near.data(), 100);
    REQUIRE_OK(a.qp->post_recv(id, &segment, 1, kSignalled));
    Completion got{};
    BOOST_REQUIRE(a.request_cq->poll(&got, 1) == 1);
    BOOST_TEST(got.id == id);
    BOOST_REQUIRE(a.recv_cq->poll(&got, 1) == 1);
    BOOST_TEST(got.id == id);
    BOOST_TEST(got.status == DAT_DTO_ERR_FLUSHED);
  }
}

BOOST_AUTO_TEST_CASE(requests_are_refused_before_the_connection) {
  RecordingSink sink;
  auto qp = a.make_qp(sink);
  const auto segment = local(*near_mr, near.data(), 8);
  BOOST_TEST(qp->post_send(1, &segment, 1, kSignalled) == dat_error(DAT_INVALID_STATE));
  CHECK_OK(qp->post_recv(1, &segment, 1, kSignalled));
}

// The peer serves no Reads: the Read fails on our side, instead of breaking the connection on the
// peer's without an explanation.
BOOST_AUTO_TEST_CASE(read_towards_a_peer_that_serves_none) {
  Side::Options none;
  none.read_in = 0;
  none.confirms_writes = false;
  Pair pair({}, none);
  std::vector<std::byte> bytes(100);
  auto mr = pair.a.reg(bytes);
  const auto segment = local(*mr, bytes);
  REQUIRE_OK(pair.a.qp->post_rdma_read(1, &segment, 1, {1000, 100, 5}, kSignalled));
  BOOST_TEST(pair.next(*pair.a.request_cq).status == DAT_DTO_ERR_REMOTE_RESPONDER);
  BOOST_REQUIRE(pair.wait([&] { return pair.a.sink.ended() && pair.b.sink.ended(); }));
}

BOOST_AUTO_TEST_CASE(completion_queue_overflow_breaks_its_qps_only) {
  Side::Options small;
  small.cq_depth = 3;
  Pair pair({}, small);
  for (WorkId id = 0; id < 6; ++id) REQUIRE_OK(pair.b.qp->post_recv(id, nullptr, 0, kSignalled));
  // Five completions, for a queue of three.
  for (WorkId id = 0; id < 5; ++id) REQUIRE_OK(pair.a.qp->post_send(id, nullptr, 0, 0));
  BOOST_REQUIRE(pair.wait([&] { return pair.b.recv_sink.overflowed == 1 && pair.b.sink.ended(); }));
  BOOST_TEST(pair.b.sink.calls() == "established broken");
  for (WorkId id = 0; id < 3; ++id) {
    Completion c{};
    BOOST_REQUIRE(pair.b.recv_cq->poll(&c, 1) == 1);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  }
  BOOST_TEST(pair.b.request_sink.overflowed == 0);
  // The fixture's own connection is not affected.
  REQUIRE_OK(receive(1, 8));
  REQUIRE_OK(send(2, 8));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
}

BOOST_AUTO_TEST_CASE(soft_watermark_fires_once) {
  b.qp->set_watermarks(2, -1);
  REQUIRE_OK(receive(1, 8));
  REQUIRE_OK(receive(2, 8));
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(b.sink.soft_watermarks == 0);
  REQUIRE_OK(receive(3, 8));
  BOOST_REQUIRE(wait([&] { return b.sink.soft_watermarks == 1; }));
  REQUIRE_OK(receive(4, 8));
  BOOST_TEST(quiet(*b.recv_cq));
  BOOST_TEST(b.sink.soft_watermarks == 1);
  b.qp->set_watermarks(3, -1);  // exceeded already
  BOOST_REQUIRE(wait([&] { return b.sink.soft_watermarks == 2; }));
  BOOST_TEST(b.qp->receive_counts().held == 4);
  BOOST_TEST(b.qp->receive_counts().span == 4);
  REQUIRE_OK(send(9, 8));
  BOOST_TEST(next(*b.recv_cq).id == 1U);
  BOOST_TEST(b.qp->receive_counts().held == 3);
}

BOOST_AUTO_TEST_CASE(hard_watermark_breaks_the_connection) {
  b.qp->set_watermarks(-1, 1);
  REQUIRE_OK(receive(1, 8));
  BOOST_TEST(quiet(*b.recv_cq));
  REQUIRE_OK(receive(2, 8));
  both_end();
  BOOST_TEST(b.sink.calls() == "established broken");
  BOOST_TEST((b.sink.reason == BreakReason::kWatermark));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
