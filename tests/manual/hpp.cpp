// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// <dat/dat.hpp> over the software RNIC: ownership and lifetimes, errors, events, the loop.
#include <boost/test/unit_test.hpp>

#include <dat/dat.hpp>

#include <array>
#include <optional>
#include <string>

using namespace std::chrono_literals;

namespace {

// An adapter and the objects that an endpoint needs.
struct Fixture {
  dat::Adapter adapter{"soft"};
  dat::Zone zone{adapter};
  dat::Queue queue{adapter, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 16};
};

static_assert(dat::timeout(5ms) == 5000);
static_assert(dat::timeout(-1s) == 0);
static_assert(dat::timeout(dat::kForever) == DAT_TIMEOUT_INFINITE);
static_assert(dat::timeout(std::chrono::hours(100)) == DAT_TIMEOUT_INFINITE);
static_assert(!std::is_copy_constructible_v<dat::Endpoint> &&
              std::is_nothrow_move_constructible_v<dat::Endpoint> &&
              std::is_nothrow_move_assignable_v<dat::Endpoint>);

DAT_EVENT event_with(unsigned number) {
  DAT_EVENT event{};
  event.event_number = static_cast<DAT_EVENT_NUMBER>(number);
  return event;
}

BOOST_AUTO_TEST_SUITE(hpp)

BOOST_AUTO_TEST_CASE(an_endpoint_keeps_what_it_is_made_of) {
  std::optional<dat::Endpoint> endpoint;
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  {
    Fixture all;
    evd = all.queue.handle();
    endpoint.emplace(all.adapter, all.zone, all.queue, all.queue, all.queue);
  }
  // The endpoint keeps the EVD and the adapter alive.
  DAT_EVENT event;
  BOOST_TEST(DAT_GET_TYPE(dat_evd_dequeue(evd, &event)) == unsigned{DAT_QUEUE_EMPTY});
  BOOST_TEST((endpoint->state() == DAT_EP_STATE_UNCONNECTED));
}

BOOST_AUTO_TEST_CASE(all_is_freed) {
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  {
    Fixture all;
    ia = all.adapter.handle();
    std::array<std::byte, 64> bytes{};
    const dat::Memory memory(all.adapter, all.zone, bytes);
    const dat::Endpoint endpoint(all.adapter, all.zone, all.queue, all.queue, all.queue);
  }
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  BOOST_TEST(DAT_GET_TYPE(dat_pz_create(ia, &pz)) == unsigned{DAT_INVALID_HANDLE});
}

BOOST_AUTO_TEST_CASE(moved_objects_free_once) {
  Fixture all;
  dat::Endpoint first(all.adapter, all.zone, all.queue, all.queue, all.queue);
  const DAT_EP_HANDLE handle = first.handle();
  dat::Endpoint second(std::move(first));
  BOOST_TEST(second.handle() == handle);
  first = dat::Endpoint(all.adapter, all.zone, all.queue, all.queue, all.queue);
  first = std::move(second);
  BOOST_TEST(first.handle() == handle);
  // After release() the caller owns the handle.
  BOOST_TEST(first.release() == handle);
  const dat::Endpoint again = dat::Endpoint::adopt(handle);
  BOOST_TEST((again.state() == DAT_EP_STATE_UNCONNECTED));
}

BOOST_AUTO_TEST_CASE(errors_have_causes) {
  BOOST_CHECK_EXCEPTION(dat::Adapter("no such adapter"), dat::Error, [](const dat::Error& error) {
    return error.type() == DAT_PROVIDER_NOT_FOUND &&
           std::string(error.what()).starts_with("dat_ia_open: cannot open \"no such adapter\"");
  });
  Fixture all;
  const dat::Endpoint endpoint(all.adapter, all.zone, all.queue, all.queue, all.queue);
  BOOST_CHECK_EXCEPTION(endpoint.disconnect(), dat::Error,
                        [](const dat::Error& error) { return error.type() == DAT_INVALID_STATE; });
}

BOOST_AUTO_TEST_CASE(events_by_kind) {
  const auto index = [](unsigned number) { return dat::event_of(event_with(number)).index(); };
  BOOST_TEST(index(DAT_DTO_COMPLETION_EVENT) == 0U);
  BOOST_TEST(index(DAT_RMR_BIND_COMPLETION_EVENT) == 1U);
  BOOST_TEST(index(DAT_CONNECTION_REQUEST_EVENT) == 2U);
  BOOST_TEST(index(DAT_CONNECTION_EVENT_ESTABLISHED) == 3U);
  for (unsigned ended = DAT_CONNECTION_EVENT_PEER_REJECTED;
       ended <= DAT_CONNECTION_EVENT_UNREACHABLE; ++ended)
    BOOST_TEST(index(ended) == 4U);
  BOOST_TEST(index(DAT_ASYNC_ERROR_EP_BROKEN) == 5U);
  BOOST_TEST(index(DAT_HA_DOWN_TO_1) == 5U);
  BOOST_TEST(index(DAT_SOFTWARE_EVENT) == 6U);
  BOOST_TEST(index(DAT_IB_EXTENSION_RANGE_BASE) == 7U);
}

BOOST_AUTO_TEST_CASE(waits_end_at_their_time) {
  Fixture all;
  BOOST_TEST(!all.queue.poll());
  BOOST_TEST(!all.queue.wait(1ms));
}

BOOST_AUTO_TEST_CASE(a_handler_may_end_its_own_watch) {
  const dat::Adapter adapter("soft");
  dat::Loop loop(adapter);
  int seen = 0;
  std::optional<dat::Loop::Watch> watch;
  watch.emplace(loop.watch(adapter, DAT_EVD_SOFTWARE_FLAG, 8, [&](const dat::Event&) {
    ++seen;
    watch.reset();
  }));
  DAT_EVENT event = event_with(DAT_SOFTWARE_EVENT);
  for (int i = 0; i < 2; ++i) dat::check(dat_evd_post_se(watch->queue().handle(), &event), "post");
  for (int i = 0; i < 100 && seen == 0; ++i) loop.run_once(100ms);
  BOOST_TEST(seen == 1);
  BOOST_TEST(loop.run_once(0ms) == 0U);
}

BOOST_AUTO_TEST_CASE(what_a_handler_throws_comes_out) {
  const dat::Adapter adapter("soft");
  dat::Loop loop(adapter);
  const auto watch = loop.watch(adapter, DAT_EVD_SOFTWARE_FLAG, 8,
                                [](const dat::Event&) { throw std::runtime_error("a handler"); });
  DAT_EVENT event = event_with(DAT_SOFTWARE_EVENT);
  dat::check(dat_evd_post_se(watch.queue().handle(), &event), "post");
  BOOST_CHECK_THROW(loop.run(), std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
