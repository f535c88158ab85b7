// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The state tables of connections, every pair of state and event: the table of the QP, for every
// kind of connector, and the table of rdma_cm events.
#include <boost/test/unit_test.hpp>

#include <map>
#include <string>
#include <utility>

#include "providers/verbs/connection_state.h"
#include "providers/verbs/rdma_cm/cm_state.h"

namespace udapl::verbs {

namespace {

using enum SinkCall;
using S = ConnectionState;
using E = ConnectionEvent;
using End = ConnectionAction;

struct Expected {
  S next;
  SinkCall call;
  ConnectionAction action;
};

// All other events are ignored.
const std::map<std::pair<S, E>, Expected> kSteps = {
    {{S::kIdle, E::kConnect}, {S::kConnecting, kNoCall, End::kNone}},
    {{S::kIdle, E::kAccept}, {S::kAccepting, kNoCall, End::kNone}},

    {{S::kConnecting, E::kEstablished}, {S::kReady, kEstablished, End::kNone}},
    {{S::kConnecting, E::kRejected}, {S::kError, kRejected, End::kDrop}},
    {{S::kConnecting, E::kRefused}, {S::kError, kRefused, End::kDrop}},
    {{S::kConnecting, E::kUnreachable}, {S::kError, kUnreachable, End::kDrop}},
    {{S::kConnecting, E::kPeerEnded}, {S::kError, kUnreachable, End::kDrop}},
    {{S::kConnecting, E::kPeerLost}, {S::kError, kUnreachable, End::kDrop}},
    {{S::kConnecting, E::kTooLate}, {S::kError, kTimedOut, End::kDrop}},
    {{S::kConnecting, E::kAbort}, {S::kError, kNoCall, End::kDrop}},

    {{S::kAccepting, E::kEstablished}, {S::kReady, kEstablished, End::kNone}},
    {{S::kAccepting, E::kRejected}, {S::kError, kAcceptFailed, End::kDrop}},
    {{S::kAccepting, E::kRefused}, {S::kError, kAcceptFailed, End::kDrop}},
    {{S::kAccepting, E::kUnreachable}, {S::kError, kAcceptFailed, End::kDrop}},
    {{S::kAccepting, E::kPeerEnded}, {S::kError, kAcceptFailed, End::kDrop}},
    {{S::kAccepting, E::kPeerLost}, {S::kError, kAcceptFailed, End::kDrop}},
    {{S::kAccepting, E::kTooLate}, {S::kError, kAcceptFailed, End::kDrop}},
    {{S::kAccepting, E::kAbort}, {S::kError, kNoCall, End::kDrop}},

    {{S::kReady, E::kPeerEnded}, {S::kError, kDisconnected, End::kAnswer}},
    {{S::kReady, E::kPeerBroke}, {S::kError, kBroken, End::kAnswer}},
    {{S::kReady, E::kPeerLost}, {S::kError, kBroken, End::kDisconnect}},
    {{S::kReady, E::kBroken}, {S::kError, kBroken, End::kDisconnect}},
    {{S::kReady, E::kDrain}, {S::kDraining, kNoCall, End::kNone}},
    {{S::kReady, E::kAbort}, {S::kError, kNoCall, End::kDisconnect}},

    {{S::kDraining, E::kPeerEnded}, {S::kError, kDisconnected, End::kAnswer}},
    {{S::kDraining, E::kPeerBroke}, {S::kError, kBroken, End::kAnswer}},
    {{S::kDraining, E::kPeerLost}, {S::kError, kBroken, End::kDisconnect}},
    {{S::kDraining, E::kBroken}, {S::kError, kBroken, End::kDisconnect}},
    {{S::kDraining, E::kDrained}, {S::kError, kDisconnected, End::kDisconnect}},
    {{S::kDraining, E::kTooLate}, {S::kError, kDisconnected, End::kDisconnect}},
    {{S::kDraining, E::kAbort}, {S::kError, kNoCall, End::kDisconnect}},

    {{S::kError, E::kReset}, {S::kIdle, kNoCall, End::kNone}},
};

constexpr int kCmEvents = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1;

using C = CmState;
using A = CmAction;

// The actions for events of a connection setup. Other setup events are ignored, except in kAsked.
const std::map<std::pair<C, rdma_cm_event_type>, A> kActions = {
    {{C::kResolvingAddress, RDMA_CM_EVENT_ADDR_RESOLVED}, A::kResolveRoute},
    {{C::kResolvingAddress, RDMA_CM_EVENT_ADDR_ERROR}, A::kRetry},
    {{C::kResolvingRoute, RDMA_CM_EVENT_ROUTE_RESOLVED}, A::kRequest},
    {{C::kResolvingRoute, RDMA_CM_EVENT_ROUTE_ERROR}, A::kRetry},
    {{C::kRequested, RDMA_CM_EVENT_CONNECT_RESPONSE}, A::kReply},
    {{C::kRequested, RDMA_CM_EVENT_ESTABLISHED}, A::kEstablished},
    {{C::kRequested, RDMA_CM_EVENT_REJECTED}, A::kRejected},
    {{C::kAttached, RDMA_CM_EVENT_ESTABLISHED}, A::kEstablished},
    {{C::kAttached, RDMA_CM_EVENT_REJECTED}, A::kRejected},
};

bool is_loss(rdma_cm_event_type event) {
  return event == RDMA_CM_EVENT_CONNECT_ERROR || event == RDMA_CM_EVENT_UNREACHABLE ||
         event == RDMA_CM_EVENT_DISCONNECTED || event == RDMA_CM_EVENT_DEVICE_REMOVAL;
}

bool is_of_a_set_up(rdma_cm_event_type event) {
  return event <= RDMA_CM_EVENT_ROUTE_ERROR || event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
         event == RDMA_CM_EVENT_REJECTED || event == RDMA_CM_EVENT_ESTABLISHED;
}

A expected_action(C state, rdma_cm_event_type event) {
  if (state == C::kNew) return A::kIgnore;
  if (state == C::kAsked) return A::kPeerGone;
  if (is_loss(event)) return A::kLost;
  const auto found = kActions.find({state, event});
  if (found != kActions.end()) return found->second;
  return is_of_a_set_up(event) ? A::kIgnore : A::kTrace;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(connection_states)

BOOST_AUTO_TEST_CASE(every_event_in_every_state_of_a_qp) {
  for (int s = 0; s < kConnectionStates; ++s) {
    for (int e = 0; e < kConnectionEvents; ++e) {
      const auto state = static_cast<S>(s);
      const auto event = static_cast<E>(e);
      BOOST_TEST_CONTEXT("state " << name_of(state) << ", event " << e) {
        const ConnectionStep is = connection_step(state, event);
        const auto expected = kSteps.find({state, event});
        BOOST_REQUIRE_EQUAL(is.allowed, expected != kSteps.end());
        if (!is.allowed) continue;
        BOOST_CHECK(is.next == expected->second.next);
        BOOST_CHECK(is.call == expected->second.call);
        BOOST_CHECK(is.action == expected->second.action);
      }
    }
  }
}

// Every setup and every connection ends with one sink call, unless the core itself has ended it.
BOOST_AUTO_TEST_CASE(ends_are_reported) {
  for (int s = 0; s < kConnectionStates; ++s) {
    for (int e = 0; e < kConnectionEvents; ++e) {
      const ConnectionStep is = connection_step(static_cast<S>(s), static_cast<E>(e));
      if (!is.allowed || is.next != S::kError) continue;
      BOOST_CHECK_EQUAL(is.call == kNoCall, static_cast<E>(e) == E::kAbort);
      BOOST_CHECK(is.action != End::kNone);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_event_of_rdma_cm_in_every_state) {
  for (int s = 0; s < kCmStates; ++s) {
    for (int e = 0; e < kCmEvents; ++e) {
      const auto state = static_cast<C>(s);
      const auto event = static_cast<rdma_cm_event_type>(e);
      BOOST_TEST_CONTEXT("state " << name_of(state) << ", event " << e)
      BOOST_CHECK(action_of(state, event) == expected_action(state, event));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
