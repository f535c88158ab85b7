// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/parked/parked.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

namespace udapl::test {

// A call for a QP that is held up while something else happens. Sink calls are written as in
// "established disconnected".
struct Interleaving {
  std::string before;     // the sink calls before it
  std::string sink_call;  // the sink call that it makes; "" for a timer
  bool silences;          // no sink call is made after the action has returned
};

[[nodiscard]] inline int ends_in(std::string_view calls) {
  int ends = 0;
  for (const char* end : {"rejected", "refused", "timed_out", "accept_failed", "disconnected",
                          "broken", "unreachable"})
    for (std::size_t at = 0; (at = calls.find(end, at)) != std::string_view::npos; ++at) ++ends;
  return ends;
}

// Waits until the call is held up, runs `act()` in a thread of its own, because it may have to wait
// for the call, lets the call go, and checks the sink calls, which `made()` returns.
template <class Act, class Made>
void check_interleaving(Parked& call, const Interleaving& expected, Act act, Made made) {
  using namespace std::chrono_literals;
  BOOST_REQUIRE(call.reached());
  std::string at_return;
  std::thread core([&] {
    act();
    at_return = made();
  });
  std::this_thread::sleep_for(5ms);  // lets the action get as far as it can
  call.release();
  core.join();
  std::string all = expected.before;
  if (!expected.sink_call.empty()) all += (all.empty() ? "" : " ") + expected.sink_call;
  if (expected.silences) {
    // Each call was made before the action returned, or not at all. If a timer is held up, the
    // calls before it may not have been made either: timers may come first.
    const std::string at_least = expected.sink_call.empty() ? "" : expected.before;
    BOOST_TEST(all.starts_with(at_return), "calls: " << at_return);
    BOOST_TEST(at_return.starts_with(at_least), "calls: " << at_return);
    std::this_thread::sleep_for(5ms);
    BOOST_TEST(made() == at_return);
  } else if (!expected.sink_call.empty()) {
    // The call is made, once and after the earlier ones: the action does not cancel it.
    const auto patience = std::chrono::steady_clock::now() + 20s;
    while (!made().starts_with(all) && std::chrono::steady_clock::now() < patience)
      std::this_thread::sleep_for(100us);
    BOOST_REQUIRE(made().starts_with(all));
  }
  // At most one end is reported.
  const std::string calls = made();
  BOOST_TEST(ends_in(calls) <= 1, calls);
}

}  // namespace udapl::test
