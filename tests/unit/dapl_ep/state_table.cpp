// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Checks ep_state.h against an independent transcription of the specification: every state with
// every input.
#include <boost/test/unit_test.hpp>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "dapl/objects/ep_state.h"

namespace udapl::dapl {
namespace {

constexpr auto kUnc = DAT_EP_STATE_UNCONNECTED;
constexpr auto kRes = DAT_EP_STATE_RESERVED;
constexpr auto kPas = DAT_EP_STATE_PASSIVE_CONNECTION_PENDING;
constexpr auto kTen = DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING;
constexpr auto kAct = DAT_EP_STATE_ACTIVE_CONNECTION_PENDING;
constexpr auto kCmp = DAT_EP_STATE_COMPLETION_PENDING;
constexpr auto kCon = DAT_EP_STATE_CONNECTED;
constexpr auto kDpd = DAT_EP_STATE_DISCONNECT_PENDING;
constexpr auto kDis = DAT_EP_STATE_DISCONNECTED;

struct Go {
  DAT_EP_STATE next;
  int event = 0;
};

// The transitions of the specification. Any other input is illegal if it is a call, and without
// effect if it is a report of the transport.
const std::map<std::pair<DAT_EP_STATE, EpInput>, Go> kTransitions = {
    {{kUnc, EpInput::kConnect}, {kAct}},
    {{kUnc, EpInput::kReserve}, {kRes}},
    {{kUnc, EpInput::kAccept}, {kCmp}},
    {{kRes, EpInput::kRequest}, {kPas}},
    {{kRes, EpInput::kRelease}, {kUnc}},
    {{kPas, EpInput::kRequestLost}, {kRes}},
    {{kPas, EpInput::kAcceptOwn}, {kCmp}},
    {{kPas, EpInput::kReject}, {kUnc}},
    {{kTen, EpInput::kAcceptOwn}, {kCmp}},
    {{kAct, EpInput::kEstablished}, {kCon, DAT_CONNECTION_EVENT_ESTABLISHED}},
    {{kAct, EpInput::kRejected}, {kDis, DAT_CONNECTION_EVENT_PEER_REJECTED}},
    {{kAct, EpInput::kRefused}, {kDis, DAT_CONNECTION_EVENT_NON_PEER_REJECTED}},
    {{kAct, EpInput::kTimedOut}, {kDis, DAT_CONNECTION_EVENT_TIMED_OUT}},
    {{kAct, EpInput::kUnreachable}, {kDis, DAT_CONNECTION_EVENT_UNREACHABLE}},
    {{kAct, EpInput::kDisconnectAbrupt}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kAct, EpInput::kDisconnectGraceful}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kCmp, EpInput::kDisconnectAbrupt}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kCmp, EpInput::kDisconnectGraceful}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kCmp, EpInput::kEstablished}, {kCon, DAT_CONNECTION_EVENT_ESTABLISHED}},
    {{kCmp, EpInput::kAcceptFailed}, {kDis, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR}},
    {{kCon, EpInput::kDisconnectAbrupt}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kCon, EpInput::kDisconnectGraceful}, {kDpd}},
    {{kCon, EpInput::kDisconnected}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kCon, EpInput::kBroken}, {kDis, DAT_CONNECTION_EVENT_BROKEN}},
    {{kDpd, EpInput::kDisconnected}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kDpd, EpInput::kDisconnectAbrupt}, {kDis, DAT_CONNECTION_EVENT_DISCONNECTED}},
    {{kDpd, EpInput::kBroken}, {kDis, DAT_CONNECTION_EVENT_BROKEN}},
    {{kDis, EpInput::kReset}, {kUnc}},
};

// Legal, but without effect.
const std::set<std::pair<DAT_EP_STATE, EpInput>> kIgnored = {
    {kDis, EpInput::kDisconnectAbrupt},
    {kDis, EpInput::kDisconnectGraceful},
    {kDpd, EpInput::kDisconnectGraceful},
    {kUnc, EpInput::kReset},
};

BOOST_AUTO_TEST_SUITE(state_table)

BOOST_AUTO_TEST_CASE(every_state_with_every_input) {
  for (const DAT_EP_STATE state : kEpStates) {
    for (int i = 0; i < kEpInputs; ++i) {
      const auto input = static_cast<EpInput>(i);
      BOOST_TEST_CONTEXT(name(state) << " with " << name(input)) {
        const EpStep actual = step(state, input);
        if (input == EpInput::kFree) {
          const bool owned = state == kRes || state == kPas || state == kTen;
          BOOST_CHECK(actual.verdict == (owned ? EpVerdict::kIllegal : EpVerdict::kProceed));
          BOOST_CHECK_EQUAL(actual.event, kNoEvent);
          continue;
        }
        const auto found = kTransitions.find({state, input});
        if (found != kTransitions.end()) {
          BOOST_CHECK(actual.verdict == EpVerdict::kProceed);
          BOOST_CHECK_EQUAL(actual.next, found->second.next);
          BOOST_CHECK_EQUAL(static_cast<int>(actual.event), found->second.event);
          continue;
        }
        const bool report = input >= EpInput::kEstablished;
        const bool nothing = report || kIgnored.contains({state, input});
        BOOST_CHECK(actual.verdict == (nothing ? EpVerdict::kNothing : EpVerdict::kIllegal));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(legal_inputs_of_a_state) {
  const std::set<DAT_EP_STATE> requests = {kCmp, kCon, kDis};
  const std::set<DAT_EP_STATE> pz = {kUnc, kTen};
  const std::set<DAT_EP_STATE> rest = {kUnc, kRes, kPas, kTen};
  for (const DAT_EP_STATE state : kEpStates) {
    BOOST_TEST_CONTEXT(name(state)) {
      BOOST_CHECK_EQUAL(takes_requests(state), requests.contains(state));
      BOOST_CHECK_EQUAL(pz_modifiable(state), pz.contains(state));
      BOOST_CHECK_EQUAL(modifiable(state), rest.contains(state));
      BOOST_CHECK_EQUAL(is_connecting(state), state == kAct || state == kCmp);
      BOOST_CHECK_EQUAL(is_connected(state), state == kCon || state == kDpd);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_error_names_the_state) {
  std::set<DAT_RETURN> codes;
  for (const DAT_EP_STATE state : kEpStates) {
    const DAT_RETURN code = wrong_state(state);
    BOOST_CHECK_EQUAL(code & ~DAT_SUBTYPE_MASK,
                      static_cast<DAT_RETURN>(DAT_CLASS_ERROR) | DAT_INVALID_STATE);
    codes.insert(code);
  }
  BOOST_CHECK_EQUAL(codes.size(), std::size(kEpStates));
  BOOST_CHECK_EQUAL(wrong_state(kUnc),
                    dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_UNCONNECTED));
  BOOST_CHECK_EQUAL(wrong_state(kCon),
                    dat_error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_CONNECTED));
}

BOOST_AUTO_TEST_CASE(invalid_states_and_inputs) {
  const volatile int number = 0x7F;  // not an enumerator, as a C program may pass it
  const auto no_state = static_cast<DAT_EP_STATE>(number);
  BOOST_CHECK_EQUAL(std::string(name(no_state)), "(no state)");
  for (const DAT_EP_STATE state : kEpStates)
    BOOST_CHECK(step(state, static_cast<EpInput>(kEpInputs)).verdict == EpVerdict::kIllegal);
}

BOOST_AUTO_TEST_CASE(all_names_are_distinct) {
  std::set<std::string> names;
  for (const DAT_EP_STATE state : kEpStates) names.insert(name(state));
  for (int i = 0; i < kEpInputs; ++i) names.insert(name(static_cast<EpInput>(i)));
  BOOST_CHECK_EQUAL(names.size(), std::size(kEpStates) + kEpInputs);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::dapl
