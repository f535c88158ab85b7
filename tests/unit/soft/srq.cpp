// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

struct Fixture {
  Side side;
  CountingSrqSink sink;
  Srq srq{*side.reactor, side.memory, 1, 4, 3, sink};
  std::vector<std::byte> bytes = std::vector<std::byte>(100);
  std::unique_ptr<Mr> mr = side.reg(bytes);
  Receive taken{};
  Segment segments[3]{};

  std::atomic<int> woken{0};
  struct Place {
    explicit Place(Fixture& f) : fixture(f) {}
    void on_buffer() noexcept { ++fixture.woken; }
    Fixture& fixture;
    Deferred wake{*fixture.side.reactor, Call::to<&Place::on_buffer>(this)};
    Srq::Waiter waiter{wake};
  };
  Place place{*this};
  ~Fixture() { srq.stop_waiting(place.waiter); }

  bool take() { return srq.take(taken, segments, place.waiter); }
  DAT_RETURN post(WorkId id, std::size_t length = 10) {
    const auto segment = local(*mr, bytes.data(), length);
    return srq.post_recv(id, &segment, 1);
  }
  void drain() {
    for (int i = 0; i < 20; ++i) {
      side.reactor->progress();
      std::this_thread::sleep_for(1ms);
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(srq, Fixture)

BOOST_AUTO_TEST_CASE(buffers_come_out_in_order_with_their_segments) {
  const DAT_LMR_TRIPLET list[] = {
      local(*mr, bytes.data(), 10), {1, 0, 99}, local(*mr, bytes.data() + 50, 20)};
  CHECK_OK(srq.post_recv(7, list, 3));
  CHECK_OK(post(8));
  BOOST_TEST(srq.available() == 2);
  BOOST_REQUIRE(take());
  BOOST_TEST(taken.id == 7U);
  BOOST_TEST(taken.room == 30U);
  BOOST_TEST(taken.segment_count == 2U);
  BOOST_TEST((segments[1].address == bytes.data() + 50));
  BOOST_REQUIRE(take());
  BOOST_TEST(taken.id == 8U);
  BOOST_TEST(!take());
}

BOOST_AUTO_TEST_CASE(refused_post_leaves_nothing_behind) {
  for (WorkId id = 0; id < 4; ++id) CHECK_OK(post(id));
  BOOST_TEST(srq.post_recv(4, nullptr, 0) ==
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  BOOST_REQUIRE(take());
  auto segment = local(*mr, bytes.data() + bytes.size() + 1, 10);
  BOOST_TEST(srq.post_recv(5, &segment, 1) == dat_error(DAT_INVALID_PARAMETER));
  const auto read_only = side.reg(bytes, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  segment = local(*read_only, bytes);
  BOOST_TEST(srq.post_recv(5, &segment, 1) == dat_error(DAT_PRIVILEGES_VIOLATION));
  const auto foreign = side.reg(bytes.data(), 100, kAll, DAT_VA_TYPE_VA, 2);
  segment = local(*foreign, bytes);
  BOOST_TEST(srq.post_recv(5, &segment, 1) == dat_error(DAT_PROTECTION_VIOLATION));
  BOOST_TEST(srq.available() == 3);
  CHECK_OK(post(6));
}

BOOST_AUTO_TEST_CASE(low_watermark_fires_once_for_each_arming) {
  for (WorkId id = 0; id < 4; ++id) CHECK_OK(post(id));
  BOOST_TEST(srq.set_low_watermark(3).ok());
  BOOST_REQUIRE(take());
  drain();
  BOOST_TEST(sink.low == 0);  // 3 is not below 3
  BOOST_REQUIRE(take());
  BOOST_REQUIRE(take());
  BOOST_TEST(eventually([&] { return sink.low == 1; }, {&side}));
  drain();
  BOOST_TEST(sink.low == 1);
  BOOST_TEST(srq.set_low_watermark(2).ok());  // 1 is available, so it fires at once
  BOOST_TEST(eventually([&] { return sink.low == 2; }, {&side}));
  BOOST_TEST(srq.set_low_watermark(0).ok());
  BOOST_REQUIRE(take());
  drain();
  BOOST_TEST(sink.low == 2);
}

// Waiters are served in FIFO order; a newcomer does not get a promised buffer.
BOOST_AUTO_TEST_CASE(qp_without_a_buffer_is_queued) {
  Place other(*this);
  Place late(*this);
  BOOST_TEST(!take());
  BOOST_TEST(!take());  // keeps its place in the line
  BOOST_TEST(!srq.take(taken, segments, other.waiter));
  CHECK_OK(post(1));
  BOOST_TEST(!srq.take(taken, segments, late.waiter));
  BOOST_TEST(!srq.take(taken, segments, other.waiter));
  BOOST_TEST(eventually([&] { return woken == 1; }, {&side}));
  BOOST_REQUIRE(take());
  BOOST_TEST(taken.id == 1U);
  BOOST_TEST(!take());  // now queued behind the others
  CHECK_OK(post(2));
  srq.stop_waiting(other.waiter);  // its promised buffer goes to the next waiter
  BOOST_TEST(!take());
  BOOST_REQUIRE(srq.take(taken, segments, late.waiter));
  BOOST_TEST(taken.id == 2U);
  CHECK_OK(post(3));
  CHECK_OK(post(4));
  BOOST_REQUIRE(srq.take(taken, segments, other.waiter));  // one of the two is not promised
  BOOST_REQUIRE(take());
  BOOST_TEST(srq.available() == 0);
}

BOOST_AUTO_TEST_CASE(resize_keeps_what_is_posted) {
  for (WorkId id = 0; id < 4; ++id) CHECK_OK(post(id));
  BOOST_REQUIRE(take());
  CHECK_OK(post(4));
  BOOST_TEST(srq.resize(3).code() == dat_error(DAT_INVALID_STATE));
  CHECK_OK(srq.resize(6).code());
  CHECK_OK(post(5));
  CHECK_OK(post(6));
  BOOST_TEST(post(7) != static_cast<DAT_RETURN>(DAT_SUCCESS));
  for (WorkId id = 1; id < 7; ++id) {
    BOOST_REQUIRE(take());
    BOOST_TEST(taken.id == id);
    BOOST_TEST((segments[0].address == bytes.data()));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
