// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <algorithm>
#include <memory>

// Data transfer: section 10.9 of the checklist (checklist.cpp), whose names the tests have.
// Failures and completion flags have files of their own.
namespace conformance {

namespace {

constexpr std::size_t kPage = 4096;

DAT_RETURN post_send_segments(DAT_EP_HANDLE ep, std::vector<DAT_LMR_TRIPLET> segments,
                              std::uint64_t value) {
  return dat_ep_post_send(ep, static_cast<DAT_COUNT>(segments.size()), segments.data(),
                          cookie(value), DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN post_recv_segments(DAT_EP_HANDLE ep, std::vector<DAT_LMR_TRIPLET> segments,
                              std::uint64_t value) {
  return dat_ep_post_recv(ep, static_cast<DAT_COUNT>(segments.size()), segments.data(),
                          cookie(value), DAT_COMPLETION_DEFAULT_FLAG);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transfer)

BOOST_AUTO_TEST_CASE(dto_send_recv_sizes) {
  Pair pair;
  constexpr std::size_t kLargest = 4U << 20;
  Buffer out(pair.ia, pair.pz, kLargest);
  Buffer in(pair.ia, pair.pz, kLargest);
  pair.connect();
  std::uint8_t seed = 1;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{63}, kPage - 1, kPage,
        kPage + 1, std::size_t{65535}, std::size_t{65537}, kLargest}) {
    out.fill(++seed);
    std::fill(in.bytes.begin(), in.bytes.end(), std::uint8_t{0});
    REQUIRE_OK(pair.passive.post_recv(in, kLargest, 7));
    REQUIRE_OK(pair.active.post_send(out, size, 8));
    const auto received = expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 7);
    BOOST_CHECK_EQUAL(received.transfered_length, size);
    BOOST_CHECK(in.holds(seed, size));
    const auto sent = expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 8);
    BOOST_CHECK_EQUAL(sent.transfered_length, size);
  }
}

BOOST_AUTO_TEST_CASE(dto_send_zero_segments) {
  Pair pair;
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(dat_ep_post_send(pair.active.ep, 0, nullptr, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
  BOOST_CHECK_EQUAL(expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1).transfered_length, 0U);
  BOOST_CHECK_EQUAL(expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2).transfered_length, 0U);
}

// A message of no bytes needs no memory, whether the segment lists are empty or not.
BOOST_AUTO_TEST_CASE(dto_zero_segments_on_both_sides) {
  Pair pair;
  pair.connect();
  const std::vector<DAT_LMR_TRIPLET> none;
  const std::vector<DAT_LMR_TRIPLET> empty(1);
  std::uint64_t number = 0;
  for (const auto& into : {none, empty})
    for (const auto& from : {none, empty}) {
      REQUIRE_OK(post_recv_segments(pair.passive.ep, into, ++number));
      REQUIRE_OK(post_send_segments(pair.active.ep, from, number));
      BOOST_CHECK_EQUAL(
          expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, number).transfered_length, 0U);
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, number);
    }
}

BOOST_AUTO_TEST_CASE(dto_zero_len_segment_ignored) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  out.fill(5);
  pair.connect();
  DAT_LMR_TRIPLET garbage{};
  garbage.virtual_address = 0xDEAD;
  garbage.lmr_context = 0x7FFFFFFF;
  REQUIRE_OK(post_recv_segments(pair.passive.ep, {garbage, in.local()}, 1));
  REQUIRE_OK(post_send_segments(pair.active.ep, {out.local(10), garbage, out.local(54, 10)}, 2));
  BOOST_CHECK_EQUAL(expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1).transfered_length, 64U);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK(in.holds(5, 64));
}

BOOST_AUTO_TEST_CASE(dto_iov_gather_scatter) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 3 * kPage);
  Buffer in(pair.ia, pair.pz, 3 * kPage);
  out.fill(9);
  pair.connect();
  REQUIRE_OK(post_recv_segments(
      pair.passive.ep, {in.local(1), in.local(kPage, 1), in.local(2 * kPage - 1, kPage + 1)}, 1));
  REQUIRE_OK(post_send_segments(pair.active.ep,
                                {out.local(100), out.local(kPage, 100), out.local(7, kPage + 100),
                                 out.local(kPage, kPage + 107)},
                                2));
  const auto received = expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK_EQUAL(received.transfered_length, 2 * kPage + 107);
  BOOST_CHECK(in.holds(9, 2 * kPage + 107));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

// Posts segment lists of all kinds in turn: a provider may cache properties of the previous post.
BOOST_AUTO_TEST_CASE(dto_lists_one_after_the_other) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 2 * kPage);
  Buffer in(pair.ia, pair.pz, 3 * kPage);
  auto more = std::make_unique<Buffer>(pair.ia, pair.pz, 2 * kPage);
  pair.connect();
  const std::vector<std::vector<DAT_LMR_TRIPLET>> lists = {
      {out.local(4), out.local(4, 100)},
      {out.local(8, 8)},
      {more->local(8), out.local(3, 50), more->local(1, kPage), out.local(9)},
      {out.local(kPage, 1), out.local(600, 7)},
      {out.local(5), more->local(0), out.local(6, 60)},
      {more->local(2 * kPage), out.local(17, 2 * kPage - 17)}};
  const std::vector<DAT_LMR_TRIPLET> whole = {in.local(3 * kPage)};
  const std::vector<DAT_LMR_TRIPLET> parts = {in.local(3), in.local(kPage, 3),
                                              in.local(2 * kPage - 3, kPage + 3)};
  std::uint64_t number = 0;
  for (std::uint8_t round = 1; round <= 12; ++round)
    for (const auto& list : lists) {
      out.fill(static_cast<std::uint8_t>(++number));
      more->fill(static_cast<std::uint8_t>(number + 100));
      std::vector<std::uint8_t> sent;
      for (const DAT_LMR_TRIPLET& segment : list) {
        const auto* const from = reinterpret_cast<const std::uint8_t*>(segment.virtual_address);
        sent.insert(sent.end(), from, from + segment.segment_length);
      }
      std::fill(in.bytes.begin(), in.bytes.end(), std::uint8_t{0});
      REQUIRE_OK(post_recv_segments(pair.passive.ep, round % 2 == 0 ? whole : parts, number));
      REQUIRE_OK(post_send_segments(pair.active.ep, list, number));
      const auto received = expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, number);
      BOOST_REQUIRE_EQUAL(received.transfered_length, sent.size());
      BOOST_CHECK(std::equal(sent.begin(), sent.end(), in.bytes.begin()));
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, number);

      std::fill(in.bytes.begin(), in.bytes.end(), std::uint8_t{0});
      std::vector<DAT_LMR_TRIPLET> segments = list;
      const DAT_RMR_TRIPLET remote = in.remote(sent.size());
      REQUIRE_OK(dat_ep_post_rdma_write(pair.active.ep, static_cast<DAT_COUNT>(segments.size()),
                                        segments.data(), cookie(number), &remote,
                                        DAT_COMPLETION_DEFAULT_FLAG));
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, number);
      REQUIRE_OK(post_recv_segments(pair.passive.ep, whole, number));
      REQUIRE_OK(post_send_segments(pair.active.ep, {}, number));  // arrives after the write
      expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, number);
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, number);
      BOOST_CHECK(std::equal(sent.begin(), sent.end(), in.bytes.begin()));
    }
  // Whatever the provider cached about a registration must end with it.
  const DAT_LMR_TRIPLET gone = more->local(8);
  more.reset();
  if (post_send_segments(pair.active.ep, {out.local(8), gone}, 1) != DAT_SUCCESS) return;
  DAT_EVENT event{};
  DAT_COUNT left = 0;
  REQUIRE_OK(dat_evd_wait(pair.active.request_evd, DAT_TIMEOUT_INFINITE, 1, &event, &left));
  BOOST_CHECK_NE(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
}

BOOST_AUTO_TEST_CASE(dto_recv_before_connect) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  out.fill(3);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  pair.connect();
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(in.holds(3, 64));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

// Programs post receives that reach beyond their LMR (a header and a payload of the largest size,
// the rest of a buffer) and rely on messages being shorter.
BOOST_AUTO_TEST_CASE(dto_recv_beyond_lmr, *covers("dto_send_recv_sizes")) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, kPage);
  Buffer in(pair.ia, pair.pz, kPage);
  out.fill(7);
  pair.connect();
  DAT_LMR_TRIPLET beyond = in.local(2 * kPage);
  REQUIRE_OK(post_recv_segments(pair.passive.ep, {beyond}, 1));
  beyond.virtual_address += 100;
  REQUIRE_OK(post_recv_segments(pair.passive.ep, {in.local(100), beyond}, 2));
  for (const std::uint64_t value : {1U, 2U}) {
    REQUIRE_OK(pair.active.post_send(out, kPage, value));
    BOOST_CHECK_EQUAL(expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, value).transfered_length,
                      kPage);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, value);
    BOOST_CHECK(in.holds(7, kPage));
    in.fill(0);
  }
}

BOOST_AUTO_TEST_CASE(dto_cookie_roundtrip) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  for (const std::uint64_t value :
       {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x123456789ABCDEF0},
        std::uint64_t{0x123456789ABCDEF0}}) {
    REQUIRE_OK(pair.passive.post_recv(in, 64, value));
    REQUIRE_OK(pair.active.post_send(out, 64, value));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, value);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, value);
  }
}

BOOST_AUTO_TEST_CASE(dto_operation_field) {
  Pair pair;
  Buffer here(pair.ia, pair.pz, 64);
  Buffer there(pair.ia, pair.pz, 64);
  Buffer sink(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(there, 64, 1));
  REQUIRE_OK(pair.active.post_send(here, 64, 2));
  REQUIRE_OK(pair.active.post_write(here, there.remote(64), 3));
  REQUIRE_OK(pair.active.post_read(sink, there.remote(64), 4));
  const auto received = expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK_EQUAL(received.operation, DAT_DTO_RECEIVE);
  BOOST_CHECK(received.ep_handle == pair.passive.ep);
  const auto sent = expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK_EQUAL(sent.operation, DAT_DTO_SEND);
  BOOST_CHECK(sent.ep_handle == pair.active.ep);
  BOOST_CHECK_EQUAL(expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3).operation,
                    DAT_DTO_RDMA_WRITE);
  BOOST_CHECK_EQUAL(expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 4).operation,
                    DAT_DTO_RDMA_READ);
}

BOOST_AUTO_TEST_CASE(dto_too_many_segments) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  const std::vector<DAT_LMR_TRIPLET> many(
      static_cast<std::size_t>(pair.ia.attr.max_iov_segments_per_dto) + 1, buffer.local(1));
  CHECK_TYPE(post_send_segments(pair.active.ep, many, 1), DAT_INVALID_PARAMETER);
  CHECK_TYPE(post_recv_segments(pair.active.ep, many, 1), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_post_send(pair.active.ep, -1, nullptr, cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_post_send(pair.active.ep, 1, nullptr, cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
             DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(dto_order_requests) {
  Pair pair;
  Buffer here(pair.ia, pair.pz, kPage);
  Buffer there(pair.ia, pair.pz, kPage);
  Buffer sink(pair.ia, pair.pz, kPage);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(there, kPage, 1));
  REQUIRE_OK(pair.passive.post_recv(there, kPage, 2));
  REQUIRE_OK(pair.active.post_read(sink, there.remote(kPage), 10));
  REQUIRE_OK(pair.active.post_send(here, 8, 11));
  REQUIRE_OK(pair.active.post_write(here, there.remote(kPage), 12));
  REQUIRE_OK(pair.active.post_read(sink, there.remote(8), 13));
  REQUIRE_OK(pair.active.post_send(here, 8, 14));
  for (std::uint64_t value = 10; value <= 14; ++value)
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, value);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(dto_order_receives) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(pair.active.post_send(out, 8 + i, i));
  for (std::uint64_t i = 0; i < 8; ++i)
    BOOST_CHECK_EQUAL(expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i).transfered_length,
                      8 + i);
}

BOOST_AUTO_TEST_CASE(dto_write_then_send) {
  Pair pair;
  constexpr std::size_t kSize = 1U << 20;
  Buffer out(pair.ia, pair.pz, kSize);
  Buffer target(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, 8);
  pair.connect();
  for (std::uint8_t round = 1; round < 10; ++round) {
    out.fill(round);
    REQUIRE_OK(pair.passive.post_recv(in, 8, round));
    REQUIRE_OK(pair.active.post_write(out, target.remote(kSize), 1));
    REQUIRE_OK(pair.active.post_send(out, 8, 2));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, round);
    BOOST_CHECK(target.holds(round, kSize));
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  }
}

BOOST_AUTO_TEST_CASE(dto_fence_read_send) {
  Pair pair;
  constexpr std::size_t kSize = 1U << 20;
  Buffer sink(pair.ia, pair.pz, kSize);
  Buffer source(pair.ia, pair.pz, kSize);
  Buffer in(pair.ia, pair.pz, 8);
  source.fill(4);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 8, 1));
  REQUIRE_OK(pair.active.post_read(sink, source.remote(kSize), 2));
  // Send the last word of the data that were read: without the fence it would be the old value.
  DAT_LMR_TRIPLET tail = sink.local(8, kSize - 8);
  REQUIRE_OK(
      dat_ep_post_send(pair.active.ep, 1, &tail, cookie(3), DAT_COMPLETION_BARRIER_FENCE_FLAG));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(std::equal(in.bytes.begin(), in.bytes.end(), source.bytes.end() - 8));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3);
}

BOOST_AUTO_TEST_CASE(dto_rdma_zero_length) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  const DAT_RMR_TRIPLET nothing = buffer.remote(0);
  REQUIRE_OK(dat_ep_post_rdma_write(pair.active.ep, 0, nullptr, cookie(1), &nothing,
                                    DAT_COMPLETION_DEFAULT_FLAG));
  REQUIRE_OK(dat_ep_post_rdma_read(pair.active.ep, 0, nullptr, cookie(2), &nothing,
                                   DAT_COMPLETION_DEFAULT_FLAG));
  // Programs pass no remote triplet where there is nothing to transfer.
  REQUIRE_OK(dat_ep_post_rdma_write(pair.active.ep, 0, nullptr, cookie(3), nullptr,
                                    DAT_COMPLETION_DEFAULT_FLAG));
  REQUIRE_OK(dat_ep_post_rdma_read(pair.active.ep, 0, nullptr, cookie(4), nullptr,
                                   DAT_COMPLETION_DEFAULT_FLAG));
  for (std::uint64_t i = 1; i <= 4; ++i) expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
}

BOOST_AUTO_TEST_CASE(dto_send_invalidate_false) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  DAT_LMR_TRIPLET segment = out.local();
  const DAT_RETURN rc = dat_ep_post_send_with_invalidate(pair.active.ep, 1, &segment, cookie(2),
                                                         DAT_COMPLETION_DEFAULT_FLAG, DAT_FALSE, 0);
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED,
                  "the IA has no send with invalidate"))
    return;
  REQUIRE_OK(rc);
  BOOST_CHECK_EQUAL(expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1).operation,
                    DAT_DTO_RECEIVE);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(dto_read_to_rmr, *covers("ofa_1_read_to_rmr")) {
  Pair pair;
  Buffer sink(pair.ia, pair.pz, 64);
  Buffer source(pair.ia, pair.pz, 64);
  source.fill(6);
  pair.connect();
  const DAT_RMR_TRIPLET local = sink.remote(64);
  const DAT_RMR_TRIPLET remote = source.remote(64);
  const DAT_RETURN rc = dat_ep_post_rdma_read_to_rmr(pair.active.ep, &local, cookie(1), &remote,
                                                     DAT_COMPLETION_DEFAULT_FLAG);
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED, "the IA has no read to RMR")) return;
  REQUIRE_OK(rc);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(sink.holds(6, 64));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
