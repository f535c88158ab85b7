// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "extensions.h"

// The atomic operations of the InfiniBand extensions: results, order, rights, alignment.
namespace conformance {

BOOST_AUTO_TEST_SUITE(extensions)

BOOST_AUTO_TEST_CASE(ext_fetch_add) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  std::uint64_t expected = 0xFFFFFFFFFFFFFFFEU;  // the addition wraps around
  ExtendedPair::set_word(fixture.there, expected);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    REQUIRE_OK(fixture.fetch_add(i, i));
    expect_extended(pair.active.request_evd, {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i, 8});
    BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.here), expected);
    expected += i;
    BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.there), expected);
  }
}

BOOST_AUTO_TEST_CASE(ext_compare_swap) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_CMP_AND_SWAP)) return;
  pair.connect();
  ExtendedPair::set_word(fixture.there, 10);
  REQUIRE_OK(fixture.compare_swap(11, 99, 1));  // the word has another value
  expect_extended(pair.active.request_evd, {DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP, 1, 8});
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.here), 10U);
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.there), 10U);
  REQUIRE_OK(fixture.compare_swap(10, 0x8000000000000001U, 2));
  expect_extended(pair.active.request_evd, {DAT_IB_DTO_CMP_SWAP, DAT_IB_CMP_AND_SWAP, 2, 8});
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.here), 10U);
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.there), 0x8000000000000001U);
}

// Many atomics in flight, mixed with other requests, complete in order.
BOOST_AUTO_TEST_CASE(ext_atomic_order) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  Buffer other(pair.ia, pair.pz, ExtendedPair::kSize);
  for (std::uint64_t i = 0; i < 12; ++i)
    REQUIRE_OK(i % 3 == 2 ? pair.active.post_write(other, fixture.there.remote(64, 64), i)
                          : fixture.fetch_add(1, i));
  for (std::uint64_t i = 0; i < 12; ++i) {
    if (i % 3 == 2)
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
    else
      expect_extended(pair.active.request_evd, {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i, 8});
  }
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.there), 8U);
}

// Two connections add to the same word.
BOOST_AUTO_TEST_CASE(ext_atomics_of_two_connections) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  End second;
  End acceptor;
  second.create(pair.ia, pair.pz, nullptr);
  acceptor.create(pair.ia, pair.pz, nullptr);
  pair.connect(second, acceptor);
  Buffer other(pair.ia, pair.pz, 8);
  DAT_LMR_TRIPLET segment = other.local(8);
  DAT_RMR_TRIPLET remote = fixture.there.remote(8);
  constexpr std::uint64_t kCount = 200;
  constexpr std::uint64_t kDepth = 4;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    REQUIRE_OK(fixture.fetch_add(1, i));
    REQUIRE_OK(dat_ib_post_fetch_and_add(second.ep, 1, &segment, cookie(i), &remote, kDefault));
    if (i < kDepth) continue;
    for (End* const end : {&pair.active, &second})
      expect_extended(end->request_evd,
                      {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i - kDepth, 8});
  }
  for (std::uint64_t i = kCount - kDepth; i < kCount; ++i)
    for (End* const end : {&pair.active, &second})
      expect_extended(end->request_evd, {DAT_IB_DTO_FETCH_ADD, DAT_IB_FETCH_AND_ADD, i, 8});
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.there), 2 * kCount);
}

BOOST_AUTO_TEST_CASE(ext_atomic_right) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  Buffer plain(pair.ia, pair.pz, 8);  // everything but REMOTE_ATOMIC
  pair.connect();
  DAT_LMR_TRIPLET segment = fixture.here.local(8);
  DAT_RMR_TRIPLET remote = plain.remote(8);
  REQUIRE_OK(dat_ib_post_fetch_and_add(pair.active.ep, 1, &segment, cookie(1), &remote, kDefault));
  expect_failed(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 1);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
  BOOST_CHECK_EQUAL(ExtendedPair::word(plain), 0U);
}

BOOST_AUTO_TEST_CASE(ext_atomic_unaligned) {
  ExtendedPair fixture;
  Pair& pair = fixture.pair;
  if (skip_unless_named(pair.ia, DAT_IB_ATTR_FETCH_AND_ADD)) return;
  pair.connect();
  const DAT_RETURN rc = fixture.fetch_add(1, 1, 4);
  if (rc != DAT_SUCCESS) {
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(rc), static_cast<DAT_RETURN>(DAT_INVALID_PARAMETER));
    return;
  }
  const auto event = next_event(pair.active.request_evd);
  BOOST_REQUIRE(event);
  BOOST_CHECK_NE(event->event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
  BOOST_CHECK_EQUAL(ExtendedPair::word(fixture.there, 4), 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
