// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RingWriter and RingReader that are honest.
#include "tests/unit/soft_shm/ring.h"

#include <algorithm>

namespace udapl::soft::shm::test {

BOOST_AUTO_TEST_SUITE(byte_ring)

BOOST_AUTO_TEST_CASE(empty_and_full) {
  Ring<16> ring;
  Bytes room(32);
  BOOST_TEST(ring.reader.read(room).kind == RingMoved::kBlocked);
  BOOST_TEST(ring.writer.write({}).kind == RingMoved::kBlocked);
  const Bytes sent = pattern(20);
  const RingMoved first = ring.writer.write(sent);
  BOOST_TEST(first.kind == RingMoved::kDone);
  BOOST_TEST(first.bytes == 16U);
  BOOST_TEST(ring.writer.unread() == 16U);
  BOOST_TEST(ring.writer.write(sent).kind == RingMoved::kBlocked);
  BOOST_TEST(ring.reader.read({}).kind == RingMoved::kBlocked);
  BOOST_TEST(ring.reader.read(room).bytes == 16U);
  BOOST_TEST(std::equal(sent.begin(), sent.begin() + 16, room.begin()));
  BOOST_TEST(ring.reader.read(room).kind == RingMoved::kBlocked);
  BOOST_TEST(ring.writer.unread() == 0U);
}

// Every pair of sizes, many times around.
BOOST_AUTO_TEST_CASE(every_split_at_every_place) {
  for (std::size_t out = 1; out <= 20; ++out) {
    for (std::size_t in = 1; in <= 20; ++in) {
      Ring<16> ring;
      const Bytes sent = pattern(400);
      Bytes got;
      std::size_t done = 0;
      while (got.size() < sent.size()) {
        const std::size_t count = std::min(out, sent.size() - done);
        done += ring.writer.write(std::span(sent).subspan(done, count)).bytes;
        Bytes room(in);
        const RingMoved moved = ring.reader.read(room);
        BOOST_REQUIRE(moved.kind == RingMoved::kDone);
        got.insert(got.end(), room.begin(), room.begin() + static_cast<long>(moved.bytes));
      }
      BOOST_TEST((got == sent));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_end_comes_behind_what_was_written) {
  Ring<16> ring;
  Bytes room(8);
  BOOST_TEST(ring.writer.write(pattern(12)).bytes == 12U);
  BOOST_TEST(!ring.writer.finish());
  BOOST_TEST(ring.reader.read(room).bytes == 8U);
  BOOST_TEST(ring.reader.read(room).bytes == 4U);
  BOOST_TEST(ring.reader.read(room).kind == RingMoved::kEnd);
  BOOST_TEST(ring.reader.read(room).kind == RingMoved::kEnd);
}

BOOST_AUTO_TEST_CASE(who_sleeps_is_woken_once) {
  Ring<16> ring;
  Bytes room(16);
  BOOST_TEST(ring.reader.may_sleep());
  BOOST_TEST(ring.writer.write(pattern(8)).wake);
  BOOST_TEST(!ring.writer.write(pattern(8)).wake);
  BOOST_TEST(!ring.reader.may_sleep());  // there is input
  BOOST_TEST(ring.writer.may_sleep());
  BOOST_TEST(ring.reader.read(room).wake);
  BOOST_TEST(!ring.writer.may_sleep());  // there is room
  BOOST_TEST(ring.reader.may_sleep());
  BOOST_TEST(ring.writer.finish());
  BOOST_TEST(!ring.reader.may_sleep());  // there is an end
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::shm::test
