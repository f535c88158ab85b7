// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A peer that writes arbitrary values into the shared page. Ring's canaries detect stray writes.
#include "tests/unit/soft_shm/ring.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>

namespace udapl::soft::shm::test {

namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

}  // namespace

BOOST_AUTO_TEST_SUITE(byte_ring_lies)

BOOST_AUTO_TEST_CASE(heads_that_cannot_be) {
  for (const std::uint64_t lie :
       std::array<std::uint64_t, 8>{3, 7, 9, 11, 25, 1000, kMax - 1, kMax}) {
    Ring<16> ring;
    Bytes room(32);
    BOOST_TEST(ring.writer.write(pattern(12)).bytes == 12U);
    BOOST_TEST(ring.reader.read(std::span(room).first(8)).bytes == 8U);
    BOOST_TEST(ring.reader.read({}).kind == RingMoved::kBlocked);
    ring.control.head.store(lie);
    BOOST_TEST(ring.reader.read(room).kind == RingMoved::kBroken);
    ring.control.head.store(12);  // it stays broken
    BOOST_TEST(ring.reader.read(room).kind == RingMoved::kBroken);
    BOOST_TEST(!ring.reader.may_sleep());
  }
}

BOOST_AUTO_TEST_CASE(tails_that_cannot_be) {
  for (const std::uint64_t lie : std::array<std::uint64_t, 5>{0, 3, 17, 1000, kMax}) {
    Ring<16> ring;
    Bytes room(8);
    BOOST_TEST(ring.writer.write(pattern(16)).bytes == 16U);
    BOOST_TEST(ring.reader.read(room).bytes == 8U);
    BOOST_TEST(ring.writer.unread() == 8U);
    ring.control.tail.store(lie);
    BOOST_TEST(ring.writer.write(pattern(16)).kind == RingMoved::kBroken);
    ring.control.tail.store(16);
    BOOST_TEST(ring.writer.write(pattern(16)).kind == RingMoved::kBroken);
    BOOST_TEST(!ring.writer.may_sleep());
  }
}

// Our own indexes in the page are written, but never read.
BOOST_AUTO_TEST_CASE(our_own_indexes_are_not_believed) {
  Ring<16> ring;
  Bytes room(16);
  ring.control.tail.store(0);
  BOOST_TEST(ring.writer.write(pattern(8)).bytes == 8U);
  BOOST_TEST(ring.reader.read(room).bytes == 8U);
  ring.control.head.store(kMax);
  BOOST_TEST(ring.writer.write(pattern(8)).bytes == 8U);
  BOOST_TEST(ring.control.head.load() == 16U);
}

// Invalid values for the bytes beside the index: the reader never reads more than the head
// announces.
BOOST_AUTO_TEST_CASE(latest_bytes_that_cannot_be) {
  for (const std::uint64_t head : std::array<std::uint64_t, 4>{1, 40, 41, 64}) {
    for (const std::uint64_t from : std::array<std::uint64_t, 4>{0, 1, 41, kMax}) {
      Ring<64> ring;
      ring.control.window.store(64);
      ring.control.latest_from.store(from);
      ring.control.latest[0].store(kMax);
      ring.control.head.store(head);
      const std::span<const std::byte> input = ring.reader.input();
      BOOST_TEST(input.size() == head);
      const bool beside = from == 0 && head <= 40;
      BOOST_TEST((input.front() == (beside ? std::byte{0xff} : std::byte{0})));
    }
  }
}

BOOST_AUTO_TEST_CASE(noise_in_the_page) {
  std::minstd_rand random(1);
  for (int round = 0; round < 20'000; ++round) {
    Ring<16> ring;
    Bytes room(40);
    const Bytes sent = pattern(40);
    for (int step = 0; step < 8; ++step) {
      const std::uint64_t lie = random() % 4 == 0 ? kMax - random() % 40 : random() % 40;
      if (random() % 2 == 0) ring.control.head.store(lie);
      if (random() % 2 == 0) ring.control.tail.store(lie);
      if (random() % 2 == 0) ring.control.latest_from.store(lie);
      ring.control.end.store(random() % 2);
      if (random() % 2 == 0) ring.control.window.store(1U << random() % 8);
      if (random() % 2 == 0) ring.control.base.store(random());
      ring.control.reader_sleeps.store(static_cast<std::uint32_t>(random()));
      const std::size_t count = random() % 40;
      BOOST_REQUIRE(ring.writer.write(std::span(sent).first(count)).bytes <= 16);
      BOOST_REQUIRE(ring.reader.read(std::span(room).first(count)).bytes <= 16);
      const std::span<const std::byte> input = ring.reader.input();
      BOOST_REQUIRE(input.size() <= 16);
      const std::byte* const reader = reinterpret_cast<const std::byte*>(&ring.reader);
      const bool copied = input.data() >= reader && input.data() < reader + sizeof ring.reader;
      BOOST_REQUIRE((input.empty() || copied ||
                     (input.data() >= ring.data().data() && &input.back() <= &ring.data().back())));
      static_cast<void>(ring.reader.drop(std::min(count, input.size()), 0));
      static_cast<void>(ring.reader.may_sleep());
      static_cast<void>(ring.writer.may_sleep());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::shm::test
