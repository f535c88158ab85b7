// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"
#include "peer.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

// Data transfer: checklist 10.9 of the semantics reference. Test names are the checklist's.
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

// A variable of the environment, unless the user has set it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name), own_(std::getenv(name) == nullptr) {
    if (own_) ::setenv(name, value, 1);
  }
  ~Variable() {
    if (own_) ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool own_;
};

// The request was refused at once with `type`, or it fails with LOCAL_PROTECTION: both are legal.
void expect_refused_or_local_protection(DAT_RETURN rc, DAT_RETURN_TYPE type, End& end,
                                        DAT_EVD_HANDLE evd, std::uint64_t value) {
  if (rc != DAT_SUCCESS) {
    BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(type), describe(rc));
    return;
  }
  expect_dto(evd, DAT_DTO_ERR_LOCAL_PROTECTION, value);
  expect_connection_end(end.connect_evd);
}

// The active side's RDMA request was refused by the target.
void expect_remote_access_error(Pair& pair, std::uint64_t value) {
  expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, value);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
}

// One byte more arrives than the receive has room for. The status of the receive.
DAT_DTO_COMPLETION_STATUS receive_too_much(Pair& pair) {
  const Buffer out(pair.ia, pair.pz, kPage);
  const Buffer in(pair.ia, pair.pz, kPage);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 100, 1));
  REQUIRE_OK(pair.active.post_send(out, 101, 2));
  return expect_dto_failure(pair.passive.recv_evd, 1);
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

BOOST_AUTO_TEST_CASE(dto_recv_too_small) {
  Pair pair;
  receive_too_much(pair);
  expect_connection_end(pair.passive.connect_evd);
  expect_connection_end(pair.active.connect_evd);
  expect_event(pair.active.request_evd,
               DAT_DTO_COMPLETION_EVENT);  // iWARP may have completed it before
}

BOOST_AUTO_TEST_CASE(dto_recv_too_small_status, *covers("dto_recv_too_small")) {
  Pair pair;
  BOOST_CHECK_EQUAL(receive_too_much(pair), DAT_DTO_ERR_LOCAL_LENGTH);
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

BOOST_AUTO_TEST_CASE(dto_post_disconnected_flush, *covers("ofa_2_1_10_posts_when_disconnected")) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  pair.disconnect();
  REQUIRE_OK(pair.active.post_send(buffer, 64, 1));
  REQUIRE_OK(pair.active.post_write(buffer, buffer.remote(64), 2));
  REQUIRE_OK(pair.active.post_read(buffer, buffer.remote(64), 3));
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 4));
  for (std::uint64_t value : {1U, 2U, 3U})
    expect_dto(pair.active.request_evd, DAT_DTO_ERR_FLUSHED, value);
  expect_dto(pair.active.recv_evd, DAT_DTO_ERR_FLUSHED, 4);
}

BOOST_AUTO_TEST_CASE(dto_post_bad_states) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  const auto refused = [&] {
    CHECK_TYPE(pair.active.post_send(buffer, 64, 1), DAT_INVALID_STATE);
    CHECK_TYPE(pair.active.post_write(buffer, buffer.remote(64), 1), DAT_INVALID_STATE);
    CHECK_TYPE(pair.active.post_read(buffer, buffer.remote(64), 1), DAT_INVALID_STATE);
  };
  refused();
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
  refused();
  REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
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

BOOST_AUTO_TEST_CASE(dto_queue_full) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_query(pair.active.ep, DAT_EP_FIELD_ALL, &param));
  const DAT_COUNT room = param.ep_attr.max_recv_dtos;
  for (DAT_COUNT i = 0; i < room; ++i)
    REQUIRE_OK(pair.active.post_recv(in, 64, static_cast<std::uint64_t>(i)));
  CHECK_TYPE(pair.active.post_recv(in, 64, 99), DAT_INSUFFICIENT_RESOURCES);
  REQUIRE_OK(pair.passive.post_send(out, 64, 1));
  expect_dto(pair.active.recv_evd, DAT_DTO_SUCCESS, 0);
  REQUIRE_OK(pair.active.post_recv(in, 64, 100));  // recovered
}

BOOST_AUTO_TEST_CASE(dto_request_queue_full) {
  PairWithProcess with;
  Pair& pair = with.pair;
  End& end = pair.passive;
  const Buffer buffer(pair.ia, pair.pz, 64);
  with.connect_stalled();
  DAT_EP_PARAM param{};
  REQUIRE_OK(dat_ep_query(end.ep, DAT_EP_FIELD_ALL, &param));
  const DAT_COUNT room = param.ep_attr.max_request_dtos;
  DAT_RMR_TRIPLET part = with.memory;
  REQUIRE_OK(with.post_stalled_send(0));
  part.segment_length = 64;
  for (DAT_COUNT i = 1; i < room; ++i)
    REQUIRE_OK(end.post_write(buffer, part, static_cast<std::uint64_t>(i)));
  CHECK_TYPE(end.post_write(buffer, part, 99), DAT_INSUFFICIENT_RESOURCES);
  CHECK_TYPE(end.post_send(buffer, 64, 99), DAT_INSUFFICIENT_RESOURCES);
  CHECK_TYPE(end.post_read(buffer, part, 99), DAT_INSUFFICIENT_RESOURCES);
  with.let_go();
  for (DAT_COUNT i = 0; i < room; ++i)
    expect_dto(end.request_evd, DAT_DTO_SUCCESS, static_cast<std::uint64_t>(i));
  REQUIRE_OK(end.post_read(buffer, part, 100));  // recovered
  expect_dto(end.request_evd, DAT_DTO_SUCCESS, 100);
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

BOOST_AUTO_TEST_CASE(dto_read_data) {
  Pair pair;
  constexpr std::size_t kSize = 1U << 20;
  Buffer sink(pair.ia, pair.pz, kSize);
  Buffer source(pair.ia, pair.pz, kSize);
  source.fill(77);
  pair.connect();
  REQUIRE_OK(pair.active.post_read(sink, source.remote(kSize), 5));
  BOOST_CHECK_EQUAL(expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 5).transfered_length,
                    kSize);
  BOOST_CHECK(sink.holds(77, kSize));
}

BOOST_AUTO_TEST_CASE(dto_read_local_small) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 128);
  pair.connect();
  DAT_LMR_TRIPLET local = buffer.local(63);
  const DAT_RMR_TRIPLET remote = buffer.remote(64);
  CHECK_TYPE(dat_ep_post_rdma_read(pair.active.ep, 1, &local, cookie(1), &remote,
                                   DAT_COMPLETION_DEFAULT_FLAG),
             DAT_LENGTH_ERROR);
}

BOOST_AUTO_TEST_CASE(dto_write_remote_small) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 128);
  pair.connect();
  DAT_LMR_TRIPLET local = buffer.local(65);
  const DAT_RMR_TRIPLET remote = buffer.remote(64);
  CHECK_TYPE(dat_ep_post_rdma_write(pair.active.ep, 1, &local, cookie(1), &remote,
                                    DAT_COMPLETION_DEFAULT_FLAG),
             DAT_LENGTH_ERROR);
}

BOOST_AUTO_TEST_CASE(dto_read_flow) {
  Pair pair;
  Buffer sink(pair.ia, pair.pz, kPage);
  Buffer source(pair.ia, pair.pz, kPage);
  source.fill(1);
  pair.connect();
  for (std::uint64_t i = 0; i < 16; ++i)
    REQUIRE_OK(pair.active.post_read(sink, source.remote(kPage), i));
  for (std::uint64_t i = 0; i < 16; ++i) expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
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
  // What is sent is the last word of what was read: without the fence it would be old.
  DAT_LMR_TRIPLET tail = sink.local(8, kSize - 8);
  REQUIRE_OK(
      dat_ep_post_send(pair.active.ep, 1, &tail, cookie(3), DAT_COMPLETION_BARRIER_FENCE_FLAG));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(std::equal(in.bytes.begin(), in.bytes.end(), source.bytes.end() - 8));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3);
}

BOOST_AUTO_TEST_CASE(dto_suppress_success) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  // Many more than the queue is deep: slots of suppressed requests come back by themselves.
  for (std::uint64_t i = 0; i < 200; ++i) {
    REQUIRE_OK(pair.passive.post_recv(in, 64, i));
    REQUIRE_OK(pair.active.post_send(out, 64, i, DAT_COMPLETION_SUPPRESS_FLAG));
    expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
  }
  expect_silence(pair.active.request_evd);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(pair.active.post_send(out, 64, 999));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 999);
}

BOOST_AUTO_TEST_CASE(dto_suppress_failure) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  pair.disconnect();
  REQUIRE_OK(pair.active.post_send(buffer, 64, 1, DAT_COMPLETION_SUPPRESS_FLAG));
  expect_dto(pair.active.request_evd, DAT_DTO_ERR_FLUSHED, 1);
}

BOOST_AUTO_TEST_CASE(dto_unsignalled_requires_attr) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  CHECK_TYPE(pair.active.post_send(buffer, 64, 1, DAT_COMPLETION_UNSIGNALLED_FLAG),
             DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(dto_unsignalled_then_signal) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  Pair pair(&attr);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  for (std::uint64_t i = 0; i < 3; ++i)
    REQUIRE_OK(pair.active.post_send(out, 64, i, DAT_COMPLETION_UNSIGNALLED_FLAG));
  for (std::uint64_t i = 0; i < 3; ++i) expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, i);
  // A waiter sleeps through them or finds them queued at entry; the oldest comes first, the others
  // are counted.
  REQUIRE_OK(pair.active.post_send(out, 64, 3));
  DAT_EVENT event;
  DAT_COUNT more = 0;
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 3);
  REQUIRE_OK(dat_evd_wait(pair.active.request_evd, kPatience, 1, &event, &more));
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.user_cookie.as_64, 0U);
  for (std::uint64_t i = 1; i < 4; ++i) expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, i);
}

// A completion that does not notify is queued, and the waiter sleeps on.
BOOST_AUTO_TEST_CASE(dto_unsignalled_no_wake) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  Pair pair(&attr);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_EVENT event;
  DAT_COUNT more = -1;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::atomic<bool> started{false};
  std::thread waiter([&] {
    started = true;
    waited = dat_evd_wait(pair.passive.recv_evd, 300 * kMillisecond, 1, &event, &more);
  });
  while (!started) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is in the wait now
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1, DAT_COMPLETION_UNSIGNALLED_FLAG));
  REQUIRE_OK(pair.active.post_send(out, 64, 2, DAT_COMPLETION_UNSIGNALLED_FLAG));
  waiter.join();
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(waited), static_cast<DAT_RETURN>(DAT_TIMEOUT_EXPIRED));
  BOOST_CHECK_EQUAL(more, 1);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(dto_solicited_no_wake) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  Pair pair(&attr);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_EVENT event;
  DAT_COUNT more = -1;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::atomic<bool> started{false};
  std::thread waiter([&] {
    started = true;
    waited = dat_evd_wait(pair.passive.recv_evd, 300 * kMillisecond, 1, &event, &more);
  });
  while (!started) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is in the wait now
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  waiter.join();
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(waited), static_cast<DAT_RETURN>(DAT_TIMEOUT_EXPIRED));
  BOOST_CHECK_EQUAL(more, 1);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
}

BOOST_AUTO_TEST_CASE(dto_solicited_wake, *covers("dto_solicited_threshold")) {
  Ia probe;
  DAT_EP_ATTR attr = default_ep_attr(probe);
  attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  Pair pair(&attr);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(pair.passive.post_recv(in, 64, 2));
  DAT_EVENT event;
  DAT_COUNT more = 0;
  CHECK_TYPE_OR(dat_evd_wait(pair.passive.recv_evd, 0, 2, &event, &more), DAT_INVALID_STATE,
                DAT_INVALID_PARAMETER);  // dto_solicited_threshold
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::thread waiter(
      [&] { waited = dat_evd_wait(pair.passive.recv_evd, kPatience, 1, &event, &more); });
  REQUIRE_OK(pair.active.post_send(out, 64, 3));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3);
  REQUIRE_OK(pair.active.post_send(out, 64, 4, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.user_cookie.as_64, 1U);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(dto_threshold_batch) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  constexpr DAT_COUNT kBatch = 12;
  for (DAT_COUNT i = 0; i < kBatch; ++i) REQUIRE_OK(pair.passive.post_recv(in, 64, i));
  DAT_EVENT event;
  DAT_COUNT more = 0;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::thread waiter(
      [&] { waited = dat_evd_wait(pair.passive.recv_evd, kPatience, kBatch, &event, &more); });
  for (DAT_COUNT i = 0; i < kBatch; ++i) REQUIRE_OK(pair.active.post_send(out, 64, i));
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_EQUAL(more, kBatch - 1);
}

BOOST_AUTO_TEST_CASE(dto_recv_flags_invalid) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  for (const auto flag : {DAT_COMPLETION_SUPPRESS_FLAG, DAT_COMPLETION_SOLICITED_WAIT_FLAG,
                          DAT_COMPLETION_BARRIER_FENCE_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG})
    CHECK_TYPE(pair.active.post_recv(buffer, 64, 1, flag), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(dto_pz_mismatch) {
  Pair pair;
  const Pz other = make_pz(pair.ia);
  Buffer buffer(pair.ia, other, 64);
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  expect_refused_or_local_protection(pair.active.post_send(buffer, 64, 1), DAT_PROTECTION_VIOLATION,
                                     pair.active, pair.active.request_evd, 1);
}

BOOST_AUTO_TEST_CASE(dto_no_local_right) {
  Pair pair;
  Buffer read_only(pair.ia, pair.pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  pair.connect();
  expect_refused_or_local_protection(pair.active.post_recv(read_only, 64, 1),
                                     DAT_PRIVILEGES_VIOLATION, pair.active, pair.active.recv_evd,
                                     1);
}

// Memory registered for writing only can be sent: existing programs do, since verbs devices know no
// right to read locally. A provider that follows the specification to the letter refuses.
BOOST_AUTO_TEST_CASE(dto_send_without_local_read) {
  Pair pair;
  Buffer write_only(pair.ia, pair.pz, 64, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  Buffer in(pair.ia, pair.pz, 64);
  write_only.fill(5);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  const DAT_RETURN rc = pair.active.post_send(write_only, 64, 2);
  if (rc != DAT_SUCCESS) {
    expect_refused_or_local_protection(rc, DAT_PRIVILEGES_VIOLATION, pair.active,
                                       pair.active.request_evd, 2);
    return;
  }
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(in.holds(5, 64));
}

BOOST_AUTO_TEST_CASE(dto_bad_rmr_context) {
  for (const bool read : {false, true}) {
    Pair pair;
    Buffer here(pair.ia, pair.pz, 64);
    Buffer there(pair.ia, pair.pz, 64);
    there.fill(8);
    pair.connect();
    DAT_RMR_TRIPLET remote = there.remote(64);
    remote.rmr_context ^= 0x00100000;
    REQUIRE_OK(read ? pair.active.post_read(here, remote, 1)
                    : pair.active.post_write(here, remote, 1));
    if (read) {
      expect_remote_access_error(pair, 1);
    } else {
      expect_connection_end(pair.active.connect_evd);
      expect_connection_end(pair.passive.connect_evd);
    }
    BOOST_CHECK(there.holds(8, 64));
  }
}

BOOST_AUTO_TEST_CASE(dto_remote_range) {
  Pair pair;
  Buffer here(pair.ia, pair.pz, 128);
  Buffer there(pair.ia, pair.pz, 64);
  pair.connect();
  DAT_RMR_TRIPLET beyond = there.remote(64);
  beyond.segment_length = 65;
  REQUIRE_OK(pair.active.post_read(here, beyond, 1));
  expect_remote_access_error(pair, 1);
}

BOOST_AUTO_TEST_CASE(dto_remote_right) {
  {
    Pair pair;
    Buffer here(pair.ia, pair.pz, 64);
    Buffer no_read(pair.ia, pair.pz, 64,
                   static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
                                                   DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
    pair.connect();
    REQUIRE_OK(pair.active.post_read(here, no_read.remote(64), 1));
    expect_remote_access_error(pair, 1);
  }
  Pair pair;
  Buffer here(pair.ia, pair.pz, 64);
  Buffer no_write(pair.ia, pair.pz, 64,
                  static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG |
                                                  DAT_MEM_PRIV_REMOTE_READ_FLAG));
  no_write.fill(1);
  here.fill(2);
  pair.connect();
  REQUIRE_OK(pair.active.post_write(here, no_write.remote(64), 2));
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
  BOOST_CHECK(no_write.holds(1, 64));
}

BOOST_AUTO_TEST_CASE(dto_remote_pz) {
  Pair pair;
  const Pz other = make_pz(pair.ia);
  Buffer here(pair.ia, pair.pz, 64);
  Buffer there(pair.ia, other, 64);
  pair.connect();
  REQUIRE_OK(pair.active.post_read(here, there.remote(64), 1));
  expect_remote_access_error(pair, 1);
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
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(dto_no_recv_posted) {
  // What the OpenFabrics providers are told by; unless told so, their senders wait for ever.
  const Variable retries("DAPL_RNR_RETRY", "1");
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.active.post_send(buffer, 64, 1));
  expect_event(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
}

BOOST_AUTO_TEST_CASE(dto_error_flushes_rest) {
  Pair pair;
  Buffer here(pair.ia, pair.pz, 64);
  Buffer there(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.active.post_recv(here, 64, 50));
  DAT_RMR_TRIPLET bad = there.remote(64);
  bad.rmr_context ^= 0x00100000;
  REQUIRE_OK(pair.active.post_read(here, bad, 1));
  for (std::uint64_t i = 2; i < 6; ++i)
    REQUIRE_OK(pair.active.post_read(here, there.remote(64), i, DAT_COMPLETION_BARRIER_FENCE_FLAG));
  expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 1);
  for (std::uint64_t i = 2; i < 6; ++i) expect_dto(pair.active.request_evd, DAT_DTO_ERR_FLUSHED, i);
  expect_dto(pair.active.recv_evd, DAT_DTO_ERR_FLUSHED, 50);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
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

BOOST_AUTO_TEST_CASE(dto_null_evd_discards) {
  Pair pair;
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  Buffer sink(pair.ia, pair.pz, 64);
  out.fill(3);
  DAT_EP_ATTR attr = default_ep_attr(pair.ia);
  const Evd connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
  Ep silent;  // tells nothing of its receives and requests
  const DAT_RETURN rc = dat_ep_create(pair.ia, pair.pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                                      connect_evd, &attr, silent.out());
  if (skip_unless(DAT_GET_TYPE(rc) != DAT_INVALID_PARAMETER,
                  "DTOs without an EVD are refused here"))
    return;
  REQUIRE_OK(rc);
  for (int i = 0; i < 4; ++i) {
    DAT_LMR_TRIPLET segment = in.local();
    REQUIRE_OK(dat_ep_post_recv(silent, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
  }
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  REQUIRE_OK(dat_cr_accept(cr, silent, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(pair.active.post_send(out, 64, 1));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  REQUIRE_OK(
      pair.active.post_read(sink, in.remote(64), 2));  // the read comes back behind the placed send
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  BOOST_CHECK(in.holds(3, 64));
  // More requests than the EP has slots: discarded completions free them.
  for (int i = 0; i < 100; ++i) {
    REQUIRE_OK(pair.active.post_recv(sink, 64, 3));
    DAT_LMR_TRIPLET segment = in.local();
    REQUIRE_OK(dat_ep_post_send(silent, 1, &segment, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    expect_dto(pair.active.recv_evd, DAT_DTO_SUCCESS, 3);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
