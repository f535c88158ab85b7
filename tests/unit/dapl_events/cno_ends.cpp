// SPDX-License-Identifier: MIT OR GPL-2.0-only
// CNOs whose EVDs are freed, or whose IA is closed.
#include "tests/unit/dapl_events/woken.h"

namespace udapl::test {

BOOST_FIXTURE_TEST_SUITE(cno, Fixture)

// The agent is not called, because no EVD is left for it to drain.
BOOST_AUTO_TEST_CASE(the_last_evd_releases_waiters_and_not_the_agent) {
  CountingAgent counting;
  const DAT_CNO_HANDLE cno = ia.cno(counting.agent());
  auto waiter = sleeper(ia, cno, kForever);
  const DAT_EVD_HANDLE first = ia.evd(kSoftware, 1, cno);
  const DAT_EVD_HANDLE second = ia.evd(kSoftware, 1, cno);
  REQUIRE_OK(ia->evd_free_func(first));
  BOOST_CHECK(waiter.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  REQUIRE_OK(ia->evd_free_func(second));
  const Woken woken = waiter.get();
  REQUIRE_OK(woken.code);
  BOOST_CHECK(woken.evd == DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(counting.calls.load(), 0);
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);  // later waits block again
  REQUIRE_OK(ia->cno_free_func(cno));          // `counting` is destroyed before the IA is closed
}

BOOST_AUTO_TEST_CASE(a_freed_evd_is_not_returned_as_hint) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE keeps = ia.evd(kSoftware, 1, cno);
  const DAT_EVD_HANDLE goes = ia.evd(kSoftware, 1, cno);
  REQUIRE_OK(ia.post(goes));
  REQUIRE_OK(ia->evd_free_func(goes));
  const Woken woken = wait(ia, cno);
  REQUIRE_OK(woken.code);
  BOOST_CHECK(woken.evd == DAT_HANDLE_NULL);
  REQUIRE_OK(ia.post(keeps));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, keeps);
}

BOOST_AUTO_TEST_CASE(the_hint_is_another_evd_that_has_events) {
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE keeps = ia.evd(kSoftware, 1, cno);
  const DAT_EVD_HANDLE goes = ia.evd(kSoftware, 1, cno);
  REQUIRE_OK(ia.post(keeps));
  REQUIRE_OK(ia.post(goes));
  REQUIRE_OK(ia->evd_free_func(goes));
  BOOST_CHECK_EQUAL(wait(ia, cno).evd, keeps);
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);
}

BOOST_AUTO_TEST_CASE(evd_moved_and_freed_is_not_returned) {
  const DAT_CNO_HANDLE before = ia.cno();
  const DAT_EVD_HANDLE keeps = ia.evd(kSoftware, 1, before);
  const DAT_EVD_HANDLE moves = ia.evd(kSoftware, 1, before);
  REQUIRE_OK(ia.post(keeps));
  REQUIRE_OK(ia.post(moves));
  REQUIRE_OK(ia->evd_modify_cno_func(moves, ia.cno()));
  REQUIRE_OK(ia->evd_free_func(moves));
  BOOST_CHECK_EQUAL(wait(ia, before).evd, keeps);
}

BOOST_AUTO_TEST_CASE(closing_the_ia_releases_waiters_and_agents) {
  CountingAgent counting;
  OpenIa other;
  const DAT_CNO_HANDLE cno = other.cno();
  static_cast<void>(other.cno(counting.agent()));
  auto one = sleeper(other, cno, kForever);
  auto two = sleeper(other, other.cno(), kForever);
  static_cast<void>(other.evd(kDto, 4, cno));
  REQUIRE_OK(other.close());
  for (auto* waiter : {&one, &two}) {
    const Woken woken = waiter->get();
    REQUIRE_OK(woken.code);
    BOOST_CHECK(woken.evd == DAT_HANDLE_NULL);
  }
  BOOST_CHECK_EQUAL(counting.calls.load(), 1);
  BOOST_CHECK(counting.latest.load() == DAT_HANDLE_NULL);
}

BOOST_AUTO_TEST_CASE(close_waits_for_a_running_agent) {
  struct Slow {
    std::atomic<bool> running{false};
    std::atomic<bool> done{false};
    static void call(DAT_PVOID self, DAT_EVD_HANDLE) {
      auto& slow = *static_cast<Slow*>(self);
      slow.running = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      slow.done = true;
    }
  };
  Slow slow;
  OpenIa other;
  const DAT_EVD_HANDLE evd = other.evd(kDto, 4, other.cno({&slow, &Slow::call}));
  Completions(other, evd).push(1);
  const ServiceThread service;
  while (!slow.running) std::this_thread::yield();
  REQUIRE_OK(other.close());
  BOOST_CHECK(slow.done.load());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
