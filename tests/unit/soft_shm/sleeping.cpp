// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Two sides that sleep whenever they have nothing to do: a lost wake-up would hang the test.
#include "tests/unit/soft_shm/ring.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "providers/soft/shm/region.h"

namespace udapl::soft::shm::test {
namespace {

constexpr std::size_t kRing = 64;
constexpr std::size_t kTotal = 1 << 20;

// A bell: a byte in a pipe.
struct Bell {
  Bell() { BOOST_REQUIRE(::pipe(ends.data()) == 0); }
  ~Bell() {
    for (const int end : ends) ::close(end);
  }
  void ring() const noexcept {
    if (::write(ends[1], "", 1) != 1) std::abort();
  }
  void wait() const noexcept {
    char byte;
    if (::read(ends[0], &byte, 1) != 1) std::abort();
  }
  std::array<int, 2> ends{};
};

bool write_all(RingControl& control, std::span<std::byte> data, const Bell& ours,
               const Bell& theirs) {
  RingWriter writer(control, {{}, data}, data.size());
  const Bytes sent = pattern(kTotal);
  for (std::size_t done = 0, size = 1; done < kTotal; size = size % 90 + 1) {
    const RingMoved moved =
        writer.write(std::span(sent).subspan(done, std::min(size, kTotal - done)));
    if (moved.kind == RingMoved::kBroken) return false;
    if (moved.wake) theirs.ring();
    if (moved.kind == RingMoved::kBlocked && writer.may_sleep()) ours.wait();
    done += moved.bytes;
  }
  if (writer.finish()) theirs.ring();
  return true;
}

bool read_all(RingControl& control, std::span<std::byte> data, const Bell& ours,
              const Bell& theirs) {
  RingReader reader(control, {{}, data});
  Bytes got;
  std::array<std::byte, 48> room;
  for (;;) {
    const RingMoved moved = reader.read(room);
    if (moved.kind == RingMoved::kBroken) return false;
    if (moved.kind == RingMoved::kEnd) return got == pattern(kTotal);
    if (moved.wake) theirs.ring();
    if (moved.kind == RingMoved::kBlocked && reader.may_sleep()) ours.wait();
    got.insert(got.end(), room.begin(), room.begin() + static_cast<long>(moved.bytes));
  }
}

// Sleeps after each piece until the reader has delivered it.
void write_delivered(RingControl& control, std::span<std::byte> data, const Bell& ours,
                     const Bell& theirs) {
  RingWriter writer(control, {{}, data}, data.size());
  const Bytes sent = pattern(40);
  for (std::size_t done = 0; done < kTotal / 16;) {
    const RingMoved moved = writer.write(std::span(sent).first(done % 40 + 1));
    if (moved.wake) theirs.ring();
    done += moved.bytes;
    while (writer.delivered() < done)
      if (writer.may_sleep_until(done)) ours.wait();
  }
  if (writer.finish()) theirs.ring();
}

// Announces the delivery with the consumption and after it, in turn.
void read_delivered(RingControl& control, std::span<std::byte> data, const Bell& ours,
                    const Bell& theirs) {
  RingReader reader(control, {{}, data});
  std::uint64_t delivered = 0;
  for (int turn = 0; reader.end() == RingEnd::kNone || reader.has_input(); ++turn) {
    const std::size_t size = reader.input().size();
    if (size == 0) {
      if (reader.end() != RingEnd::kNone) return;
      if (reader.may_sleep()) ours.wait();
      continue;
    }
    const std::uint64_t before = delivered;
    delivered += size;
    if (reader.drop(size, turn % 2 == 0 ? delivered : before)) theirs.ring();
    if (reader.delivered(delivered)) theirs.ring();
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sleeping)

BOOST_AUTO_TEST_CASE(a_writer_sleeps_until_its_bytes_are_delivered) {
  Ring<kRing> ring;
  Bytes room(10);
  static_cast<void>(ring.writer.write(pattern(10)));
  BOOST_TEST(ring.writer.may_sleep_until(10));
  BOOST_TEST(!ring.reader.read(room).wake);  // read, but not processed
  BOOST_TEST(!ring.reader.delivered(9));
  BOOST_TEST(ring.reader.delivered(10));
  BOOST_TEST(ring.writer.delivered() == 10U);
  BOOST_TEST(!ring.reader.delivered(10));
  BOOST_TEST(!ring.writer.may_sleep_until(10));
  static_cast<void>(ring.writer.write(pattern(10)));
  BOOST_TEST(ring.writer.may_sleep_until(20));
  BOOST_TEST(ring.reader.input().size() == 10U);
  BOOST_TEST(!ring.reader.drop(5, 15));
  BOOST_TEST(ring.reader.drop(5, 20));
  // It may be waiting for room as well, and for one of both only.
  static_cast<void>(ring.writer.write(pattern(kRing)));
  BOOST_TEST(ring.writer.may_sleep());
  BOOST_TEST(ring.writer.may_sleep_until(20 + kRing));
  BOOST_TEST(ring.reader.read(room).wake);
  BOOST_TEST(!ring.reader.delivered(20 + kRing));  // it is awake
  BOOST_TEST(!ring.writer.may_sleep_until(20 + kRing));
}

BOOST_AUTO_TEST_CASE(a_message_tells_what_was_delivered) {
  Ring<kRing> ring;
  ring.writer.acknowledge(77);
  BOOST_TEST(ring.reader.acknowledged() == 0U);
  static_cast<void>(ring.writer.write(pattern(3)));
  BOOST_TEST(ring.reader.acknowledged() == 77U);
}

BOOST_AUTO_TEST_CASE(two_threads_and_delivery) {
  Ring<kRing> ring;
  const Bell writers;
  const Bell readers;
  std::thread other([&] { write_delivered(ring.control, ring.data(), writers, readers); });
  read_delivered(ring.control, ring.data(), readers, writers);
  other.join();
  BOOST_TEST(ring.control.delivered.load() == ring.control.head.load());
}

BOOST_AUTO_TEST_CASE(two_threads_lose_no_wakeup) {
  Ring<kRing> ring;
  const Bell writers;
  const Bell readers;
  bool written = false;
  std::thread other([&] { written = write_all(ring.control, ring.data(), writers, readers); });
  BOOST_TEST(read_all(ring.control, ring.data(), readers, writers));
  other.join();
  BOOST_TEST(written);
}

BOOST_AUTO_TEST_CASE(two_processes_lose_no_wakeup) {
  const Region region = Region::make(4096);
  BOOST_REQUIRE(region.valid());
  auto* const control = new (region.bytes().data()) RingControl{};
  const std::span<std::byte> data = region.bytes().subspan(sizeof(RingControl), kRing);
  const Bell writers;
  const Bell readers;
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) ::_exit(write_all(*control, data, writers, readers) ? 0 : 1);
  BOOST_TEST(read_all(*control, data, readers, writers));
  int status = -1;
  BOOST_TEST(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::shm::test
