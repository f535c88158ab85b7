// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/unit/soft/support.h"

namespace udapl::soft::test {

// Two connected QPs: a sends to b, which may not have posted a receive.
struct WaitingPair : Pair {
  explicit WaitingPair(const Side::Options& b_options = {}) : Pair({}, b_options) {}

  std::vector<std::byte> near = pattern(3 << 20, 3);
  std::vector<std::byte> far = std::vector<std::byte>(3 << 20);
  std::vector<std::byte> area = std::vector<std::byte>(4096);  // for a's Writes and Reads
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);
  std::unique_ptr<Mr> area_mr = b.reg(area);

  DAT_RETURN send(WorkId id, std::size_t length, std::size_t from = 0) {
    const auto segment = local(*near_mr, near.data() + from, length);
    return a.qp->post_send(id, &segment, 1, kSignalled);
  }
  DAT_RETURN receive(WorkId id, std::size_t length) {
    const auto segment = local(*far_mr, far.data(), length);
    if (b.srq != nullptr) return b.srq->post_recv(id, &segment, 1);
    return b.qp->post_recv(id, &segment, 1, kSignalled);
  }
  DAT_RETURN write(WorkId id, std::size_t length) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_rdma_write(id, &segment, 1, remote(*area_mr, area), kSignalled);
  }
  // b reads from a.
  DAT_RETURN read_back(WorkId id, std::size_t length) {
    const auto segment = local(*far_mr, far.data() + (2 << 20), length);
    return b.qp->post_rdma_read(id, &segment, 1,
                                remote(near_mr->rmr_context(), near.data(), length), kSignalled);
  }
  void expect_sent(WorkId id) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  }
  void expect_received(WorkId id, std::size_t length, std::size_t from = 0) {
    const Completion c = next(*b.recv_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST(c.length == length);
    BOOST_TEST(std::memcmp(far.data(), near.data() + from, length) == 0);
  }
  void expect_calls(const char* of_a, const char* of_b) {
    BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
    BOOST_TEST(a.sink.calls() == of_a);
    BOOST_TEST(b.sink.calls() == of_b);
  }
};

}  // namespace udapl::soft::test
