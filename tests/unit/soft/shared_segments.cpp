// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Large Sends with a header: their last segment is shared, if what precedes it is short
// (docs/adr/0111).
#include "tests/unit/soft/shared_sends.h"

namespace udapl::soft::test {
namespace {

using Lengths = std::vector<std::size_t>;

// A message with these segments, and a receive with those, for a peer that stands. Returns whether
// its last segment has been written.
bool passes_shared(Fixture& pair, const Lengths& sent, const Lengths& received) {
  pair.send_before = sent;
  pair.receive_before = received;
  pair.pass(5);  // the next receive is offered after a message of this kind
  std::ranges::fill(pair.far, std::byte{0});
  pair.receive(5);
  pair.send_to_standing_b([] {});
  pair.expect(DAT_DTO_SUCCESS);
  BOOST_TEST((pair.next(*pair.a.request_cq).status == DAT_DTO_SUCCESS));
  BOOST_TEST((pair.near == pair.far));
  return pair.shared;
}

BOOST_AUTO_TEST_SUITE(shared_sends)

BOOST_AUTO_TEST_CASE(payload_behind_a_header) {
  for (const Lengths& sent : {Lengths{1}, Lengths{64}, Lengths{2047}, Lengths{64, 100}})
    until_shared([&](Fixture& pair) { passes_shared(pair, sent, {}); });
}

BOOST_AUTO_TEST_CASE(receives_with_room_for_the_header) {
  for (const Lengths& received : {Lengths{1}, Lengths{64}, Lengths{32, 32}})
    until_shared([&](Fixture& pair) { passes_shared(pair, {64}, received); });
}

// A part that this side would write could belong to an earlier segment of the receive.
BOOST_FIXTURE_TEST_CASE(receives_with_room_for_more_than_the_header, Fixture) {
  acquaint();
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(!passes_shared(*this, {}, {64}));
    BOOST_TEST(!passes_shared(*this, {64}, {65}));
  }
}

BOOST_FIXTURE_TEST_CASE(long_headers, Fixture) {
  acquaint();
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(!passes_shared(*this, {2048}, {}));
    BOOST_TEST(!passes_shared(*this, {1024, 1024}, {}));
    BOOST_TEST(!passes_shared(*this, {4096}, {2048}));
  }
}

BOOST_AUTO_TEST_CASE(both_sides_place_the_payload) {
  until_shared([](Fixture& pair) {
    const int before = writes;
    for (unsigned round = 0; round < 16; ++round) {
      const std::size_t length = round % 2 == 0 ? kLarge : kMinSharedInSeries + 4 * round + 1;
      pair.send_before = {1 + 100 * round};
      pair.receive_before = round % 4 == 3 ? Lengths{} : Lengths{1 + 99 * round};
      pair.pass_driven(round, length);
    }
    pair.shared = writes != before;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
