// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Checks every pair of state and input of a connection against a handwritten table, and the
// invariants of every sequence of inputs.
#include "providers/soft/connection_state.h"

#include <boost/test/unit_test.hpp>

#include <set>
#include <string>
#include <utility>

namespace udapl::soft::test {
namespace {

using State = ConnectionState;
using Input = ConnectionInput;
using Verdict = ConnectionVerdict;
using Action = ConnectionAction;
using enum SinkCall;

// The step as text: "R" to kReady; "E" to kError, with "g" (gently) or "r" (reset) for how the link
// ends; then the sink call, if any. "." means no effect, "!" INVALID_STATE.
std::string text(const ConnectionStep& step) {
  if (step.verdict == Verdict::kNothing) return ".";
  if (step.verdict == Verdict::kIllegal) return "!";
  std::string result(1, "ICARDHTE"[static_cast<int>(step.next)]);
  if (step.action == Action::kEndGently) result += "g";
  if (step.action == Action::kEndReset) result += "r";
  switch (step.call) {
    case kNoCall:
      return result;
    case kEstablished:
      return result + " established";
    case kRefused:
      return result + " refused";
    case kAcceptFailed:
      return result + " accept failed";
    case kDisconnected:
      return result + " disconnected";
    case kBroken:
      return result + " broken";
    case kSetupOutcome:
      return result + " outcome";
    default:
      return result + " ?";
  }
}

BOOST_AUTO_TEST_SUITE(connection_state)

// clang-format off
constexpr const char* kTable[kConnectionInputs][kConnectionStates] = {
// idle               connecting       accepted           ready              draining           half closed        terminating   error
  {"C",              "!",             "!",               "!",               "!",               "!",               "!",           "!"},   // kConnect
  {"Eg",             "Eg",            "Eg",              "Eg",              "Eg",              "Eg",              "Eg",          "."},   // kDisconnectAbrupt
  {".",              ".",             ".",               "D",               ".",               ".",               ".",           "."},   // kDisconnectGraceful
  {".",              "!",             "!",               "!",               "!",               "!",               "!",           "I"},   // kReset
  {"Eg",             "Eg",            "Eg",              "Eg",              "Eg",              "Eg",              "Eg",          "."},   // kDestroy
  {".",              "I",             ".",               ".",               ".",               ".",               ".",           "."},   // kNotStarted
  {".",              "Er outcome",    ".",               ".",               ".",               ".",               ".",           "."},   // kSetupFailed
  {"R established",  "R established", "!",               "!",               "!",               "!",               "!",           "!"},   // kActiveLink
  {"A",              "!",             "!",               "!",               "!",               "!",               "!",           "!"},   // kPassiveLink
  {"Er refused",     "Er refused",    "!",               "!",               "!",               "!",               "!",           "!"},   // kUnusableLink
  {".",              ".",             "R established",   ".",               ".",               ".",               ".",           "."},   // kFirstMessage
  {".",              ".",             ".",               "Eg disconnected", "Eg disconnected", "Eg disconnected", ".",           "."},   // kPeerClosed
  {".",              ".",             ".",               "Er disconnected", "Er disconnected", "Er disconnected", ".",           "."},   // kPeerGone
  {".",              ".",             ".",               ".",               "H",               ".",               ".",           "."},   // kDrained
  {".",              ".",             "Er accept failed", "Er broken",      "Er broken",       "Er disconnected", ".",           "."},   // kLost
  {".",              ".",             "Er accept failed", "Er broken",      "Er broken",       "Er broken",       ".",           "."},   // kLostUndelivered
  {".",              ".",             "Eg accept failed", "Eg broken",      "Eg broken",       "Eg broken",       ".",           "."},   // kPeerReportedFault
  {".",              ".",             "Er accept failed", "T",              "T",               "Er broken",       ".",           "."},   // kReportFault
  {".",              ".",             ".",               ".",               ".",               ".",               "Eg broken",   "."},   // kFaultReported
  {".",              ".",             ".",               ".",               ".",               ".",               "Er broken",   "."},   // kFaultUnreportable
};
// clang-format on

BOOST_AUTO_TEST_CASE(every_pair) {
  for (int input = 0; input != kConnectionInputs; ++input) {
    for (int state = 0; state != kConnectionStates; ++state) {
      const ConnectionStep step =
          connection_step(static_cast<State>(state), static_cast<Input>(input));
      BOOST_TEST_CONTEXT("state " << name(static_cast<State>(state)) << ", input " << input)
      BOOST_TEST(text(step) == kTable[input][state]);
    }
  }
}

// The state of one connection, and what the core has been notified of, after a sequence of inputs.
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
    for (int i = 0; i != kConnectionInputs; ++i) {
      const auto input = static_cast<Input>(i);
      const ConnectionStep step = connection_step(from.state, input);
      if (step.verdict != Verdict::kProceed) continue;
      BOOST_TEST_CONTEXT("state " << name(from.state) << ", input " << i) {
        BOOST_TEST((step.next == State::kError) ==
                   (step.action == Action::kEndGently || step.action == Action::kEndReset));
        BOOST_TEST((step.next == State::kIdle) ==
                   (step.action == Action::kForget || input == Input::kNotStarted));
        if (step.next == State::kIdle) continue;  // the next connection begins
        Walk to = from;
        to.state = step.next;
        const bool ours = input == Input::kDisconnectAbrupt || input == Input::kDestroy;
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
