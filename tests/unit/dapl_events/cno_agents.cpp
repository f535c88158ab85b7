// SPDX-License-Identifier: MIT OR GPL-2.0-only
// CNOs that call a proxy agent.
#include "tests/unit/dapl_events/woken.h"

namespace udapl::test {

BOOST_FIXTURE_TEST_SUITE(cno_agents, Fixture)

BOOST_AUTO_TEST_CASE(agent_is_called_once_per_trigger) {
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

// The first call keeps the agent thread busy, so that the second one has not begun when its EVD is
// freed. Then the agent is called for another EVD that has events, or for the next event.
BOOST_AUTO_TEST_CASE(a_queued_call_does_not_name_a_freed_evd) {
  struct Slow {
    std::promise<void> begun;
    std::promise<void> go;
    static void call(DAT_PVOID self, DAT_EVD_HANDLE) {
      auto& slow = *static_cast<Slow*>(self);
      slow.begun.set_value();
      slow.go.get_future().wait();
    }
  };
  for (const bool other_has_events : {false, true}) {
    Slow slow;
    CountingAgent counting;
    const DAT_CNO_HANDLE busy = ia.cno({&slow, &Slow::call});
    const DAT_CNO_HANDLE cno = ia.cno(counting.agent());
    const DAT_EVD_HANDLE first = ia.evd(kDto, 8, busy);
    const DAT_EVD_HANDLE freed = ia.evd(kDto, 8, cno);
    const DAT_EVD_HANDLE other = ia.evd(kDto, 8, cno);
    Completions first_completions(ia, first);
    Completions other_completions(ia, other);
    {
      Completions completions(ia, freed);
      first_completions.push(1);
      fake::Scheduler::instance().run();
      slow.begun.get_future().wait();
      completions.push(2);
      fake::Scheduler::instance().run();
      if (other_has_events) other_completions.push(3);
      fake::Scheduler::instance().run();
      DAT_EVENT event{};
      REQUIRE_OK(ia->evd_dequeue_func(freed, &event));
    }
    REQUIRE_OK(ia->evd_free_func(freed));
    slow.go.set_value();
    finish_agents(ia);
    BOOST_CHECK_EQUAL(counting.calls.load(), other_has_events ? 1 : 0);
    if (!other_has_events) {
      other_completions.push(4);
      fake::Scheduler::instance().run();
      finish_agents(ia);
    }
    BOOST_CHECK_EQUAL(counting.calls.load(), 1);
    BOOST_CHECK_EQUAL(counting.latest.load(), other);
    REQUIRE_OK(ia->evd_modify_cno_func(other, DAT_HANDLE_NULL));
    REQUIRE_OK(ia->cno_free_func(cno));  // `counting` is destroyed before the IA is closed
    REQUIRE_OK(ia->evd_modify_cno_func(first, DAT_HANDLE_NULL));
    REQUIRE_OK(ia->cno_free_func(busy));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
