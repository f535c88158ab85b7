// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completions that wake a waiter, among others that do not.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <thread>

#include "every_fault.h"

namespace {

using faults::cookie;
using faults::Pair;
using faults::Run;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(notifications)

// With suppressed completions, the provider checks which completion made the CQ fire. Before it
// does, its scan of CQs that no thread polls has taken the completion.
BOOST_AUTO_TEST_CASE(completion_is_taken_before_its_notification) {
  Run run("mock", true);
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  const DAT_RMR_TRIPLET remote = pair.remote(2048, 16);
  DAT_LMR_TRIPLET from = pair.local(0, 16);
  const auto write = [&](DAT_COMPLETION_FLAGS flags) {
    return FAULTS_OK(run,
                     dat_ep_post_rdma_write(pair.active.ep, 1, &from, cookie(3), &remote, flags));
  };
  BOOST_REQUIRE(write(DAT_COMPLETION_SUPPRESS_FLAG) && faults::write_to(pair, remote));

  verbs_mock_hold_notifications(true);
  DAT_RETURN code = DAT_SUCCESS;
  std::thread waiter([&] {
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    code = dat_evd_wait(pair.active.request_evd, 5'000'000, 1, &event, &more);
  });
  std::this_thread::sleep_for(50ms);
  BOOST_CHECK(write(DAT_COMPLETION_DEFAULT_FLAG));
  std::this_thread::sleep_for(400ms);  // the provider scans
  verbs_mock_hold_notifications(false);
  waiter.join();
  BOOST_CHECK_EQUAL(code, DAT_SUCCESS);
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
