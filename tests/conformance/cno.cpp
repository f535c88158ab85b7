// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

// Consumer notification objects: section 10.5 of the checklist (checklist.cpp), whose names the
// tests have.
namespace conformance {

namespace {

Cno make_cno(DAT_IA_HANDLE ia) {
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  return cno;
}

void trigger(DAT_EVD_HANDLE evd) { REQUIRE_OK(post_software(evd)); }

// The EVD that a wait returns; null if the CNO was not triggered.
DAT_EVD_HANDLE wait_for(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout = kPatience) {
  DAT_EVD_HANDLE evd = nullptr;
  const DAT_RETURN rc = dat_cno_wait(cno, timeout, &evd);
  if (DAT_GET_TYPE(rc) == DAT_QUEUE_EMPTY) {
    BOOST_CHECK(evd == DAT_HANDLE_NULL);
    return nullptr;
  }
  REQUIRE_OK(rc);
  return evd;
}

// A proxy agent that counts its calls.
struct Agent {
  static void run(DAT_PVOID self, DAT_EVD_HANDLE evd) {
    auto* const agent = static_cast<Agent*>(self);
    agent->last = evd;
    ++agent->calls;
  }
  [[nodiscard]] DAT_OS_WAIT_PROXY_AGENT descriptor() { return {this, &Agent::run}; }
  void wait_for_calls(int count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (calls < count && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_CHECK_EQUAL(calls, count);
  }

  std::atomic<int> calls{0};
  std::atomic<DAT_EVD_HANDLE> last{nullptr};
};

bool readable(int fd, int timeout_ms) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cno)

BOOST_AUTO_TEST_CASE(cno_wait_timeout, *covers("ofa_2_1_15_cno_timeout")) {
  Ia ia;
  const Cno cno = make_cno(ia);
  BOOST_CHECK(wait_for(cno, 0) == nullptr);
  BOOST_CHECK(wait_for(cno, kMillisecond) == nullptr);
  CHECK_TYPE(dat_cno_wait(cno, 0, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(cno_wait_trigger, *covers("cno_trigger_sticky")) {
  Ia ia;
  const Cno cno = make_cno(ia);
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  trigger(evd);
  BOOST_CHECK(wait_for(cno) == evd);  // cno_trigger_sticky: the trigger preceded the wait
  BOOST_CHECK(wait_for(cno, 0) == nullptr);
  DAT_EVD_HANDLE woken = nullptr;
  std::thread waiter([&] { dat_cno_wait(cno, kPatience, &woken); });
  trigger(evd);
  waiter.join();
  BOOST_CHECK(woken == evd);
  BOOST_CHECK_EQUAL(drain(evd), 2);
}

BOOST_AUTO_TEST_CASE(cno_two_evds) {
  Ia ia;
  const Cno cno = make_cno(ia);
  const Evd first = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  const Evd second = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  trigger(first);
  trigger(second);
  BOOST_CHECK(wait_for(cno) != nullptr);
  BOOST_CHECK_EQUAL(drain(first), 1);
  BOOST_CHECK_EQUAL(drain(second), 1);
}

BOOST_AUTO_TEST_CASE(cno_disabled_evd, *covers("cno_enable_no_retro")) {
  Ia ia;
  const Cno cno = make_cno(ia);
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  REQUIRE_OK(dat_evd_disable(evd));
  trigger(evd);
  BOOST_CHECK(wait_for(cno, kQuiet) == nullptr);
  REQUIRE_OK(dat_evd_enable(evd));
  BOOST_CHECK_EQUAL(drain(evd), 1);  // cno_enable_no_retro: drain, then wait
  trigger(evd);
  BOOST_CHECK(wait_for(cno) == evd);
}

BOOST_AUTO_TEST_CASE(cno_evd_waiter_preempts) {
  Ia ia;
  const Cno cno = make_cno(ia);
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::thread waiter([&] {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    waited = dat_evd_wait(evd, kPatience, 1, &event, &more);
  });
  DAT_EVENT event;
  while (DAT_GET_TYPE(dat_evd_dequeue(evd, &event)) != DAT_INVALID_STATE) std::this_thread::yield();
  trigger(evd);
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK(wait_for(cno, kQuiet) == nullptr);
}

BOOST_AUTO_TEST_CASE(cno_agent_called_once, *covers("cno_agent_rearm")) {
  Ia ia;
  Agent agent;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, agent.descriptor(), cno.out()));
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  trigger(evd);
  agent.wait_for_calls(1);
  BOOST_CHECK(agent.last == evd);
  trigger(evd);
  trigger(evd);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  BOOST_CHECK_EQUAL(agent.calls, 1);
  // cno_agent_rearm
  while (wait_for(cno, 0) != nullptr) {
  }
  REQUIRE_OK(dat_cno_modify_agent(cno, agent.descriptor()));
  trigger(evd);
  agent.wait_for_calls(2);
}

BOOST_AUTO_TEST_CASE(cno_agent_rearmed_from_itself) {
  struct Rearming {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE) {
      auto* const agent = static_cast<Rearming*>(self);
      ++agent->calls;
      dat_cno_modify_agent(agent->cno, {agent, &Rearming::run});
    }
    DAT_CNO_HANDLE cno = nullptr;
    std::atomic<int> calls{0};
  };
  Ia ia;
  Rearming agent;
  const Cno cno = make_cno(ia);
  agent.cno = cno;
  REQUIRE_OK(dat_cno_modify_agent(cno, {&agent, &Rearming::run}));
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 64, cno);
  for (int i = 1; i <= 5; ++i) {
    trigger(evd);
    for (int wait = 0; wait < 2000 && agent.calls < i; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_REQUIRE_EQUAL(agent.calls, i);
  }
  REQUIRE_OK(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
}

BOOST_AUTO_TEST_CASE(cno_agent_and_waiter) {
  Ia ia;
  Agent agent;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, agent.descriptor(), cno.out()));
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  DAT_EVD_HANDLE woken = nullptr;
  Sleeper sleeper;
  std::thread waiter([&] {
    sleeper.announce();
    dat_cno_wait(cno, kPatience, &woken);
  });
  sleeper.until_asleep();
  trigger(evd);
  waiter.join();
  BOOST_CHECK(woken == evd);
  agent.wait_for_calls(1);
}

BOOST_AUTO_TEST_CASE(cno_modify_cno_switch) {
  Ia ia;
  const Cno old_cno = make_cno(ia);
  const Cno new_cno = make_cno(ia);
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, old_cno);
  REQUIRE_OK(dat_evd_modify_cno(evd, new_cno));
  trigger(evd);
  BOOST_CHECK(wait_for(new_cno) == evd);
  BOOST_CHECK(wait_for(old_cno, 0) == nullptr);
  REQUIRE_OK(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
  const Pz pz = make_pz(ia);
  CHECK_TYPE(dat_evd_modify_cno(evd, static_cast<DAT_CNO_HANDLE>(DAT_PZ_HANDLE(pz))),
             DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(cno_free_referenced) {
  Ia ia;
  const Cno cno = make_cno(ia);
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  CHECK_TYPE(dat_cno_free(cno), DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_CASE(cno_free_waited) {  // only the waiter prevents the free, no EVD
  Ia ia;
  const Cno cno = make_cno(ia);
  Sleeper sleeper;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  DAT_EVD_HANDLE woken = DAT_HANDLE_NULL;
  std::thread waiter([&] {
    sleeper.announce();
    waited = dat_cno_wait(cno, kPatience, &woken);
  });
  sleeper.until_asleep();
  CHECK_TYPE(dat_cno_free(cno), DAT_INVALID_STATE);
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  trigger(evd);
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK(woken == evd);
}

BOOST_AUTO_TEST_CASE(cno_last_evd_freed) {
  Ia ia;
  const Cno cno = make_cno(ia);
  Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  DAT_EVD_HANDLE woken = evd;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  Sleeper sleeper;
  std::thread waiter([&] {
    sleeper.announce();
    waited = dat_cno_wait(cno, kPatience, &woken);
  });
  sleeper.until_asleep();
  CHECK_TYPE(dat_cno_free(cno), DAT_INVALID_STATE);
  const Promptly promptly;
  REQUIRE_OK(dat_evd_free(evd.release()));
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK(woken == DAT_HANDLE_NULL);
}

BOOST_AUTO_TEST_CASE(cno_query_fields) {
  Ia ia;
  Agent agent;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, agent.descriptor(), cno.out()));
  DAT_CNO_PARAM param{};
  REQUIRE_OK(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
  BOOST_CHECK(param.ia_handle == ia.handle);
  BOOST_CHECK(param.proxy.agent.proxy_agent_func == &Agent::run);
  CHECK_TYPE(dat_cno_query(cno, DAT_CNO_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(cno_fd_readable, *covers("cno_fd_trigger_clears ofa_1_cno_descriptor")) {
  Ia ia;
  DAT_FD fd = -1;
  Cno cno;
  const DAT_RETURN rc = dat_cno_fd_create(ia, &fd, cno.out());
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED,
                  "the provider has no CNO with a descriptor"))
    return;
  REQUIRE_OK(rc);
  const Evd first = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  const Evd second = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  BOOST_CHECK(!readable(fd, 10));
  trigger(first);
  BOOST_CHECK(readable(fd, 10000));
  trigger(second);
  DAT_EVD_HANDLE latest = nullptr;
  REQUIRE_OK(dat_cno_trigger(cno, &latest));
  BOOST_CHECK(latest == second);
  BOOST_CHECK(!readable(fd, 10));
  REQUIRE_OK(dat_cno_trigger(cno, &latest));
  BOOST_CHECK(latest == DAT_HANDLE_NULL);
  trigger(first);
  BOOST_CHECK(readable(fd, 10000));
  BOOST_CHECK(wait_for(cno) == first);  // a wait consumes the trigger, too
  BOOST_CHECK(!readable(fd, 10));
}

BOOST_AUTO_TEST_CASE(cno_race_protocol) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  const Cno cno = make_cno(pair.ia);
  REQUIRE_OK(dat_evd_modify_cno(pair.passive.recv_evd, cno));
  constexpr std::uint64_t kCount = 3000;
  constexpr std::uint64_t kDepth = 8;
  for (std::uint64_t i = 0; i < kDepth; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  pair.connect();
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  while (received < kCount) {
    while (sent < kCount && sent < received + kDepth) {
      REQUIRE_OK(pair.active.post_send(out, 64, sent));
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, sent++);
    }
    DAT_EVENT event;
    while (dat_evd_dequeue(pair.passive.recv_evd, &event) == DAT_SUCCESS) {
      ++received;
      REQUIRE_OK(pair.passive.post_recv(in, 64, received));
    }
    if (received == sent) continue;  // all messages have arrived: send more
    BOOST_REQUIRE(wait_for(cno) == pair.passive.recv_evd);
  }
  pair.disconnect();
  drain(pair.passive.recv_evd);
  REQUIRE_OK(dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
