// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "threads.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

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

// Runs `work` in a thread whose cancellation is pending, and would take effect afterwards.
void in_cancelled_thread(const std::function<void()>& work) {
  struct Worker {
    const std::function<void()>& work;
    std::atomic<bool> cancelled{false};
    bool finished = false;

    static void* run(void* argument) {
      auto& self = *static_cast<Worker*>(argument);
      while (!self.cancelled) {  // no cancellation point
      }
      self.work();
      int state = PTHREAD_CANCEL_DISABLE;
      ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
      self.finished = state == PTHREAD_CANCEL_ENABLE;
      return nullptr;
    }
  };
  Worker worker{work};
  pthread_t thread{};
  BOOST_REQUIRE_EQUAL(::pthread_create(&thread, nullptr, &Worker::run, &worker), 0);
  BOOST_REQUIRE_EQUAL(::pthread_cancel(thread), 0);
  worker.cancelled = true;
  BOOST_REQUIRE_EQUAL(::pthread_join(thread, nullptr), 0);
  BOOST_CHECK(worker.finished);
}

// Calls that do not wait are no cancellation points: a thread whose cancellation is pending
// finishes them.
BOOST_AUTO_TEST_CASE(thr_calls_of_a_cancelled_thread_are_finished) {
  Pair pair;
  pair.connect();
  Failures failures;
  std::vector<std::uint8_t> memory(kSize);
  in_cancelled_thread([&] {
    DAT_EVD_HANDLE async = nullptr;
    DAT_IA_HANDLE other = nullptr;
    failures.ok(dat_ia_open(const_cast<char*>(options().ia.c_str()), 8, &async, &other),
                "dat_ia_open");
    failures.ok(dat_ia_close(other, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
    DAT_PZ_HANDLE pz = nullptr;
    failures.ok(dat_pz_create(pair.ia, &pz), "dat_pz_create");
    DAT_REGION_DESCRIPTION region{};
    region.for_va = memory.data();
    DAT_LMR_HANDLE lmr = nullptr;
    DAT_LMR_CONTEXT lmr_context = 0;
    failures.ok(dat_lmr_create(pair.ia, DAT_MEM_TYPE_VIRTUAL, region, memory.size(), pz,
                               DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &lmr_context, nullptr,
                               nullptr, nullptr),
                "dat_lmr_create");
    failures.ok(dat_lmr_free(lmr), "dat_lmr_free");
    DAT_EVD_HANDLE evd = nullptr;
    constexpr auto kStreams = DAT_EVD_FLAGS(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
    failures.ok(dat_evd_create(pair.ia, 8, DAT_HANDLE_NULL, kStreams, &evd), "dat_evd_create");
    DAT_EP_HANDLE ep = nullptr;
    failures.ok(dat_ep_create(pair.ia, pz, evd, evd, evd, nullptr, &ep), "dat_ep_create");
    DAT_CNO_HANDLE cno = nullptr;
    failures.ok(dat_cno_create(pair.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno), "dat_cno_create");
    DAT_CONN_QUAL qualifier = 0;
    DAT_PSP_HANDLE psp = nullptr;
    failures.ok(dat_psp_create_any(pair.ia, &qualifier, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
                "dat_psp_create_any");
    failures.ok(dat_psp_free(psp), "dat_psp_free");
    failures.ok(dat_ep_connect(ep, pair.ia.attr.ia_address_ptr, qualifier, kPatience, 0, nullptr,
                               DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                "dat_ep_connect");
    failures.ok(dat_cno_free(cno), "dat_cno_free");
    failures.ok(dat_ep_free(ep), "dat_ep_free");
    failures.ok(dat_evd_free(evd), "dat_evd_free");
    failures.ok(dat_pz_free(pz), "dat_pz_free");
    failures.ok(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
  });
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

// What such a thread posts is sent.
BOOST_AUTO_TEST_CASE(thr_posts_of_a_cancelled_thread_are_finished) {
  constexpr std::uint64_t kSends = 8;
  Pair pair;
  const Buffer from(pair.ia, pair.pz, kSize);
  const Buffer into(pair.ia, pair.pz, kSize);
  for (std::uint64_t i = 0; i != kSends; ++i) REQUIRE_OK(pair.passive.post_recv(into, kSize, i));
  pair.connect();
  Failures failures;
  in_cancelled_thread([&] {
    for (std::uint64_t i = 0; i != kSends; ++i)
      failures.ok(pair.active.post_send(from, kSize, i), "dat_ep_post_send");
  });
  for (std::uint64_t i = 0; i != kSends; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
}

// A provider may reach the memory of a peer on this host directly. It tries that at the first large
// RDMA Write, with system calls that are cancellation points. Freeing the memory ends the access.
BOOST_AUTO_TEST_CASE(thr_rdma_of_a_cancelled_thread_is_finished) {
  constexpr std::size_t kLarge = 65536;
  constexpr std::uint64_t kPosts = 8;
  Pair pair;
  const Buffer from(pair.ia, pair.pz, kLarge);
  Buffer into(pair.ia, pair.pz, kLarge);
  REQUIRE_OK(pair.passive.post_recv(into, kSize, 0));
  pair.connect();
  REQUIRE_OK(pair.active.post_send(from, kSize, 0));  // afterwards the posting thread sends itself
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 0);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 0);
  Failures failures;
  in_cancelled_thread([&] {
    const auto completes = [&](std::uint64_t cookie_value) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      DAT_EVENT event;
      while (dat_evd_dequeue(pair.active.request_evd, &event) != DAT_SUCCESS) {
        if (!failures.expect(std::chrono::steady_clock::now() < limit, "no completion")) return;
      }
      const auto& dto = event.event_data.dto_completion_event_data;
      failures.expect(dto.status == DAT_DTO_SUCCESS && dto.user_cookie.as_64 == cookie_value,
                      "another completion");
    };
    for (std::uint64_t i = 0; i != kPosts; ++i) {
      failures.ok(pair.active.post_write(from, into.remote(kLarge), i), "dat_ep_post_rdma_write");
      completes(i);
      failures.ok(pair.active.post_read(from, into.remote(kLarge), i), "dat_ep_post_rdma_read");
      completes(i);
    }
    failures.ok(dat_lmr_free(into.lmr.release()), "dat_lmr_free");
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
