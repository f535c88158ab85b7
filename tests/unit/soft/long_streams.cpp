// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Sustained traffic between two QPs.
#include "tests/unit/soft/support.h"

#include <array>
#include <cstring>

namespace udapl::soft::test {
namespace {

BOOST_AUTO_TEST_SUITE(transfer)

// Sustained traffic through wrapping ring buffers, in both directions at the same time.
BOOST_AUTO_TEST_CASE(long_streams_in_both_directions) {
  Side::Options small;
  small.max_recv = 5;
  small.max_request = 3;
  Pair pair(small, small);
  constexpr WorkId kCount = 3000;
  struct Stream {
    Side* from;
    Side* to;
    std::vector<std::byte> data = pattern(9000);
    std::vector<std::byte> room = std::vector<std::byte>(9000);
    std::unique_ptr<Mr> data_mr;
    std::unique_ptr<Mr> room_mr;
    WorkId posted = 0;
    WorkId received = 0;
    WorkId sent = 0;
    WorkId completed = 0;
  };
  std::array<Stream, 2> streams{Stream{&pair.a, &pair.b, {}, {}, {}, {}},
                                Stream{&pair.b, &pair.a, {}, {}, {}, {}}};
  for (Stream& s : streams) {
    s.data = pattern(9000);
    s.room.resize(9000);
    s.data_mr = s.from->reg(s.data);
    s.room_mr = s.to->reg(s.room);
  }
  const auto size_of = [](WorkId id) { return static_cast<std::size_t>(id * 37 % 1801); };
  const bool finished = pair.wait([&] {
    bool all = true;
    for (Stream& s : streams) {
      while (s.posted < kCount && s.posted - s.received < 5) {
        const auto receive = local(*s.room_mr, s.room.data() + s.posted % 5 * 1800, 1800);
        REQUIRE_OK(s.to->qp->post_recv(s.posted++, &receive, 1, kSignalled));
      }
      while (s.sent < s.posted && s.sent - s.completed < 3) {
        const auto send = local(*s.data_mr, s.data.data() + s.sent % 5 * 1800, size_of(s.sent));
        REQUIRE_OK(s.from->qp->post_send(s.sent++, &send, 1, kSignalled));
      }
      Completion c[16];
      for (int i = 0, n = s.from->request_cq->poll(c, 16); i < n; ++i)
        BOOST_REQUIRE_EQUAL(c[i].id, s.completed++);
      for (int i = 0, n = s.to->recv_cq->poll(c, 16); i < n; ++i) {
        BOOST_REQUIRE_EQUAL(c[i].id, s.received);
        BOOST_REQUIRE_EQUAL(c[i].length, size_of(s.received));
        const std::size_t at = s.received % 5 * 1800;
        BOOST_REQUIRE(std::memcmp(s.room.data() + at, s.data.data() + at, c[i].length) == 0);
        ++s.received;
      }
      all = all && s.received == kCount;
    }
    return all;
  });
  BOOST_TEST(finished);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
