// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "threads.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <pthread.h>

// Several threads: threads that wait are cancelled.
namespace conformance {

BOOST_AUTO_TEST_SUITE(threads)

// Programs end threads that wait by pthread_cancel, with either type of cancellation. The join
// returns, and another thread can wait then, with nothing lost.
BOOST_AUTO_TEST_CASE(thr_waiters_are_cancelled) {
  enum class How { kEvd, kCno, kShortWaits };
  struct Waiter {
    DAT_EVD_HANDLE evd;
    DAT_CNO_HANDLE cno;
    How how;
    int type;
    std::atomic<bool> waits{false};

    static void* run(void* argument) {
      auto& self = *static_cast<Waiter*>(argument);
      ::pthread_setcanceltype(self.type, nullptr);
      self.waits = true;
      DAT_EVENT event;
      DAT_COUNT more = 0;
      DAT_EVD_HANDLE triggered = nullptr;
      if (self.how == How::kEvd) dat_evd_wait(self.evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
      if (self.how == How::kCno) dat_cno_wait(self.cno, DAT_TIMEOUT_INFINITE, &triggered);
      if (self.how == How::kShortWaits)
        while (DAT_GET_TYPE(dat_evd_wait(self.evd, 1000, 1, &event, &more)) ==
               DAT_TIMEOUT_EXPIRED) {
        }
      return nullptr;
    }
  };
  Ia ia;
  for (const How how : {How::kEvd, How::kCno, How::kShortWaits}) {
    for (const int type : {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS}) {
      // In the middle of a short wait, only a deferred cancellation is safe.
      if (how == How::kShortWaits && type != PTHREAD_CANCEL_DEFERRED) continue;
      Cno cno;
      REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
      const Evd evd =
          make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, how == How::kCno ? DAT_CNO_HANDLE{cno} : nullptr);
      Waiter waiter{evd, cno, how, type};
      pthread_t thread{};
      BOOST_REQUIRE_EQUAL(::pthread_create(&thread, nullptr, &Waiter::run, &waiter), 0);
      while (!waiter.waits) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      BOOST_REQUIRE_EQUAL(::pthread_cancel(thread), 0);
      void* result = nullptr;
      BOOST_REQUIRE_EQUAL(::pthread_join(thread, &result), 0);
      BOOST_CHECK(result == PTHREAD_CANCELED);
      REQUIRE_OK(post_software(evd));
      DAT_EVENT event;
      DAT_COUNT more = 0;
      DAT_EVD_HANDLE triggered = nullptr;
      if (how == How::kCno) {
        REQUIRE_OK(dat_cno_wait(cno, kPatience, &triggered));
        BOOST_CHECK(triggered == evd);
      }
      REQUIRE_OK(dat_evd_wait(evd, kPatience, 1, &event, &more));
      BOOST_CHECK_EQUAL(event.event_number, DAT_SOFTWARE_EVENT);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
