// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "rmr_fixture.h"

#include <algorithm>
#include <cstring>

// Remote memory regions: section 10.10 of the checklist (checklist.cpp), whose names the tests
// have.
namespace conformance {

namespace {

using Fixture = RmrFixture;
constexpr std::size_t kSize = RmrFixture::kSize;

}  // namespace

BOOST_AUTO_TEST_SUITE(rmr)

BOOST_AUTO_TEST_CASE(rmr_bind_use, *covers("rmr_bind_event")) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(100, 50), kRead, 7));
  fixture.expect_bound(7);
  DAT_RMR_PARAM param{};
  REQUIRE_OK(dat_rmr_query(fixture.rmr, DAT_RMR_FIELD_ALL, &param));
  BOOST_CHECK(param.ia_handle == fixture.pair.ia.handle);
  BOOST_CHECK(param.pz_handle == fixture.pair.pz);
  BOOST_CHECK_EQUAL(param.rmr_context, fixture.context);
  BOOST_CHECK_EQUAL(param.lmr_triplet.segment_length, 100U);
  REQUIRE_OK(fixture.pair.active.post_read(fixture.here, fixture.window(100, 50), 1));
  expect_dto(fixture.pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(std::equal(fixture.here.bytes.begin(), fixture.here.bytes.begin() + 100,
                         fixture.target.bytes.begin() + 50));
}

BOOST_AUTO_TEST_CASE(rmr_bind_bounds, *covers("rmr_bind_use")) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(100, 50), kRead, 7));
  fixture.expect_bound(7);
  fixture.expect_read_refused(fixture.window(101, 50));
}

BOOST_AUTO_TEST_CASE(rmr_bind_write_not_granted) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 7));
  fixture.expect_bound(7);
  REQUIRE_OK(fixture.pair.active.post_write(fixture.here, fixture.window(kSize), 1));
  expect_connection_end(fixture.pair.active.connect_evd);
  expect_connection_end(fixture.pair.passive.connect_evd);
  BOOST_CHECK(fixture.target.holds(1, kSize));
}

BOOST_AUTO_TEST_CASE(rmr_bind_then_send_safe) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  Buffer message(fixture.pair.ia, fixture.pair.pz, sizeof(DAT_RMR_CONTEXT));
  for (std::uint64_t round = 0; round < 20; ++round) {
    REQUIRE_OK(fixture.pair.active.post_recv(fixture.here, kSize, round));
    REQUIRE_OK(
        fixture.bind(fixture.target.local(), kReadWrite, round, DAT_COMPLETION_SUPPRESS_FLAG));
    std::memcpy(message.bytes.data(), &fixture.context, sizeof fixture.context);
    REQUIRE_OK(fixture.pair.passive.post_send(message, sizeof fixture.context, round));
    expect_dto(fixture.pair.active.recv_evd, DAT_DTO_SUCCESS, round);
    DAT_RMR_TRIPLET window = fixture.target.remote(kSize);
    std::memcpy(&window.rmr_context, fixture.here.bytes.data(), sizeof window.rmr_context);
    REQUIRE_OK(fixture.pair.active.post_read(fixture.here, window, round));
    expect_dto(fixture.pair.active.request_evd, DAT_DTO_SUCCESS, round);
    expect_dto(fixture.pair.passive.request_evd, DAT_DTO_SUCCESS, round);
  }
}

BOOST_AUTO_TEST_CASE(rmr_bind_refused, *covers("rmr_bind_right_missing rmr_bind_pz_mismatch")) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  Buffer no_local_write(fixture.pair.ia, fixture.pair.pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  DAT_LMR_TRIPLET range = no_local_write.local();
  CHECK_TYPE(dat_rmr_bind(fixture.rmr, no_local_write.lmr, &range, kReadWrite, DAT_VA_TYPE_VA,
                          fixture.pair.passive.ep, cookie(1), DAT_COMPLETION_DEFAULT_FLAG,
                          &fixture.context),
             DAT_PRIVILEGES_VIOLATION);
  const Pz other = make_pz(fixture.pair.ia);
  Buffer elsewhere(fixture.pair.ia, other, 64);
  range = elsewhere.local();
  CHECK_TYPE_OR(dat_rmr_bind(fixture.rmr, elsewhere.lmr, &range, kRead, DAT_VA_TYPE_VA,
                             fixture.pair.passive.ep, cookie(1), DAT_COMPLETION_DEFAULT_FLAG,
                             &fixture.context),
                DAT_PROTECTION_VIOLATION, DAT_INVALID_PARAMETER);
  range = fixture.target.local(kSize + 1);
  CHECK_TYPE(fixture.bind(range, kRead, 1), DAT_INVALID_PARAMETER);
  CHECK_TYPE(fixture.bind(fixture.target.local(), not_an_enumerator<DAT_MEM_PRIV_FLAGS>(0x8000), 1),
             DAT_INVALID_PARAMETER);
}

// On an EP whose requests are not UNSIGNALLED, the bind notifies like any other request.
BOOST_AUTO_TEST_CASE(rmr_bind_unsignalled) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1, DAT_COMPLETION_UNSIGNALLED_FLAG));
  fixture.expect_bound(1);
}

BOOST_AUTO_TEST_CASE(rmr_bind_states) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  End idle;
  idle.create(fixture.pair.ia, fixture.pair.pz, nullptr);
  DAT_LMR_TRIPLET range = fixture.target.local();
  CHECK_TYPE(dat_rmr_bind(fixture.rmr, fixture.target.lmr, &range, kRead, DAT_VA_TYPE_VA, idle.ep,
                          cookie(1), DAT_COMPLETION_DEFAULT_FLAG, &fixture.context),
             DAT_INVALID_STATE);
  fixture.pair.disconnect();
  REQUIRE_OK(fixture.bind(range, kRead, 3));
  fixture.expect_bound(3, DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(rmr_rebind_invalidates) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
  fixture.expect_bound(1);
  const DAT_RMR_TRIPLET old_window = fixture.window(kSize);
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 2));
  fixture.expect_bound(2);
  BOOST_CHECK_NE(fixture.context, old_window.rmr_context);
  REQUIRE_OK(fixture.pair.active.post_read(fixture.here, fixture.window(kSize), 3));
  expect_dto(fixture.pair.active.request_evd, DAT_DTO_SUCCESS, 3);
  fixture.expect_read_refused(old_window);
}

BOOST_AUTO_TEST_CASE(rmr_unbind, *covers("lmr_free_bound")) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
  CHECK_TYPE(dat_lmr_free(fixture.target.lmr),
             DAT_INVALID_STATE);  // the posted bind already counts
  fixture.expect_bound(1);
  CHECK_TYPE(dat_lmr_free(fixture.target.lmr), DAT_INVALID_STATE);
  const DAT_RMR_TRIPLET window = fixture.window(kSize);
  REQUIRE_OK(fixture.bind(fixture.target.local(0), kRead, 2));
  fixture.expect_bound(2);
  REQUIRE_OK(dat_lmr_free(fixture.target.lmr.release()));
  fixture.expect_read_refused(window);
}

BOOST_AUTO_TEST_CASE(rmr_free_bound) {
  Fixture fixture;
  if (skip_unless(fixture.made, kNoRmr)) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
  fixture.expect_bound(1);
  REQUIRE_OK(dat_rmr_free(fixture.rmr.release()));
  fixture.expect_read_refused(fixture.window(kSize));
}

BOOST_AUTO_TEST_CASE(rmr_scope_ep) {
  Fixture fixture(true);
  if (skip_unless(fixture.made, "no RMRs with the scope of an EP")) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
  fixture.expect_bound(1);
  REQUIRE_OK(fixture.pair.active.post_read(fixture.here, fixture.window(kSize), 2));
  expect_dto(fixture.pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  // The context is not valid on another connection of the same PZ.
  End active;
  End passive;
  active.create(fixture.pair.ia, fixture.pair.pz, nullptr);
  passive.create(fixture.pair.ia, fixture.pair.pz, nullptr);
  fixture.pair.connect(active, passive);
  REQUIRE_OK(active.post_read(fixture.here, fixture.window(kSize), 3));
  expect_dto(active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 3);
  expect_connection_end(active.connect_evd);
}

BOOST_AUTO_TEST_CASE(dto_send_invalidate, *covers("ofa_1_send_invalidate")) {
  Fixture fixture(true);
  if (skip_unless(fixture.made, "no RMRs with the scope of an EP")) return;
  REQUIRE_OK(fixture.bind(fixture.target.local(), kRead, 1));
  fixture.expect_bound(1);
  REQUIRE_OK(fixture.pair.passive.post_recv(fixture.target, kSize, 2));
  DAT_LMR_TRIPLET segment = fixture.here.local(16);
  const DAT_RETURN rc =
      dat_ep_post_send_with_invalidate(fixture.pair.active.ep, 1, &segment, cookie(3),
                                       DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, fixture.context);
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED, "no send with invalidate")) return;
  REQUIRE_OK(rc);
  const auto received = expect_dto(fixture.pair.passive.recv_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK_EQUAL(received.operation, DAT_DTO_RECEIVE_WITH_INVALIDATE);
  BOOST_CHECK_EQUAL(received.rmr_context, fixture.context);
  expect_dto(fixture.pair.active.request_evd, DAT_DTO_SUCCESS, 3);
  REQUIRE_OK(dat_lmr_free(fixture.target.lmr.release()));  // the RMR is unbound
  fixture.expect_read_refused(fixture.window(16));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
