// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dat_ia_close with everything left open, while each call that it makes for memory, a descriptor or
// a thread fails once. A close that failed for want of memory would free nothing.
#include <boost/test/unit_test.hpp>

#include <array>

#include "every_fault.h"

namespace {

using faults::Pair;
using faults::Run;

constexpr unsigned kMaxCalls = 2000;

void count(DAT_PVOID calls, DAT_EVD_HANDLE) { ++*static_cast<int*>(calls); }

// Leaves a connection, a request without an answer, and CNOs with their agents.
bool make_all(Run& run, Pair& pair, std::array<int, 3>& agents) {
  if (!pair.create() || !pair.connect() || !faults::send(pair)) return false;
  for (int& calls : agents) {
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    if (!FAULTS_OK(run, dat_cno_create(run.ia, {&calls, &count}, &cno)) ||
        !FAULTS_OK(run, dat_evd_create(run.ia, 8, cno, DAT_EVD_DTO_FLAG, &evd)))
      return false;
  }
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
  DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
  DAT_FD fd = -1;
  return FAULTS_OK(run, dat_cno_fd_create(run.ia, &fd, &cno)) &&
         FAULTS_OK(run, dat_rmr_create(pair.pz, &rmr)) &&
         FAULTS_OK(run, dat_srq_create(run.ia, pair.pz, &attr, &srq));
}

void close_under_every_fault(const char* adapter) {
  for (unsigned n = 1; n <= kMaxCalls; ++n) {
    Run run(adapter);
    Pair pair(run);
    std::array<int, 3> agents{};
    BOOST_REQUIRE_MESSAGE(make_all(run, pair, agents), run.outcome());
    verbs_mock_fail_at(n);
    const DAT_RETURN closed = dat_ia_close(run.ia, DAT_CLOSE_ABRUPT_FLAG);
    const char* const failed = verbs_mock_failed_call();
    verbs_mock_fail_at(0);
    BOOST_REQUIRE_MESSAGE(closed == DAT_SUCCESS, "call " << n << ", " << failed << ": " << closed);
    for (const int calls : agents) BOOST_TEST(calls == 1);
    if (failed == nullptr) return;
  }
  BOOST_ERROR("more than " << kMaxCalls << " calls");
}

BOOST_AUTO_TEST_SUITE(closes)

BOOST_AUTO_TEST_CASE(a_close_succeeds_whatever_fails) { close_under_every_fault("mock"); }

BOOST_AUTO_TEST_CASE(a_close_succeeds_whatever_fails_over_tcp) { close_under_every_fault("tcp"); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
