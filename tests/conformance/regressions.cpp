// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "connecting.h"
#include "harness.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

// Bugs that users of OpenFabrics dapl 2.1.10 met: missing functions, wrong results, crashes and
// hangs. Each test is named after its line of the checklist (sections "ofa ..."). Lines that are
// proven by a test of another suite are covered there.
namespace conformance {

namespace {

using Clock = std::chrono::steady_clock;

std::chrono::microseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(regressions)

// ---- 2.2 EVDs ----

BOOST_AUTO_TEST_CASE(ofa_2_2_01_resize_of_a_dto_evd) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  pair.connect();
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE_OK(pair.active.post_send(out, 64, i));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 0);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  REQUIRE_OK(dat_evd_resize(pair.passive.recv_evd, 256));
  for (std::uint64_t i = 2; i < 4; ++i) REQUIRE_OK(pair.active.post_send(out, 64, i));
  for (std::uint64_t i = 0; i < 4; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
}

BOOST_AUTO_TEST_CASE(ofa_2_2_02_timeouts_shorter_and_longer) {
  const Ia ia;
  for (const DAT_EVD_FLAGS flags : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    const Evd evd = make_evd(ia, flags, 8);
    DAT_EVENT event;
    DAT_COUNT more = 0;
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < 10; ++i)
      CHECK_TYPE(dat_evd_wait(evd, 700, 1, &event, &more), DAT_TIMEOUT_EXPIRED);
    BOOST_CHECK_GE(since(start).count(), 7000);  // the unit is not milliseconds
  }
  // Nearly 72 minutes: if a provider multiplies it in 32 bits, the wait ends before the event.
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  std::thread poster([handle = DAT_EVD_HANDLE(evd)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    post_software(handle);
  });
  DAT_EVENT event;
  DAT_COUNT more = 0;
  const DAT_RETURN rc = dat_evd_wait(evd, DAT_TIMEOUT_INFINITE - 1, 1, &event, &more);
  poster.join();
  REQUIRE_OK(rc);
}

BOOST_AUTO_TEST_CASE(ofa_2_2_03_set_unwaitable_wakes_a_dto_waiter) {
  const Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_DTO_FLAG, 8);
  std::atomic<DAT_RETURN> result{DAT_SUCCESS};
  Sleeper sleeper;
  std::thread waiter([&] {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    sleeper.announce();
    result = dat_evd_wait(evd, kPatience, 1, &event, &more);
  });
  sleeper.until_asleep();
  const Promptly promptly;
  const DAT_RETURN rc = dat_evd_set_unwaitable(evd);
  waiter.join();
  REQUIRE_OK(rc);
  CHECK_TYPE(result.load(), DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_CASE(ofa_2_2_04_merged_evd_wakes_for_each_stream) {
  const Ia ia;
  Evd evd;
  DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
  if (skip_unless(ia.provider().evd_stream_merging_supported[0][2] == DAT_TRUE,
                  "software and DTO streams cannot share an EVD"))
    return;
  REQUIRE_OK(dat_evd_create(ia, 8, DAT_HANDLE_NULL,
                            static_cast<DAT_EVD_FLAGS>(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG),
                            &made));
  *evd.out() = made;
  std::thread poster([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    post_software(evd);
  });
  const auto event = next_event(evd);
  poster.join();
  BOOST_REQUIRE(event);
  BOOST_CHECK_EQUAL(event->event_number, DAT_SOFTWARE_EVENT);
}

BOOST_AUTO_TEST_CASE(ofa_2_2_05_overflow_during_a_wait) {
  const Ia ia;
  const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 4);
  const DAT_EVD_PARAM param = query_evd(evd);
  std::atomic<DAT_RETURN> result{DAT_INTERNAL_ERROR};
  Sleeper sleeper;
  std::thread waiter([&] {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    sleeper.announce();
    result = dat_evd_wait(evd, kPatience, param.evd_qlen, &event, &more);
  });
  sleeper.until_asleep();
  for (DAT_COUNT i = 0; i < param.evd_qlen * 3; ++i) post_software(evd);
  waiter.join();
  BOOST_CHECK_EQUAL(result.load(), static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_GE(drain(evd), param.evd_qlen - 1);  // the EVD has no waiter left
  REQUIRE_OK(post_software(evd));
  expect_event(evd, DAT_SOFTWARE_EVENT);
}

// Every way in which a wait can fail, each followed by a wait that succeeds.
BOOST_AUTO_TEST_CASE(ofa_2_2_06_wait_after_failed_waits) {
  const Ia ia;
  for (const DAT_EVD_FLAGS flags : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    const Evd evd = make_evd(ia, flags, 8);
    DAT_EVENT event;
    DAT_COUNT more = 0;
    for (int round = 0; round < 3; ++round) {
      CHECK_TYPE(dat_evd_wait(evd, 0, 0, &event, &more), DAT_INVALID_PARAMETER);
      CHECK_TYPE(dat_evd_wait(evd, 0, 1, nullptr, &more), DAT_INVALID_PARAMETER);
      CHECK_TYPE(dat_evd_wait(evd, 0, 1, &event, nullptr), DAT_INVALID_PARAMETER);
      REQUIRE_OK(dat_evd_set_unwaitable(evd));
      CHECK_TYPE(dat_evd_wait(evd, 0, 1, &event, &more), DAT_INVALID_STATE);
      REQUIRE_OK(dat_evd_clear_unwaitable(evd));
      CHECK_TYPE(dat_evd_wait(evd, 100, 1, &event, &more), DAT_TIMEOUT_EXPIRED);
    }
    CHECK_TYPE(dat_evd_dequeue(evd, &event), DAT_QUEUE_EMPTY);
  }
}

// ---- 2.3 connections ----

BOOST_AUTO_TEST_CASE(ofa_2_3_01_ep_reuse_after_reset) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  for (int round = 0; round < 5; ++round) {
    pair.connect();
    REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
    REQUIRE_OK(pair.active.post_send(out, 64, 2));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
    // The disconnect of each round must reach both sides, whichever side calls it.
    REQUIRE_OK(dat_ep_disconnect(round % 2 == 0 ? pair.active.ep : pair.passive.ep,
                                 DAT_CLOSE_ABRUPT_FLAG));
    expect_connection_end(pair.active.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
    expect_silence(pair.active.connect_evd);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  }
}

// Exactly what was sent arrives: no padding and no data of another connection.
BOOST_AUTO_TEST_CASE(ofa_2_3_06_private_data_length_is_exact) {
  for (const std::size_t length : {0, 1, 7, 57}) {
    Pair pair;
    const auto most = static_cast<std::size_t>(pair.ia.provider().max_private_data_size);
    const std::size_t size = std::min(length, most);
    const std::string there(size, 'x');
    const std::string back(size, 'y');
    const DAT_CR_HANDLE cr = pair.connect_and_take_cr(kPatience, there);
    DAT_CR_PARAM param{};
    REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
    BOOST_CHECK_EQUAL(param.private_data_size, static_cast<DAT_COUNT>(size));
    REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, static_cast<DAT_COUNT>(size),
                             const_cast<char*>(size == 0 ? nullptr : back.data())));
    const DAT_EVENT event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    const auto& data = event.event_data.connect_event_data;
    BOOST_REQUIRE_EQUAL(data.private_data_size, static_cast<DAT_COUNT>(size));
    BOOST_CHECK(size == 0 || std::memcmp(data.private_data, back.data(), size) == 0);
    expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }
}

BOOST_AUTO_TEST_CASE(ofa_2_3_13_psp_create_any_gives_up) {
  const Ia ia;
  const Evd wrong = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  DAT_CONN_QUAL conn_qual = 0;
  const Promptly promptly;
  CHECK_TYPE(dat_psp_create_any(ia, &conn_qual, wrong, DAT_PSP_CONSUMER_FLAG, &psp),
             DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_psp_create_any(ia, &conn_qual, DAT_HANDLE_NULL, DAT_PSP_CONSUMER_FLAG, &psp),
             DAT_INVALID_HANDLE);
}

namespace {

// Creates a PSP on `wanted` or, if another program uses its port, on one of the next.
DAT_CONN_QUAL listen_near(const Pair& pair, DAT_CONN_QUAL wanted, Psp& psp) {
  DAT_CONN_QUAL conn_qual = wanted;
  DAT_RETURN rc = DAT_INTERNAL_ERROR;
  for (int tries = 0; tries < 100; ++tries, --conn_qual) {
    rc = dat_psp_create(pair.ia, conn_qual, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out());
    if (DAT_GET_TYPE(rc) != static_cast<DAT_RETURN>(DAT_CONN_QUAL_IN_USE)) break;
  }
  REQUIRE_OK(rc);
  return conn_qual;
}

}  // namespace

// Programs use process IDs and random 64-bit values as conn quals, and must find them again in
// events and queries.
BOOST_AUTO_TEST_CASE(ofa_2_3_14_conn_qual_of_64_bits) {
  Pair pair;
  for (const DAT_CONN_QUAL wanted :
       {DAT_CONN_QUAL{65536}, DAT_CONN_QUAL{4194303}, DAT_CONN_QUAL{0xffff0000},
        DAT_CONN_QUAL{1} << 32, DAT_CONN_QUAL{0x7edcba9876543210}, ~DAT_CONN_QUAL{0}}) {
    BOOST_TEST_CONTEXT("conn qual about " << wanted) {
      Psp psp;
      const DAT_CONN_QUAL conn_qual = listen_near(pair, wanted, psp);
      DAT_PSP_PARAM psp_param{};
      REQUIRE_OK(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &psp_param));
      BOOST_CHECK_EQUAL(psp_param.conn_qual, conn_qual);
      DAT_PSP_HANDLE second = DAT_HANDLE_NULL;
      CHECK_TYPE(dat_psp_create(pair.ia, conn_qual, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, &second),
                 DAT_CONN_QUAL_IN_USE);
      REQUIRE_OK(connect_to(pair, conn_qual));
      BOOST_CHECK_EQUAL(query_ep(pair.active.ep).remote_port_qual, conn_qual);
      const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
      const auto& arrival = event.event_data.cr_arrival_event_data;
      BOOST_CHECK_EQUAL(arrival.conn_qual, conn_qual);
      BOOST_CHECK(arrival.sp_handle.psp_handle == psp);
      REQUIRE_OK(dat_cr_accept(arrival.cr_handle, pair.passive.ep, 0, nullptr));
      expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
      expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
      BOOST_CHECK_EQUAL(query_ep(pair.active.ep).remote_port_qual, conn_qual);
      BOOST_CHECK_EQUAL(query_ep(pair.passive.ep).local_port_qual, conn_qual);
      // Connect to the same peer again, with the address and conn qual of the first EP.
      End again;
      again.create(pair.ia, pair.pz, nullptr);
      REQUIRE_OK(
          dat_ep_dup_connect(again.ep, pair.active.ep, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT));
      REQUIRE_OK(dat_cr_reject(take_cr(pair.cr_evd), 0, nullptr));
      expect_event(again.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
      pair.disconnect();
      REQUIRE_OK(dat_ep_reset(pair.active.ep));
      REQUIRE_OK(dat_ep_reset(pair.passive.ep));
    }
  }
}

BOOST_AUTO_TEST_CASE(ofa_2_3_14_rsp_of_64_bits, *covers("ofa_2_3_14_conn_qual_of_64_bits")) {
  Pair pair;
  DAT_CONN_QUAL conn_qual = 0;
  {  // find a conn qual whose port is free
    Psp psp;
    conn_qual = listen_near(pair, DAT_CONN_QUAL{0x5555aaaa00000000}, psp);
  }
  Rsp rsp;
  REQUIRE_OK(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, rsp.out()));
  DAT_RSP_PARAM param{};
  REQUIRE_OK(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.conn_qual, conn_qual);
  REQUIRE_OK(connect_to(pair, conn_qual));
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  rsp.release();  // an RSP ends with its one request
  BOOST_CHECK_EQUAL(event.event_data.cr_arrival_event_data.conn_qual, conn_qual);
  BOOST_CHECK_EQUAL(query_ep(pair.passive.ep).local_port_qual, conn_qual);
  REQUIRE_OK(
      dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, DAT_HANDLE_NULL, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(query_ep(pair.passive.ep).local_port_qual, conn_qual);
}

// An EP is freed while its connect is pending; the timeout of the connect expires afterwards.
BOOST_AUTO_TEST_CASE(ofa_2_3_16_ep_freed_before_its_timeout) {
  Pair pair;
  for (int round = 0; round < 10; ++round) {
    End end;
    end.create(pair.ia, pair.pz, nullptr);
    REQUIRE_OK(dat_ep_connect(end.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual,
                              20 * kMillisecond, 0, nullptr, DAT_QOS_BEST_EFFORT,
                              DAT_CONNECT_DEFAULT_FLAG));
    REQUIRE_OK(dat_ep_free(end.ep.release()));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  while (const auto request = next_event(pair.cr_evd, kQuiet))
    dat_cr_reject(request->event_data.cr_arrival_event_data.cr_handle, 0, nullptr);
  pair.connect();
}

BOOST_AUTO_TEST_CASE(ofa_2_3_17_srq_ep_without_connect_evd) {
  const Ia ia;
  if (skip_unless(ia.attr.max_srqs > 0, "the IA has no SRQs")) return;
  const Pz pz = make_pz(ia);
  Srq srq;
  DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
  REQUIRE_OK(dat_srq_create(ia, pz, &attr, srq.out()));
  const Evd evd = make_evd(ia, DAT_EVD_DTO_FLAG, 32);
  Ep ep;
  const DAT_EP_ATTR ep_attr = default_ep_attr(ia);
  REQUIRE_OK(dat_ep_create_with_srq(ia, pz, evd, evd, DAT_HANDLE_NULL, srq, &ep_attr, ep.out()));
  BOOST_CHECK_EQUAL(ep_state(ep), DAT_EP_STATE_UNCONNECTED);
}

// The flushed receives are not dequeued. The disconnect must return nevertheless, and not spin.
BOOST_AUTO_TEST_CASE(ofa_2_3_19_disconnect_does_not_wait_for_the_consumer) {
  Pair pair;
  Buffer in(pair.ia, pair.pz, 64);
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(pair.active.post_recv(in, 64, i));
  pair.connect();
  const double before = processor_seconds();
  {
    const Promptly promptly;
    REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    expect_connection_end(pair.active.connect_evd);
  }
  BOOST_CHECK_LT(processor_seconds() - before, 2.0);
  expect_connection_end(pair.passive.connect_evd);
}

// ---- 2.4 registry ----

// With two open IAs, a query of one must not change the attributes returned for the other.
BOOST_AUTO_TEST_CASE(ofa_2_4_06_attributes_of_two_ias) {
  const Ia first;
  std::vector<std::pair<std::string, std::string>> before;
  const DAT_PROVIDER_ATTR& attr = first.provider();
  for (DAT_COUNT i = 0; i < attr.num_provider_specific_attr; ++i)
    before.emplace_back(attr.provider_specific_attr[i].name, attr.provider_specific_attr[i].value);
  {
    const Ia second;
    BOOST_CHECK_EQUAL(second.provider().num_provider_specific_attr,
                      attr.num_provider_specific_attr);
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    BOOST_CHECK_EQUAL(before[i].first, attr.provider_specific_attr[i].name);
    BOOST_CHECK_EQUAL(before[i].second, attr.provider_specific_attr[i].value);
  }
}

// ---- 2.5 codes ----

BOOST_AUTO_TEST_CASE(ofa_2_5_registration_says_why) {
  const Ia ia;
  const Pz pz = make_pz(ia);
  char byte = 0;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  DAT_RMR_CONTEXT remote = 0;
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
  const auto create = [&](void* where, DAT_VLEN size) {
    DAT_REGION_DESCRIPTION region{};
    region.for_va = where;
    return dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, size, pz, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, &lmr, &context, &remote, &length, &address);
  };
  CHECK_TYPE(create(nullptr, 64), DAT_INVALID_PARAMETER);
  CHECK_TYPE(create(&byte, ~DAT_VLEN{0}), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
