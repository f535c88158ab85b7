// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completions that wake a waiter, among others that do not.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

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

// A wait in a row returns before the event that has woken it is read from the completion channel.
// Read later, that event must not trigger the CNO of the EVD, and must not hide the next one.
BOOST_AUTO_TEST_CASE(event_that_a_wait_has_left) {
  constexpr int kWaits = 60;
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  BOOST_REQUIRE(FAULTS_OK(run, dat_cno_create(run.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno)) &&
                FAULTS_OK(run, dat_evd_modify_cno(pair.passive.recv_evd, cno)));
  DAT_LMR_TRIPLET from = pair.local(0, 16);
  DAT_LMR_TRIPLET to = pair.local(2048, 16);
  // Returns what `wait` returns for a message that is sent while it sleeps.
  const auto while_waiting = [&](auto wait) {
    const DAT_DTO_COOKIE id = cookie(1);
    BOOST_REQUIRE(
        FAULTS_OK(run, dat_ep_post_recv(pair.passive.ep, 1, &to, id, DAT_COMPLETION_DEFAULT_FLAG)));
    DAT_RETURN sent = DAT_SUCCESS;
    std::thread sender([&] {
      std::this_thread::sleep_for(1ms);
      sent = dat_ep_post_send(pair.active.ep, 1, &from, id, DAT_COMPLETION_DEFAULT_FLAG);
    });
    const DAT_RETURN code = wait();
    sender.join();
    BOOST_CHECK_EQUAL(sent, DAT_SUCCESS);
    DAT_EVENT event{};
    BOOST_CHECK_EQUAL(dat_evd_dequeue(pair.active.request_evd, &event), DAT_SUCCESS);
    return code;
  };
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  for (int i = 0; i < kWaits; ++i)
    BOOST_CHECK_EQUAL(while_waiting([&] {
                        return dat_evd_wait(pair.passive.recv_evd, DAT_TIMEOUT_INFINITE, 1, &event,
                                            &more);
                      }),
                      DAT_SUCCESS);
  DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_cno_wait(cno, 20'000, &triggered)), DAT_QUEUE_EMPTY);
  for (int i = 0; i < kWaits; ++i) {
    BOOST_CHECK_EQUAL(
        while_waiting([&] { return dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &triggered); }),
        DAT_SUCCESS);
    BOOST_CHECK_EQUAL(triggered, pair.passive.recv_evd);
    BOOST_CHECK_EQUAL(dat_evd_dequeue(pair.passive.recv_evd, &event), DAT_SUCCESS);
  }
  BOOST_CHECK(FAULTS_OK(run, dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL)) &&
              FAULTS_OK(run, dat_cno_free(cno)));
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
}

// Others need the completions of an EVD, too, while a thread sleeps on its completion channel.
BOOST_AUTO_TEST_CASE(cno_of_an_evd_with_a_waiter) {
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  BOOST_REQUIRE(FAULTS_OK(run, dat_cno_create(run.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno)));
  DAT_LMR_TRIPLET from = pair.local(0, 16);
  DAT_LMR_TRIPLET to = pair.local(2048, 16);
  const auto post = [&] {
    const DAT_DTO_COOKIE id = cookie(1);
    return FAULTS_OK(run,
                     dat_ep_post_recv(pair.passive.ep, 1, &to, id, DAT_COMPLETION_DEFAULT_FLAG)) &&
           FAULTS_OK(run,
                     dat_ep_post_send(pair.active.ep, 1, &from, id, DAT_COMPLETION_DEFAULT_FLAG));
  };
  DAT_EVENT event{};
  DAT_RETURN code = DAT_SUCCESS;
  std::thread waiter([&] {
    DAT_EVENT awaited{};
    DAT_COUNT more = 0;
    code = dat_evd_wait(pair.passive.recv_evd, 10'000'000, 1, &awaited, &more);
  });
  std::this_thread::sleep_for(20ms);
  BOOST_CHECK(FAULTS_OK(run, dat_evd_modify_cno(pair.passive.recv_evd, cno)));
  std::this_thread::sleep_for(20ms);
  BOOST_CHECK(post());
  waiter.join();
  BOOST_CHECK_EQUAL(code, DAT_SUCCESS);

  BOOST_CHECK(post());
  DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
  BOOST_CHECK_EQUAL(dat_cno_wait(cno, 10'000'000, &triggered), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(triggered, pair.passive.recv_evd);
  BOOST_CHECK_EQUAL(dat_evd_dequeue(pair.passive.recv_evd, &event), DAT_SUCCESS);
  for (int i = 0; i < 2; ++i)
    BOOST_CHECK_EQUAL(dat_evd_dequeue(pair.active.request_evd, &event), DAT_SUCCESS);
  BOOST_CHECK(FAULTS_OK(run, dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL)) &&
              FAULTS_OK(run, dat_cno_free(cno)));
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
}

// EVDs leave most of the descriptors to the program: only some have a completion channel of their
// own. A thread that waits is woken by what others do to any of them.
BOOST_AUTO_TEST_CASE(evds_leave_descriptors) {
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create());
  rlimit before{};
  BOOST_REQUIRE_EQUAL(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{128, before.rlim_max};
  BOOST_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &few), 0);
  constexpr auto kFlags = static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG);
  std::vector<DAT_EVD_HANDLE> evds(60);
  for (DAT_EVD_HANDLE& evd : evds)
    BOOST_CHECK(FAULTS_OK(run, dat_evd_create(run.ia, 4, DAT_HANDLE_NULL, kFlags, &evd)));
  std::vector<int> descriptors;
  for (int fd = ::dup(2); fd >= 0; fd = ::dup(2)) descriptors.push_back(fd);
  BOOST_CHECK_GE(descriptors.size(), 40U);
  for (const int fd : descriptors) ::close(fd);
  for (const DAT_EVD_HANDLE evd : {evds.front(), evds.back()}) {
    DAT_RETURN code = DAT_SUCCESS;
    std::thread waiter([&] {
      DAT_EVENT awaited{};
      DAT_COUNT more = 0;
      code = dat_evd_wait(evd, 10'000'000, 1, &awaited, &more);
    });
    std::this_thread::sleep_for(20ms);
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    BOOST_CHECK(FAULTS_OK(run, dat_evd_post_se(evd, &event)));
    waiter.join();
    BOOST_CHECK_EQUAL(code, DAT_SUCCESS);
  }
  for (const DAT_EVD_HANDLE evd : evds) BOOST_CHECK(FAULTS_OK(run, dat_evd_free(evd)));
  BOOST_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &before), 0);
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
