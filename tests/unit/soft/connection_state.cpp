// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Checks every pair of state and event of a connection against a handwritten table, and the
// invariants of every sequence of events.
#include "providers/soft/connection_state.h"

#include <boost/test/unit_test.hpp>

#include <set>
#include <string>
#include <utility>

namespace udapl::soft::test {
namespace {

using State = ConnectionState;
using Event = ConnectionEvent;
using Action = ConnectionAction;
using enum SinkCall;

// The step as text: "R" to kReady; "E" to kError, with "g" (gently) or "r" (reset) for how the link
// ends; then the sink call, if any. "." means that nothing happens.
std::string text(const ConnectionStep& step) {
  if (!step.allowed) return ".";
  std::string result(1, "ICARDHTE"[static_cast<int>(step.next)]);
  if (step.action == Action::kEndGently) result += "g";
  if (step.action == Action::kEndReset) result += "r";
  switch (step.call) {
    case kNoCall:
      return result;
    case kEstablished:
      return result + " established";
    case kRejected:
      return result + " rejected";
    case kRefused:
      return result + " refused";
    case kUnreachable:
      return result + " unreachable";
    case kTimedOut:
      return result + " timed out";
    case kAcceptFailed:
      return result + " accept failed";
    case kDisconnected:
      return result + " disconnected";
    case kBroken:
      return result + " broken";
    default:
      return result + " ?";
  }
}

BOOST_AUTO_TEST_SUITE(connection_state)

// clang-format off
constexpr const char* kTable[kConnectionEvents][kConnectionStates] = {
// idle               connecting        accepting           ready              draining           half closed        terminating  error
  {"C",               ".",              ".",                ".",               ".",               ".",               ".",         "."},  // kConnect
  {"A",               ".",              ".",                ".",               ".",               ".",               ".",         "."},  // kAccept
  {".",               ".",              ".",                "D",               ".",               ".",               ".",         "."},  // kDrain
  {"Eg",              "Eg",             "Eg",               "Eg",              "Eg",              "Eg",              "Eg",        "."},  // kAbort
  {".",               ".",              ".",                ".",               ".",               ".",               ".",         "I"},  // kReset
  {".",               "I",              ".",                ".",               ".",               ".",               ".",         "."},  // kNotStarted
  {"R established",   "R established",  ".",                ".",               ".",               ".",               ".",         "."},  // kEstablished
  {".",               "Er rejected",    ".",                ".",               ".",               ".",               ".",         "."},  // kRejected
  {"Er refused",      "Er refused",     ".",                ".",               ".",               ".",               ".",         "."},  // kRefused
  {".",               "Er unreachable", ".",                ".",               ".",               ".",               ".",         "."},  // kUnreachable
  {".",               "Er timed out",   ".",                ".",               ".",               ".",               ".",         "."},  // kTooLate
  {".",               ".",              "R established",    ".",               ".",               ".",               ".",         "."},  // kFirstMessage
  {".",               ".",              ".",                "Eg disconnected", "Eg disconnected", "Eg disconnected", ".",         "."},  // kPeerEnded
  {".",               ".",              ".",                "Er disconnected", "Er disconnected", "Er disconnected", ".",         "."},  // kPeerGone
  {".",               ".",              ".",                ".",               "H",               ".",               ".",         "."},  // kDrained
  {".",               ".",              "Er accept failed", "Er broken",       "Er broken",       "Er disconnected", ".",         "."},  // kLost
  {".",               ".",              "Er accept failed", "Er broken",       "Er broken",       "Er broken",       ".",         "."},  // kLostUndelivered
  {".",               ".",              "Eg accept failed", "Eg broken",       "Eg broken",       "Eg broken",       ".",         "."},  // kPeerReportedFault
  {".",               ".",              "Er accept failed", "T",               "T",               "Er broken",       ".",         "."},  // kReportFault
  {".",               ".",              ".",                ".",               ".",               ".",               "Eg broken", "."},  // kFaultReported
  {".",               ".",              ".",                ".",               ".",               ".",               "Er broken", "."},  // kFaultUnreportable
};
// clang-format on

BOOST_AUTO_TEST_CASE(every_pair_steps_by_the_table) {
  for (int event = 0; event != kConnectionEvents; ++event) {
    for (int state = 0; state != kConnectionStates; ++state) {
      const ConnectionStep step =
          connection_step(static_cast<State>(state), static_cast<Event>(event));
      BOOST_TEST_CONTEXT("state " << name_of(static_cast<State>(state)) << ", event " << event)
      BOOST_TEST(text(step) == kTable[event][state]);
    }
  }
}

// The state of one connection, and what the core has been notified of, after a sequence of events.
struct Walk {
  State state = State::kIdle;
  bool established = false;
  int outcomes = 0;  // of the first connection
  auto operator<=>(const Walk&) const = default;
};

// Explores every reachable state: each setup reports one outcome, each connection reports one end,
// and an end that the core requested itself is not reported.
BOOST_AUTO_TEST_CASE(each_connection_is_reported_once) {
  std::set<Walk> seen;
  std::set<Walk> open{Walk{}};
  while (!open.empty()) {
    const Walk from = *open.begin();
    open.erase(open.begin());
    if (!seen.insert(from).second) continue;
    for (int i = 0; i != kConnectionEvents; ++i) {
      const auto event = static_cast<Event>(i);
      const ConnectionStep step = connection_step(from.state, event);
      if (!step.allowed) continue;
      BOOST_TEST_CONTEXT("state " << name_of(from.state) << ", event " << i) {
        BOOST_TEST((step.next == State::kError) ==
                   (step.action == Action::kEndGently || step.action == Action::kEndReset));
        BOOST_TEST((step.next == State::kIdle) ==
                   (step.action == Action::kForget || event == Event::kNotStarted));
        if (step.next == State::kIdle) continue;  // the next connection begins
        Walk to = from;
        to.state = step.next;
        const bool ours = event == Event::kAbort;
        if (ours) BOOST_TEST((step.call == kNoCall));
        if (step.call == kEstablished) {
          BOOST_TEST(!from.established);
          to.established = true;
        } else if (step.call != kNoCall) {
          ++to.outcomes;
          const bool of_the_end = step.call == kDisconnected || step.call == kBroken;
          BOOST_TEST(of_the_end == from.established);
        }
        BOOST_TEST(to.outcomes <= 1);
        BOOST_TEST(is_connected(to.state) ==
                   (to.established && to.outcomes == 0 && to.state != State::kError));
        if (step.next == State::kError && !ours) BOOST_TEST(to.outcomes == 1);
        open.insert(to);
      }
    }
  }
  BOOST_TEST(seen.size() >= static_cast<std::size_t>(kConnectionStates));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
