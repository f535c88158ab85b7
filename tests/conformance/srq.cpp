// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <algorithm>
#include <chrono>
#include <tuple>

// Shared receive queues and watermarks: section 10.11 of the checklist (checklist.cpp), whose names
// the tests have.
namespace conformance {

namespace {

constexpr const char* kNoSrq = "the IA has no SRQs";

DAT_SRQ_ATTR srq_attr(DAT_COUNT depth) {
  DAT_SRQ_ATTR attr{};
  attr.max_recv_dtos = depth;
  attr.max_recv_iov = 1;
  attr.low_watermark = DAT_SRQ_LW_DEFAULT;
  return attr;
}

// A pair and a second connection. Both passive EPs take their receives from the same SRQ.
struct Fixture {
  explicit Fixture(DAT_COUNT depth = 10) : buffer(pair.ia, pair.pz, 64), out(pair.ia, pair.pz, 64) {
    DAT_SRQ_ATTR attr = srq_attr(depth);
    made = pair.ia.attr.max_srqs > 0;
    if (!made) return;
    REQUIRE_OK(dat_srq_create(pair.ia, pair.pz, &attr, srq.out()));
    DAT_EP_ATTR ep_attr = default_ep_attr(pair.ia);
    passive[0].create(pair.ia, pair.pz, &ep_attr, srq);
    passive[1].create(pair.ia, pair.pz, &ep_attr, srq);
    active[0].create(pair.ia, pair.pz, nullptr);
    active[1].create(pair.ia, pair.pz, nullptr);
  }

  void connect(int i) { pair.connect(active[i], passive[i]); }
  DAT_RETURN post(std::uint64_t value) {
    DAT_LMR_TRIPLET segment = buffer.local();
    return dat_srq_post_recv(srq, 1, &segment, cookie(value));
  }
  void send(int i, std::size_t length) {
    REQUIRE_OK(active[i].post_send(out, length, 1));
    expect_dto(active[i].request_evd, DAT_DTO_SUCCESS, 1);
  }
  DAT_SRQ_PARAM query() {
    DAT_SRQ_PARAM param{};
    REQUIRE_OK(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
    return param;
  }

  Pair pair;
  Buffer buffer;  // for the receives of the SRQ
  Buffer out;
  Srq srq;
  End active[2];
  End passive[2];
  bool made = false;
};

DAT_EVENT expect_async(const Ia& ia) {
  const auto event = next_event(ia.async_evd);
  BOOST_REQUIRE_MESSAGE(event, "no async event came");
  BOOST_CHECK_EQUAL(event->event_number & 0x08000, 0x08000);  // the group of async events
  return *event;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(srq)

BOOST_AUTO_TEST_CASE(srq_create_attrs) {
  Ia ia;
  if (skip_unless(ia.attr.max_srqs > 0, kNoSrq)) return;
  const Pz pz = make_pz(ia);
  Srq srq;
  DAT_SRQ_ATTR attr = srq_attr(10);
  REQUIRE_OK(dat_srq_create(ia, pz, &attr, srq.out()));
  DAT_SRQ_PARAM param{};
  REQUIRE_OK(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK(param.ia_handle == ia.handle);
  BOOST_CHECK(param.pz_handle == pz);
  BOOST_CHECK_EQUAL(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
  BOOST_CHECK_GE(param.max_recv_dtos, 10);
  BOOST_CHECK_GE(param.max_recv_iov, 1);
  DAT_SRQ_HANDLE other = DAT_HANDLE_NULL;
  Srq careless;
  attr.low_watermark = 3;  // reported, although only dat_srq_set_lw sets it
  REQUIRE_OK(dat_srq_create(ia, pz, &attr, careless.out()));
  REQUIRE_OK(dat_srq_query(careless, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.low_watermark, 3);
  attr = srq_attr(0);
  CHECK_TYPE(dat_srq_create(ia, pz, &attr, &other), DAT_INVALID_PARAMETER);
  attr = srq_attr(ia.attr.max_recv_per_srq + 1);
  CHECK_TYPE(dat_srq_create(ia, pz, &attr, &other), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_srq_create(ia, pz, nullptr, &other), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(srq_post_recv_ep_illegal) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  CHECK_TYPE(fixture.passive[0].post_recv(fixture.buffer, 64, 1), DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_CASE(srq_two_eps_share,
                     *covers("srq_event_ep_handle ofa_2_1_03_srq_event_names_the_ep")) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(fixture.post(i));
  fixture.connect(0);
  fixture.connect(1);
  for (std::size_t i = 0; i < 4; ++i) {
    fixture.send(0, 10 + i);
    fixture.send(1, 20 + i);
  }
  std::vector<std::uint64_t> cookies;
  for (int end = 0; end < 2; ++end)
    for (std::size_t i = 0; i < 4; ++i) {
      const DAT_EVENT event = expect_event(fixture.passive[end].recv_evd, DAT_DTO_COMPLETION_EVENT);
      const auto& dto = event.event_data.dto_completion_event_data;
      BOOST_CHECK(dto.ep_handle == fixture.passive[end].ep);
      BOOST_CHECK_EQUAL(dto.status, DAT_DTO_SUCCESS);
      BOOST_CHECK_EQUAL(dto.transfered_length, (end == 0 ? 10 : 20) + i);
      cookies.push_back(dto.user_cookie.as_64);
    }
  std::sort(cookies.begin(), cookies.end());
  for (std::uint64_t i = 0; i < 8; ++i) BOOST_CHECK_EQUAL(cookies[i], i);
}

BOOST_AUTO_TEST_CASE(srq_disconnect_keeps_buffers) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(fixture.post(i));
  fixture.connect(0);
  fixture.connect(1);
  REQUIRE_OK(dat_ep_disconnect(fixture.passive[0].ep, DAT_CLOSE_ABRUPT_FLAG));
  expect_event(fixture.passive[0].connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_silence(fixture.passive[0].recv_evd);
  for (int i = 0; i < 4; ++i) fixture.send(1, 8);
  for (int i = 0; i < 4; ++i) expect_event(fixture.passive[1].recv_evd, DAT_DTO_COMPLETION_EVENT);
}

BOOST_AUTO_TEST_CASE(srq_counts) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  const auto check = [&](DAT_COUNT available, DAT_COUNT outstanding) {
    const DAT_SRQ_PARAM param = fixture.query();
    BOOST_CHECK(param.available_dto_count == available ||
                param.available_dto_count == DAT_VALUE_UNKNOWN);
    BOOST_CHECK(param.outstanding_dto_count == outstanding ||
                param.outstanding_dto_count == DAT_VALUE_UNKNOWN);
  };
  fixture.connect(0);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(fixture.post(i));
  check(3, 3);
  fixture.send(0, 8);
  expect_event(fixture.passive[0].recv_evd, DAT_DTO_COMPLETION_EVENT);
  check(2, 2);
}

// A receive stays outstanding until its completion is dequeued:
// docs/semantics.md#shared-receive-queues.
BOOST_AUTO_TEST_CASE(srq_resize_below_what_is_not_dequeued,
                     *covers("srq_resize_below_outstanding")) {
  Fixture fixture(4);
  if (skip_unless(fixture.made, kNoSrq)) return;
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE_OK(fixture.post(i));
  fixture.connect(0);
  for (int i = 0; i < 2; ++i) fixture.send(0, 8);
  if (skip_unless(fixture.query().outstanding_dto_count == 2, "the IA does not count them")) return;
  CHECK_TYPE(dat_srq_resize(fixture.srq, 1), DAT_INVALID_STATE);
  REQUIRE_OK(dat_srq_resize(fixture.srq, 2));
  for (int i = 0; i < 2; ++i) expect_event(fixture.passive[0].recv_evd, DAT_DTO_COMPLETION_EVENT);
  REQUIRE_OK(dat_srq_resize(fixture.srq, 1));
}

BOOST_AUTO_TEST_CASE(srq_full_and_resize, *covers("srq_resize_below_outstanding")) {
  Fixture fixture(4);
  if (skip_unless(fixture.made, kNoSrq)) return;
  const DAT_COUNT depth = fixture.query().max_recv_dtos;
  for (DAT_COUNT i = 0; i < depth; ++i) REQUIRE_OK(fixture.post(static_cast<std::uint64_t>(i)));
  CHECK_TYPE(fixture.post(99), DAT_INSUFFICIENT_RESOURCES);
  CHECK_TYPE(dat_srq_resize(fixture.srq, depth - 1), DAT_INVALID_STATE);
  CHECK_TYPE(dat_srq_resize(fixture.srq, 0), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_srq_resize(fixture.srq, depth + 4));
  for (DAT_COUNT i = 0; i < 4; ++i) REQUIRE_OK(fixture.post(static_cast<std::uint64_t>(depth + i)));
  fixture.connect(0);
  for (DAT_COUNT i = 0; i < depth + 4; ++i) fixture.send(0, 8);
  std::vector<std::uint64_t> cookies;
  for (DAT_COUNT i = 0; i < depth + 4; ++i)
    cookies.push_back(expect_event(fixture.passive[0].recv_evd, DAT_DTO_COMPLETION_EVENT)
                          .event_data.dto_completion_event_data.user_cookie.as_64);
  std::sort(cookies.begin(), cookies.end());
  for (std::size_t i = 0; i < cookies.size(); ++i) BOOST_CHECK_EQUAL(cookies[i], i);
}

BOOST_AUTO_TEST_CASE(srq_recv_beyond_lmr, *covers("srq_two_eps_share")) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  DAT_LMR_TRIPLET beyond = fixture.buffer.local();
  beyond.segment_length *= 2;
  REQUIRE_OK(dat_srq_post_recv(fixture.srq, 1, &beyond, cookie(7)));
  fixture.connect(0);
  fixture.send(0, 64);
  BOOST_CHECK_EQUAL(expect_dto(fixture.passive[0].recv_evd, DAT_DTO_SUCCESS, 7).transfered_length,
                    64U);
}

BOOST_AUTO_TEST_CASE(srq_free_in_use) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  CHECK_TYPE(dat_srq_free(fixture.srq), DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_CASE(srq_low_watermark_once,
                     *covers("ofa_1_srq_set_lw ofa_2_1_05_srq_async_event")) {
  Fixture fixture;
  if (skip_unless(fixture.made && (fixture.pair.ia.provider().srq_watermarks_supported & 1) != 0,
                  "no low watermark"))
    return;
  for (std::uint64_t i = 0; i < 6; ++i) REQUIRE_OK(fixture.post(i));
  REQUIRE_OK(dat_srq_set_lw(fixture.srq, 4));
  fixture.connect(0);
  fixture.send(0, 8);
  fixture.send(0, 8);
  expect_event(fixture.passive[0].recv_evd, DAT_DTO_COMPLETION_EVENT);
  expect_event(fixture.passive[0].recv_evd, DAT_DTO_COMPLETION_EVENT);
  expect_silence(fixture.pair.ia.async_evd);  // 4 are left: not below the mark
  fixture.send(0, 8);
  const DAT_EVENT event = expect_async(fixture.pair.ia);
  BOOST_CHECK(event.event_data.asynch_error_event_data.dat_handle == fixture.srq);
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason, DAT_SRQ_LOW_WATERMARK_EVENT);
  fixture.send(0, 8);
  expect_silence(fixture.pair.ia.async_evd);   // once per arming
  REQUIRE_OK(dat_srq_set_lw(fixture.srq, 4));  // already below: immediately
  expect_async(fixture.pair.ia);
  CHECK_TYPE(dat_srq_set_lw(fixture.srq, 1000), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(srq_reset_keeps_association) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(fixture.post(i));
  for (int round = 0; round < 3; ++round) {
    fixture.connect(0);
    fixture.send(0, 8);
    expect_event(fixture.passive[0].recv_evd, DAT_DTO_COMPLETION_EVENT);
    REQUIRE_OK(dat_ep_disconnect(fixture.active[0].ep, DAT_CLOSE_ABRUPT_FLAG));
    expect_event(fixture.active[0].connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    expect_connection_end(fixture.passive[0].connect_evd);
    REQUIRE_OK(dat_ep_reset(fixture.active[0].ep));
    REQUIRE_OK(dat_ep_reset(fixture.passive[0].ep));
    CHECK_TYPE(dat_srq_free(fixture.srq), DAT_INVALID_STATE);
  }
}

// Existing programs wait for this event before freeing an EP with an SRQ.
BOOST_AUTO_TEST_CASE(srq_released_event) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoSrq)) return;
  for (const bool passive : {false, true}) {
    fixture.connect(0);
    const DAT_EP_HANDLE ep = passive ? fixture.passive[0].ep : fixture.active[0].ep;
    REQUIRE_OK(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
    expect_connection_end(fixture.active[0].connect_evd);
    expect_connection_end(fixture.passive[0].connect_evd);
    const DAT_EVENT event = expect_event(fixture.pair.ia.async_evd, DAT_ASYNC_ERROR_EP_BROKEN);
    BOOST_CHECK(event.event_data.asynch_error_event_data.dat_handle == fixture.passive[0].ep);
    expect_silence(fixture.pair.ia.async_evd);
    REQUIRE_OK(dat_ep_reset(fixture.active[0].ep));
    REQUIRE_OK(dat_ep_reset(fixture.passive[0].ep));
  }
}

BOOST_AUTO_TEST_CASE(ep_soft_watermark_once, *covers("ofa_1_set_watermark")) {
  Pair pair;
  if (skip_unless((pair.ia.provider().srq_watermarks_supported & 2) != 0, "no soft high watermark"))
    return;
  Buffer buffer(pair.ia, pair.pz, 64);
  REQUIRE_OK(dat_ep_set_watermark(pair.active.ep, 2, DAT_WATERMARK_INFINITE));
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE_OK(pair.active.post_recv(buffer, 64, i));
  expect_silence(pair.ia.async_evd);
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 2));
  const DAT_EVENT event = expect_async(pair.ia);
  BOOST_CHECK(event.event_data.asynch_error_event_data.dat_handle == pair.active.ep);
  BOOST_CHECK_EQUAL(event.event_data.asynch_error_event_data.reason,
                    DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 3));
  expect_silence(pair.ia.async_evd);
  CHECK_TYPE(dat_ep_set_watermark(pair.active.ep, -5, DAT_WATERMARK_INFINITE),
             DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(ep_hard_watermark_breaks) {
  Pair pair;
  if (skip_unless((pair.ia.provider().srq_watermarks_supported & 4) != 0, "no hard high watermark"))
    return;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(dat_ep_set_watermark(pair.active.ep, DAT_WATERMARK_INFINITE, 2));
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(pair.active.post_recv(buffer, 64, i));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
  expect_connection_end(pair.passive.connect_evd);
}

BOOST_AUTO_TEST_CASE(ep_recv_query_counts, *covers("ofa_1_recv_query")) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  const auto counts = [&] {
    std::pair<DAT_COUNT, DAT_COUNT> result{};
    REQUIRE_OK(dat_ep_recv_query(pair.active.ep, &result.first, &result.second));
    return result;
  };
  DAT_COUNT probe = 0;
  const DAT_RETURN rc = dat_ep_recv_query(pair.active.ep, &probe, nullptr);
  if (skip_unless(
          DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED && DAT_GET_TYPE(rc) != DAT_NOT_IMPLEMENTED,
          "no receive query"))
    return;
  REQUIRE_OK(rc);
  REQUIRE_OK(dat_ep_recv_query(pair.active.ep, nullptr, nullptr));
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE_OK(pair.active.post_recv(in, 64, i));
  pair.connect();
  auto [held, span] = counts();
  BOOST_CHECK(held == 5 || held == DAT_VALUE_UNKNOWN);
  BOOST_CHECK(span >= held || span == DAT_VALUE_UNKNOWN);
  REQUIRE_OK(pair.passive.post_send(out, 64, 1));
  expect_dto(pair.active.recv_evd, DAT_DTO_SUCCESS, 0);
  std::tie(held, span) = counts();
  BOOST_CHECK(held == 4 || held == DAT_VALUE_UNKNOWN);
  // A buffer that has received its message is no longer held, even before its completion is
  // dequeued.
  REQUIRE_OK(pair.passive.post_send(out, 64, 2));
  REQUIRE_OK(pair.passive.post_send(out, 64, 3));
  const auto begin = std::chrono::steady_clock::now();
  do {
    std::tie(held, span) = counts();
  } while (held > 2 &&
           std::chrono::steady_clock::now() - begin < std::chrono::microseconds(kPatience));
  BOOST_CHECK(held == 2 || held == DAT_VALUE_UNKNOWN);
  BOOST_CHECK(span == 2 || span == DAT_VALUE_UNKNOWN);
  expect_dto(pair.active.recv_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.active.recv_evd, DAT_DTO_SUCCESS, 2);
  std::tie(held, span) = counts();
  BOOST_CHECK(held == 2 || held == DAT_VALUE_UNKNOWN);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
