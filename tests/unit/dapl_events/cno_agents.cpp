// SPDX-License-Identifier: MIT OR GPL-2.0-only
// CNOs that call a proxy agent.
#include "tests/unit/dapl_events/woken.h"

namespace udapl::test {

namespace {

constexpr unsigned kDto = DAT_EVD_DTO_FLAG;
constexpr unsigned kSoftware = DAT_EVD_SOFTWARE_FLAG;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cno_agents, Fixture)

BOOST_AUTO_TEST_CASE(an_agent_is_called_once_and_consumes_the_trigger) {
  CountingAgent counting;
  const DAT_CNO_HANDLE cno = ia.cno(counting.agent());
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware | kDto, 64, cno);
  Completions completions(ia, evd);
  REQUIRE_OK(ia.post(evd));
  BOOST_CHECK_EQUAL(counting.calls.load(), 1);
  BOOST_CHECK_EQUAL(counting.latest.load(), evd);
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);
  // Without an agent the next trigger sticks ...
  completions.push(1);
  fake::Scheduler::instance().run();
  BOOST_CHECK_EQUAL(counting.calls.load(), 1);
  // ... and an agent installed afterwards is called for the next event all the same.
  REQUIRE_OK(ia->cno_modify_agent_func(cno, counting.agent()));
  BOOST_CHECK_EQUAL(counting.calls.load(), 1);
  completions.push(2);
  fake::Scheduler::instance().run();
  finish_agents(ia);
  BOOST_CHECK_EQUAL(counting.calls.load(), 2);
  CHECK_CODE(wait(ia, cno).code, 0x000D0000);
  REQUIRE_OK(ia->cno_modify_agent_func(cno, counting.agent()));
  REQUIRE_OK(ia->cno_modify_agent_func(cno, kNoAgent));
  REQUIRE_OK(ia.post(evd));
  BOOST_CHECK_EQUAL(counting.calls.load(), 2);
}

BOOST_AUTO_TEST_CASE(an_agent_and_a_waiter_are_both_notified) {
  CountingAgent counting;
  const DAT_CNO_HANDLE cno = ia.cno(counting.agent());
  auto waiter = sleeper(ia, cno);
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware, 8, cno);
  REQUIRE_OK(ia.post(evd));
  const Woken woken = waiter.get();
  REQUIRE_OK(woken.code);
  BOOST_CHECK_EQUAL(woken.evd, evd);
  BOOST_CHECK_EQUAL(counting.calls.load(), 1);
}

// An agent may dequeue, post, install itself again, and free the EVD for which it was called.
BOOST_AUTO_TEST_CASE(agents_may_call_back) {
  struct Busy {
    const OpenIa* ia;
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE other;
    int calls = 0;
    DAT_RETURN failures = DAT_SUCCESS;  // or-ed
    DAT_RETURN close_code = DAT_SUCCESS;
    static void call(DAT_PVOID self, DAT_EVD_HANDLE evd) {
      auto& busy = *static_cast<Busy*>(self);
      const OpenIa& ia = *busy.ia;
      if (evd == DAT_HANDLE_NULL) return;
      if (++busy.calls == 3) {
        busy.failures |= ia->evd_free_func(evd);
        busy.close_code = ia->ia_close_func(ia.raw, DAT_CLOSE_ABRUPT_FLAG);
        return;
      }
      DAT_EVENT event{};
      while (ia->evd_dequeue_func(evd, &event) == DAT_SUCCESS) {
      }
      busy.failures |= ia->cno_modify_agent_func(busy.cno, {self, &call});
      busy.failures |= ia.post(busy.other, 1);
    }
  };
  Busy busy{&ia, ia.cno(), ia.evd(kSoftware, 8)};
  REQUIRE_OK(ia->cno_modify_agent_func(busy.cno, {&busy, &Busy::call}));
  const DAT_EVD_HANDLE evd = ia.evd(kDto, 8, busy.cno);
  {
    Completions completions(ia, evd);
    for (std::uint64_t i = 0; i < 3; ++i) {
      completions.push(i);
      fake::Scheduler::instance().run();
      finish_agents(ia);
    }
  }
  BOOST_CHECK_EQUAL(busy.calls, 3);
  BOOST_CHECK_EQUAL(busy.failures, 0U);
  CHECK_ERROR(busy.close_code, DAT_INVALID_STATE);  // instead of a deadlock with itself
  CHECK_ERROR(ia->evd_free_func(evd), DAT_INVALID_HANDLE);
  BOOST_CHECK_EQUAL(ia.take(busy.other), 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
