// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"
#include "peer.h"

#include <cstdlib>

// Data transfer: refused posts and failing requests.
namespace conformance {

namespace {

constexpr std::size_t kPage = 4096;

// Sets an environment variable, unless the user has set it.
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

// The post was refused with `type`, or the request fails with LOCAL_PROTECTION: both are legal.
void expect_refused_or_local_protection(DAT_RETURN rc, DAT_RETURN_TYPE type, End& end,
                                        DAT_EVD_HANDLE evd, std::uint64_t value) {
  if (rc != DAT_SUCCESS) {
    BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(type), describe(rc));
    return;
  }
  expect_dto(evd, DAT_DTO_ERR_LOCAL_PROTECTION, value);
  expect_connection_end(end.connect_evd);
}

// The target refuses the RDMA request of the active side.
void expect_remote_access_error(Pair& pair, std::uint64_t value) {
  expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, value);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
}

// A message arrives that is one byte longer than the receive. Returns the status of the receive.
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

BOOST_AUTO_TEST_CASE(dto_recv_too_small) {
  Pair pair;
  receive_too_much(pair);
  expect_connection_end(pair.passive.connect_evd);
  expect_connection_end(pair.active.connect_evd);
  expect_event(pair.active.request_evd,
               DAT_DTO_COMPLETION_EVENT);  // iWARP may have completed it earlier
}

BOOST_AUTO_TEST_CASE(dto_recv_too_small_status, *covers("dto_recv_too_small")) {
  Pair pair;
  BOOST_CHECK_EQUAL(receive_too_much(pair), DAT_DTO_ERR_LOCAL_LENGTH);
}

// The receiver polls nothing: its connection broke all the same, although the sender is the first
// to notice and ends it.
BOOST_AUTO_TEST_CASE(dto_recv_too_small_unpolled, *covers("dto_recv_too_small")) {
  Pair pair;
  const Buffer out(pair.ia, pair.pz, kPage);
  const Buffer in(pair.ia, pair.pz, kPage);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 100, 1));
  REQUIRE_OK(pair.active.post_send(out, 101, 2));
  expect_event(pair.active.request_evd, DAT_DTO_COMPLETION_EVENT);
  expect_connection_end(pair.active.connect_evd);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
  expect_dto_failure(pair.passive.recv_evd, 1);
}

BOOST_AUTO_TEST_CASE(dto_message_beyond_lmr, *covers("dto_recv_too_small")) {
  Pair pair;
  const Buffer out(pair.ia, pair.pz, 2 * kPage);
  const Buffer in(pair.ia, pair.pz, kPage);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 2 * kPage, 1));
  REQUIRE_OK(pair.active.post_send(out, kPage + 1, 2));
  expect_dto_failure(pair.passive.recv_evd, 1);  // the device decides on the status
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
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

// docs/compatibility.md C73: without a connection nothing reaches the memory, so nothing is wrong.
BOOST_AUTO_TEST_CASE(dto_post_disconnected_invalid, *covers("dto_post_disconnected_flush")) {
  Pair pair;
  const Pz other = make_pz(pair.ia);
  const Buffer buffer(pair.ia, pair.pz, 64);
  const Buffer foreign(pair.ia, other, 64);
  pair.connect();
  pair.disconnect();
  REQUIRE_OK(pair.active.post_send(foreign, 64, 1));
  REQUIRE_OK(pair.active.post_send(buffer, 65, 2));
  REQUIRE_OK(pair.active.post_write(foreign, buffer.remote(64), 3));
  REQUIRE_OK(pair.active.post_read(foreign, buffer.remote(64), 4));
  REQUIRE_OK(pair.active.post_send(buffer, 64, 5));
  for (const std::uint64_t value : {1U, 2U, 3U, 4U, 5U})
    expect_dto(pair.active.request_evd, DAT_DTO_ERR_FLUSHED, value);
  REQUIRE_OK(pair.active.post_recv(foreign, 64, 6));
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 7));
  for (const std::uint64_t value : {6U, 7U})
    expect_dto(pair.active.recv_evd, DAT_DTO_ERR_FLUSHED, value);
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
  with.unblock_peer();
  for (DAT_COUNT i = 0; i < room; ++i)
    expect_dto(end.request_evd, DAT_DTO_SUCCESS, static_cast<std::uint64_t>(i));
  REQUIRE_OK(end.post_read(buffer, part, 100));  // recovered
  expect_dto(end.request_evd, DAT_DTO_SUCCESS, 100);
}

// The local segments determine the length: existing programs leave the remote length at 0.
BOOST_AUTO_TEST_CASE(dto_read_local_small) {
  Pair pair;
  Buffer sink(pair.ia, pair.pz, 128);
  Buffer source(pair.ia, pair.pz, 128);
  source.fill(2);
  pair.connect();
  DAT_LMR_TRIPLET local = sink.local(63);
  std::uint64_t value = 0;
  for (const std::size_t remote_length : {0U, 1U, 63U, 64U, 128U}) {
    sink.fill(1);
    const std::uint8_t behind = sink.bytes[63];
    const DAT_RMR_TRIPLET remote = source.remote(remote_length);
    REQUIRE_OK(dat_ep_post_rdma_read(pair.active.ep, 1, &local, cookie(++value), &remote,
                                     DAT_COMPLETION_DEFAULT_FLAG));
    const auto data = expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, value);
    BOOST_CHECK_EQUAL(data.transfered_length, 63U);
    BOOST_CHECK(sink.holds(2, 63));
    BOOST_CHECK_EQUAL(sink.bytes[63], behind);
  }
}

BOOST_AUTO_TEST_CASE(dto_write_remote_small) {
  Pair pair;
  Buffer source(pair.ia, pair.pz, 128);
  Buffer sink(pair.ia, pair.pz, 128);
  Buffer in(pair.ia, pair.pz, 8);
  source.fill(2);
  pair.connect();
  std::uint64_t value = 0;
  for (const std::size_t segments : {1U, 2U})
    for (const std::size_t remote_length : {0U, 1U, 64U, 128U}) {
      sink.fill(1);
      const std::uint8_t behind = sink.bytes[65];
      DAT_LMR_TRIPLET local[] = {source.local(65), source.local(0)};
      const DAT_RMR_TRIPLET remote = sink.remote(remote_length);
      REQUIRE_OK(dat_ep_post_rdma_write(pair.active.ep, static_cast<DAT_COUNT>(segments), local,
                                        cookie(++value), &remote, DAT_COMPLETION_DEFAULT_FLAG));
      REQUIRE_OK(pair.passive.post_recv(in, 8, 1000));
      REQUIRE_OK(pair.active.post_send(source, 8, 1001));
      const auto data = expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, value);
      BOOST_CHECK_EQUAL(data.transfered_length, 65U);
      expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1000);
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1001);
      BOOST_CHECK(sink.holds(2, 65));
      BOOST_CHECK_EQUAL(sink.bytes[65], behind);
    }
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

// Memory registered for writing only can be sent: existing programs do that, since verbs devices
// have no local read right. A provider that follows the specification literally refuses.
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

// docs/compatibility.md C163: a failed completion ends the connection, so the program may reset the
// EP without waiting for BROKEN, which comes nevertheless.
BOOST_AUTO_TEST_CASE(dto_reset_after_failed_completion, *covers("dto_bad_rmr_context")) {
  Pair pair;
  Buffer local(pair.ia, pair.pz, 64);
  Buffer target(pair.ia, pair.pz, 64);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    pair.connect();
    DAT_RMR_TRIPLET remote = target.remote(64);
    remote.rmr_context ^= 0x00100000;
    REQUIRE_OK(pair.active.post_read(local, remote, round));
    expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, round);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    expect_connection_end(pair.passive.connect_evd);
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  }
}

// docs/compatibility.md C163: the completion has told the program that the connection is over.
BOOST_AUTO_TEST_CASE(dto_status_after_failed_completion, *covers("dto_bad_rmr_context")) {
  Pair pair;
  Buffer here(pair.ia, pair.pz, 64);
  Buffer there(pair.ia, pair.pz, 64);
  DAT_RMR_TRIPLET bad = there.remote(64);
  bad.rmr_context ^= 0x00100000;
  for (int i = 0; i < 100; ++i) {
    pair.connect();
    REQUIRE_OK(pair.active.post_read(here, bad, 1));
    DAT_EVENT event;
    while (dat_evd_dequeue(pair.active.request_evd, &event) != DAT_SUCCESS) {
    }
    DAT_EP_STATE state = DAT_EP_STATE_UNCONNECTED;
    REQUIRE_OK(dat_ep_get_status(pair.active.ep, &state, nullptr, nullptr));
    BOOST_CHECK_EQUAL(state, DAT_EP_STATE_DISCONNECTED);
    expect_connection_end(pair.active.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
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
  {
    Pair pair;
    Buffer here(pair.ia, pair.pz, 64);
    Buffer neither(pair.ia, pair.pz, 64,
                   static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG |
                                                   DAT_MEM_PRIV_LOCAL_WRITE_FLAG));
    pair.connect();
    REQUIRE_OK(pair.active.post_read(here, neither.remote(64), 1));
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

// A receive that was posted before the EP got another PZ fails, and does not write to memory of the
// old PZ.
BOOST_AUTO_TEST_CASE(dto_recv_of_the_zone_before) {
  Pair pair;
  const Pz other = make_pz(pair.ia);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  out.fill(3);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  DAT_EP_PARAM param{};
  param.pz_handle = other;
  const DAT_RETURN modified = dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_PZ_HANDLE, &param);
  if (skip_unless(DAT_GET_TYPE(modified) != DAT_INVALID_STATE,
                  "the zone of an EP with posted receives is not changed"))
    return;
  REQUIRE_OK(modified);
  pair.connect();
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  expect_dto(pair.passive.recv_evd, DAT_DTO_ERR_LOCAL_PROTECTION, 1);
  BOOST_CHECK(!in.holds(3, 64));
  expect_connection_end(pair.passive.connect_evd);
  expect_connection_end(pair.active.connect_evd);
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  param.pz_handle = pair.pz;
  REQUIRE_OK(dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_PZ_HANDLE, &param));
}

BOOST_AUTO_TEST_CASE(dto_no_recv_posted) {
  // For the OpenFabrics providers: without this setting their senders wait forever.
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
