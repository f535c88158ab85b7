// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

// dat_evd_wait: section 10.4 of the checklist (checklist.cpp), whose names the tests have.
namespace conformance {

namespace {

// A thread in dat_evd_wait, and the results of the call.
class Waiter {
 public:
  explicit Waiter(DAT_EVD_HANDLE evd, DAT_COUNT threshold = 1, DAT_TIMEOUT timeout = kPatience)
      : thread_([this, evd, threshold, timeout] {
          result = dat_evd_wait(evd, timeout, threshold, &event, &more);
        }) {
    // The thread is in its wait once a concurrent dequeue is refused. Until then the EVD must be
    // empty.
    DAT_EVENT other;
    while (DAT_GET_TYPE(dat_evd_dequeue(evd, &other)) != DAT_INVALID_STATE)
      std::this_thread::yield();
  }
  ~Waiter() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] pthread_t native() { return thread_.native_handle(); }

  DAT_EVENT event{};
  DAT_COUNT more = -1;
  DAT_RETURN result = DAT_INTERNAL_ERROR;

 private:
  std::thread thread_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(evd)

BOOST_AUTO_TEST_CASE(evd_wait_immediate) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  for (std::uintptr_t i = 0; i < 3; ++i) REQUIRE_OK(post_software(evd, i));
  DAT_EVENT event;
  DAT_COUNT more = -1;
  REQUIRE_OK(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
  BOOST_CHECK_EQUAL(number_of(event), 0U);
  BOOST_CHECK_EQUAL(more, 2);
}

BOOST_AUTO_TEST_CASE(evd_wait_timeout, *covers("evd_wait_timeout_zero evd_wait_timeout_elapsed "
                                               "evd_wait_timeout_keeps_events")) {
  Ia ia;
  for (const DAT_EVD_FLAGS flag : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    const Evd evd = make_evd(ia, static_cast<DAT_EVD_FLAGS>(flag | DAT_EVD_SOFTWARE_FLAG), 8);
    DAT_EVENT event;
    DAT_COUNT more = -1;
    CHECK_TYPE(dat_evd_wait(evd, 0, 1, &event, &more), DAT_TIMEOUT_EXPIRED);
    BOOST_CHECK_EQUAL(more, 0);
    const auto start = std::chrono::steady_clock::now();
    CHECK_TYPE(dat_evd_wait(evd, 20 * kMillisecond, 1, &event, &more), DAT_TIMEOUT_EXPIRED);
    BOOST_CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));
    const auto short_start = std::chrono::steady_clock::now();
    CHECK_TYPE(dat_evd_wait(evd, 500, 1, &event, &more),
               DAT_TIMEOUT_EXPIRED);  // below a millisecond
    BOOST_CHECK(std::chrono::steady_clock::now() - short_start >= std::chrono::microseconds(500));
    REQUIRE_OK(post_software(evd, 1));
    REQUIRE_OK(post_software(evd, 2));
    CHECK_TYPE(dat_evd_wait(evd, kMillisecond, 3, &event, &more), DAT_TIMEOUT_EXPIRED);
    BOOST_CHECK_EQUAL(more, 2);
    REQUIRE_OK(post_software(evd, 3));
    REQUIRE_OK(dat_evd_wait(evd, kPatience, 3, &event, &more));
    BOOST_CHECK_EQUAL(number_of(event), 1U);
    BOOST_CHECK_EQUAL(more, 2);
  }
}

BOOST_AUTO_TEST_CASE(evd_wait_arguments,
                     *covers("evd_wait_threshold_zero evd_wait_threshold_qlen")) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  const DAT_COUNT qlen = query_evd(evd).evd_qlen;
  DAT_EVENT event;
  DAT_COUNT more = -1;
  CHECK_TYPE(dat_evd_wait(evd, 0, 0, &event, &more), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_wait(evd, 0, -1, &event, &more), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_wait(evd, 0, qlen + 1, &event, &more), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_wait(evd, 0, 1, nullptr, &more), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_wait(evd, 0, 1, &event, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_evd_wait(evd, 0, qlen, &event, &more), DAT_TIMEOUT_EXPIRED);
  for (DAT_COUNT i = 0; i < qlen; ++i) REQUIRE_OK(post_software(evd, 1));
  REQUIRE_OK(dat_evd_wait(evd, kPatience, qlen, &event, &more));
  BOOST_CHECK_EQUAL(more, qlen - 1);
}

BOOST_AUTO_TEST_CASE(evd_wait_threshold_met) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  Waiter waiter(evd, 4);
  for (std::uintptr_t i = 0; i < 4; ++i) REQUIRE_OK(post_software(evd, i));
  waiter.join();
  BOOST_CHECK_EQUAL(waiter.result, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_EQUAL(number_of(waiter.event), 0U);
  BOOST_CHECK_GE(waiter.more, 3);
}

BOOST_AUTO_TEST_CASE(evd_wait_second_waiter, *covers("evd_wait_blocks_dequeue")) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  Waiter first(evd);
  DAT_EVENT event;
  DAT_COUNT more = -1;
  CHECK_TYPE(dat_evd_wait(evd, kPatience, 1, &event, &more), DAT_INVALID_STATE);
  CHECK_TYPE(dat_evd_dequeue(evd, &event), DAT_INVALID_STATE);
  CHECK_TYPE(dat_evd_free(evd), DAT_INVALID_STATE);
  REQUIRE_OK(post_software(evd, 5));
  first.join();
  BOOST_CHECK_EQUAL(first.result, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_EQUAL(number_of(first.event), 5U);
}

BOOST_AUTO_TEST_CASE(evd_wait_unwaitable) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  REQUIRE_OK(dat_evd_set_unwaitable(evd));
  REQUIRE_OK(dat_evd_set_unwaitable(evd));
  REQUIRE_OK(post_software(evd, 1));
  DAT_EVENT event;
  DAT_COUNT more = -1;
  CHECK_TYPE(dat_evd_wait(evd, kPatience, 1, &event, &more), DAT_INVALID_STATE);
  REQUIRE_OK(dat_evd_clear_unwaitable(evd));
  REQUIRE_OK(dat_evd_wait(evd, kPatience, 1, &event, &more));
}

BOOST_AUTO_TEST_CASE(evd_set_unwaitable_wakes) {
  Ia ia;
  for (const DAT_EVD_FLAGS flag :
       {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG, DAT_EVD_CONNECTION_FLAG}) {
    if (flag == DAT_EVD_DTO_FLAG && !ia.provider().is_thread_safe)
      continue;  // Waiter calls dat_evd_dequeue during the wait
    const Evd evd = make_evd(ia, flag, 8);
    Waiter waiter(evd);
    const Promptly promptly;
    REQUIRE_OK(dat_evd_set_unwaitable(evd));
    waiter.join();
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(waiter.result), static_cast<DAT_RETURN>(DAT_INVALID_STATE));
  }
}

BOOST_AUTO_TEST_CASE(evd_wait_signal) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction old {};
  ::sigaction(SIGUSR1, &action, &old);
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  {
    Waiter waiter(evd);
    ::pthread_kill(waiter.native(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    REQUIRE_OK(post_software(evd, 1));
    waiter.join();
    BOOST_CHECK_EQUAL(waiter.result, static_cast<DAT_RETURN>(DAT_SUCCESS));
  }
  ::sigaction(SIGUSR1, &old, nullptr);
}

// A program that handles one event and sees that none is left waits for the CNO next: an event that
// is not counted must trigger it.
BOOST_AUTO_TEST_CASE(evd_wait_uncounted_event_triggers_cno) {
  constexpr int kRounds = 3000;
  Ia ia;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  std::atomic<int> asked{0};
  std::atomic<int> refused{0};
  // Each time, two events, the second one at about the time when the wait for the first one ends.
  std::thread poster([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (asked < round) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      for (int event = 0; event != 2; ++event) {
        if (post_software(evd, 1) != DAT_SUCCESS) ++refused;
        const auto later =
            std::chrono::steady_clock::now() + std::chrono::nanoseconds(round % 800 * 100);
        while (event == 0 && std::chrono::steady_clock::now() < later) {
        }
      }
    }
  });
  int lost = 0;
  for (int round = 1; round <= kRounds && lost == 0; ++round) {
    DAT_EVENT event;
    DAT_COUNT more = -1;
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    while (dat_cno_wait(cno, 0, &triggered) == DAT_SUCCESS) {
    }
    asked = round;
    DAT_RETURN rc = dat_evd_wait(evd, kPatience, 1, &event, &more);
    if (rc == DAT_SUCCESS && more == 0) rc = dat_cno_wait(cno, 2000 * kMillisecond, &triggered);
    if (rc != DAT_SUCCESS) ++lost;
    if (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
      dat_evd_wait(evd, kPatience, 1, &event, &more);  // the poster was late
  }
  asked = kRounds;
  poster.join();
  BOOST_CHECK_EQUAL(lost, 0);
  BOOST_CHECK_EQUAL(refused, 0);
}

BOOST_AUTO_TEST_CASE(evd_wait_no_lost_wakeup) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 64);
  constexpr std::uintptr_t kCount = 20000;
  std::thread producer([&] {
    for (std::uintptr_t i = 0; i < kCount;)
      if (post_software(evd, i) == DAT_SUCCESS) ++i;
  });
  for (std::uintptr_t i = 0; i < kCount; ++i) {
    DAT_EVENT event;
    DAT_COUNT more = -1;
    REQUIRE_OK(dat_evd_wait(evd, kPatience, 1, &event, &more));
    BOOST_REQUIRE_EQUAL(number_of(event), i);
  }
  producer.join();
}

BOOST_AUTO_TEST_CASE(evd_wait_total_timeout, *covers("ofa_2_2_02_total_timeout")) {
  Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 64);
  std::atomic<bool> stop{false};
  std::thread waker([&] {  // wake-ups that never satisfy the threshold must not restart the clock
    for (int i = 0; i < 30 && !stop; ++i) {
      post_software(evd, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  DAT_EVENT event;
  DAT_COUNT more = -1;
  CHECK_TYPE(dat_evd_wait(evd, 50 * kMillisecond, 60, &event, &more), DAT_TIMEOUT_EXPIRED);
  BOOST_CHECK_LT(more, 30);  // the wait timed out while the waker was still posting
  stop = true;
  waker.join();
}

namespace {

// Calls wait(&event) until it returns true, and returns the event.
template <class Wait>
DAT_EVENT repeat(Wait wait) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(kPatience);
  DAT_EVENT event{};
  while (!wait(&event) && std::chrono::steady_clock::now() < end) {
  }
  return event;
}

// The next event of `evd`, obtained with waits of one microsecond each.
DAT_EVENT wait_repeatedly(DAT_EVD_HANDLE evd) {
  return repeat([&](DAT_EVENT* event) {
    DAT_COUNT more = 0;
    return dat_evd_wait(evd, 1, 1, event, &more) == DAT_SUCCESS;
  });
}

}  // namespace

// Each wait times out before anything can arrive, but many of them see what one long wait sees.
BOOST_AUTO_TEST_CASE(evd_wait_short_waits_make_progress) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(dat_ep_connect(pair.active.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience,
                            0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT request = wait_repeatedly(pair.cr_evd);
  BOOST_REQUIRE_EQUAL(request.event_number, DAT_CONNECTION_REQUEST_EVENT);
  REQUIRE_OK(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, pair.passive.ep, 0,
                           nullptr));
  for (const End* const end : {&pair.active, &pair.passive})
    BOOST_REQUIRE_EQUAL(wait_repeatedly(end->connect_evd).event_number,
                        DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  BOOST_CHECK_EQUAL(wait_repeatedly(pair.passive.recv_evd).event_number, DAT_DTO_COMPLETION_EVENT);
  BOOST_CHECK_EQUAL(wait_repeatedly(pair.active.request_evd).event_number,
                    DAT_DTO_COMPLETION_EVENT);
  pair.disconnect();
}

// The same for a CNO.
BOOST_AUTO_TEST_CASE(cno_wait_short_waits_make_progress) {
  Pair pair;
  Cno cno;
  REQUIRE_OK(dat_cno_create(pair.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  REQUIRE_OK(dat_evd_modify_cno(pair.cr_evd, cno));
  REQUIRE_OK(dat_ep_connect(pair.active.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience,
                            0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT request = repeat([&](DAT_EVENT* event) {
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    return dat_cno_wait(cno, 1, &triggered) == DAT_SUCCESS &&
           dat_evd_dequeue(triggered, event) == DAT_SUCCESS;
  });
  BOOST_REQUIRE_EQUAL(request.event_number, DAT_CONNECTION_REQUEST_EVENT);
  REQUIRE_OK(dat_cr_reject(request.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  REQUIRE_OK(dat_evd_modify_cno(pair.cr_evd, DAT_HANDLE_NULL));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
