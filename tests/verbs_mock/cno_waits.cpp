// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Threads in dat_cno_wait: whether they sleep on the completion channel of the CNO or elsewhere.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "every_fault.h"

namespace {

using faults::cookie;
using faults::Pair;
using faults::Run;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(cno_waits)

// A connection whose messages arrive at an EVD that was created with a CNO. Those of the other
// direction, at one without.
struct WithCno {
  WithCno() {
    pair.with_cno = true;
    BOOST_REQUIRE(pair.create() && pair.connect());
  }
  void send() { send(pair.active, pair.passive); }
  void send_back() { send(pair.passive, pair.active); }
  void send(const faults::End& sender, const faults::End& receiver) {
    DAT_LMR_TRIPLET from = pair.local(0, 16);
    DAT_LMR_TRIPLET to = pair.local(2048, 16);
    const DAT_DTO_COOKIE id = cookie(1);
    BOOST_REQUIRE(
        FAULTS_OK(run, dat_ep_post_recv(receiver.ep, 1, &to, id, DAT_COMPLETION_DEFAULT_FLAG)));
    BOOST_REQUIRE(
        FAULTS_OK(run, dat_ep_post_send(sender.ep, 1, &from, id, DAT_COMPLETION_DEFAULT_FLAG)));
    dequeue(sender.request_evd);
  }
  void dequeue() { dequeue(pair.passive.recv_evd); }
  static void dequeue(DAT_EVD_HANDLE evd) {
    DAT_EVENT event{};
    BOOST_CHECK_EQUAL(dat_evd_dequeue(evd, &event), DAT_SUCCESS);
  }
  void finish() {
    run.finish();
    BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
  }
  Run run;
  Pair pair{run};
};

bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0;
}

// Returns when the thread whose number this becomes is asleep.
void await_sleep(const std::atomic<pid_t>& thread) {
  for (int asleep = 0; asleep < 5; asleep = thread != 0 && sleeps(thread) ? asleep + 1 : 0)
    std::this_thread::sleep_for(2ms);
}

// A thread in dat_cno_wait, asleep once this has been made.
class CnoWaiter {
 public:
  explicit CnoWaiter(DAT_CNO_HANDLE cno)
      : thread_([this, cno] {
          id_ = ::gettid();
          code_ = dat_cno_wait(cno, 10'000'000, &evd_);
          returned_.store(true);
        }) {
    await_sleep(id_);
  }
  [[nodiscard]] bool returned() const { return returned_.load(); }
  // The EVD that the wait names.
  DAT_EVD_HANDLE join() {
    thread_.join();
    BOOST_CHECK_EQUAL(code_, DAT_SUCCESS);
    return evd_;
  }

 private:
  DAT_RETURN code_ = DAT_SUCCESS;
  DAT_EVD_HANDLE evd_ = DAT_HANDLE_NULL;
  std::atomic<bool> returned_{false};
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

// Sleeps in dat_evd_wait until the next event.
class EvdWaiter {
 public:
  explicit EvdWaiter(DAT_EVD_HANDLE evd)
      : thread_([this, evd] {
          id_ = ::gettid();
          DAT_EVENT event{};
          DAT_COUNT more = 0;
          code_ = dat_evd_wait(evd, 10'000'000, 1, &event, &more);
        }) {
    await_sleep(id_);
  }
  void join() {
    thread_.join();
    BOOST_CHECK_EQUAL(code_, DAT_SUCCESS);
  }

 private:
  DAT_RETURN code_ = DAT_SUCCESS;
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

// What triggers the CNO is known to every call that asks, whether a thread sleeps or not.
BOOST_AUTO_TEST_CASE(cno_without_a_sleeper) {
  WithCno test;
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  test.send();
  BOOST_CHECK_EQUAL(dat_cno_wait(test.pair.cno, 0, &evd), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(evd, test.pair.passive.recv_evd);
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_cno_wait(test.pair.cno, 0, &evd)), DAT_QUEUE_EMPTY);
  test.dequeue();
  test.send();
  BOOST_CHECK_EQUAL(dat_cno_trigger(test.pair.cno, &evd), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(evd, test.pair.passive.recv_evd);
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_cno_wait(test.pair.cno, 20'000, &evd)), DAT_QUEUE_EMPTY);
  test.dequeue();
  test.finish();
}

// The first thread may sleep on the completion channel of the CNO, the second one cannot.
BOOST_AUTO_TEST_CASE(two_waiters_of_a_cno) {
  WithCno test;
  for (int i = 0; i < 2; ++i) {
    CnoWaiter first(test.pair.cno);
    CnoWaiter second(test.pair.cno);
    for (int message = 0; message < 2; ++message) {
      test.send();
      while (message == 0 && !first.returned() && !second.returned())
        std::this_thread::sleep_for(1ms);
      test.dequeue();
    }
    BOOST_CHECK_EQUAL(first.join(), test.pair.passive.recv_evd);
    BOOST_CHECK_EQUAL(second.join(), test.pair.passive.recv_evd);
  }
  test.finish();
}

// While a thread waits for the EVD, completions are for that thread alone.
BOOST_AUTO_TEST_CASE(waiters_of_a_cno_and_of_its_evd) {
  WithCno test;
  CnoWaiter of_cno(test.pair.cno);
  EvdWaiter of_evd(test.pair.passive.recv_evd);
  test.send();
  of_evd.join();
  BOOST_CHECK(!of_cno.returned());
  test.send();
  BOOST_CHECK_EQUAL(of_cno.join(), test.pair.passive.recv_evd);
  test.dequeue();
  test.finish();
}

// A thread that waits already, while the CNO gets EVDs with and without completions.
BOOST_AUTO_TEST_CASE(cno_gets_evds_while_a_thread_waits) {
  constexpr auto kBoth = static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG);
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create());
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  BOOST_REQUIRE(FAULTS_OK(run, dat_cno_create(run.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno)));
  for (const DAT_EVD_FLAGS flags : {kBoth, DAT_EVD_SOFTWARE_FLAG, kBoth}) {
    CnoWaiter waiter(cno);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    BOOST_REQUIRE(FAULTS_OK(run, dat_evd_create(run.ia, 4, cno, flags, &evd)));
    std::this_thread::sleep_for(20ms);
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    BOOST_CHECK(FAULTS_OK(run, dat_evd_post_se(evd, &event)));
    BOOST_CHECK_EQUAL(waiter.join(), evd);
    CnoWaiter released(cno);
    BOOST_CHECK(FAULTS_OK(run, dat_evd_free(evd)));
    BOOST_CHECK_EQUAL(released.join(), DAT_HANDLE_NULL);
  }
  BOOST_CHECK(FAULTS_OK(run, dat_cno_free(cno)));
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
}

// An EVD that is no longer the CNO's notifies others.
BOOST_AUTO_TEST_CASE(evd_leaves_its_cno) {
  WithCno test;
  test.send();
  BOOST_CHECK(FAULTS_OK(test.run, dat_evd_modify_cno(test.pair.passive.recv_evd, DAT_HANDLE_NULL)));
  test.dequeue();
  EvdWaiter of_evd(test.pair.passive.recv_evd);
  test.send();
  of_evd.join();
  BOOST_CHECK(FAULTS_OK(test.run, dat_evd_modify_cno(test.pair.passive.recv_evd, test.pair.cno)));
  CnoWaiter waiter(test.pair.cno);
  test.send();
  BOOST_CHECK_EQUAL(waiter.join(), test.pair.passive.recv_evd);
  test.dequeue();
  test.finish();
}

// An EVD that was created without a CNO, and has been waited for through another one, so that
// nobody watches its completions between two waits. It joins a CNO on whose channel a thread
// sleeps, or is in a CNO for which another EVD is created.
BOOST_AUTO_TEST_CASE(cno_of_evds_with_different_channels) {
  constexpr int kWaits = 60;
  WithCno test;
  const DAT_EVD_HANDLE moved = test.pair.active.recv_evd;
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  BOOST_REQUIRE(
      FAULTS_OK(test.run, dat_cno_create(test.run.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno)));
  BOOST_REQUIRE(FAULTS_OK(test.run, dat_evd_modify_cno(moved, cno)));
  const auto wait_in_a_row = [&] {
    std::atomic<int> waits{0};
    bool done = true;
    std::thread waiter([&] {
      for (int i = 0; i < kWaits; ++i) {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        DAT_EVENT event{};
        done = dat_cno_wait(cno, 10'000'000, &evd) == DAT_SUCCESS && evd == moved &&
               dat_evd_dequeue(moved, &event) == DAT_SUCCESS && done;
        ++waits;
      }
    });
    for (int i = 0; i < kWaits; ++i) {
      std::this_thread::sleep_for(1ms);
      test.send_back();
      while (waits == i) std::this_thread::yield();
    }
    waiter.join();
    BOOST_CHECK(done);
  };
  wait_in_a_row();
  DAT_EVD_HANDLE created = DAT_HANDLE_NULL;
  BOOST_CHECK(FAULTS_OK(test.run, dat_evd_create(test.run.ia, 4, cno, DAT_EVD_DTO_FLAG, &created)));
  {
    CnoWaiter waiter(cno);
    test.send_back();
    BOOST_CHECK_EQUAL(waiter.join(), moved);
    test.dequeue(moved);
  }
  wait_in_a_row();
  BOOST_CHECK(FAULTS_OK(test.run, dat_evd_modify_cno(moved, test.pair.cno)));
  {
    CnoWaiter waiter(test.pair.cno);
    test.send_back();
    BOOST_CHECK_EQUAL(waiter.join(), moved);
    test.dequeue(moved);
  }
  BOOST_CHECK(FAULTS_OK(test.run, dat_evd_free(created)) &&
              FAULTS_OK(test.run, dat_evd_modify_cno(moved, DAT_HANDLE_NULL)) &&
              FAULTS_OK(test.run, dat_cno_free(cno)));
  test.finish();
}

// An agent that is installed later is called, although no thread waits.
BOOST_AUTO_TEST_CASE(cno_gets_an_agent) {
  WithCno test;
  {
    CnoWaiter waiter(test.pair.cno);
    test.send();
    BOOST_CHECK_EQUAL(waiter.join(), test.pair.passive.recv_evd);
    test.dequeue();
  }
  static std::atomic<DAT_EVD_HANDLE> named;
  named.store(DAT_HANDLE_NULL);
  const DAT_OS_WAIT_PROXY_AGENT agent{nullptr,
                                      [](DAT_PVOID, DAT_EVD_HANDLE evd) { named.store(evd); }};
  BOOST_CHECK(FAULTS_OK(test.run, dat_cno_modify_agent(test.pair.cno, agent)));
  test.send();
  for (int i = 0; i < 10'000 && named.load() == DAT_HANDLE_NULL; ++i)
    std::this_thread::sleep_for(1ms);
  BOOST_CHECK_EQUAL(named.load(), test.pair.passive.recv_evd);
  test.dequeue();
  test.finish();
}

sigjmp_buf after_wait;
void leave_wait(int) { siglongjmp(after_wait, 1); }

// Waits for what does not come, until a signal handler leaves the wait, in which the thread sleeps.
[[gnu::noinline]] bool leave_cno_wait(DAT_CNO_HANDLE cno) {
  const std::atomic<pid_t> id{::gettid()};
  const auto old = std::signal(SIGUSR1, &leave_wait);
  std::thread interrupter([&id, target = ::pthread_self()] {
    await_sleep(id);
    ::pthread_kill(target, SIGUSR1);
  });
  volatile bool left = true;
  if (sigsetjmp(after_wait, 1) == 0) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    static_cast<void>(dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd));
    left = false;
  }
  interrupter.join();
  std::signal(SIGUSR1, old);
  return left;
}

// The thread stays registered, therefore the next ones no longer sleep on the channel, and the CNO
// is freed with the IA.
BOOST_AUTO_TEST_CASE(cno_wait_left_by_longjmp) {
  WithCno test;
  for (int i = 0; i < 2; ++i) {
    BOOST_CHECK(leave_cno_wait(test.pair.cno));
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_cno_wait(test.pair.cno, 0, &evd)), DAT_QUEUE_EMPTY);
    for (int message = 0; message < 2; ++message) {
      CnoWaiter waiter(test.pair.cno);
      test.send();
      BOOST_CHECK_EQUAL(waiter.join(), test.pair.passive.recv_evd);
      test.dequeue();
    }
  }
  test.finish();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
