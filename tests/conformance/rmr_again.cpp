// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "rmr_fixture.h"

#include <chrono>
#include <thread>
#include <vector>

// RMRs that are bound more than once, and binds and unbinds that fail.
namespace conformance {

namespace {

using Fixture = RmrFixture;
constexpr std::size_t kSize = RmrFixture::kSize;
constexpr const char* kNoEpRmr = "no RMRs with the scope of an EP";

// Connects the EPs of a connection that has ended.
void connect_again(Pair& pair) {
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  pair.connect();
}

void expect_readable(Fixture& fixture, std::uint64_t value) {
  REQUIRE_OK(fixture.pair.active.post_read(fixture.here, fixture.window(kSize), value));
  expect_dto(fixture.pair.active.request_evd, DAT_DTO_SUCCESS, value);
}

[[nodiscard]] DAT_VLEN bound_length(DAT_RMR_HANDLE rmr) {
  DAT_RMR_PARAM param{};
  REQUIRE_OK(dat_rmr_query(rmr, DAT_RMR_FIELD_ALL, &param));
  return param.lmr_triplet.segment_length;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rmr)

BOOST_AUTO_TEST_CASE(rmr_ep_rebind) {
  Fixture fixture(true);
  if (skip_unless(fixture.made, kNoEpRmr)) return;
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, i));
    fixture.expect_bound(i);
    expect_readable(fixture, i);
  }
}

BOOST_AUTO_TEST_CASE(rmr_ep_unbind) {
  Fixture fixture(true);
  if (skip_unless(fixture.made, kNoEpRmr)) return;
  DAT_RMR_TRIPLET window{};
  for (std::uint64_t i = 0; i < 6; i += 2) {
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, i));
    fixture.expect_bound(i);
    expect_readable(fixture, i);
    window = fixture.window(kSize);
    REQUIRE_OK(fixture.bind(fixture.target.local(0), kRead, i + 1));
    fixture.expect_bound(i + 1);
  }
  REQUIRE_OK(dat_lmr_free(fixture.target.lmr.release()));
  fixture.expect_read_refused(window);
}

BOOST_AUTO_TEST_CASE(rmr_ep_bind_after_invalidate) {
  Fixture fixture(true);
  if (skip_unless(fixture.made, kNoEpRmr)) return;
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, i));
    fixture.expect_bound(i);
    expect_readable(fixture, i);
    REQUIRE_OK(fixture.pair.passive.post_recv(fixture.target, kSize, i));
    DAT_LMR_TRIPLET segment = fixture.here.local(16);
    const DAT_RETURN rc =
        dat_ep_post_send_with_invalidate(fixture.pair.active.ep, 1, &segment, cookie(i),
                                         DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, fixture.context);
    if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED, "no send with invalidate")) return;
    REQUIRE_OK(rc);
    expect_dto(fixture.pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
    expect_dto(fixture.pair.active.request_evd, DAT_DTO_SUCCESS, i);
  }
}

// The RMR moves to another EP, and back.
BOOST_AUTO_TEST_CASE(rmr_ep_rebind_elsewhere) {
  Fixture fixture(true);
  if (skip_unless(fixture.made, kNoEpRmr)) return;
  End active;
  End passive;
  active.create(fixture.pair.ia, fixture.pair.pz, nullptr);
  passive.create(fixture.pair.ia, fixture.pair.pz, nullptr);
  fixture.pair.connect(active, passive);
  for (std::uint64_t i = 0; i < 2; ++i) {
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, i));
    fixture.expect_bound(i);
    expect_readable(fixture, i);
    DAT_LMR_TRIPLET range = fixture.target.local();
    REQUIRE_OK(dat_rmr_bind(fixture.rmr, fixture.target.lmr, &range, kRead, DAT_VA_TYPE_VA,
                            passive.ep, cookie(i), DAT_COMPLETION_DEFAULT_FLAG, &fixture.context));
    const DAT_EVENT event = expect_event(passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.status, DAT_DTO_SUCCESS);
    REQUIRE_OK(active.post_read(fixture.here, fixture.window(kSize), i));
    expect_dto(active.request_evd, DAT_DTO_SUCCESS, i);
  }
}

// The connection has ended, so the unbind is flushed. Freed memory is out of reach all the same.
BOOST_AUTO_TEST_CASE(rmr_flushed_unbind) {
  for (const bool for_ep : {false, true}) {
    Fixture fixture(for_ep);
    if (skip_unless(fixture.made, kNoRmr)) continue;
    End active;
    End passive;
    active.create(fixture.pair.ia, fixture.pair.pz, nullptr);
    passive.create(fixture.pair.ia, fixture.pair.pz, nullptr);
    fixture.pair.connect(active, passive);
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
    fixture.expect_bound(1);
    const DAT_RMR_TRIPLET window = fixture.window(kSize);
    fixture.pair.disconnect();
    REQUIRE_OK(fixture.bind(fixture.target.local(0), kRead, 2));
    fixture.expect_bound(2, DAT_DTO_ERR_FLUSHED);
    const DAT_RETURN freed = dat_lmr_free(fixture.target.lmr);
    if (DAT_GET_TYPE(freed) == DAT_INVALID_STATE) {  // the RMR counts as bound
      REQUIRE_OK(dat_rmr_free(fixture.rmr.release()));
      REQUIRE_OK(dat_lmr_free(fixture.target.lmr));
    } else {
      REQUIRE_OK(freed);
    }
    fixture.target.lmr.release();
    REQUIRE_OK(active.post_read(fixture.here, window, 3));
    expect_dto(active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 3);
    BOOST_CHECK(fixture.here.holds(2, kSize));
    REQUIRE_OK(dat_ep_free(fixture.pair.passive.ep.release()));
  }
}

// The unbind waits behind a Send for which the peer has no receive.
BOOST_AUTO_TEST_CASE(rmr_waiting_unbind) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  End active;
  End passive;
  active.create(fixture.pair.ia, fixture.pair.pz, nullptr);
  passive.create(fixture.pair.ia, fixture.pair.pz, nullptr);
  fixture.pair.connect(active, passive);
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
  fixture.expect_bound(1);
  const DAT_RMR_TRIPLET window = fixture.window(kSize);
  REQUIRE_OK(fixture.pair.passive.post_send(fixture.here, 8, 2));
  REQUIRE_OK(fixture.bind(fixture.target.local(0), kRead, 3));
  const DAT_RETURN freed = dat_lmr_free(fixture.target.lmr);
  if (DAT_GET_TYPE(freed) == DAT_INVALID_STATE) return;  // still bound, and so not freed
  REQUIRE_OK(freed);
  fixture.target.lmr.release();
  REQUIRE_OK(active.post_read(fixture.here, window, 4));
  expect_dto(active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 4);
  BOOST_CHECK(fixture.here.holds(2, kSize));
}

BOOST_AUTO_TEST_CASE(rmr_flushed_rebind) {
  for (const bool for_ep : {false, true}) {
    Fixture fixture(for_ep);
    if (skip_unless(fixture.made, kNoRmr)) continue;
    Buffer other(fixture.pair.ia, fixture.pair.pz, kSize);
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
    fixture.expect_bound(1);
    fixture.pair.disconnect();
    for (std::uint64_t i = 2; i < 4; ++i) {
      DAT_LMR_TRIPLET range = other.local();
      REQUIRE_OK(dat_rmr_bind(fixture.rmr, other.lmr, &range, kRead, DAT_VA_TYPE_VA,
                              fixture.pair.passive.ep, cookie(i), DAT_COMPLETION_DEFAULT_FLAG,
                              &fixture.context));
      fixture.expect_bound(i, DAT_DTO_ERR_FLUSHED);
    }
    REQUIRE_OK(dat_lmr_free(other.lmr.release()));  // a bind that failed is none
    connect_again(fixture.pair);
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 4));
    fixture.expect_bound(4);
    expect_readable(fixture, 5);
  }
}

// The completion of the flushed bind is lost with its EP.
BOOST_AUTO_TEST_CASE(rmr_bind_after_lost_completion) {
  for (const bool for_ep : {false, true}) {
    Fixture fixture(for_ep);
    if (skip_unless(fixture.made, kNoRmr)) continue;
    Pair& pair = fixture.pair;
    Buffer other(pair.ia, pair.pz, kSize);
    End next;
    next.create(pair.ia, pair.pz, nullptr);
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
    fixture.expect_bound(1);
    pair.disconnect();
    DAT_LMR_TRIPLET range = other.local();
    REQUIRE_OK(dat_rmr_bind(fixture.rmr, other.lmr, &range, kRead, DAT_VA_TYPE_VA, pair.passive.ep,
                            cookie(2), DAT_COMPLETION_DEFAULT_FLAG, &fixture.context));
    REQUIRE_OK(dat_ep_free(pair.passive.ep.release()));
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    std::swap(pair.passive, next);
    pair.connect();
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 3));
    fixture.expect_bound(3);
    expect_readable(fixture, 4);
    REQUIRE_OK(dat_lmr_free(other.lmr.release()));
  }
}

// As many rebinds as the request EVD has room for are flushed.
BOOST_AUTO_TEST_CASE(rmr_flushed_rebinds_fit) {
  constexpr DAT_COUNT kCount = 15;
  Fixture fixture(true);
  if (skip_unless(fixture.made, kNoEpRmr)) return;
  Pair& pair = fixture.pair;
  End active;
  End passive;
  active.create(pair.ia, pair.pz, nullptr);
  passive.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(dat_ep_free(passive.ep.release()));
  passive.request_evd = make_evd(
      pair.ia, static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG), kCount);
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  attr.max_request_dtos = kCount;
  REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, passive.recv_evd, passive.request_evd,
                           passive.connect_evd, &attr, passive.ep.out()));
  fixture.pair.connect(active, passive);
  std::vector<Rmr> rmrs(kCount);
  const auto bind_all = [&](DAT_DTO_COMPLETION_STATUS status) {
    DAT_LMR_TRIPLET range = fixture.target.local();
    DAT_RMR_CONTEXT context = 0;
    for (Rmr& rmr : rmrs)
      REQUIRE_OK(dat_rmr_bind(rmr, fixture.target.lmr, &range, kRead, DAT_VA_TYPE_VA, passive.ep,
                              cookie(1), DAT_COMPLETION_DEFAULT_FLAG, &context));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // all have completed
    for (DAT_COUNT i = 0; i < kCount; ++i) {
      const DAT_EVENT event = expect_event(passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
      BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.status, status);
    }
  };
  for (Rmr& rmr : rmrs) REQUIRE_OK(dat_rmr_create_for_ep(pair.pz, rmr.out()));
  bind_all(DAT_DTO_SUCCESS);
  REQUIRE_OK(dat_ep_disconnect(active.ep, DAT_CLOSE_ABRUPT_FLAG));
  expect_connection_end(passive.connect_evd);
  bind_all(DAT_DTO_ERR_FLUSHED);
  expect_silence(pair.ia.async_evd);
}

// Requests of an EP follow each other in the same few places. A failed bind must not be taken for
// an earlier one that was posted in the same place.
BOOST_AUTO_TEST_CASE(rmr_failed_bind_spares_others) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  Pair& pair = fixture.pair;
  Buffer other(pair.ia, pair.pz, kSize);
  Rmr failing;
  REQUIRE_OK(dat_rmr_create(pair.pz, failing.out()));
  const DAT_COUNT places = query_ep(pair.passive.ep).ep_attr.max_request_dtos;
  for (const DAT_COUNT between : {places - 2, places - 1, places, places + 1}) {
    REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
    fixture.expect_bound(1);
    for (DAT_COUNT i = 0; i < between; ++i) {
      REQUIRE_OK(pair.passive.post_write(fixture.target, fixture.here.remote(1), 2));
      expect_dto(pair.passive.request_evd, DAT_DTO_SUCCESS, 2);
    }
    pair.disconnect();
    DAT_LMR_TRIPLET range = other.local();
    DAT_RMR_CONTEXT context = 0;
    REQUIRE_OK(dat_rmr_bind(failing, other.lmr, &range, kRead, DAT_VA_TYPE_VA, pair.passive.ep,
                            cookie(3), DAT_COMPLETION_DEFAULT_FLAG, &context));
    const DAT_EVENT event = expect_event(pair.passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
    BOOST_CHECK_EQUAL(bound_length(fixture.rmr), kSize);
    BOOST_CHECK_EQUAL(bound_length(failing), 0U);
    connect_again(pair);
    expect_readable(fixture, 4);
  }
  CHECK_TYPE(dat_lmr_free(fixture.target.lmr), DAT_INVALID_STATE);
  REQUIRE_OK(dat_lmr_free(other.lmr.release()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
