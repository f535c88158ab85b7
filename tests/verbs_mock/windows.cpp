// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Windows of one QP while those of another are being replaced, which takes system calls.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "mock_control.h"
#include "run.h"

namespace {

using faults::End;
using faults::Pair;
using faults::Run;
using namespace std::chrono_literals;

// Creates a window and binds it through the passive EP.
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

BOOST_AUTO_TEST_SUITE(windows)

// The reset of an EP replaces the windows that are bound through it. Meanwhile another EP takes a
// message that invalidates a window.
BOOST_AUTO_TEST_CASE(poll_while_another_qp_ends) {
  Run run("mock", true);
  Pair pair(run);
  DAT_RMR_CONTEXT context = 0;
  End active;
  End passive;
  bool done = pair.create() && pair.connect() && bind(pair, &context) &&
              FAULTS_OK(run, dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
  DAT_EVENT event{};
  done = done && run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED, &event) &&
         pair.make_end(active) && pair.make_end(passive);
  const DAT_EP_HANDLE ended = pair.passive.ep;
  std::swap(pair.active, active);
  std::swap(pair.passive, passive);
  done = done && pair.connect() && bind(pair, &context);
  BOOST_REQUIRE_MESSAGE(done, run.outcome());

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
  done = send_with_invalidate(pair, context) &&
         run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd);
  polled = true;
  watch.join();
  resetter.join();
  BOOST_CHECK(polled_first);
  BOOST_CHECK_EQUAL(reset, DAT_SUCCESS);
  done = done && run.expect_done(pair.active.request_evd, pair.active.connect_evd);
  run.finish();
  BOOST_CHECK_MESSAGE(done && run.outcome().empty(), run.outcome());
  for (const std::string& complaint : run.complaints()) BOOST_ERROR(complaint);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
