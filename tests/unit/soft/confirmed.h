// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <algorithm>
#include <optional>

namespace udapl::soft::test {

// A pair whose passive side stands still until the test lets it run.
struct ConfirmedPair : Pair {
  ConfirmedPair() { b_stands.emplace(*b.reactor); }

  std::vector<std::byte> near = pattern(256 * 1024, 3);
  std::vector<std::byte> far{256 * 1024};
  std::vector<std::byte> inbox{4096};
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);
  std::unique_ptr<Mr> inbox_mr = b.reg(inbox);
  std::optional<Standstill> b_stands;

  DAT_RETURN write(WorkId id, std::size_t length, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_rdma_write(id, &segment, 1, remote(*far_mr, far), flags);
  }
  DAT_RETURN write_outside(WorkId id, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), 64);
    return a.qp->post_rdma_write(id, &segment, 1, remote(0xBAD, far.data(), 64), flags);
  }
  DAT_RETURN send(WorkId id, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), 64);
    return a.qp->post_send(id, &segment, 1, flags);
  }
  DAT_RETURN receive(WorkId id) {
    const auto segment = local(*inbox_mr, inbox.data(), 64);
    return b.qp->post_recv(id, &segment, 1, kSignalled);
  }
  // Whether a completion comes while only a is driven.
  [[nodiscard]] bool completes() {
    for (int i = 0; i < 50; ++i) {
      a.reactor->progress();
      if (a.request_cq->size() != 0) return true;
      std::this_thread::sleep_for(100us);
    }
    return false;
  }
  void expect(WorkId id, DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == status);
  }
  [[nodiscard]] bool placed(std::size_t length) const { return same_bytes(near, far, length); }
};

}  // namespace udapl::soft::test
