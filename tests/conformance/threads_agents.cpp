// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "threads.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

// Several threads: the threads that agents run in, agents that wait for other threads, and agents
// of two IAs that free and close objects of the other IA.
namespace conformance {

BOOST_AUTO_TEST_SUITE(threads)

// An echo server in a proxy agent, which dequeues and posts in a thread of the provider.
BOOST_AUTO_TEST_CASE(thr_post_from_agent) {
  struct Echo {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE evd) {
      auto* const echo = static_cast<Echo*>(self);
      ++echo->running;
      if (evd != DAT_HANDLE_NULL) echo->serve();
      --echo->running;
    }
    void serve() {
      // Rearm before dequeuing, so that no event is missed.
      failures.ok(dat_cno_modify_agent(cno, {this, &Echo::run}), "modify_agent");
      DAT_EVENT event;
      while (dat_evd_dequeue(end.recv_evd, &event) == DAT_SUCCESS) {
        const auto& dto = event.event_data.dto_completion_event_data;
        if (dto.status != DAT_DTO_SUCCESS) continue;
        failures.ok(end.post_recv(in, kSize, dto.user_cookie.as_64), "post_recv of the agent");
        failures.ok(end.post_send(out, kSize, dto.user_cookie.as_64, DAT_COMPLETION_SUPPRESS_FLAG),
                    "post_send of the agent");
      }
    }
    DAT_CNO_HANDLE cno;
    End& end;
    Buffer& in;
    Buffer& out;
    Failures& failures;
    std::atomic<int> running{0};
  };
  Failures failures;
  Pair pair;
  Cno cno;
  Buffer agent_in(pair.ia, pair.pz, kSize);
  Buffer agent_out(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, kSize);
  Buffer out(pair.ia, pair.pz, kSize);
  REQUIRE_OK(dat_cno_create(pair.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  Echo echo{cno, pair.passive, agent_in, agent_out, failures};
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(pair.passive.post_recv(agent_in, kSize, i));
  pair.connect();
  REQUIRE_OK(dat_cno_modify_agent(cno, {&echo, &Echo::run}));
  REQUIRE_OK(dat_evd_modify_cno(pair.passive.recv_evd, cno));
  for (std::uint64_t i = 0; i < 500; ++i) {
    REQUIRE_OK(pair.active.post_recv(in, kSize, i));
    REQUIRE_OK(pair.active.post_send(out, kSize, i));
    expect_dto(pair.active.recv_evd, DAT_DTO_SUCCESS, i);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
  }
  REQUIRE_OK(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
  REQUIRE_OK(dat_evd_modify_cno(pair.passive.recv_evd, DAT_HANDLE_NULL));
  pair.disconnect();
  // The agent that took the last message may still be dequeuing, so keep the EVD until it returns.
  while (echo.running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// An application may call DAT while it holds a lock that its agent acquires, and from the agent
// itself. So the provider must call the agent in a thread that is not inside a DAT call, and must
// not call it again before it has returned.
BOOST_AUTO_TEST_CASE(thr_agent_runs_in_no_call) {
  struct Watcher {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE) { static_cast<Watcher*>(self)->called(); }
    void called() {
      if (std::this_thread::get_id() == caller) ++within_a_call;
      if (std::this_thread::get_id() == running) ++nested;
      const auto outer = running.exchange(std::this_thread::get_id());
      dat_cno_modify_agent(cno, {this, &Watcher::run});
      if (ep != DAT_HANDLE_NULL) dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG);
      running = outer;
      ++calls;
    }
    bool wait_for(int count) const {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (calls < count && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return calls >= count;
    }
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<std::thread::id> running{};
    std::atomic<DAT_EP_HANDLE> ep{DAT_HANDLE_NULL};
    std::atomic<int> calls{0}, within_a_call{0}, nested{0};
  };
  for (const bool ended_by_agent : {false, true}) {
    Pair pair;
    Cno cno;
    Watcher watcher;
    Buffer in(pair.ia, pair.pz, kSize);
    Buffer out(pair.ia, pair.pz, kSize);
    REQUIRE_OK(dat_cno_create(pair.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
    watcher.cno = cno;
    REQUIRE_OK(pair.passive.post_recv(in, kSize, 1));
    pair.connect();
    for (const DAT_EVD_HANDLE evd :
         {DAT_EVD_HANDLE(pair.passive.recv_evd), DAT_EVD_HANDLE(pair.passive.connect_evd)})
      REQUIRE_OK(dat_evd_modify_cno(evd, cno));
    REQUIRE_OK(dat_cno_modify_agent(cno, {&watcher, &Watcher::run}));
    if (ended_by_agent) watcher.ep = pair.passive.ep;
    REQUIRE_OK(pair.active.post_send(out, kSize, 1));
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);  // this thread may drive the adapter
    BOOST_CHECK(watcher.wait_for(1));
    watcher.ep = DAT_HANDLE_NULL;
    if (!ended_by_agent) REQUIRE_OK(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_ABRUPT_FLAG));
    BOOST_CHECK(watcher.wait_for(2));
    BOOST_CHECK_EQUAL(watcher.within_a_call, 0);
    BOOST_CHECK_EQUAL(watcher.nested, 0);
    expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    REQUIRE_OK(dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
    for (const DAT_EVD_HANDLE evd :
         {DAT_EVD_HANDLE(pair.passive.recv_evd), DAT_EVD_HANDLE(pair.passive.connect_evd)})
      REQUIRE_OK(dat_evd_modify_cno(evd, DAT_HANDLE_NULL));
  }
}

// While an agent runs, the IA works on: the agent waits for a message, or for a lock that another
// thread holds until it has received one.
BOOST_AUTO_TEST_CASE(thr_agent_waits) {
  enum class How { kWait, kPoll };
  struct Exchange {
    void run() {
      if (!failures.ok(link.active.post_send(link.out, kSize, 1, DAT_COMPLETION_SUPPRESS_FLAG),
                       "send"))
        return;
      DAT_EVENT event;
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(kPatience);
      DAT_RETURN rc = DAT_QUEUE_EMPTY;
      if (how == How::kWait) rc = Link::wait(link.passive.recv_evd, &event);
      while (DAT_GET_TYPE(rc) == DAT_QUEUE_EMPTY && std::chrono::steady_clock::now() < end)
        rc = dat_evd_dequeue(link.passive.recv_evd, &event);
      failures.ok(rc, "the message");
    }
    Link& link;
    How how;
    Failures& failures;
  };
  struct Agent {
    static void called(DAT_PVOID self, DAT_EVD_HANDLE) { static_cast<Agent*>(self)->run(); }
    void run() {
      begun = true;
      {
        const std::lock_guard guard(lock);
        if (exchanges) exchange.run();
      }
      done = true;
    }
    Exchange exchange;
    bool exchanges;
    std::mutex lock;
    std::atomic<bool> begun{false};
    std::atomic<bool> done{false};
  };
  const auto until = [](const std::atomic<bool>& flag) {
    for (int i = 0; i < 20'000 && !flag; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return flag.load();
  };
  for (const How how : {How::kWait, How::kPoll}) {
    for (const bool exchanges : {true, false}) {
      Failures failures;
      Ia ia;
      const Pz pz = make_pz(ia);
      Cno cno;
      Link calls(ia, pz);
      Link messages(ia, pz);
      BOOST_REQUIRE(calls.connect(failures) && messages.connect(failures));
      Agent agent{{messages, how, failures}, exchanges, {}};
      REQUIRE_OK(dat_cno_create(ia, {&agent, &Agent::called}, cno.out()));
      REQUIRE_OK(dat_evd_modify_cno(calls.passive.recv_evd, cno));
      REQUIRE_OK(calls.passive.post_recv(calls.in, kSize, 1));
      REQUIRE_OK(messages.passive.post_recv(messages.in, kSize, 1));
      {
        std::unique_lock guard(agent.lock);
        REQUIRE_OK(calls.active.post_send(calls.out, kSize, 1, DAT_COMPLETION_SUPPRESS_FLAG));
        BOOST_CHECK(until(agent.begun));
        if (!exchanges) agent.exchange.run();
      }
      BOOST_CHECK(until(agent.done));
      REQUIRE_OK(dat_evd_modify_cno(calls.passive.recv_evd, DAT_HANDLE_NULL));
    }
  }
}

// Two connections of two IAs end, and the proxy agent of each frees the EP of the other, while the
// other agent is running: they must not wait for each other forever.
BOOST_AUTO_TEST_CASE(thr_agents_free_each_others_ep) {
  struct Agent {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE evd) {
      if (evd != DAT_HANDLE_NULL) static_cast<Agent*>(self)->free_other();
    }
    void free_other() {
      ++*running;
      // An EP that is freed before it has ended gets no event, and nothing calls the other agent.
      for (int i = 0; i < 10'000 && !other_has_ended(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // Both agents run at once if the provider calls agents of two IAs concurrently; else one
      // after the other.
      for (int i = 0; i < 200 && *running < 2; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const DAT_RETURN rc = dat_ep_free(other);
      failures->ok(rc, "free of the other's EP");
      ++*done;
    }
    bool other_has_ended() {
      DAT_EP_STATE state{};
      DAT_BOOLEAN idle{};
      failures->ok(dat_ep_get_status(other, &state, &idle, &idle), "state of the other's EP");
      return state == DAT_EP_STATE_DISCONNECTED;
    }
    DAT_EP_HANDLE other;
    std::atomic<int>* running;
    std::atomic<int>* done;
    Failures* failures;
  };
  for (int round = 0; round < 10; ++round) {
    Failures failures;
    Ia first_ia;
    Ia second_ia;
    const Pz first_pz = make_pz(first_ia);
    const Pz second_pz = make_pz(second_ia);
    Cno first_cno;
    Cno second_cno;
    Link first(first_ia, first_pz);
    Link second(second_ia, second_pz);
    BOOST_REQUIRE(first.connect(failures) && second.connect(failures));
    std::atomic<int> running{0};
    std::atomic<int> done{0};
    Agent agents[] = {{second.passive.ep.release(), &running, &done, &failures},
                      {first.passive.ep.release(), &running, &done, &failures}};
    REQUIRE_OK(dat_cno_create(first_ia, {&agents[0], &Agent::run}, first_cno.out()));
    REQUIRE_OK(dat_cno_create(second_ia, {&agents[1], &Agent::run}, second_cno.out()));
    REQUIRE_OK(dat_evd_modify_cno(first.passive.connect_evd, first_cno));
    REQUIRE_OK(dat_evd_modify_cno(second.passive.connect_evd, second_cno));
    REQUIRE_OK(dat_ep_disconnect(first.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    REQUIRE_OK(dat_ep_disconnect(second.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    for (int i = 0; i < 10'000 && done < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_REQUIRE_EQUAL(done, 2);
    REQUIRE_OK(dat_evd_modify_cno(first.passive.connect_evd, DAT_HANDLE_NULL));
    REQUIRE_OK(dat_evd_modify_cno(second.passive.connect_evd, DAT_HANDLE_NULL));
  }
}

// The agents of two IAs, each of which closes the other IA. If both run at once, one of the closes
// is refused, and the test closes the remaining IA.
BOOST_AUTO_TEST_CASE(thr_agents_close_each_others_ia) {
  if (skip_unless(thread_safe(), kNotSafe)) return;
  struct Opened {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE evd) {
      if (evd != DAT_HANDLE_NULL) static_cast<Opened*>(self)->close_other();
    }
    void close_other() {
      ++*running;
      for (int i = 0; i < 5000 && *running < 2; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      other->closed = dat_ia_close(other->ia, DAT_CLOSE_ABRUPT_FLAG);
      ++*done;
    }
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    Opened* other = nullptr;
    DAT_RETURN closed = DAT_INTERNAL_ERROR;
    std::atomic<int>* running = nullptr;
    std::atomic<int>* done = nullptr;
  };
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> running{0};
    std::atomic<int> done{0};
    Opened both[2];
    for (Opened& one : both) {
      one.other = &one == both ? &both[1] : &both[0];
      one.running = &running;
      one.done = &done;
      std::string name = options().ia;
      DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
      REQUIRE_OK(dat_ia_openv(name.data(), 8, &async_evd, &one.ia, 2, 0, DAT_TRUE));
      DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
      REQUIRE_OK(dat_cno_create(one.ia, {&one, &Opened::run}, &cno));
      REQUIRE_OK(dat_evd_create(one.ia, 8, cno, DAT_EVD_SOFTWARE_FLAG, &one.evd));
    }
    in_threads(2, [&](int number) {
      DAT_EVENT event{};
      event.event_number = DAT_SOFTWARE_EVENT;
      (void)dat_evd_post_se(both[number].evd, &event);  // the IA may be closed already
    });
    for (int i = 0; i < 10'000 && done < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_REQUIRE_EQUAL(done, 2);
    for (const Opened& one : both) {
      if (one.closed == DAT_SUCCESS) continue;
      BOOST_CHECK_EQUAL(DAT_GET_TYPE(one.closed), static_cast<DAT_RETURN>(DAT_INVALID_STATE));
      REQUIRE_OK(dat_ia_close(one.ia, DAT_CLOSE_ABRUPT_FLAG));
    }
  }
}

// Two IAs in one process: the connection of an EP ends, and the agent that is notified closes the
// other IA, while the agent of that IA frees the EP. The close waits for the other agent, and the
// free waits for the first: the later of the two calls must not wait forever. Tests both orders.
BOOST_AUTO_TEST_CASE(thr_agents_close_and_free_across_ias) {
  struct Agent {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE evd) {
      if (evd == DAT_HANDLE_NULL) return;
      auto& agent = *static_cast<Agent*>(self);
      ++*agent.running;
      for (int i = 0; i < 5000 && *agent.running < 2; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (agent.second) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      agent.result = agent.ia != DAT_HANDLE_NULL ? dat_ia_close(agent.ia, DAT_CLOSE_ABRUPT_FLAG)
                                                 : dat_ep_free(agent.ep);
      ++*agent.done;
    }
    DAT_IA_HANDLE ia;  // the IA that it closes, or
    DAT_EP_HANDLE ep;  // the EP that it frees
    bool second;
    std::atomic<int>* running;
    std::atomic<int>* done;
    DAT_RETURN result = DAT_INTERNAL_ERROR;
  };
  for (int round = 0; round < 6; ++round) {
    Failures failures;
    std::atomic<int> running{0};
    std::atomic<int> done{0};
    Ia first;
    const Pz pz = make_pz(first);
    Cno cno;
    Link link(first, pz);
    BOOST_REQUIRE(link.connect(failures));
    std::string name = options().ia;
    DAT_IA_HANDLE second = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_CNO_HANDLE second_cno = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE second_evd = DAT_HANDLE_NULL;
    REQUIRE_OK(dat_ia_openv(name.data(), 8, &async_evd, &second, 2, 0, options().thread_safe));
    Agent closer{second, DAT_HANDLE_NULL, round % 2 == 0, &running, &done};
    Agent freer{DAT_HANDLE_NULL, link.passive.ep.release(), round % 2 != 0, &running, &done};
    REQUIRE_OK(dat_cno_create(first, {&closer, &Agent::run}, cno.out()));
    REQUIRE_OK(dat_cno_create(second, {&freer, &Agent::run}, &second_cno));
    REQUIRE_OK(dat_evd_create(second, 8, second_cno, DAT_EVD_SOFTWARE_FLAG, &second_evd));
    REQUIRE_OK(dat_evd_modify_cno(link.passive.connect_evd, cno));
    REQUIRE_OK(dat_ep_disconnect(link.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    std::thread poster([&] {
      DAT_EVENT event{};
      event.event_number = DAT_SOFTWARE_EVENT;
      failures.ok(dat_evd_post_se(second_evd, &event), "post");
    });
    for (int i = 0; i < 10'000 && done < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_REQUIRE_EQUAL(done, 2);
    poster.join();
    failures.ok(freer.result, "the free");
    // The close is refused if the free came first.
    if (closer.result != DAT_SUCCESS) {
      BOOST_CHECK_EQUAL(DAT_GET_TYPE(closer.result), static_cast<DAT_RETURN>(DAT_INVALID_STATE));
      REQUIRE_OK(dat_ia_close(second, DAT_CLOSE_ABRUPT_FLAG));
    }
    REQUIRE_OK(dat_evd_modify_cno(link.passive.connect_evd, DAT_HANDLE_NULL));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
