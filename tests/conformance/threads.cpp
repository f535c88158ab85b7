// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "threads.h"
#include "harness.h"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

// Several threads: the thr_ lines of the checklist (checklist.cpp), and races between calls of
// different threads. Calls on one object that are not marked Safe need a thread-safe IA
// (--threadsafe) or are serialised.
namespace conformance {

BOOST_AUTO_TEST_SUITE(threads)

// All threads create, use and free every kind of object on one IA at the same time.
BOOST_AUTO_TEST_CASE(thr_objects_of_one_ia) {
  Ia ia;
  Failures failures;
  in_threads(6, [&](int) {
    std::vector<std::uint8_t> bytes(4096);
    for (int round = 0; round < 60; ++round) {
      DAT_PZ_HANDLE pz = nullptr;
      DAT_EVD_HANDLE dto = nullptr;
      DAT_EVD_HANDLE connection = nullptr;
      DAT_EVD_HANDLE cr = nullptr;
      DAT_CNO_HANDLE cno = nullptr;
      DAT_EP_HANDLE ep = nullptr;
      DAT_PSP_HANDLE psp = nullptr;
      DAT_LMR_HANDLE lmr = nullptr;
      DAT_CONN_QUAL conn_qual = 0;
      DAT_REGION_DESCRIPTION region{};
      region.for_va = bytes.data();
      DAT_IA_ATTR attr{};
      DAT_PZ_PARAM pz_param{};
      DAT_PSP_PARAM psp_param{};
      DAT_LMR_PARAM lmr_param{};
      DAT_EP_PARAM ep_param{};
      const bool good =
          failures.ok(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr), "ia_query") &&
          failures.ok(dat_pz_create(ia, &pz), "pz_create") &&
          failures.ok(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &pz_param), "pz_query") &&
          failures.expect(pz_param.ia_handle == ia.handle, "the IA of the PZ") &&
          failures.ok(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno), "cno_create") &&
          failures.ok(dat_evd_create(ia, 32, cno, DAT_EVD_DTO_FLAG, &dto), "evd_create DTO") &&
          failures.ok(dat_evd_create(ia, 8, nullptr, DAT_EVD_CONNECTION_FLAG, &connection),
                      "evd_create CONNECTION") &&
          failures.ok(dat_evd_create(ia, 8, nullptr, DAT_EVD_CR_FLAG, &cr), "evd_create CR") &&
          failures.ok(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, bytes.size(), pz,
                                     DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, nullptr, nullptr,
                                     nullptr, nullptr),
                      "lmr_create") &&
          failures.ok(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &lmr_param), "lmr_query") &&
          failures.expect(lmr_param.pz_handle == pz, "the PZ of the LMR") &&
          failures.ok(dat_ep_create(ia, pz, dto, dto, connection, nullptr, &ep), "ep_create") &&
          failures.ok(dat_ep_query(ep, DAT_EP_FIELD_ALL, &ep_param), "ep_query") &&
          failures.expect(ep_param.recv_evd_handle == dto, "the EVD of the EP") &&
          failures.ok(dat_psp_create_any(ia, &conn_qual, cr, DAT_PSP_CONSUMER_FLAG, &psp),
                      "psp_create_any") &&
          failures.ok(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &psp_param), "psp_query") &&
          failures.expect(psp_param.conn_qual == conn_qual, "the qualifier of the PSP") &&
          failures.ok(dat_psp_free(psp), "psp_free") && failures.ok(dat_ep_free(ep), "ep_free") &&
          failures.ok(dat_lmr_free(lmr), "lmr_free") &&
          failures.ok(dat_evd_free(dto), "evd_free DTO") &&
          failures.ok(dat_evd_free(connection), "evd_free CONNECTION") &&
          failures.ok(dat_evd_free(cr), "evd_free CR") &&
          failures.ok(dat_cno_free(cno), "cno_free") && failures.ok(dat_pz_free(pz), "pz_free");
      if (!good) return;
    }
  });
}

// The functions marked Safe, on the same objects.
BOOST_AUTO_TEST_CASE(thr_safe_functions) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 1500;
  Pair pair;
  Failures failures;
  const Evd evd = make_evd(pair.ia, DAT_EVD_SOFTWARE_FLAG, kThreads * kRounds);
  std::atomic<int> taken{0};
  OneAtATime post;
  in_threads(kThreads, [&](int number) {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    for (int round = 0; round < kRounds; ++round) {
      if (!failures.ok(post([&] { return post_software(evd); }), "evd_post_se")) return;
      DAT_RETURN rc = dat_evd_dequeue(evd, &event);
      if (rc == DAT_SUCCESS) ++taken;
      failures.expect(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_QUEUE_EMPTY ||
                          DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_STATE),
                      "a dequeue beside others");
      rc = dat_evd_wait(evd, 0, 1, &event, &more);
      if (rc == DAT_SUCCESS) ++taken;
      failures.expect(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_TIMEOUT_EXPIRED ||
                          DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_STATE),
                      "a wait beside others");
      DAT_EP_STATE state{};
      DAT_BOOLEAN idle{};
      failures.ok(dat_ep_get_status(pair.active.ep, &state, &idle, &idle), "ep_get_status");
      DAT_PSP_PARAM psp{};
      failures.ok(dat_psp_query(pair.psp, DAT_PSP_FIELD_ALL, &psp), "psp_query");
      if (number % 2 == 0) {
        failures.ok(dat_evd_disable(evd), "evd_disable");
        failures.ok(dat_evd_enable(evd), "evd_enable");
      } else {
        failures.ok(dat_evd_set_unwaitable(evd), "evd_set_unwaitable");
        failures.ok(dat_evd_clear_unwaitable(evd), "evd_clear_unwaitable");
      }
      DAT_COUNT providers = 0;
      dat_registry_list_providers(0, &providers, nullptr);
      failures.expect(providers > 0, "registry_list_providers");
    }
  });
  taken += drain(evd);
  BOOST_CHECK_EQUAL(taken, kThreads * kRounds);  // every event exactly once
}

// All threads post on one EP. The requests of each thread complete in order, each exactly once.
BOOST_AUTO_TEST_CASE(thr_posts_on_one_ep) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kEach = 500;
  constexpr std::uint64_t kAll = kThreads * kEach;
  Ia ia;
  const Pz pz = make_pz(ia);
  Link link(ia, pz);
  Failures failures;
  BOOST_REQUIRE(link.connect(failures));
  std::array<std::uint64_t, kThreads> next{};
  OneAtATime at_active;
  OneAtATime at_passive;
  in_threads(kThreads + 2, [&](int number) {
    DAT_EVENT event;
    if (number == kThreads) {  // dequeues the completions of requests
      for (std::uint64_t i = 0; i < kAll; ++i) {
        if (!failures.ok(Link::wait(link.active.request_evd, &event), "wait for a request")) return;
        const auto& dto = event.event_data.dto_completion_event_data;
        const std::uint64_t value = dto.user_cookie.as_64;
        failures.expect(dto.status == DAT_DTO_SUCCESS, "a request failed");
        failures.expect(next[value >> 32]++ == (value & 0xFFFFFFFFU), "the order of the requests");
      }
    } else if (number == kThreads + 1) {  // dequeues those of the peer's receives
      for (std::uint64_t i = 0; i < kAll; ++i)
        if (!failures.ok(Link::wait(link.passive.recv_evd, &event), "wait for a receive")) return;
    } else {
      for (std::uint64_t i = 0; i < kEach;) {
        // Post a receive for every send. Retry posts that are refused because a queue is full.
        const auto receive = [&] { return link.passive.post_recv(link.in, kSize, 0); };
        DAT_RETURN rc = at_passive(receive);
        while (DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES)) {
          std::this_thread::yield();
          rc = at_passive(receive);
        }
        if (!failures.ok(rc, "post_recv")) return;
        const std::uint64_t value = (static_cast<std::uint64_t>(number) << 32) | i;
        const auto send = [&] { return link.active.post_send(link.out, kSize, value); };
        rc = at_active(send);
        while (DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES)) {
          std::this_thread::yield();
          rc = at_active(send);
        }
        if (!failures.ok(rc, "post_send")) return;
        ++i;
      }
    }
  });
  for (const std::uint64_t count : next) BOOST_CHECK_EQUAL(count, kEach);
}

// Connections of one IA, with one thread each.
BOOST_AUTO_TEST_CASE(thr_connections_of_one_ia) {
  constexpr int kThreads = 6;
  Ia ia;
  const Pz pz = make_pz(ia);
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < kThreads; ++i) links.push_back(std::make_unique<Link>(ia, pz));
  Failures failures;
  in_threads(kThreads, [&](int number) {
    Link& link = *links[static_cast<std::size_t>(number)];
    for (std::uint64_t round = 0; round < 25; ++round) {
      if (!link.connect(failures)) return;
      for (std::uint64_t i = 0; i < 10; ++i)
        if (!link.message(i, failures)) return;
      const End& first = round % 2 == 0 ? link.active : link.passive;
      if (!failures.ok(dat_ep_disconnect(first.ep, round % 3 == 0 ? DAT_CLOSE_ABRUPT_FLAG
                                                                  : DAT_CLOSE_GRACEFUL_FLAG),
                       "disconnect") ||
          !Link::ended(link.active, failures) || !Link::ended(link.passive, failures) ||
          !link.reset(failures))
        return;
    }
  });
}

// Two connected EPs with the buffers of their messages.
struct Sharing {
  Evd connect_evd;
  std::unique_ptr<Buffer> out;
  std::unique_ptr<Buffer> in;
  Ep active;
  Ep passive;

  // All completions of both EPs go to `shared`.
  void connect(Pair& pair, DAT_EVD_HANDLE shared) {
    connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
    out = std::make_unique<Buffer>(pair.ia, pair.pz, kSize);
    in = std::make_unique<Buffer>(pair.ia, pair.pz, kSize);
    for (Ep* const ep : {&active, &passive})
      REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, shared, shared, connect_evd, nullptr, ep->out()));
    REQUIRE_OK(dat_ep_connect(active, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                              nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    const DAT_EVENT request = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    REQUIRE_OK(
        dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, passive, 0, nullptr));
    for (int i = 0; i < 2; ++i) expect_event(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }
};

// EPs that share their EVDs, with one thread each, and two threads that dequeue all events.
BOOST_AUTO_TEST_CASE(thr_eps_share_evds) {
  constexpr int kEps = 4;
  constexpr std::uint64_t kEach = 300;
  Pair pair;
  const Evd shared = make_evd(pair.ia, DAT_EVD_DTO_FLAG, 256);
  std::vector<Sharing> all(kEps);
  for (Sharing& one : all) one.connect(pair, shared);
  Failures failures;
  std::array<std::atomic<std::uint64_t>, kEps> received{};
  std::array<std::atomic<std::uint64_t>, kEps> sent{};
  std::atomic<std::uint64_t> taken{0};
  in_threads(kEps + 2, [&](int number) {
    if (number >= kEps) {
      DAT_EVENT event;
      while (taken < 2 * kEps * kEach) {
        if (dat_evd_dequeue(shared, &event) != DAT_SUCCESS) {
          std::this_thread::yield();
          continue;
        }
        ++taken;
        const auto& dto = event.event_data.dto_completion_event_data;
        if (!failures.expect(dto.status == DAT_DTO_SUCCESS, "a DTO failed")) return;
        auto& counters = dto.operation == DAT_DTO_RECEIVE ? received : sent;
        const auto which = static_cast<std::size_t>(dto.user_cookie.as_64);
        const Sharing& one = all[which];
        failures.expect(
            dto.ep_handle == (dto.operation == DAT_DTO_RECEIVE ? one.passive : one.active),
            "the EP of a completion");
        ++counters[which];
      }
      return;
    }
    const auto index = static_cast<std::size_t>(number);
    Sharing& one = all[index];
    DAT_LMR_TRIPLET out = one.out->local();
    DAT_LMR_TRIPLET in = one.in->local();
    for (std::uint64_t i = 0; i < kEach; ++i) {
      while (received[index] + 8 < i || sent[index] + 8 < i) std::this_thread::yield();
      if (!failures.ok(
              dat_ep_post_recv(one.passive, 1, &in, cookie(index), DAT_COMPLETION_DEFAULT_FLAG),
              "post_recv") ||
          !failures.ok(
              dat_ep_post_send(one.active, 1, &out, cookie(index), DAT_COMPLETION_DEFAULT_FLAG),
              "post_send"))
        return;
    }
  });
  for (std::size_t i = 0; i < kEps; ++i) {
    BOOST_CHECK_EQUAL(received[i], kEach);
    BOOST_CHECK_EQUAL(sent[i], kEach);
  }
}

// Several threads wait on one CNO and share its EVDs: docs/semantics.md#waiting-on-a-cno.
BOOST_AUTO_TEST_CASE(thr_waiters_of_one_cno) {
  constexpr int kWaiters = 3;
  constexpr int kEvents = 3000;
  Ia ia;
  Failures failures;
  Cno cno;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  const Evd evds[] = {make_evd(ia, DAT_EVD_SOFTWARE_FLAG, kEvents, cno),
                      make_evd(ia, DAT_EVD_SOFTWARE_FLAG, kEvents, cno)};
  std::atomic<int> taken{0};
  std::atomic<int> waiting{kWaiters};
  std::atomic<bool> stop{false};
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i)
    waiters.emplace_back([&] {
      DAT_EVENT event;
      while (!stop) {
        for (const Evd& evd : evds)
          while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) ++taken;
        DAT_EVD_HANDLE evd = nullptr;
        if (!failures.ok(dat_cno_wait(cno, kPatience, &evd), "cno_wait")) break;
      }
      --waiting;
    });
  for (int i = 0; i < kEvents; ++i) REQUIRE_OK(post_software(evds[i % 2]));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(kPatience);
  while (taken < kEvents && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  BOOST_CHECK_EQUAL(taken, kEvents);
  stop = true;
  while (waiting > 0) {  // each trigger releases one
    REQUIRE_OK(post_software(evds[0]));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    drain(evds[0]);
  }
  for (std::thread& waiter : waiters) waiter.join();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
