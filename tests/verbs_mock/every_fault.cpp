// SPDX-License-Identifier: MIT OR GPL-2.0-only
#define BOOST_TEST_MODULE verbs_faults
#include "every_fault.h"

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace faults {

namespace {

constexpr unsigned kMaxCalls = 2000;
constexpr unsigned kSecondsPerRun = 30;

volatile unsigned current = 0;

void on_alarm(int) {
  char text[96];
  const int length =
      std::snprintf(text, sizeof text, "\nhangs with fault %u\n", static_cast<unsigned>(current));
  (void)!::write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  ::_exit(1);
}

// Makes one run; returns the call that failed, or null if none did.
const char* run_once(unsigned n, bool (*scenario)(Pair&), Run& run) {
  current = n;
  ::alarm(kSecondsPerRun);
  verbs_mock_fail_at(n);
  {
    Pair pair(run);
    (void)scenario(pair);
    run.finish();
  }
  const char* const fault = verbs_mock_failed_call();
  verbs_mock_fail_at(0);
  char left[256];
  if (verbs_mock_live(left, sizeof left) != 0) run.complain(std::string("left over: ") + left);
  ::alarm(0);
  return fault;
}

void for_every_fault(bool (*scenario)(Pair&), const char* adapter, bool threadsafe) {
  const char* const mode = threadsafe ? "threadsafe" : "nonthreadsafe";
  {
    Run run(adapter, threadsafe);
    (void)run_once(0, scenario, run);
    BOOST_REQUIRE_MESSAGE(run.outcome().empty(), mode << ", without a fault: " << run.outcome());
    for (const std::string& complaint : run.complaints())
      BOOST_REQUIRE_MESSAGE(false, mode << ", without a fault: " << complaint);
  }
  unsigned ended = 0;
  for (unsigned n = 1; n <= kMaxCalls; ++n) {
    Run run(adapter, threadsafe);
    const char* const fault = run_once(n, scenario, run);
    if (fault == nullptr) {
      BOOST_CHECK_MESSAGE(run.outcome().empty(), mode << ", without a fault: " << run.outcome());
      BOOST_TEST_MESSAGE(mode << ": " << n - 1 << " faults, " << ended
                              << " of them ended the scenario");
      BOOST_CHECK(ended != 0);
      return;
    }
    if (!run.outcome().empty()) ++ended;
    for (const std::string& complaint : run.complaints())
      BOOST_ERROR(mode << ", fault " << n << ", " << fault << " (" << run.outcome()
                       << "): " << complaint);
  }
  BOOST_ERROR("more than " << kMaxCalls << " calls");
}

}  // namespace

void for_every_fault(bool (*scenario)(Pair&), const char* adapter) {
  ::signal(SIGALRM, &on_alarm);
  for_every_fault(scenario, adapter, false);
  for_every_fault(scenario, adapter, true);
}

bool send(Pair& pair) {
  DAT_LMR_TRIPLET to = pair.local(1024, 64);
  DAT_LMR_TRIPLET from = pair.local(0, 32);
  Run& run = pair.run;
  const DAT_RETURN posted =
      pair.srq != DAT_HANDLE_NULL
          ? dat_srq_post_recv(pair.srq, 1, &to, cookie(1))
          : dat_ep_post_recv(pair.passive.ep, 1, &to, cookie(1), DAT_COMPLETION_DEFAULT_FLAG);
  return run.ok(posted, "post_recv") &&
         FAULTS_OK(run, dat_ep_post_send(pair.active.ep, 1, &from, cookie(2),
                                         DAT_COMPLETION_DEFAULT_FLAG)) &&
         run.expect_done(pair.active.request_evd, pair.active.connect_evd) &&
         run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd);
}

bool write_to(Pair& pair, const DAT_RMR_TRIPLET& where) {
  DAT_LMR_TRIPLET from = pair.local(0, where.segment_length);
  return FAULTS_OK(pair.run, dat_ep_post_rdma_write(pair.active.ep, 1, &from, cookie(3), &where,
                                                    DAT_COMPLETION_DEFAULT_FLAG)) &&
         pair.run.expect_done(pair.active.request_evd, pair.active.connect_evd);
}

}  // namespace faults
