// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Windows of one QP while those of another are being replaced, which takes system calls; windows
// that move from a connection that has ended to another.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "mock_control.h"
#include "scenario.h"

namespace {

using faults::End;
using faults::Pair;
using faults::Run;
using faults::Scenario;
using namespace std::chrono_literals;

// Creates a window for an EP and binds it through the passive one.
bool bind(Pair& pair, DAT_RMR_CONTEXT* context) {
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  if (!FAULTS_OK(pair.run, dat_rmr_create_for_ep(pair.pz, &rmr))) return false;
  pair.run.on_finish("dat_rmr_free", [rmr] { return dat_rmr_free(rmr); });
  const DAT_LMR_TRIPLET range = pair.local(2048, 64);
  DAT_EVENT event{};
  return FAULTS_OK(pair.run, dat_rmr_bind(rmr, pair.lmr, &range, DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
                                          DAT_VA_TYPE_VA, pair.passive.ep, DAT_RMR_COOKIE{},
                                          DAT_COMPLETION_DEFAULT_FLAG, context)) &&
         pair.run.expect(pair.passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT, &event);
}

bool send_with_invalidate(Pair& pair, DAT_RMR_CONTEXT context) {
  DAT_LMR_TRIPLET to = pair.local(1024, 64);
  DAT_LMR_TRIPLET from = pair.local(0, 32);
  return FAULTS_OK(pair.run, dat_ep_post_recv(pair.passive.ep, 1, &to, DAT_DTO_COOKIE{},
                                              DAT_COMPLETION_DEFAULT_FLAG)) &&
         FAULTS_OK(pair.run, dat_ep_post_send_with_invalidate(
                                 pair.active.ep, 1, &from, DAT_DTO_COOKIE{},
                                 DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, context));
}

// Binds bytes 2048 to 2048 + length - 1 through the passive EP; length 0 unbinds. Does not wait for
// the completion.
bool post_bind(Pair& pair, DAT_RMR_HANDLE rmr, DAT_SEG_LENGTH length, DAT_RMR_CONTEXT* context) {
  const DAT_LMR_TRIPLET range = pair.local(2048, length);
  return FAULTS_OK(pair.run, dat_rmr_bind(rmr, pair.lmr, &range, DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
                                          DAT_VA_TYPE_VA, pair.passive.ep, DAT_RMR_COOKIE{},
                                          DAT_COMPLETION_DEFAULT_FLAG, context));
}

bool expect_bound(Pair& pair) {
  DAT_EVENT event{};
  if (!pair.run.expect(pair.passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT, &event))
    return false;
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.status, DAT_RMR_BIND_SUCCESS);
  return event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS;
}

bool write_to(Pair& pair, DAT_RMR_CONTEXT context) {
  DAT_LMR_TRIPLET from = pair.local(0, 64);
  DAT_RMR_TRIPLET to = pair.remote(2048, 64);
  to.rmr_context = context;
  return FAULTS_OK(pair.run, dat_ep_post_rdma_write(pair.active.ep, 1, &from, DAT_DTO_COOKIE{}, &to,
                                                    DAT_COMPLETION_DEFAULT_FLAG)) &&
         pair.run.expect_done(pair.active.request_evd, pair.active.connect_evd);
}

bool bind_and_write(Pair& pair, DAT_RMR_HANDLE rmr, DAT_RMR_CONTEXT* context) {
  return post_bind(pair, rmr, 64, context) && expect_bound(pair) && write_to(pair, *context);
}

bool peer_leaves(Pair& pair) {
  DAT_EVENT event{};
  return FAULTS_OK(pair.run, dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG)) &&
         pair.run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event);
}

// A Send for which there is no receive: what is posted behind it waits.
bool post_waiting_send(Pair& pair) {
  DAT_LMR_TRIPLET from = pair.local(0, 64);
  return FAULTS_OK(pair.run, dat_ep_post_send(pair.passive.ep, 1, &from, DAT_DTO_COOKIE{},
                                              DAT_COMPLETION_DEFAULT_FLAG));
}

// A write outside of the peer's memory fails, which breaks the connection soon after the completion
// is polled.
bool post_failure(Pair& pair) {
  DAT_LMR_TRIPLET from = pair.local(0, 64);
  DAT_RMR_TRIPLET to = pair.remote(0, 64);
  to.virtual_address += pair.memory.size();
  return FAULTS_OK(pair.run, dat_ep_post_rdma_write(pair.passive.ep, 1, &from, DAT_DTO_COOKIE{},
                                                    &to, DAT_COMPLETION_DEFAULT_FLAG));
}

bool take_failure(Pair& pair) {
  DAT_EVENT event{};
  return pair.run.expect(pair.passive.request_evd, DAT_DTO_COMPLETION_EVENT, &event);
}

// When a connection ends: before or after a bind is posted; by a failure that the consumer has
// dequeued before that, but the driving thread may not have handled; or by one that was not
// polled.
enum class Ends : std::uint8_t { kBeforeThePost, kAfterThePost, kByAFailure, kByAnUnpolledFailure };

// A bind of `length` bytes is flushed, and its completion not dequeued. Then the window is bound
// through an EP whose connection is in order.
void move_window(bool for_ep, DAT_SEG_LENGTH length, Ends ends) {
  BOOST_TEST_CONTEXT("for an EP " << for_ep << ", length " << length << ", end "
                                  << static_cast<int>(ends)) {
    Scenario scenario(true);
    Run& run = scenario.run;
    Pair& pair = scenario.pair;
    End active;
    End passive;
    BOOST_REQUIRE(pair.create() && pair.make_end(active) && pair.make_end(passive));
    BOOST_REQUIRE(pair.connect());
    std::swap(pair.active, active);
    std::swap(pair.passive, passive);
    BOOST_REQUIRE(pair.connect());
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT context = 0;
    BOOST_REQUIRE(FAULTS_OK(
        run, for_ep ? dat_rmr_create_for_ep(pair.pz, &rmr) : dat_rmr_create(pair.pz, &rmr)));
    run.on_finish("dat_rmr_free", [rmr] { return dat_rmr_free(rmr); });
    BOOST_REQUIRE(bind_and_write(pair, rmr, &context));
    if (ends == Ends::kBeforeThePost) BOOST_REQUIRE(peer_leaves(pair));
    if (ends == Ends::kAfterThePost) BOOST_REQUIRE(post_waiting_send(pair));
    if (ends == Ends::kByAFailure) BOOST_REQUIRE(post_failure(pair) && take_failure(pair));
    if (ends == Ends::kByAnUnpolledFailure) BOOST_REQUIRE(post_failure(pair));
    BOOST_REQUIRE(post_bind(pair, rmr, length, &context));
    if (ends == Ends::kAfterThePost) BOOST_REQUIRE(peer_leaves(pair));

    std::swap(pair.active, active);
    std::swap(pair.passive, passive);
    BOOST_REQUIRE(bind_and_write(pair, rmr, &context));
  }
}

BOOST_AUTO_TEST_SUITE(windows)

BOOST_AUTO_TEST_CASE(window_moves_after_a_flushed_bind) {
  for (const bool for_ep : {false, true}) {
    for (const DAT_SEG_LENGTH length : {0U, 32U}) {
      move_window(for_ep, length, Ends::kBeforeThePost);
      move_window(for_ep, length, Ends::kAfterThePost);
      move_window(for_ep, length, Ends::kByAFailure);
      move_window(for_ep, length, Ends::kByAnUnpolledFailure);
    }
  }
}

// The reset of an EP replaces the windows that are bound through it. Meanwhile another EP takes a
// message that invalidates a window.
BOOST_AUTO_TEST_CASE(poll_while_another_qp_ends) {
  Scenario scenario(true);
  Run& run = scenario.run;
  Pair& pair = scenario.pair;
  DAT_RMR_CONTEXT context = 0;
  End active;
  End passive;
  BOOST_REQUIRE(pair.create() && pair.connect() && bind(pair, &context));
  BOOST_REQUIRE(peer_leaves(pair));
  BOOST_REQUIRE(pair.make_end(active) && pair.make_end(passive));
  const DAT_EP_HANDLE ended = pair.passive.ep;
  std::swap(pair.active, active);
  std::swap(pair.passive, passive);
  BOOST_REQUIRE(pair.connect() && bind(pair, &context));

  verbs_mock_hold_calls(VERBS_MOCK_HOLD_WINDOWS);
  DAT_RETURN reset = DAT_SUCCESS;
  std::thread resetter([&] { reset = dat_ep_reset(ended); });
  while (verbs_mock_held_calls() == 0) std::this_thread::sleep_for(1ms);
  // If a call waits for the reset, the reset goes on after a while.
  std::atomic<bool> polled{false};
  bool polled_first = false;
  std::thread watch([&] {
    for (int i = 0; i < 5000 && !polled; ++i) std::this_thread::sleep_for(2ms);
    polled_first = polled;
    verbs_mock_hold_calls(VERBS_MOCK_HOLD_NONE);
  });
  const bool received = send_with_invalidate(pair, context) &&
                        run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd);
  polled = true;
  watch.join();
  resetter.join();
  BOOST_CHECK(polled_first);
  BOOST_CHECK_EQUAL(reset, DAT_SUCCESS);
  BOOST_REQUIRE(received);
  BOOST_REQUIRE(run.expect_done(pair.active.request_evd, pair.active.connect_evd));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
