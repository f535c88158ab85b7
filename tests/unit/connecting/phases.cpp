// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A timer for several phases: whether its call is still due.
#include "providers/connecting/phase_timer.h"
#include "tests/unit/reactor/support.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <mutex>

namespace udapl::test {
namespace {

enum class Phase : std::uint8_t { kNothing, kShort, kLong };

struct Timed {
  std::unique_ptr<Reactor> reactor = make_reactor();
  std::mutex lock;
  std::atomic<int> due{0};
  PhaseTimer<Phase> timer{*reactor, Call::to<&Timed::on_timer>(this)};

  void on_timer() noexcept {
    const std::lock_guard guard(lock);
    if (timer.take_due() != Phase::kNothing) ++due;
  }
};

BOOST_AUTO_TEST_SUITE(phases)

BOOST_AUTO_TEST_CASE(a_phase_ends_once_when_its_time_is_over) {
  Timed t;
  {
    const std::lock_guard guard(t.lock);
    BOOST_TEST((t.timer.phase() == Phase::kNothing));
    t.timer.start(Phase::kShort, 1ms);
    BOOST_TEST((t.timer.phase() == Phase::kShort));
  }
  BOOST_REQUIRE(eventually([&] { return t.due == 1; }));
  const std::lock_guard guard(t.lock);
  BOOST_TEST((t.timer.phase() == Phase::kNothing));
  BOOST_TEST((t.timer.take_due() == Phase::kNothing));
}

// The timer's call for an earlier start may have begun, and waits for the lock while the timer is
// started again.
BOOST_AUTO_TEST_CASE(a_call_of_an_earlier_start_is_not_due) {
  Timed t;
  {
    const std::lock_guard guard(t.lock);
    t.timer.start(Phase::kLong, 1h);
    BOOST_TEST((t.timer.take_due() == Phase::kNothing));
    BOOST_TEST((t.timer.phase() == Phase::kLong));
    t.timer.start(Phase::kShort, 0ms);
    BOOST_TEST((t.timer.take_due() == Phase::kShort));
    t.timer.start(Phase::kLong, 1h);
    BOOST_TEST((t.timer.take_due() == Phase::kNothing));
    t.timer.stop();
  }
  BOOST_TEST(t.due == 0);
}

BOOST_AUTO_TEST_CASE(what_was_stopped_is_not_due) {
  Timed t;
  const std::lock_guard guard(t.lock);
  t.timer.start(Phase::kShort, 0ms);
  t.timer.stop();
  BOOST_TEST((t.timer.phase() == Phase::kNothing));
  BOOST_TEST((t.timer.take_due() == Phase::kNothing));
  BOOST_TEST(t.due == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
