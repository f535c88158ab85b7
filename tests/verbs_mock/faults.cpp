// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Every scenario for N = 1, 2, ..., where the N-th call into verbs or rdma_cm that can fail does:
// each run ends in a documented error or event, nothing hangs, and nothing is left. The last run is
// the one without a fault.
#define BOOST_TEST_MODULE verbs_faults
#include <dat/dat_ib_extensions.h>

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "mock_control.h"
#include "run.h"

namespace {

using faults::Pair;
using faults::Run;

constexpr unsigned kMostCalls = 2000;
constexpr unsigned kSecondsPerRun = 30;

volatile unsigned current = 0;

void on_alarm(int) {
  char text[96];
  const int length =
      std::snprintf(text, sizeof text, "\nhangs with fault %u\n", static_cast<unsigned>(current));
  (void)!::write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  ::_exit(1);
}

// One run; the fault, or null when there was none.
const char* run_once(unsigned n, bool (*scenario)(Run&), Run& run) {
  current = n;
  ::alarm(kSecondsPerRun);
  verbs_mock_fail_at(n);
  (void)scenario(run);
  run.finish();
  const char* const fault = verbs_mock_failed_call();
  verbs_mock_fail_at(0);
  char left[256];
  if (verbs_mock_live(left, sizeof left) != 0) run.complain(std::string("left over: ") + left);
  ::alarm(0);
  return fault;
}

void for_every_fault(bool (*scenario)(Run&)) {
  ::signal(SIGALRM, &on_alarm);
  {
    Run run;
    (void)run_once(0, scenario, run);
    BOOST_REQUIRE_MESSAGE(run.outcome().empty(), "without a fault: " << run.outcome());
    for (const std::string& complaint : run.complaints())
      BOOST_REQUIRE_MESSAGE(false, "without a fault: " << complaint);
  }
  unsigned ended = 0;
  for (unsigned n = 1; n <= kMostCalls; ++n) {
    Run run;
    const char* const fault = run_once(n, scenario, run);
    if (fault == nullptr) {
      BOOST_CHECK_MESSAGE(run.outcome().empty(), "without a fault: " << run.outcome());
      BOOST_TEST_MESSAGE(n - 1 << " faults, " << ended << " of them ended the scenario");
      BOOST_CHECK(ended != 0);
      return;
    }
    if (!run.outcome().empty()) ++ended;
    for (const std::string& complaint : run.complaints())
      BOOST_ERROR("fault " << n << ", " << fault << " (" << run.outcome() << "): " << complaint);
  }
  BOOST_ERROR("more than " << kMostCalls << " calls");
}

DAT_DTO_COOKIE cookie(DAT_UINT64 value) {
  DAT_DTO_COOKIE made{};
  made.as_64 = value;
  return made;
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

BOOST_AUTO_TEST_SUITE(faults_)

BOOST_AUTO_TEST_CASE(open_and_close) {
  for_every_fault([](Run& run) { return run.open(); });
}

BOOST_AUTO_TEST_CASE(objects) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const bool made = pair.create(true);
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return made;
  });
}

BOOST_AUTO_TEST_CASE(graceful_disconnect) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const bool done = pair.create() && pair.connect() && pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG);
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(abrupt_disconnect) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const bool done = pair.create() && pair.connect() && pair.disconnect(DAT_CLOSE_ABRUPT_FLAG);
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(free_while_connected) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const bool done = pair.create() && pair.connect();
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(reject) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const bool done = pair.create() && pair.reject();
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(transfers) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const auto scenario = [&] {
      if (!pair.create() || !pair.connect() || !send(pair)) return false;
      DAT_RMR_TRIPLET remote = pair.remote(2048, 16);
      if (!write_to(pair, remote)) return false;
      DAT_LMR_TRIPLET to = pair.local(512, 16);
      if (!FAULTS_OK(run, dat_ep_post_rdma_read(pair.active.ep, 1, &to, cookie(4), &remote,
                                                DAT_COMPLETION_DEFAULT_FLAG)) ||
          !run.expect_done(pair.active.request_evd, pair.active.connect_evd))
        return false;
      DAT_LMR_TRIPLET old = pair.local(768, 8);
      DAT_RMR_TRIPLET word = pair.remote(3072, 8);
      DAT_EVENT event{};
      return FAULTS_OK(run, dat_ib_post_fetch_and_add(pair.active.ep, 5, &old, cookie(5), &word,
                                                      DAT_COMPLETION_DEFAULT_FLAG)) &&
             run.expect(pair.active.request_evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT),
                        &event, pair.active.connect_evd);
    };
    const bool done = scenario();
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(binds) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const auto scenario = [&] {
      if (!pair.create() || !pair.connect()) return false;
      DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
      if (!FAULTS_OK(run, dat_rmr_create(pair.pz, &rmr))) return false;
      run.owe("dat_rmr_free", [rmr] { return dat_rmr_free(rmr); });
      const DAT_LMR_TRIPLET range = pair.local(2048, 64);
      DAT_RMR_COOKIE bind_cookie{};
      DAT_RMR_TRIPLET window = pair.remote(2048, 64);
      DAT_EVENT event{};
      if (!FAULTS_OK(run,
                     dat_rmr_bind(rmr, pair.lmr, &range,
                                  static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG |
                                                                  DAT_MEM_PRIV_REMOTE_WRITE_FLAG),
                                  DAT_VA_TYPE_VA, pair.passive.ep, bind_cookie,
                                  DAT_COMPLETION_DEFAULT_FLAG, &window.rmr_context)) ||
          !run.expect(pair.passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT, &event,
                      pair.passive.connect_evd))
        return false;
      return write_to(pair, window);
    };
    const bool done = scenario();
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(shared_receives) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const auto scenario = [&] {
      if (!pair.create(true) || !FAULTS_OK(run, dat_srq_resize(pair.srq, 32)) || !pair.connect() ||
          !send(pair))
        return false;
      // Nothing is left in the SRQ, so the mark fires at once.
      DAT_EVENT event{};
      return FAULTS_OK(run, dat_srq_set_lw(pair.srq, 1)) &&
             run.expect(run.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, &event);
    };
    const bool done = scenario();
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(resize_and_wait) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const auto scenario = [&] {
      if (!pair.create() || !FAULTS_OK(run, dat_evd_resize(pair.active.request_evd, 64)) ||
          !pair.connect())
        return false;
      DAT_LMR_TRIPLET to = pair.local(1024, 64);
      DAT_LMR_TRIPLET from = pair.local(0, 32);
      if (!FAULTS_OK(run, dat_ep_post_recv(pair.passive.ep, 1, &to, cookie(1),
                                           DAT_COMPLETION_DEFAULT_FLAG)) ||
          !FAULTS_OK(run, dat_ep_post_send(pair.active.ep, 1, &from, cookie(2),
                                           DAT_COMPLETION_DEFAULT_FLAG)))
        return false;
      DAT_EVENT event{};
      DAT_COUNT more = 0;
      return FAULTS_OK(run, dat_evd_wait(pair.passive.recv_evd, 2'000'000, 1, &event, &more));
    };
    const bool done = scenario();
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_CASE(reset_and_connect_again) {
  for_every_fault([](Run& run) {
    Pair pair(run);
    const bool done = pair.create() && pair.connect() && send(pair) &&
                      pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG) &&
                      FAULTS_OK(run, dat_ep_reset(pair.active.ep)) &&
                      FAULTS_OK(run, dat_ep_reset(pair.passive.ep)) && pair.connect() && send(pair);
    run.finish();
    run.ia = DAT_HANDLE_NULL;
    return done;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
