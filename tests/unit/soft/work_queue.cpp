// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/work_queue.h"

#include "providers/soft/pin_set.h"
#include "providers/soft/qp.h"
#include "providers/soft/staging.h"
#include "tests/unit/soft/support.h"

#include <sys/mman.h>
#include <unistd.h>

namespace udapl::soft::test {
namespace {

// What each connection holds, however idle it is. If one of these grows, so does a program with
// thousands of connections: see docs/performance.md.
static_assert(sizeof(Qp) <= 2400 && sizeof(Request) <= 128 && sizeof(Receive) <= 32);

BOOST_AUTO_TEST_SUITE(work_queue)

BOOST_AUTO_TEST_CASE(ring_of_any_depth_holds_exactly_that_many) {
  for (const std::uint32_t depth : {0U, 1U, 2U, 3U, 5U, 8U, 100U}) {
    WorkRing<Receive> ring(depth, 2);
    for (int round = 0; round < 3; ++round) {
      for (std::uint32_t i = 0; i < depth; ++i) {
        BOOST_REQUIRE(!ring.full());
        ring.next().id = i;
        ring.segments(ring.tail())[1].length = i;
        ring.push();
      }
      BOOST_TEST(ring.full());
      for (std::uint32_t i = 0; i < depth; ++i) {
        BOOST_TEST(ring.at(ring.head()).id == i);
        BOOST_TEST(ring.segments(ring.head())[1].length == i);
        ring.pop();
      }
      BOOST_TEST(ring.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(places_that_were_never_used_take_no_memory) {
  constexpr std::uint32_t kDepth = 65536;
  WorkRing<Request> ring(kDepth, 4);
  for (void* const place :
       {static_cast<void*>(&ring.at(kDepth / 2)), static_cast<void*>(ring.segments(kDepth / 2))}) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(place) & ~(page - 1);
    unsigned char present = 1;
    BOOST_REQUIRE_EQUAL(::mincore(reinterpret_cast<void*>(start), page, &present), 0);
    BOOST_TEST((present & 1) == 0);
  }
}

struct Memory : MrTable::Keeper {
  Memory() { table.add(*this); }
  ~Memory() override { table.remove(*this); }
  void let_go(MrRef gone) noexcept override {
    ++asked;
    kept.let_go(gone);
  }
  MrRef another() {
    return *table.register_memory(
        1, {reinterpret_cast<DAT_VADDR>(bytes.data()), bytes.size(), kAll, DAT_VA_TYPE_VA});
  }

  MrTable table;
  KeptPin kept;
  int asked = 0;
  std::vector<std::byte> bytes = std::vector<std::byte>(1000);
  MrRef ref = *table.register_memory(
      1, {reinterpret_cast<DAT_VADDR>(bytes.data()), bytes.size(), kAll, DAT_VA_TYPE_VA});
};

BOOST_FIXTURE_TEST_CASE(scatter_fills_segments_front_to_back, Memory) {
  const Segment segments[] = {
      {bytes.data() + 500, 3, ref}, {bytes.data(), 10, ref}, {bytes.data() + 100, 87, ref}};
  const auto data = pattern(100);
  for (const std::size_t step : {1U, 2U, 3U, 7U, 13U, 100U}) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    Scatter scatter;
    scatter.start(segments);
    for (std::size_t at = 0; at < 100; at += step)
      BOOST_REQUIRE(scatter.place(
          table, kept, std::span(data).subspan(at, std::min(step, std::size_t{100} - at))));
    BOOST_TEST((std::memcmp(&bytes[500], data.data(), 3) == 0));
    BOOST_TEST((std::memcmp(bytes.data(), &data[3], 10) == 0));
    BOOST_TEST((std::memcmp(&bytes[100], &data[13], 87) == 0));
    BOOST_TEST((bytes[503] == std::byte{0}));
    BOOST_TEST((bytes[187] == std::byte{0}));
  }
}

BOOST_FIXTURE_TEST_CASE(scatter_stops_when_the_memory_goes, Memory) {
  const Segment segments[] = {{bytes.data(), 10, ref}};
  const auto data = pattern(10);
  Scatter scatter;
  scatter.start(segments);
  BOOST_TEST(scatter.place(table, kept, std::span(data).first(4)));
  table.revoke(ref);
  BOOST_TEST(!scatter.place(table, kept, std::span(data).subspan(4)));
  BOOST_TEST((bytes[4] == std::byte{0}));
}

// A revocation that did not ask the keeper would never end.
BOOST_FIXTURE_TEST_CASE(kept_pin_is_let_go_when_the_memory_goes, Memory) {
  const Segment segments[] = {{bytes.data(), 10, ref}};
  const auto data = pattern(10);
  Scatter scatter;
  scatter.start(segments);
  for (std::size_t at = 0; at < 4; ++at)
    BOOST_TEST(scatter.place(table, kept, std::span(data).subspan(at, 1)));
  BOOST_TEST((kept.kept() == ref));
  table.revoke(ref);
  BOOST_TEST(asked == 1);
  BOOST_TEST((kept.kept() == MrRef()));
  BOOST_TEST(!scatter.place(table, kept, std::span(data).subspan(4)));
  BOOST_TEST((bytes[4] == std::byte{0}));
}

// Programs that register memory for each message use each registration once.
BOOST_FIXTURE_TEST_CASE(memory_that_is_used_once_is_not_kept, Memory) {
  for (int i = 0; i < 10; ++i) {
    const MrRef once = another();
    BOOST_TEST(!kept.holds(table, once));
    table.revoke(once);
  }
  BOOST_TEST(asked == 0);
}

BOOST_FIXTURE_TEST_CASE(kept_pin_gives_way_to_what_is_used_instead, Memory) {
  const MrRef other = another();
  BOOST_TEST(!kept.holds(table, ref));
  BOOST_TEST(kept.holds(table, ref));
  BOOST_TEST(!kept.holds(table, other));
  BOOST_TEST(kept.holds(table, ref));
  BOOST_TEST(kept.holds(table, other));
  table.revoke(ref);  // no pin is left
  BOOST_TEST(asked == 0);
  BOOST_TEST(kept.holds(table, other));
  table.revoke(other);
  BOOST_TEST(asked == 1);
  BOOST_TEST(!kept.holds(table, other));
  BOOST_TEST(!kept.holds(table, other));
}

BOOST_FIXTURE_TEST_CASE(pin_set_takes_one_pin_for_each_registration, Memory) {
  PinSet pins;
  const MrRef other = another();
  for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(pins.add(table, i % 2 == 0 ? ref : other));
  BOOST_TEST(pins.has_room(PinSet::kMany - 2));
  BOOST_TEST(!pins.has_room(PinSet::kMany - 1));
  pins.clear();
  BOOST_TEST(pins.empty());
  table.revoke(ref);  // would hang if a pin were left
  BOOST_TEST(!pins.add(table, ref));
  BOOST_TEST(pins.empty());
  table.revoke(other);
}

// Requests with many segments have room for their pins even when memory is short.
BOOST_FIXTURE_TEST_CASE(pin_set_is_prepared_for_requests, Memory) {
  PinSet pins;
  std::vector<MrRef> refs;
  for (std::size_t i = 0; i < PinSet::kFew; ++i) {
    refs.push_back(another());
    BOOST_REQUIRE(pins.add(table, refs.back()));
  }
  pins.reserve_for(PinSet::kFew);  // while pins are held
  for (const MrRef again : refs) BOOST_REQUIRE(pins.add(table, again));
  pins.clear();
  for (const MrRef pinned : refs) table.revoke(pinned);  // would hang if a pin were left
}

// More pins than a few are stored in allocated memory; the earlier ones are kept.
BOOST_FIXTURE_TEST_CASE(pin_set_grows, Memory) {
  PinSet pins;
  std::vector<MrRef> refs;
  for (std::size_t i = 0; i < PinSet::kMany; ++i) {
    refs.push_back(another());
    BOOST_REQUIRE(pins.add(table, refs.back()));
  }
  BOOST_TEST(!pins.has_room(1));
  BOOST_TEST(!pins.add(table, ref));
  for (const MrRef again : refs) BOOST_REQUIRE(pins.add(table, again));
  pins.clear();
  for (auto i = refs.rbegin(); i != refs.rend(); ++i) BOOST_REQUIRE(pins.add(table, *i));
  pins.clear();
  for (const MrRef pinned : refs) table.revoke(pinned);  // would hang if a pin were left
  BOOST_TEST(pins.has_room(PinSet::kMany));
}

BOOST_AUTO_TEST_CASE(staging_keeps_bytes_over_compaction_and_growth) {
  StagingPool pool;
  Staging staging(pool);
  const auto data = pattern(3000000);
  std::size_t in = 0;
  std::size_t out = 0;
  std::uint32_t random = 1;
  while (out < data.size()) {
    random = random * 1664525U + 1013904223U;
    BOOST_REQUIRE(staging.reserve(random % iwarp::kMaxFpduSize + staging.staged().size() / 2));
    auto room = staging.room();
    BOOST_REQUIRE(!room.empty());
    const std::size_t n = std::min(
        {room.size(), data.size() - in, random % 3 == 0 ? room.size() : std::size_t{random >> 16}});
    std::memcpy(room.data(), data.data() + in, n);
    staging.filled(n);
    in += n;
    const auto staged = staging.staged();
    BOOST_REQUIRE(std::memcmp(staged.data(), data.data() + out, staged.size()) == 0);
    const std::size_t left = std::min<std::size_t>(staged.size(), random >> 20);
    const std::size_t used = in == data.size() ? staged.size() : staged.size() - left;
    staging.drop(used);
    out += used;
  }
}

BOOST_AUTO_TEST_CASE(empty_staging_holds_nothing_and_growth_ends) {
  StagingPool pool(Staging::kStart);
  Staging first(pool);
  BOOST_REQUIRE(first.reserve(2));
  BOOST_TEST(pool.crowded());
  first.filled(Staging::kStart);
  first.drop(Staging::kStart);
  BOOST_REQUIRE(first.reserve(2));  // was filled, and would double if the pool were not crowded
  BOOST_TEST(first.room().size() == Staging::kStart);
  first.end_pass(2, false);
  BOOST_TEST(!pool.crowded());
  BOOST_REQUIRE(first.reserve(2));
  first.filled(1);
  first.end_pass(2, false);
  BOOST_TEST(first.staged().size() == 1U);
  BOOST_TEST(pool.crowded());
}

// Regression: connections that waited for receives held their pieces for good, which cut the time
// of all others.
BOOST_AUTO_TEST_CASE(waiting_staging_does_not_crowd_readers) {
  StagingPool pool(2 * Staging::kStart);
  Staging waiting(pool);
  BOOST_REQUIRE(waiting.reserve(2 * Staging::kStart));
  waiting.filled(3);
  BOOST_TEST(pool.crowded_by_readers());
  waiting.end_pass(2, true);
  BOOST_TEST(waiting.capacity() == Staging::kStart);
  BOOST_TEST(!pool.crowded());
  pool.hold(Staging::kStart);
  BOOST_TEST(pool.crowded());
  BOOST_TEST(!pool.crowded_by_readers());
  pool.give_back(Staging::kStart);
  Staging reading(pool);
  BOOST_REQUIRE(reading.reserve(2));
  BOOST_TEST(pool.crowded());
  BOOST_TEST(!pool.crowded_by_readers());
  BOOST_REQUIRE(waiting.reserve(2));  // a receive came
  BOOST_TEST(pool.crowded_by_readers());
  BOOST_TEST(waiting.staged().size() == 3U);
}

// In the middle of a frame.
BOOST_AUTO_TEST_CASE(staging_shrinks_if_memory_is_used_up) {
  StagingPool pool(Staging::kMax);
  Staging first(pool);
  const auto data = pattern(Staging::kStart);
  BOOST_REQUIRE(first.reserve(Staging::kMax / 2));
  std::ranges::copy(data, first.room().begin());
  first.filled(data.size());
  first.drop(1);
  first.end_pass(2, false);
  BOOST_TEST(first.capacity() == Staging::kMax / 2);
  Staging second(pool);
  BOOST_REQUIRE(second.reserve(Staging::kMax / 2));
  first.end_pass(Staging::kStart + 1, false);
  BOOST_TEST(first.capacity() == 2 * Staging::kStart);
  first.end_pass(2, false);
  BOOST_TEST(first.capacity() == 2 * Staging::kStart);  // there is enough memory again
  BOOST_TEST(std::ranges::equal(first.staged(), std::span(data).subspan(1)));
}

BOOST_AUTO_TEST_CASE(staging_makes_room_for_the_longest_fpdu) {
  StagingPool pool;
  Staging staging(pool);
  BOOST_REQUIRE(staging.reserve(2));
  BOOST_TEST(staging.room().size() == Staging::kStart);
  staging.filled(Staging::kStart);
  BOOST_REQUIRE(staging.reserve(iwarp::kMaxFpduSize));
  BOOST_TEST(staging.room().size() >= iwarp::kMaxFpduSize - Staging::kStart);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
