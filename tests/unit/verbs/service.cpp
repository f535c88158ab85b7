// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/service.h"

#include <boost/test/unit_test.hpp>

#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "providers/verbs/barrier.h"
#include "providers/verbs/sink_gate.h"

namespace udapl::verbs {

namespace {

using namespace std::chrono_literals;

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
  return condition();
}

struct Counter {
  void add() noexcept { ++calls; }
  void slow() noexcept {
    inside = true;
    std::this_thread::sleep_for(100ms);
    inside = false;
    ++calls;
  }
  void deliver(unsigned call) noexcept { seen.fetch_or(1U << call); }
  std::atomic<int> calls{0};
  std::atomic<bool> inside{false};
  std::atomic<unsigned> seen{0};
};

std::unique_ptr<Service> make_service() {
  auto service = Service::create();
  BOOST_REQUIRE(service.ok());
  return *std::move(service);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(service)

BOOST_AUTO_TEST_CASE(deferred_calls_once_a_post) {
  const auto service = make_service();
  Counter counter;
  Deferred deferred(*service, Call::to<&Counter::add>(&counter));
  deferred.post();
  BOOST_CHECK(comes_true([&] { return counter.calls == 1; }));
  deferred.post();
  BOOST_CHECK(comes_true([&] { return counter.calls == 2; }));
  std::this_thread::sleep_for(20ms);
  BOOST_CHECK_EQUAL(counter.calls, 2);
}

BOOST_AUTO_TEST_CASE(close_waits_for_a_running_call) {
  const auto service = make_service();
  Counter counter;
  Deferred deferred(*service, Call::to<&Counter::slow>(&counter));
  deferred.post();
  BOOST_REQUIRE(comes_true([&] { return counter.inside.load(); }));
  deferred.close();
  BOOST_CHECK(!counter.inside);
  BOOST_CHECK_EQUAL(counter.calls, 1);
}

BOOST_AUTO_TEST_CASE(timers_in_their_order) {
  const auto service = make_service();
  Counter late;
  Counter early;
  Counter never;
  Timer late_timer(*service, Call::to<&Counter::add>(&late));
  Timer early_timer(*service, Call::to<&Counter::add>(&early));
  Timer never_timer(*service, Call::to<&Counter::add>(&never));
  const auto begin = Clock::now();
  late_timer.start_after(80ms);
  never_timer.start_after(40ms);
  early_timer.start_after(20ms);
  never_timer.stop();
  BOOST_REQUIRE(comes_true([&] { return late.calls == 1; }));
  BOOST_CHECK(Clock::now() - begin >= 80ms);
  BOOST_CHECK_EQUAL(early.calls, 1);
  BOOST_CHECK_EQUAL(never.calls, 0);
}

BOOST_AUTO_TEST_CASE(descriptors) {
  const auto service = make_service();
  struct Reader {
    void read() noexcept {
      std::uint64_t value = 0;
      if (::read(fd.get(), &value, sizeof value) == sizeof value) total += value;
    }
    Fd fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::atomic<std::uint64_t> total{0};
  } reader;
  Watch watch(*service, Call::to<&Reader::read>(&reader));
  BOOST_REQUIRE(watch.start(reader.fd.get()).ok());
  const std::uint64_t value = 5;
  BOOST_REQUIRE_EQUAL(::write(reader.fd.get(), &value, sizeof value), ssize_t{sizeof value});
  BOOST_CHECK(comes_true([&] { return reader.total == 5; }));
  watch.stop();
  BOOST_REQUIRE_EQUAL(::write(reader.fd.get(), &value, sizeof value), ssize_t{sizeof value});
  std::this_thread::sleep_for(20ms);
  BOOST_CHECK_EQUAL(reader.total, 5U);
}

BOOST_AUTO_TEST_CASE(a_closed_gate_makes_no_calls) {
  const auto service = make_service();
  Counter counter;
  SinkGate gate(*service, SinkGate::to<&Counter::deliver, Counter>(), &counter);
  gate.post(3);
  gate.post(0);
  BOOST_CHECK(comes_true([&] { return counter.seen == 0b1001U; }));
  gate.close();
  gate.post(1);
  std::this_thread::sleep_for(20ms);
  BOOST_CHECK_EQUAL(counter.seen, 0b1001U);
}

BOOST_AUTO_TEST_CASE(barrier) {
  BOOST_CHECK_EQUAL(has_process_barrier(), has_process_barrier());
  if (has_process_barrier()) process_barrier();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
