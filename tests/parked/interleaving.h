// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/qp.h"
#include "tests/parked/parked.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

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

// A way in which a call for the QP of a `Held` comes to be held up. `Held` is a QP under test with
// its peer: `qp`, the call `call`, `connect_again()` and `calls()`, the sink calls made so far.
template <class Held>
struct Decision {
  const char* name;
  void (*reach)(Held&);   // returns when the call is held up, or about to be
  const char* before;     // the sink calls before it
  const char* sink_call;  // the sink call that it makes; "" for a timer
};

// What the core does meanwhile.
template <class Held>
struct Action {
  const char* name;
  void (*act)(Held&);  // runs in its own thread, because it may have to wait for the call
  bool silences;       // no sink call of that connection is made after act() has returned
};

// The actions that are the same for all providers.
template <class Held>
[[nodiscard]] std::vector<Action<Held>> core_actions() {
  using transport::DisconnectMode;
  return {
      {"nothing", [](Held&) {}, false},
      {"graceful disconnect", [](Held& h) { h.qp()->disconnect(DisconnectMode::kGraceful); },
       false},
      {"abrupt disconnect", [](Held& h) { h.qp()->disconnect(DisconnectMode::kAbrupt); }, false},
      {"abrupt disconnect, reset",
       [](Held& h) {
         h.qp()->disconnect(DisconnectMode::kAbrupt);
         static_cast<void>(h.qp()->reset());
       },
       true},
      {"abrupt disconnect, reset, connect",
       [](Held& h) {
         h.qp()->disconnect(DisconnectMode::kAbrupt);
         static_cast<void>(h.qp()->reset());
         h.connect_again();
       },
       true},
      {"destruction", [](Held& h) { h.qp().reset(); }, true},
  };
}

// Checks every decision with each of the core's actions and of those of a provider.
template <class Held, std::size_t kDecisions>
void check_interleavings(const Decision<Held> (&decisions)[kDecisions],
                         const Action<Held>& of_provider) {
  std::vector<Action<Held>> actions = core_actions<Held>();
  actions.push_back(of_provider);
  for (const Decision<Held>& decision : decisions) {
    for (const Action<Held>& action : actions) {
      BOOST_TEST_CONTEXT(decision.name << ", meanwhile: " << action.name) {
        Held held;
        decision.reach(held);
        check_interleaving(
            *held.call, {decision.before, decision.sink_call, action.silences},
            [&] { action.act(held); }, [&] { return held.calls(); });
      }
    }
  }
}

}  // namespace udapl::test
