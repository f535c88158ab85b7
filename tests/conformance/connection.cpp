// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "connecting.h"
#include "harness.h"
#include "peer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>

// Connections: section 10.7 of the checklist (checklist.cpp), whose names the tests have. The
// addresses of both ends are in connection_addresses.cpp, service points in service_points.cpp.
namespace conformance {

namespace {

std::string_view private_data_of(const DAT_EVENT& event) {
  const auto& data = event.event_data.connect_event_data;
  return {static_cast<const char*>(data.private_data),
          static_cast<std::size_t>(data.private_data_size)};
}

// Private data of that size, as text.
std::string text_of_size(DAT_COUNT size) {
  std::string text;
  for (DAT_COUNT i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + i % 26));
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(connection)

BOOST_AUTO_TEST_CASE(conn_basic_events) {
  Pair pair;
  pair.connect();
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_CONNECTED);
  BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_CONNECTED);
  expect_silence(pair.active.connect_evd);
  expect_silence(pair.passive.connect_evd);
}

BOOST_AUTO_TEST_CASE(conn_private_data_each_way, *covers("conn_private_data_lifetime")) {
  Pair pair;
  const std::string there = "to the passive side";
  const std::string back = "and back";
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr(kPatience, there);
  const DAT_CR_PARAM param = query_cr(cr);
  BOOST_REQUIRE_EQUAL(param.private_data_size, static_cast<DAT_COUNT>(there.size()));
  BOOST_CHECK(std::memcmp(param.private_data, there.data(), there.size()) == 0);
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, static_cast<DAT_COUNT>(back.size()),
                           const_cast<char*>(back.data())));
  const DAT_EVENT active = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(private_data_of(active), back);
  const DAT_EVENT passive =
      expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(passive.event_data.connect_event_data.private_data_size, 0);
  // conn_private_data_lifetime: readable until the reset.
  pair.disconnect();
  BOOST_CHECK_EQUAL(private_data_of(active), back);
}

// An event that was queued before the EP was freed, or reset and connected again, still names what
// the peer has sent with it.
BOOST_AUTO_TEST_CASE(conn_private_data_outlives_the_ep, *covers("conn_private_data_lifetime")) {
  Pair pair;
  const auto establish = [&](std::string_view reply) {
    REQUIRE_OK(dat_cr_accept(pair.connect_and_take_cr(), pair.passive.ep,
                             static_cast<DAT_COUNT>(reply.size()),
                             const_cast<char*>(reply.data())));
    expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    while (ep_state(pair.active.ep) == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING) {
    }
    REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
    expect_connection_end(pair.passive.connect_evd);
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  };
  establish("first");
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  establish("second");
  REQUIRE_OK(dat_ep_free(pair.active.ep.release()));
  // Takes the memory that has been freed.
  std::vector<std::vector<char>> memory;
  for (std::size_t size = 16; size < 1024; size += 16) memory.emplace_back(size, 'x');
  for (const std::string_view reply : {"first", "second"}) {
    const DAT_EVENT event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    BOOST_CHECK_EQUAL(private_data_of(event).substr(0, reply.size()), reply);
    expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  }
}

BOOST_AUTO_TEST_CASE(conn_private_data_max,
                     *covers("ofa_2_3_02_private_data_too_long ofa_2_3_03_private_data_null "
                             "ofa_2_3_04_failed_accept_keeps_cr")) {
  Pair pair;
  const DAT_COUNT max = pair.ia.provider().max_private_data_size;
  const std::string most = text_of_size(max);
  const std::string more = text_of_size(max + 1);
  const sockaddr* const here = pair.ia.attr.ia_address_ptr;
  CHECK_TYPE(connect_to(pair, here, pair.conn_qual, kPatience, max + 1, more.data()),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(connect_to(pair, here, pair.conn_qual, kPatience, -1, more.data()),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(connect_to(pair, here, pair.conn_qual, kPatience, 1, nullptr), DAT_INVALID_PARAMETER);
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr(kPatience, most);
  BOOST_CHECK_EQUAL(query_cr(cr).private_data_size, max);
  char too_much[kMoreThanReplies];
  CHECK_TYPE(dat_cr_accept(cr, pair.passive.ep, kMoreThanReplies, too_much), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cr_accept(cr, pair.passive.ep, 1, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_cr_accept(cr, pair.passive.ep, -1, const_cast<char*>(more.data())),
             DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, max, const_cast<char*>(most.data())));
  const DAT_EVENT event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(private_data_of(event), most);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

// Peers that send nothing, or a text without its end: programs do not look at the size.
BOOST_AUTO_TEST_CASE(conn_private_data_is_followed_by_zeros) {
  constexpr std::size_t kLookedAt = 148;
  const auto is_zero_from = [](const void* data, std::size_t from) {
    const auto* const bytes = static_cast<const char*>(data);
    return bytes != nullptr &&
           std::all_of(bytes + from, bytes + kLookedAt, [](char byte) { return byte == 0; });
  };
  Pair pair;
  for (const std::string& text : {std::string(), std::string("no end")}) {
    const auto size = static_cast<DAT_COUNT>(text.size());
    DAT_CR_HANDLE cr = pair.connect_and_take_cr(kPatience, text);
    BOOST_CHECK(is_zero_from(query_cr(cr).private_data, text.size()));
    REQUIRE_OK(dat_cr_reject(cr, size, const_cast<char*>(text.data())));
    DAT_EVENT event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    BOOST_CHECK_EQUAL(private_data_of(event), text);
    BOOST_CHECK(is_zero_from(event.event_data.connect_event_data.private_data, text.size()));
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    cr = pair.connect_and_take_cr(kPatience, text);
    REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, size, const_cast<char*>(text.data())));
    event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    BOOST_CHECK_EQUAL(private_data_of(event), text);
    BOOST_CHECK(is_zero_from(event.event_data.connect_event_data.private_data, text.size()));
    expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    pair.disconnect();
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  }
}

// OpenFabrics reports the limit of requests, but accepts 160 bytes of a reply and 112 of a
// rejection.
BOOST_AUTO_TEST_CASE(conn_private_data_of_replies) {
  const std::string reply = text_of_size(160);
  const std::string reason = text_of_size(112);
  Pair pair;
  REQUIRE_OK(dat_cr_reject(pair.connect_and_take_cr(), 112, const_cast<char*>(reason.data())));
  DAT_EVENT event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  BOOST_CHECK_EQUAL(private_data_of(event), reason);
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  REQUIRE_OK(dat_cr_accept(pair.connect_and_take_cr(), pair.passive.ep, 160,
                           const_cast<char*>(reply.data())));
  event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_CHECK_EQUAL(private_data_of(event), reply);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(conn_timeout_zero) {
  Pair pair;
  CHECK_TYPE(connect_to(pair, pair.conn_qual, 0), DAT_INVALID_PARAMETER);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(conn_timeout_fires,
                     *covers("conn_accept_after_peer_timeout ofa_2_3_05_timeout_tells_the_peer")) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 1));
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr(100 * kMillisecond);
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_DISCONNECTED);
  expect_dto(pair.active.recv_evd, DAT_DTO_ERR_FLUSHED, 1);
  // conn_accept_after_peer_timeout
  REQUIRE_OK(pair.passive.post_recv(buffer, 64, 2));
  const DAT_RETURN accepted = dat_cr_accept(cr, pair.passive.ep, 0, nullptr);
  if (accepted == DAT_SUCCESS) {
    expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_DISCONNECTED);
    expect_dto(pair.passive.recv_evd, DAT_DTO_ERR_FLUSHED, 2);
  } else {
    REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
    BOOST_CHECK_EQUAL(ep_state(pair.passive.ep), DAT_EP_STATE_UNCONNECTED);
  }
}

BOOST_AUTO_TEST_CASE(conn_no_listener, *covers("ofa_2_3_07_ucm_no_listener")) {
  Pair pair;
  REQUIRE_OK(connect_to(pair, fresh_conn_qual()));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_DISCONNECTED);
}

BOOST_AUTO_TEST_CASE(conn_bad_state) {
  Pair pair;
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  CHECK_TYPE(connect_to(pair, pair.conn_qual), DAT_INVALID_STATE);  // ACTIVE_CONNECTION_PENDING
  REQUIRE_OK(dat_cr_accept(cr, pair.passive.ep, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  CHECK_TYPE(connect_to(pair, pair.conn_qual), DAT_INVALID_STATE);  // CONNECTED
  pair.disconnect();
  CHECK_TYPE(connect_to(pair, pair.conn_qual), DAT_INVALID_STATE);  // DISCONNECTED
}

BOOST_AUTO_TEST_CASE(conn_no_connect_evd) {
  Pair pair;
  Ep no_evd;
  REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                           nullptr, no_evd.out()));
  CHECK_TYPE(dat_ep_connect(no_evd, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                            nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
             DAT_INVALID_STATE);
  Ep no_pz;
  REQUIRE_OK(dat_ep_create(pair.ia, DAT_HANDLE_NULL, pair.active.recv_evd, pair.active.request_evd,
                           pair.active.connect_evd, nullptr, no_pz.out()));
  CHECK_TYPE(dat_ep_connect(no_pz, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                            nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
             DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_CASE(conn_qos_unsupported, *covers("ofa_1_qos")) {
  Pair pair;
  if (skip_unless((pair.ia.provider().dat_qos_supported & DAT_QOS_PREMIUM) == 0,
                  "every QoS is supported"))
    return;
  CHECK_TYPE(connect_to(pair, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0, nullptr,
                        DAT_QOS_PREMIUM),
             DAT_MODEL_NOT_SUPPORTED);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_UNCONNECTED);
}

BOOST_AUTO_TEST_CASE(conn_failure_then_reset) {
  Pair pair;
  for (int i = 0; i < 3; ++i) {
    REQUIRE_OK(connect_to(pair, fresh_conn_qual()));
    expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
  }
  pair.connect();
}

BOOST_AUTO_TEST_CASE(conn_reject_event,
                     *covers("conn_reject_flushes ofa_2_3_09_reject_is_the_peers "
                             "ofa_2_3_10_reject_data")) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 1));
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  const std::string why = "no";
  REQUIRE_OK(dat_cr_reject(cr, static_cast<DAT_COUNT>(why.size()), const_cast<char*>(why.data())));
  const DAT_EVENT event = expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
  BOOST_CHECK_EQUAL(private_data_of(event), why);
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_DISCONNECTED);
  expect_dto(pair.active.recv_evd, DAT_DTO_ERR_FLUSHED, 1);  // conn_reject_flushes
  CHECK_TYPE(dat_cr_reject(cr, 0, nullptr), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(conn_backlog_full) {
  Ia ia;
  const Pz pz = make_pz(ia);
  constexpr int kMany = 12;
  const Evd small = make_evd(ia, DAT_EVD_CR_FLAG, 2);
  DAT_EVD_PARAM evd_param{};
  REQUIRE_OK(dat_evd_query(small, DAT_EVD_FIELD_ALL, &evd_param));
  if (skip_unless(evd_param.evd_qlen < kMany, "the smallest EVD holds all requests of this test"))
    return;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  Psp psp;
  REQUIRE_OK(dat_psp_create(ia, conn_qual, small, DAT_PSP_CONSUMER_FLAG, psp.out()));
  std::vector<End> ends(kMany);
  for (End& end : ends) {
    end.create(ia, pz, nullptr);
    REQUIRE_OK(dat_ep_connect(end.ep, ia.attr.ia_address_ptr, conn_qual, kPatience, 0, nullptr,
                              DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  }
  int refused = 0;
  for (End& end : ends) {
    const auto event = next_event(end.connect_evd, 200 * kMillisecond);
    if (!event) continue;
    BOOST_CHECK_EQUAL(event->event_number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    ++refused;
  }
  BOOST_CHECK_EQUAL(refused, kMany - evd_param.evd_qlen);
  while (const auto event = next_event(small, 0))
    REQUIRE_OK(dat_cr_reject(event->event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
}

BOOST_AUTO_TEST_CASE(conn_abort_active) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 1));
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  REQUIRE_OK(dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  expect_dto(pair.active.recv_evd, DAT_DTO_ERR_FLUSHED, 1);
  REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
}

// 1000 connections, one after another. (tests/stress makes 10,000 and checks memory.)
BOOST_AUTO_TEST_CASE(conn_many) {
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder),
                         std::filesystem::directory_iterator());
  };
  Pair pair;
  const auto cycle = [&](int number) {
    pair.connect();
    pair.disconnect(number % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
    REQUIRE_OK(dat_ep_reset(pair.passive.ep));
  };
  for (int i = 0; i < 10; ++i) cycle(i);
  const auto threads = entries("/proc/self/task");
  const auto descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 1000; ++i) cycle(i);
  BOOST_CHECK_EQUAL(entries("/proc/self/task"), threads);
  BOOST_CHECK_LE(entries("/proc/self/fd"), descriptors + 4);  // a connection may still be ending
}

BOOST_AUTO_TEST_CASE(conn_dup_same_service) {
  Pair pair;
  pair.connect();
  End second;
  second.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(
      dat_ep_dup_connect(second.ep, pair.active.ep, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT));
  End accepted;
  accepted.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(dat_cr_accept(take_cr(pair.cr_evd), accepted.ep, 0, nullptr));
  expect_event(second.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(accepted.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

// docs/compatibility.md C172: such a peer does not listen where it connected from.
BOOST_AUTO_TEST_CASE(conn_dup_of_an_accepted_ep) {
  Pair pair;
  pair.connect();
  End second;
  second.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(
      dat_ep_dup_connect(second.ep, pair.passive.ep, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT));
  expect_event(second.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
  BOOST_CHECK_EQUAL(ep_state(second.ep), DAT_EP_STATE_DISCONNECTED);
}

BOOST_AUTO_TEST_CASE(conn_dup_requires_connected) {
  Pair pair;
  CHECK_TYPE(dat_ep_dup_connect(pair.passive.ep, pair.active.ep, kPatience, 0, nullptr,
                                DAT_QOS_BEST_EFFORT),
             DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
