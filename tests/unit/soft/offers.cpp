// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// When the next receive is offered to the peer (docs/adr/0080).
#include "tests/unit/soft/support.h"

#include "providers/soft/direct_access.h"

namespace udapl::soft::test {
namespace {

struct Fixture : Pair {
  std::vector<std::byte> near = pattern(kMinSharedInSeries, 3);
  std::vector<std::byte> far = std::vector<std::byte>(kMinSharedInSeries);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  Fixture() { MemoryLink::offers = false; }
  void receive() {
    const auto segment = local(*far_mr, far);
    REQUIRE_OK(b.qp->post_recv(1, &segment, 1, kSignalled));
  }
  void send(std::size_t length) {
    const auto segment = local(*near_mr, near.data(), length);
    REQUIRE_OK(a.qp->post_send(2, &segment, 1, kSignalled));
    BOOST_TEST(next(*b.recv_cq).length == length);
    BOOST_TEST(next(*a.request_cq).id == 2U);
  }
};

BOOST_AUTO_TEST_SUITE(offers)

// The number of a message that was offered a receive recurs: none may still be offered then.
BOOST_FIXTURE_TEST_CASE(for_some_messages_after_a_large_one, Fixture) {
  constexpr int kOffered = 16;
  receive();
  BOOST_TEST(!MemoryLink::offers);
  for (int round = 0; round < 3; ++round) {
    send(kMinSharedInSeries);
    for (int i = 0; i < kOffered; ++i) {
      receive();
      BOOST_TEST(MemoryLink::offers);
      send(8);
    }
    receive();
    BOOST_TEST(!MemoryLink::offers);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
