// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RingWriter and RingReader with an honest peer.
#include "tests/unit/soft_shm/ring.h"

#include <algorithm>
#include <thread>
#include <tuple>

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

template <std::size_t porch>
struct Porch {
  static constexpr std::size_t kSize = porch;
};
using Porches = std::tuple<Porch<0>, Porch<1>, Porch<7>, Porch<16>, Porch<100>>;

// Every pair of sizes, for many laps around the ring.
BOOST_AUTO_TEST_CASE_TEMPLATE(every_split_at_every_place, T, Porches) {
  for (std::size_t out = 1; out <= 20; ++out) {
    for (std::size_t in = 1; in <= 20; ++in) {
      Ring<16, T::kSize> ring;
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

// The first bytes do not touch the ring's data area, and there is as much room as without the
// porch.
BOOST_AUTO_TEST_CASE(porch_comes_first) {
  Ring<16, 10> ring;
  const Bytes sent = pattern(40);
  BOOST_TEST(ring.writer.write(std::span(sent).first(10)).bytes == 10U);
  BOOST_TEST(std::ranges::all_of(ring.data(), [](std::byte b) { return b == std::byte{0}; }));
  BOOST_TEST(ring.writer.write(std::span(sent).subspan(10)).bytes == 6U);
  BOOST_TEST(ring.writer.write(sent).kind == RingMoved::kBlocked);
  BOOST_TEST(ring.reader.input().size() == 10U);
  BOOST_TEST(ring.reader.cut());  // the rest is in the ring
  BOOST_TEST(std::ranges::equal(ring.reader.input(), std::span(sent).first(10)));
  BOOST_TEST(!ring.reader.drop(4, 0));
  BOOST_TEST(std::ranges::equal(ring.reader.input(), std::span(sent).subspan(4, 6)));
  BOOST_TEST(!ring.reader.drop(6, 0));
  BOOST_TEST(std::ranges::equal(ring.reader.input(), std::span(sent).subspan(10, 6)));
  BOOST_TEST(!ring.reader.cut());
}

// Reading in place: input() returns contiguous input, and drop() makes room.
BOOST_AUTO_TEST_CASE(input_lies_in_pieces) {
  Ring<16> ring;
  const Bytes sent = pattern(60);
  Bytes got;
  const auto take = [&](std::size_t most) {
    const std::span<const std::byte> input = ring.reader.input();
    const std::size_t count = std::min(most, input.size());
    got.insert(got.end(), input.begin(), input.begin() + static_cast<long>(count));
    BOOST_TEST(!ring.reader.drop(count, 0));
    return input.size();
  };
  BOOST_TEST(ring.reader.input().empty());
  std::size_t done = ring.writer.write(sent).bytes;
  BOOST_TEST(done == 16U);
  BOOST_TEST(take(10) == 16U);
  BOOST_TEST(!ring.reader.cut());
  done += ring.writer.write(std::span(sent).subspan(done)).bytes;
  BOOST_TEST(done == 26U);
  BOOST_TEST(ring.reader.input().size() == 6U);
  BOOST_TEST(ring.reader.cut());  // the rest is at the start of the ring
  BOOST_TEST(take(6) == 6U);
  BOOST_TEST(take(3) == 10U);
  Bytes room(5);
  BOOST_TEST(ring.reader.read(room).bytes == 5U);  // read() and input() can be mixed
  got.insert(got.end(), room.begin(), room.end());
  BOOST_TEST(take(16) == 2U);
  BOOST_TEST(ring.reader.input().empty());
  BOOST_TEST(ring.reader.position() == done);
  BOOST_TEST((got == pattern(done)));
}

// Bytes published by a single small write are read from beside the index, regardless of the ring's
// contents.
BOOST_AUTO_TEST_CASE(few_bytes_lie_beside_the_index) {
  constexpr std::size_t kMax = kLatestWords * 8;
  const Bytes sent = pattern(300);
  const auto begins = [&](RingReader& reader, std::size_t from, std::size_t size) {
    const std::span<const std::byte> input = reader.input();
    return input.size() == size && std::ranges::equal(input, std::span(sent).subspan(from, size));
  };
  for (const std::size_t size : {std::size_t{1}, std::size_t{13}, std::size_t{32}, kMax}) {
    Ring<128> ring;
    BOOST_TEST(ring.writer.write(std::span(sent).first(size)).bytes == size);
    const Bytes kept(ring.data().begin(), ring.data().end());
    std::ranges::fill(ring.data(), std::byte{0xee});
    BOOST_TEST(begins(ring.reader, 0, size));
    std::ranges::copy(kept, ring.data().begin());
    if (size == 1) continue;
    BOOST_TEST(!ring.reader.drop(1, 0));
    BOOST_TEST(begins(ring.reader, 1, size - 1));  // from the ring
  }
  Ring<128> ring;
  const auto write = [&](std::size_t from, std::size_t size) {
    BOOST_TEST(ring.writer.write(std::span(sent).subspan(from, size)).bytes == size);
  };
  write(0, kMax + 1);
  BOOST_TEST(begins(ring.reader, 0, kMax + 1));
  BOOST_TEST(!ring.reader.drop(kMax + 1, 0));
  write(kMax + 1, 20);
  write(kMax + 21, 20);
  BOOST_TEST(begins(ring.reader, kMax + 1, 40));
  BOOST_TEST(!ring.reader.drop(39, 0));
  write(kMax + 41, 50);  // wraps around
  BOOST_TEST(begins(ring.reader, kMax + 40, 128 - kMax - 40));
  BOOST_TEST(!ring.reader.drop(128 - kMax - 40, 0));
  BOOST_TEST(begins(ring.reader, 128, kMax + 41 + 50 - 128));
}

// The writer continues while the reader reads.
BOOST_AUTO_TEST_CASE(few_bytes_are_whole) {
  constexpr std::size_t kBytes = 1'000'000;
  Ring<1024> ring;
  const Bytes sent = pattern(kBytes + 64);
  std::jthread writer([&] {
    for (std::size_t at = 0, n = 0; at < kBytes; ++n) {
      const std::size_t bytes =
          ring.writer.write(std::span(sent).subspan(at, n * 7 % 56 + 4)).bytes;
      at += bytes;
      if (bytes == 0 || n % 64 == 0) std::this_thread::yield();
    }
  });
  std::size_t at = 0;
  bool same = true;
  while (at < kBytes) {
    const std::span<const std::byte> input = ring.reader.input();
    same = same && std::ranges::equal(input, std::span(sent).subspan(at, input.size()));
    at += input.size();
    if (input.empty()) std::this_thread::yield();
    static_cast<void>(ring.reader.drop(input.size(), 0));
  }
  BOOST_TEST(same);
}

BOOST_AUTO_TEST_CASE(input_is_cut_where_the_writer_cannot_go_on) {
  Ring<16> ring;
  BOOST_TEST(ring.writer.write(pattern(16)).bytes == 16U);
  BOOST_TEST(ring.reader.input().size() == 16U);
  BOOST_TEST(!ring.reader.cut());
  BOOST_TEST(ring.writer.may_sleep());
  BOOST_TEST(ring.reader.cut());
  ring.writer.stay_awake();
  BOOST_TEST(!ring.reader.cut());
  static_cast<void>(ring.writer.finish());
  BOOST_TEST(ring.reader.cut());
}

// Also at the end of a lap, after which writing continues at the beginning.
BOOST_AUTO_TEST_CASE(next_bytes_are_written_where_they_are_expected) {
  Ring<128 * 1024> ring;
  Bytes room(5000);
  std::size_t laps = 0;
  for (std::size_t written = 0; written != 100 * room.size(); written += room.size()) {
    const Bytes sent = pattern(room.size(), written);
    const std::span<const std::byte> place = ring.writer.next(sent.size());
    BOOST_REQUIRE_EQUAL(place.size(), sent.size());
    laps += place.data() == ring.data().data() ? 1 : 0;
    BOOST_REQUIRE_EQUAL(ring.writer.write(sent).bytes, sent.size());
    BOOST_TEST(std::ranges::equal(place, sent));
    BOOST_REQUIRE_EQUAL(ring.reader.read(room).bytes, sent.size());
  }
  BOOST_TEST(laps > 2U);
}

BOOST_AUTO_TEST_CASE(next_bytes_are_expected_within_the_window) {
  Ring<4096> ring;
  Bytes room(3000);
  static_cast<void>(ring.writer.write(pattern(room.size())));
  static_cast<void>(ring.reader.read(room));
  const std::span<const std::byte> place = ring.writer.next(room.size());
  BOOST_TEST(place.data() == ring.data().data() + 3000);
  BOOST_TEST(place.size() == 1096U);
}

// The window starts with 16 of 64 bytes. For a reader that is only slow, the writer waits instead.
BOOST_AUTO_TEST_CASE(window_grows_when_the_reader_does_not_read) {
  Ring<64> ring;
  RingWriter writer(ring.control, {{}, ring.data()}, 16);
  Bytes room(64);
  BOOST_TEST(writer.write(pattern(60)).bytes == 16U);
  for (int i = 0; i < 50; ++i) BOOST_TEST(!writer.has_room());
  BOOST_TEST(ring.reader.read(std::span(room).first(4)).bytes == 4U);
  BOOST_TEST(writer.has_room());
  BOOST_TEST(writer.write(pattern(60, 16)).bytes == 4U);
  BOOST_TEST(writer.may_sleep());
  BOOST_TEST(ring.reader.read(std::span(room).first(4)).wake);
  BOOST_TEST(writer.write(pattern(60, 20)).bytes == 4U);  // grows only after all has been read
  BOOST_TEST(ring.reader.read(room).bytes == 16U);
  BOOST_TEST(writer.write(pattern(60, 20)).bytes == 32U);
  BOOST_TEST(ring.reader.read(room).bytes == 32U);
  room.resize(32);
  BOOST_TEST((room == pattern(32, 20)));
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

BOOST_AUTO_TEST_CASE(sleeping_side_is_woken_once) {
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
