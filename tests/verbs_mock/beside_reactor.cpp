// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The application and the driving thread access the same CQs concurrently: no completion is lost or
// delivered twice. Calls on a CQ take longer here, so that they overlap. For applications that
// serialise their calls and for others.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>

#include "every_fault.h"
#include "mock_control.h"
#include "scenario.h"

namespace {

using faults::End;
using faults::Pair;
using faults::Run;
using faults::Scenario;
using namespace std::chrono_literals;

constexpr unsigned kCqCallDelay = 100;  // us
const auto kThreadModes = boost::unit_test::data::make({false, true});

struct CqCallDelay {
  CqCallDelay() { verbs_mock_delay_cq_calls(kCqCallDelay); }
  ~CqCallDelay() { verbs_mock_delay_cq_calls(0); }
};

// Checks after each test that nothing is left over.
struct NothingLeft {
  ~NothingLeft() {
    char left[256];
    BOOST_CHECK_MESSAGE(verbs_mock_live(left, sizeof left) == 0, "left over: " << left);
  }
};

// Dequeues in a loop; returns how many events arrived.
unsigned poll_for(DAT_EVD_HANDLE evd, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  unsigned events = 0;
  DAT_EVENT event{};
  while (std::chrono::steady_clock::now() < end)
    if (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) ++events;
  return events;
}

bool post_recv(Pair& pair) {
  DAT_LMR_TRIPLET to = pair.local(1024, 64);
  return FAULTS_OK(pair.run, dat_ep_post_recv(pair.passive.ep, 1, &to, DAT_DTO_COOKIE{},
                                              DAT_COMPLETION_DEFAULT_FLAG));
}

bool post_send(Pair& pair, int flags = DAT_COMPLETION_DEFAULT_FLAG) {
  DAT_LMR_TRIPLET from = pair.local(0, 32);
  return FAULTS_OK(pair.run, dat_ep_post_send(pair.active.ep, 1, &from, DAT_DTO_COOKIE{},
                                              static_cast<DAT_COMPLETION_FLAGS>(flags)));
}

// Makes the driving thread check repeatedly for the end of the drain, as the peer has no receive
// for the message.
bool drain(Pair& pair) {
  return pair.connect() && post_send(pair) &&
         FAULTS_OK(pair.run, dat_ep_disconnect(pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG));
}

bool end_drain(Pair& pair) {
  DAT_EVENT event{};
  return post_recv(pair) &&
         pair.run.expect_done(pair.active.request_evd, pair.active.connect_evd) &&
         pair.run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(beside_reactor)

BOOST_DATA_TEST_CASE(polls_while_the_driving_thread_scans, kThreadModes, threads) {
  const NothingLeft nothing_left;
  Scenario scenario(threads);
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create());
  {
    const CqCallDelay delay;
    BOOST_REQUIRE(drain(pair));
    BOOST_TEST(poll_for(pair.active.request_evd, 300ms) == 0U);
  }
  BOOST_REQUIRE(end_drain(pair));
}

// The driving thread scans less often while all CQs are polled.
BOOST_DATA_TEST_CASE(an_unpolled_failure_is_noticed_after_polls, kThreadModes, threads) {
  const NothingLeft nothing_left;
  Scenario scenario(threads);
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect() && post_recv(pair));
  const auto end = std::chrono::steady_clock::now() + 500ms;
  while (std::chrono::steady_clock::now() < end)
    for (const End* const side : {&pair.active, &pair.passive})
      for (DAT_EVD_HANDLE const evd : {side->request_evd, side->recv_evd})
        BOOST_TEST(poll_for(evd, 1ms) == 0U);
  DAT_LMR_TRIPLET too_long = pair.local(0, 128);
  DAT_EVENT event{};
  BOOST_REQUIRE(FAULTS_OK(run, dat_ep_post_send(pair.active.ep, 1, &too_long, DAT_DTO_COOKIE{},
                                                DAT_COMPLETION_DEFAULT_FLAG)));
  BOOST_REQUIRE(run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN, &event));
  BOOST_REQUIRE(run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN, &event));
}

BOOST_DATA_TEST_CASE(qps_come_and_go_while_the_driving_thread_scans, kThreadModes, threads) {
  const NothingLeft nothing_left;
  Scenario scenario(threads);
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create());
  {
    const CqCallDelay delay;
    BOOST_REQUIRE(drain(pair));
    for (int i = 0; i < 200; ++i) {
      DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
      BOOST_REQUIRE(
          FAULTS_OK(run, dat_ep_create(run.ia, pair.pz, pair.active.recv_evd,
                                       pair.active.request_evd, DAT_HANDLE_NULL, nullptr, &ep)));
      BOOST_REQUIRE(FAULTS_OK(run, dat_ep_free(ep)));
      BOOST_REQUIRE(FAULTS_OK(run, dat_evd_resize(pair.active.request_evd, 16 + i)));
    }
  }
  BOOST_REQUIRE(end_drain(pair));
}

// Quiet completions make an armed CQ fire, too; the driving thread polls it to tell them apart.
BOOST_DATA_TEST_CASE(polls_while_the_driving_thread_filters, kThreadModes, threads) {
  const NothingLeft nothing_left;
  Scenario scenario(threads);
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect());
  {
    const CqCallDelay delay;
    for (int i = 0; i < 50; ++i) {
      DAT_EVENT event{};
      DAT_COUNT more = 0;
      BOOST_REQUIRE(post_recv(pair) && post_send(pair, DAT_COMPLETION_SUPPRESS_FLAG));
      const DAT_RETURN code = dat_evd_wait(pair.active.request_evd, 200, 1, &event, &more);
      BOOST_TEST(DAT_GET_TYPE(code) == unsigned{DAT_TIMEOUT_EXPIRED});
      BOOST_TEST(poll_for(pair.active.request_evd, 1ms) == 0U);
      BOOST_TEST(poll_for(pair.passive.recv_evd, 1ms) == 1U);
    }
  }
  BOOST_REQUIRE(pair.disconnect(DAT_CLOSE_ABRUPT_FLAG));
}

namespace {

// An agent that reinstalls itself, which arms the CQs of its CNO in the thread that called it.
struct Agent {
  static void called(DAT_PVOID instance, DAT_EVD_HANDLE) {
    Agent& self = *static_cast<Agent*>(instance);
    ++self.calls;
    (void)dat_cno_modify_agent(self.cno, self.proxy());
  }
  DAT_OS_WAIT_PROXY_AGENT proxy() { return {this, &Agent::called}; }

  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  std::atomic<unsigned> calls{0};
};

}  // namespace

BOOST_DATA_TEST_CASE(polls_while_the_driving_thread_arms, kThreadModes, threads) {
  const NothingLeft nothing_left;
  Agent agent;
  Scenario scenario(threads);
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  BOOST_REQUIRE(pair.create() && pair.connect());
  BOOST_REQUIRE(FAULTS_OK(run, dat_cno_create(run.ia, agent.proxy(), &agent.cno)));
  BOOST_REQUIRE(FAULTS_OK(run, dat_evd_modify_cno(pair.active.request_evd, agent.cno)));
  unsigned events = 0;
  constexpr unsigned kMessages = 200;
  {
    const CqCallDelay delay;
    for (unsigned i = 0; i < kMessages; ++i) {
      BOOST_REQUIRE(post_recv(pair) && post_send(pair));
      events += poll_for(pair.active.request_evd, 1ms);
      (void)poll_for(pair.passive.recv_evd, 1ms);
    }
  }
  BOOST_TEST(events == kMessages);
  BOOST_TEST(agent.calls.load() > 0U);
  BOOST_REQUIRE(pair.disconnect(DAT_CLOSE_ABRUPT_FLAG));
  BOOST_REQUIRE(FAULTS_OK(run, dat_evd_modify_cno(pair.active.request_evd, DAT_HANDLE_NULL)));
  BOOST_REQUIRE(FAULTS_OK(run, dat_cno_free(agent.cno)));
}

BOOST_AUTO_TEST_SUITE_END()
