// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"
#include "threads.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// Several threads: objects are freed and connections end while other threads use them.
namespace conformance {

BOOST_AUTO_TEST_SUITE(threads)

// IAs are opened and closed, with objects in them, while another IA is busy.
BOOST_AUTO_TEST_CASE(thr_close_race) {
  Ia busy;
  const Pz pz = make_pz(busy);
  Link link(busy, pz);
  Failures failures;
  BOOST_REQUIRE(link.connect(failures));
  std::uint64_t value = 0;
  Background traffic([&] { return link.message(value++, failures); });
  for (int round = 0; round < 40; ++round) {
    Ia ia;
    Pz other_pz = make_pz(ia);
    auto gone = std::make_unique<Link>(ia, other_pz);
    BOOST_REQUIRE(gone->connect(failures));
    REQUIRE_OK(gone->passive.post_recv(gone->in, kSize, 1));
    REQUIRE_OK(gone->active.post_send(gone->out, kSize, 1));
    REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
    for (End* const end : {&gone->active, &gone->passive}) {
      end->ep.release();
      end->recv_evd.release();
      end->request_evd.release();
      end->connect_evd.release();
    }
    gone->psp.release();
    gone->cr_evd.release();
    gone->out.lmr.release();
    gone->in.lmr.release();
    other_pz.release();
  }
  traffic.join();
  BOOST_CHECK_GT(traffic.steps(), 0);
}

// All threads open and close the same IA at the same time.
BOOST_AUTO_TEST_CASE(thr_open_close) {
  Failures failures;
  in_threads(4, [&](int) {
    std::string name = options().ia;
    for (int round = 0; round < 25; ++round) {
      DAT_IA_HANDLE ia = nullptr;
      DAT_EVD_HANDLE async_evd = nullptr;
      DAT_PZ_HANDLE pz = nullptr;
      if (!failures.ok(dat_ia_openv(name.data(), 8, &async_evd, &ia, 2, 0, options().thread_safe),
                       "open") ||
          !failures.ok(dat_pz_create(ia, &pz), "pz_create") ||
          !failures.ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), "close"))
        return;
    }
  });
}

// One thread disconnects while another accepts the same connection.
BOOST_AUTO_TEST_CASE(thr_disconnect_against_accept) {
  Ia ia;
  const Pz pz = make_pz(ia);
  Link link(ia, pz);
  Failures failures;
  for (int round = 0; round < 200; ++round) {
    REQUIRE_OK(link.start());
    DAT_EVENT event;
    REQUIRE_OK(Link::wait(link.cr_evd, &event));
    const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    DAT_RETURN accepted = DAT_INTERNAL_ERROR;
    in_threads(2, [&](int number) {
      if (number == 0) {
        accepted = dat_cr_accept(cr, link.passive.ep, 0, nullptr);
        return;
      }
      for (int i = 0; i < round % 20; ++i) std::this_thread::yield();
      failures.ok(dat_ep_disconnect(link.active.ep, DAT_CLOSE_ABRUPT_FLAG), "disconnect");
    });
    // Events of the active side: possibly ESTABLISHED, then the end, and nothing more.
    REQUIRE_OK(Link::wait(link.active.connect_evd, &event));
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
      REQUIRE_OK(Link::wait(link.active.connect_evd, &event));
    BOOST_CHECK_EQUAL(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
    BOOST_CHECK_EQUAL(ep_state(link.active.ep), DAT_EP_STATE_DISCONNECTED);
    BOOST_CHECK_EQUAL(drain(link.active.connect_evd), 0);
    if (accepted != DAT_SUCCESS) {  // the peer had gone: CR and EP are unchanged
      REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
      BOOST_CHECK_EQUAL(ep_state(link.passive.ep), DAT_EP_STATE_UNCONNECTED);
      REQUIRE_OK(dat_ep_reset(link.active.ep));
      continue;
    }
    REQUIRE_OK(Link::wait(link.passive.connect_evd, &event));
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
      BOOST_REQUIRE(Link::ended(link.passive, failures));
    else
      BOOST_CHECK_EQUAL(event.event_number, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    BOOST_CHECK_EQUAL(ep_state(link.passive.ep), DAT_EP_STATE_DISCONNECTED);
    BOOST_CHECK_EQUAL(drain(link.passive.connect_evd), 0);
    BOOST_REQUIRE(link.reset(failures));
  }
}

// One thread posts while another disconnects. Every accepted request completes once and in order,
// and no success follows a failure.
BOOST_AUTO_TEST_CASE(thr_disconnect_during_posts) {
  if (skip_unless(thread_safe(), kNotSafe)) return;
  Ia ia;
  const Pz pz = make_pz(ia);
  Link link(ia, pz);
  Failures failures;
  for (int round = 0; round < 60; ++round) {
    const auto flags = round % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG;
    const End& ender = round % 4 < 2 ? link.active : link.passive;
    BOOST_REQUIRE(link.connect(failures));
    std::atomic<int> completed{0};
    in_threads(2, [&](int number) {
      if (number == 1) {
        while (completed < 20 + round) std::this_thread::yield();
        failures.ok(dat_ep_disconnect(ender.ep, flags), "disconnect");
        return;
      }
      std::uint64_t posted = 0;
      std::uint64_t seen = 0;
      int flushed = 0;
      DAT_EVENT event;
      // Use RDMA writes, for which the peer need not do anything.
      while (flushed < 10) {
        const DAT_RETURN rc = link.active.post_write(link.out, link.in.remote(kSize), posted,
                                                     DAT_COMPLETION_DEFAULT_FLAG);
        if (rc == DAT_SUCCESS) ++posted;
        // Neither DISCONNECT_PENDING nor a full queue accepts requests.
        else if (!failures.expect(
                     DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_STATE) ||
                         DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES),
                     "what a post returns"))
          break;
        while (dat_evd_dequeue(link.active.request_evd, &event) == DAT_SUCCESS) {
          const auto& dto = event.event_data.dto_completion_event_data;
          failures.expect(dto.user_cookie.as_64 == seen++, "the order of completions");
          failures.expect(dto.status != DAT_DTO_SUCCESS || flushed == 0,
                          "no success after failure");
          if (dto.status != DAT_DTO_SUCCESS) ++flushed;
          ++completed;
        }
      }
      while (seen < posted && failures.ok(Link::wait(link.active.request_evd, &event), "the rest"))
        failures.expect(event.event_data.dto_completion_event_data.user_cookie.as_64 == seen++,
                        "the order of the rest");
    });
    BOOST_REQUIRE(Link::ended(link.active, failures));
    BOOST_REQUIRE(Link::ended(link.passive, failures));
    BOOST_CHECK_EQUAL(drain(link.active.request_evd), 0);
    BOOST_REQUIRE(link.reset(failures));
  }
}

// EPs are freed while messages arrive at them, while another connection keeps working.
BOOST_AUTO_TEST_CASE(thr_free_during_traffic) {
  Ia ia;
  const Pz pz = make_pz(ia);
  Failures failures;
  Link steady(ia, pz);
  BOOST_REQUIRE(steady.connect(failures));
  std::uint64_t value = 0;
  Background traffic([&] { return steady.message(value++, failures); });
  for (int round = 0; round < 40; ++round) {
    Link link(ia, pz);
    BOOST_REQUIRE(link.connect(failures));
    for (std::uint64_t i = 0; i < 16; ++i) REQUIRE_OK(link.passive.post_recv(link.in, kSize, i));
    std::atomic<int> posted{0};
    std::thread sender([&] {
      // Send until the peer's EP has been freed, which ends the connection.
      DAT_EVENT event;
      bool live = true;
      while (live) {
        if (posted < 16 && link.active.post_send(link.out, kSize, 1) == DAT_SUCCESS) ++posted;
        while (live && dat_evd_dequeue(link.active.request_evd, &event) == DAT_SUCCESS) {
        }
        live = dat_evd_dequeue(link.active.connect_evd, &event) != DAT_SUCCESS;
      }
      failures.expect(event.event_number == DAT_CONNECTION_EVENT_DISCONNECTED ||
                          event.event_number == DAT_CONNECTION_EVENT_BROKEN,
                      "how the connection ends");
    });
    while (posted < 1 + round % 14) std::this_thread::yield();
    REQUIRE_OK(dat_ep_free(link.passive.ep.release()));
    sender.join();
    REQUIRE_OK(dat_ep_free(link.active.ep.release()));
  }
  traffic.join();
  BOOST_CHECK_GT(traffic.steps(), 0);
}

// Programs end like this: a thread closes the IA or frees the EPs while others still post. Each
// post either happens or is refused, also on an IA that is not thread-safe.
BOOST_AUTO_TEST_CASE(thr_end_during_posts) {
  if (skip_unless(!kThreadSanitizer, kRaceByDefinition)) return;
  constexpr DAT_COMPLETION_FLAGS kFlags[] = {
      DAT_COMPLETION_DEFAULT_FLAG, DAT_COMPLETION_SUPPRESS_FLAG, DAT_COMPLETION_BARRIER_FENCE_FLAG};
  Failures failures;
  for (int round = 0; round < 120; ++round) {
    const bool close = round % 2 == 0;
    Ia ia;
    Pz pz = make_pz(ia);
    Link link(ia, pz);
    BOOST_REQUIRE(link.connect(failures));
    const DAT_RMR_TRIPLET remote = link.in.remote(kSize);
    std::atomic<bool> over{false};
    std::atomic<int> posted{0};
    const auto goes_on = [&](DAT_RETURN rc, const char* what) {
      ++posted;
      const DAT_RETURN type = DAT_GET_TYPE(rc);
      failures.expect(rc == DAT_SUCCESS || type == DAT_INSUFFICIENT_RESOURCES ||
                          type == DAT_INVALID_STATE || type == DAT_INVALID_HANDLE,
                      what);
      return !over && type != DAT_INVALID_HANDLE;
    };
    std::thread writer([&] {
      DAT_EVENT event;
      for (std::uint64_t i = 0;
           goes_on(link.active.post_write(link.out, remote, i, kFlags[(i / 8 + round / 2) % 3]),
                   "write");
           ++i)
        while (dat_evd_dequeue(link.active.request_evd, &event) == DAT_SUCCESS) {
        }
    });
    std::thread receiver([&] {
      while (goes_on(link.passive.post_recv(link.in, kSize, 0), "receive")) {
      }
    });
    while (posted < 100 + 37 * round) std::this_thread::yield();
    if (close) {
      REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
    } else {
      REQUIRE_OK(dat_ep_free(link.active.ep));
      REQUIRE_OK(dat_ep_free(link.passive.ep));
    }
    over = true;
    writer.join();
    receiver.join();
    if (!close) {
      for (End* const end : {&link.active, &link.passive}) end->ep.release();
      continue;
    }
    link.release();
    pz.release();
  }
}

// A thread resets or modifies EPs while others go on posting receives, each on its own EP. Each
// receive is posted, and flushed by the reset, or refused. There are more threads than processors,
// so that some do not run just when they are in the middle of a post. Where connections take long,
// as over an emulated device, there are fewer rounds.
BOOST_AUTO_TEST_CASE(thr_reset_and_modify_during_receives) {
  if (skip_unless(!kThreadSanitizer, kRaceByDefinition)) return;
  constexpr int kRounds = 4000;
  constexpr int kFewRounds = 100;
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Ia ia;
  const Pz pz = make_pz(ia);
  Failures failures;
  std::vector<std::unique_ptr<Link>> links;
  for (unsigned i = 0; i < std::thread::hardware_concurrency() + 4; ++i)
    links.push_back(std::make_unique<Link>(ia, pz));
  std::atomic<bool> over{false};
  std::vector<std::thread> receivers;
  for (const auto& link : links)
    receivers.emplace_back([&over, &failures, &end = link->passive, &buffer = link->in] {
      DAT_EVENT event;
      while (!over) {
        const DAT_RETURN type = DAT_GET_TYPE(end.post_recv(buffer, kSize, 0));
        failures.expect(
            type == DAT_SUCCESS || type == DAT_INSUFFICIENT_RESOURCES || type == DAT_INVALID_STATE,
            "receive");
        if (type != DAT_INSUFFICIENT_RESOURCES) continue;
        // No more than that: polls that find nothing yield the processor.
        for (int i = 0; i < 30 && dat_evd_dequeue(end.recv_evd, &event) == DAT_SUCCESS; ++i) {
        }
      }
    });
  DAT_EP_PARAM param{};
  for (int round = 0; round < kRounds; ++round) {
    if (round >= kFewRounds && std::chrono::steady_clock::now() >= enough) break;
    const Link& link = *links[static_cast<std::size_t>(round) % links.size()];
    param.ep_attr.max_recv_dtos = 32 + round % 5;
    static_cast<void>(dat_ep_modify(link.passive.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param));
    if (!failures.expect(link.connect(failures), "connect") ||
        !failures.ok(dat_ep_disconnect(link.active.ep, DAT_CLOSE_ABRUPT_FLAG), "disconnect") ||
        !Link::ended(link.active, failures) || !Link::ended(link.passive, failures) ||
        !link.reset(failures))
      break;
  }
  over = true;
  for (std::thread& receiver : receivers) receiver.join();
}

// The same for the end of an SRQ.
BOOST_AUTO_TEST_CASE(thr_srq_free_during_posts) {
  if (skip_unless(!kThreadSanitizer, kRaceByDefinition)) return;
  Ia ia;
  if (skip_unless(ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  const Pz pz = make_pz(ia);
  Buffer in(ia, pz, kSize);
  DAT_SRQ_ATTR attr{};
  attr.max_recv_dtos = 64;
  attr.max_recv_iov = 1;
  Failures failures;
  for (int round = 0; round < 200; ++round) {
    Srq srq;
    REQUIRE_OK(dat_srq_create(ia, pz, &attr, srq.out()));
    std::atomic<int> posted{0};
    std::thread poster([&, handle = static_cast<DAT_SRQ_HANDLE>(srq)] {
      DAT_LMR_TRIPLET segment = in.local();
      for (DAT_RETURN type = DAT_SUCCESS; type != DAT_INVALID_HANDLE; ++posted) {
        type = DAT_GET_TYPE(dat_srq_post_recv(handle, 1, &segment, cookie(1)));
        failures.expect(
            type == DAT_SUCCESS || type == DAT_INSUFFICIENT_RESOURCES || type == DAT_INVALID_HANDLE,
            "a post on the SRQ");
      }
    });
    while (posted < round) std::this_thread::yield();
    const DAT_RETURN freed = dat_srq_free(srq.release());
    poster.join();
    BOOST_CHECK_EQUAL(freed, DAT_SUCCESS);
  }
}

// Several threads free the same EP: exactly one succeeds.
BOOST_AUTO_TEST_CASE(thr_free_once) {
  if (skip_unless(thread_safe(), kNotSafe)) return;
  if (skip_unless(!kThreadSanitizer, kRaceByDefinition)) return;
  Pair pair;
  for (int round = 0; round < 50; ++round) {
    End end;
    end.create(pair.ia, pair.pz, nullptr);
    const DAT_EP_HANDLE ep = end.ep.release();
    std::atomic<int> freed{0};
    Failures failures;
    in_threads(3, [&](int) {
      const DAT_RETURN rc = dat_ep_free(ep);
      if (rc == DAT_SUCCESS) ++freed;
      failures.expect(
          rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_HANDLE),
          "a free beside others");
    });
    BOOST_CHECK_EQUAL(freed, 1);
  }
}

// Several threads answer the same CR: exactly one succeeds.
BOOST_AUTO_TEST_CASE(thr_answer_once) {
  if (skip_unless(thread_safe(), kNotSafe)) return;
  if (skip_unless(!kThreadSanitizer, kRaceByDefinition)) return;
  Ia ia;
  const Pz pz = make_pz(ia);
  Link link(ia, pz);
  for (int round = 0; round < 50; ++round) {
    Failures failures;
    REQUIRE_OK(link.start());
    DAT_EVENT event;
    REQUIRE_OK(Link::wait(link.cr_evd, &event));
    const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    std::atomic<int> answers{0};
    in_threads(3, [&](int number) {
      const DAT_RETURN rc = number == 0 ? dat_cr_accept(cr, link.passive.ep, 0, nullptr)
                                        : dat_cr_reject(cr, 0, nullptr);
      if (rc == DAT_SUCCESS) ++answers;
      failures.expect(
          rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_HANDLE),
          "an answer beside others");
    });
    BOOST_CHECK_EQUAL(answers, 1);
    REQUIRE_OK(Link::wait(link.active.connect_evd, &event));
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
      BOOST_REQUIRE(Link::established(link.passive, failures));
      REQUIRE_OK(dat_ep_disconnect(link.active.ep, DAT_CLOSE_ABRUPT_FLAG));
      BOOST_REQUIRE(Link::ended(link.active, failures));
      BOOST_REQUIRE(Link::ended(link.passive, failures));
    } else {
      BOOST_CHECK_EQUAL(event.event_number, DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
    BOOST_REQUIRE(link.reset(failures));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
