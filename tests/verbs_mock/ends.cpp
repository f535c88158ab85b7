// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Both sides end a connection at the same time: the answer arrives while the EP hands over the
// connection manager's id to be destroyed. No object is freed twice or leaked.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "mock_control.h"
#include "scenario.h"

namespace {

using faults::Pair;
using faults::Run;
using faults::Scenario;
using namespace std::chrono_literals;

// The number of existing ids of the connection manager.
int cm_ids() {
  char text[256];
  (void)verbs_mock_live(text, sizeof text);
  int count = 0;
  const char* const found = std::strstr(text, "cm id ");
  return found != nullptr && std::sscanf(found, "cm id %d", &count) == 1 ? count : 0;
}

// Waits until only the listener has an id: ids of connections are destroyed soon after their end,
// not with the IA.
bool connections_are_gone() {
  for (int i = 0; i < 1000 && cm_ids() > 1; ++i) std::this_thread::sleep_for(2ms);
  return cm_ids() == 1;
}

bool connect_again(Pair& pair) {
  return FAULTS_OK(pair.run, dat_ep_reset(pair.active.ep)) &&
         FAULTS_OK(pair.run, dat_ep_reset(pair.passive.ep)) && pair.connect();
}

bool ended(Pair& pair) {
  DAT_EVENT event{};
  return pair.run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event) &&
         pair.run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event);
}

bool post_send(Pair& pair, DAT_SEG_LENGTH length = 64) {
  DAT_LMR_TRIPLET from = pair.local(0, length);
  return FAULTS_OK(pair.run, dat_ep_post_send(pair.active.ep, 1, &from, DAT_DTO_COOKIE{},
                                              DAT_COMPLETION_DEFAULT_FLAG));
}

bool post_recv(Pair& pair, DAT_SEG_LENGTH length = 64) {
  DAT_LMR_TRIPLET to = pair.local(64, length);
  return FAULTS_OK(pair.run, dat_ep_post_recv(pair.passive.ep, 1, &to, DAT_DTO_COOKIE{},
                                              DAT_COMPLETION_DEFAULT_FLAG));
}

bool disconnect(Pair& pair, DAT_CLOSE_FLAGS how) {
  return FAULTS_OK(pair.run, dat_ep_disconnect(pair.active.ep, how));
}

bool send_done(Pair& pair) {
  return pair.run.expect_done(pair.active.request_evd, pair.active.connect_evd);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ends)

// The answer arrives before dat_ep_disconnect has handed over the id.
BOOST_AUTO_TEST_CASE(answer_overtakes_the_call) {
  Scenario scenario;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect());
  verbs_mock_delay_disconnect(50'000);
  const bool called = disconnect(pair, DAT_CLOSE_ABRUPT_FLAG);
  verbs_mock_delay_disconnect(0);
  BOOST_REQUIRE(called);
  BOOST_REQUIRE(ended(pair));
  BOOST_CHECK_MESSAGE(connections_are_gone(), cm_ids() << " ids are left");
}

// If a consumer ends its connection and never dequeues the completion, the provider polls for it.
BOOST_AUTO_TEST_CASE(graceful_end_behind_an_unreaped_send) {
  Scenario scenario;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect());
  BOOST_REQUIRE(post_recv(pair) && post_send(pair));
  BOOST_REQUIRE(disconnect(pair, DAT_CLOSE_GRACEFUL_FLAG));
  BOOST_REQUIRE(ended(pair));
  BOOST_REQUIRE(send_done(pair));
  BOOST_REQUIRE(scenario.run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd));
  BOOST_CHECK_MESSAGE(connections_are_gone(), cm_ids() << " ids are left");
}

// The peer posts no receive: after a time the disconnect becomes an abrupt one, whether the
// consumer waits for its event or for the completions.
BOOST_AUTO_TEST_CASE(graceful_end_without_a_receive) {
  constexpr int kSends = 3;
  for (const bool polls : {false, true}) {
    ::setenv("DAPL_DRAIN_TIMEOUT_MS", "100", 1);  // read when the IA is opened
    Scenario scenario(true);
    Pair& pair = scenario.pair;
    const bool connected = pair.create() && pair.connect();
    ::unsetenv("DAPL_DRAIN_TIMEOUT_MS");
    BOOST_REQUIRE(connected);
    for (int i = 0; i < kSends; ++i) BOOST_REQUIRE(post_send(pair));
    BOOST_REQUIRE(disconnect(pair, DAT_CLOSE_GRACEFUL_FLAG));
    if (!polls) BOOST_REQUIRE(ended(pair));
    for (int i = 0; i < kSends; ++i) {
      DAT_EVENT event{};
      BOOST_REQUIRE(scenario.run.expect(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT, &event));
      BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
    }
    if (polls) BOOST_REQUIRE(ended(pair));
  }
}

// A drain lasts longer than its limit if requests complete now and then, whether the consumer
// dequeues the completions or not.
BOOST_AUTO_TEST_CASE(graceful_end_that_is_slow) {
  constexpr int kSends = 4;
  for (const bool polls : {false, true}) {
    ::setenv("DAPL_DRAIN_TIMEOUT_MS", "1500", 1);
    Scenario scenario(true);
    Pair& pair = scenario.pair;
    const bool connected = pair.create() && pair.connect();
    ::unsetenv("DAPL_DRAIN_TIMEOUT_MS");
    BOOST_REQUIRE(connected);
    for (int i = 0; i < kSends; ++i) BOOST_REQUIRE(post_send(pair));
    BOOST_REQUIRE(disconnect(pair, DAT_CLOSE_GRACEFUL_FLAG));
    for (int i = 0; i < kSends; ++i) {
      std::this_thread::sleep_for(500ms);
      BOOST_REQUIRE(post_recv(pair));
      if (polls) BOOST_REQUIRE(send_done(pair));
    }
    BOOST_REQUIRE(ended(pair));
    for (int i = 0; !polls && i < kSends; ++i) BOOST_REQUIRE(send_done(pair));
  }
}

// The active side gives up while its request is in flight, and its last message is lost: the
// passive side, which accepts, learns of it all the same.
BOOST_AUTO_TEST_CASE(peer_gives_up_without_notice) {
  ::setenv("DAPL_CM_RTU_TIMEOUT_MS", "150", 1);  // read when the IA is opened
  Scenario scenario;
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  const bool requested = pair.create() && pair.request();
  ::unsetenv("DAPL_CM_RTU_TIMEOUT_MS");
  BOOST_REQUIRE(requested);
  verbs_mock_lose_disconnects(true);
  DAT_EVENT event{};
  const bool noticed =
      disconnect(pair, DAT_CLOSE_ABRUPT_FLAG) &&
      FAULTS_OK(run, dat_cr_accept(pair.cr, pair.passive.ep, 0, nullptr)) &&
      run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event) &&
      run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, &event);
  verbs_mock_lose_disconnects(false);
  BOOST_REQUIRE(noticed);
  // Both sides can connect again, and an established connection is not ended.
  BOOST_REQUIRE(connect_again(pair));
  std::this_thread::sleep_for(300ms);
  BOOST_REQUIRE(pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
  BOOST_CHECK_MESSAGE(connections_are_gone(), cm_ids() << " ids are left");
}

// The connection manager loses the peer before the device gives up: the oldest outstanding request
// fails with a transport error, the others are flushed, and so are later ones.
BOOST_AUTO_TEST_CASE(oldest_request_fails_by_the_loss_of_the_peer) {
  constexpr DAT_DTO_COMPLETION_STATUS kFlushed = DAT_DTO_ERR_FLUSHED;
  for (const int outstanding : {0, 3}) {
    Scenario scenario;
    Run& run = scenario.run;
    Pair& pair = scenario.pair;
    BOOST_REQUIRE(pair.create() && pair.connect());
    for (int i = 0; i < outstanding; ++i) BOOST_REQUIRE(post_send(pair));
    verbs_mock_lose_peers();
    DAT_EVENT event{};
    BOOST_REQUIRE(run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN, &event));
    BOOST_REQUIRE(run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN, &event));
    BOOST_REQUIRE(post_send(pair));
    for (int i = 0; i <= outstanding; ++i) {
      BOOST_REQUIRE(run.expect(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT, &event));
      const auto status = event.event_data.dto_completion_event_data.status;
      const bool oldest = i == 0 && outstanding != 0;
      BOOST_CHECK_EQUAL(status, oldest ? DAT_DTO_ERR_TRANSPORT : kFlushed);
    }
  }
}

// The connection ends while a post of a receive is on its way to the device, which flushes what it
// gets in the error state only when the QP enters that state once more.
BOOST_AUTO_TEST_CASE(receive_posted_while_the_connection_ends) {
  Scenario scenario(true);
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect());
  DAT_LMR_TRIPLET to = pair.local(64, 64);
  const auto post = [&] {
    return dat_ep_post_recv(pair.active.ep, 1, &to, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG);
  };
  BOOST_REQUIRE(FAULTS_OK(run, post()));
  verbs_mock_flush_lazily(true);
  verbs_mock_hold_calls(VERBS_MOCK_HOLD_BEFORE);
  DAT_RETURN posted = DAT_SUCCESS;
  std::thread poster([&] { posted = post(); });
  while (verbs_mock_held_calls() == 0) std::this_thread::sleep_for(1ms);
  const bool over = disconnect(pair, DAT_CLOSE_ABRUPT_FLAG) && ended(pair);
  verbs_mock_hold_calls(VERBS_MOCK_HOLD_NONE);
  poster.join();
  BOOST_CHECK_EQUAL(posted, DAT_SUCCESS);
  DAT_EVENT events[2]{};
  const bool flushed = over &&
                       run.expect(pair.active.recv_evd, DAT_DTO_COMPLETION_EVENT, &events[0]) &&
                       run.expect(pair.active.recv_evd, DAT_DTO_COMPLETION_EVENT, &events[1]);
  verbs_mock_flush_lazily(false);
  BOOST_REQUIRE(flushed);
  for (const DAT_EVENT& event : events)
    BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
}

// With nothing outstanding the event is queued by the time the call returns.
BOOST_AUTO_TEST_CASE(graceful_end_at_rest) {
  Scenario scenario;
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect());
  BOOST_REQUIRE(disconnect(pair, DAT_CLOSE_GRACEFUL_FLAG));
  DAT_EVENT event{};
  BOOST_REQUIRE(FAULTS_OK(run, dat_evd_dequeue(pair.active.connect_evd, &event)));
  BOOST_CHECK_EQUAL(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
  BOOST_REQUIRE(run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event));
  BOOST_CHECK_MESSAGE(connections_are_gone(), cm_ids() << " ids are left");
}

// For the address sanitizer: the events of the end reach the id at every stage of its destruction.
BOOST_AUTO_TEST_CASE(both_at_once) {
  constexpr int kRounds = 2000;
  Scenario scenario;
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect());
  for (int round = 0; round < kRounds; ++round) {
    BOOST_REQUIRE(disconnect(pair, DAT_CLOSE_ABRUPT_FLAG));
    BOOST_REQUIRE(FAULTS_OK(run, dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG)));
    BOOST_REQUIRE(ended(pair));
    BOOST_REQUIRE(connect_again(pair));
  }
  BOOST_REQUIRE(pair.disconnect(DAT_CLOSE_ABRUPT_FLAG));
  BOOST_CHECK_MESSAGE(connections_are_gone(), cm_ids() << " ids are left");
}

// A resize counts the pending completions, for which the provider takes them off the device's
// queue. When the EP is freed, these are dropped, as they refer to it.
BOOST_AUTO_TEST_CASE(counted_completions_go_with_their_ep) {
  constexpr DAT_COUNT kMessages = 20;  // more than the EVD polls at a time
  Scenario scenario;
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create());
  faults::End& end = pair.passive;  // gets an EP that is freed before the pair
  DAT_EP_PARAM like{};
  BOOST_REQUIRE(FAULTS_OK(run, dat_ep_query(end.ep, DAT_EP_FIELD_ALL, &like)));
  like.ep_attr.max_recv_dtos = kMessages;
  BOOST_REQUIRE(FAULTS_OK(run, dat_ep_create(run.ia, pair.pz, end.recv_evd, end.request_evd,
                                             end.connect_evd, &like.ep_attr, &end.ep)));
  BOOST_REQUIRE(FAULTS_OK(run, dat_evd_resize(end.recv_evd, kMessages)));
  BOOST_REQUIRE(pair.connect());
  for (DAT_COUNT i = 0; i < kMessages; ++i) {
    BOOST_REQUIRE(post_recv(pair, 8) && post_send(pair, 8));
    BOOST_REQUIRE(send_done(pair));
  }
  BOOST_REQUIRE(FAULTS_OK(run, dat_evd_resize(end.recv_evd, 2 * kMessages)));
  BOOST_REQUIRE(FAULTS_OK(run, dat_ep_free(end.ep)));
  DAT_EVENT event{};
  BOOST_CHECK(dat_evd_dequeue(end.recv_evd, &event) != DAT_SUCCESS);
}

BOOST_AUTO_TEST_SUITE_END()
