// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The data path: arguments, flags, lengths, slots, suppression; with and without locks.
#include "tests/unit/dapl_ep/transfers.h"

#include <array>
#include <cstring>

namespace udapl::test {
namespace {

constexpr unsigned kSuppress = DAT_COMPLETION_SUPPRESS_FLAG;
constexpr unsigned kSolicited = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
constexpr unsigned kUnsignalled = DAT_COMPLETION_UNSIGNALLED_FLAG;

BOOST_FIXTURE_TEST_SUITE(posts, Transfers)

BOOST_AUTO_TEST_CASE(send_gathers_and_scatters) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    DAT_LMR_TRIPLET into[] = {t.to.local(5), t.to.local(100, 50)};
    REQUIRE_OK(t.ia->ep_post_recv_func(t.passive.ep, 2, into, cookie_of(40), kDefault));
    REQUIRE_OK(t.send({t.from.local(3), t.from.local(4, 10)}));
    const auto sent = t.take_dto(t.active.request_evd);
    BOOST_CHECK_EQUAL(sent.ep_handle, t.active.ep);
    BOOST_CHECK_EQUAL(sent.operation, DAT_DTO_SEND);
    BOOST_CHECK_EQUAL(sent.transfered_length, 7U);
    const auto received = t.take_dto(t.passive.recv_evd);
    BOOST_CHECK_EQUAL(received.ep_handle, t.passive.ep);
    BOOST_CHECK_EQUAL(received.operation, DAT_DTO_RECEIVE);
    BOOST_CHECK_EQUAL(received.transfered_length, 7U);
    BOOST_CHECK_EQUAL(received.user_cookie.as_64, 40U);
    const std::uint8_t expected[] = {1, 2, 3, 11, 12};
    BOOST_CHECK(std::memcmp(t.to.bytes.data(), expected, 5) == 0);
    BOOST_CHECK_EQUAL(t.to.bytes[50], 13);
    BOOST_CHECK_EQUAL(t.to.bytes[51], 14);
  }
}

BOOST_AUTO_TEST_CASE(lists_of_more_segments_are_refused) {
  const DAT_LMR_TRIPLET one = from.local(1);
  CHECK_CODE(send({one, one, one, one, one}), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->ep_post_send_func(active.ep, 1, nullptr, cookie_of(1), kDefault),
             invalid_parameter(DAT_INVALID_ARG2));
  DAT_LMR_TRIPLET list = one;
  CHECK_CODE(ia->ep_post_send_func(active.ep, -1, &list, cookie_of(1), kDefault),
             invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->ep_post_recv_func(active.ep, -1, &list, cookie_of(1), kDefault),
             invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->ep_post_recv_func(active.ep, 5, &list, cookie_of(1), kDefault),
             invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->ep_post_recv_func(active.ep, 1, nullptr, cookie_of(1), kDefault),
             invalid_parameter(DAT_INVALID_ARG2));
  BOOST_CHECK_EQUAL(ep_object(active.ep).requests.cookies.outstanding(), 0U);

  // Empty messages, specified in three ways.
  DAT_LMR_TRIPLET garbage{0xDEAD, 0, 0xFFFFFFFF};
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(post_recv(passive.ep, to, i));
  REQUIRE_OK(send({}));
  REQUIRE_OK(ia->ep_post_send_func(active.ep, 0, &list, cookie_of(1), kDefault));
  REQUIRE_OK(send({garbage}));
  for (int i = 0; i < 3; ++i) BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).transfered_length, 0U);
}

BOOST_AUTO_TEST_CASE(remote_range_must_hold_the_local_length) {
  const DAT_RMR_TRIPLET ten = to.remote(10);
  REQUIRE_OK(write({from.local(8), from.local(3)}, &ten));  // the local length is what counts
  CHECK_CODE(write({from.local(8)}, nullptr), invalid_parameter(DAT_INVALID_ARG5));
  REQUIRE_OK(write({}, nullptr));  // an empty Write needs no target
  REQUIRE_OK(write({from.local(0)}, nullptr));
  REQUIRE_OK(write({from.local(8), from.local(2)}, &ten));
  REQUIRE_OK(read({from.local(8), from.local(1)}, &ten));
  REQUIRE_OK(read({}, &ten));
  CHECK_CODE(read({from.local(8)}, nullptr), invalid_parameter(DAT_INVALID_ARG5));
  REQUIRE_OK(read({from.local(8), from.local(8)}, &ten));
  for (const DAT_SEG_LENGTH expected : {11U, 0U, 0U, 10U, 9U, 0U, 16U})
    BOOST_CHECK_EQUAL(take_dto(active.request_evd).transfered_length, expected);

  // The adapter's limits are enforced; the EP's own are only requests (docs/compatibility.md C78).
  DAT_EP_ATTR attr = attributes();
  attr.max_message_size = attr.max_rdma_size = 20;
  Transfers small(true, attr, [](transport::Attributes& limits) {
    limits.max_message_size = 100;
    limits.max_rdma_size = 50;
  });
  REQUIRE_OK(small.post_recv(small.passive.ep, small.to, 1, 200));
  REQUIRE_OK(small.send({small.from.local(50), small.from.local(50)}));
  CHECK_CODE(small.send({small.from.local(50), small.from.local(51)}),
             invalid_parameter(DAT_INVALID_ARG3));
  const DAT_RMR_TRIPLET remote = small.to.remote(51);
  CHECK_CODE(small.write({small.from.local(51)}, &remote), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(small.read({small.from.local(51)}, &remote), invalid_parameter(DAT_INVALID_ARG3));
  const DAT_LMR_TRIPLET huge{0, 0xFFFFFFFF, 0};  // the total does not wrap
  CHECK_CODE(small.send({huge, huge}), invalid_parameter(DAT_INVALID_ARG3));
}

// A transport that does not count its receives queries the core.
BOOST_AUTO_TEST_CASE(receives_count_until_they_are_dequeued) {
  fake::Qp& queue = qp(passive.ep);
  BOOST_CHECK_EQUAL(queue.receives_of_the_core(), 0);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(post_recv(passive.ep, to, i));
  BOOST_CHECK_EQUAL(queue.receives_of_the_core(), 3);
  REQUIRE_OK(send({from.local(8)}));
  BOOST_CHECK_EQUAL(queue.receives_of_the_core(), 3);
  static_cast<void>(take_dto(passive.recv_evd));
  BOOST_CHECK_EQUAL(queue.receives_of_the_core(), 2);
}

// Every combination of the six flag bits and one unknown bit is accepted, for every kind of request
// and mode of the EP. Flags that have no meaning for a post are ignored.
BOOST_AUTO_TEST_CASE(every_flag_on_every_post) {
  for (const bool unsignalled_mode : {false, true}) {
    DAT_EP_ATTR attr = attributes();
    if (unsignalled_mode)
      attr.recv_completion_flags = attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
    Transfers t(true, attr);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    REQUIRE_OK(t.ia->rmr_create_func(t.pz, &rmr));
    const auto taken = [&](DAT_EVD_HANDLE evd) {
      DAT_EVENT event{};
      int count = 0;
      while (t.ia->evd_dequeue_func(evd, &event) == DAT_SUCCESS) ++count;
      return count;
    };
    for (unsigned flags = 0; flags < 0x80; ++flags) {
      BOOST_TEST_CONTEXT("flags 0x" << std::hex << flags) {
        DAT_LMR_TRIPLET segment = t.from.local(8);
        DAT_LMR_TRIPLET sink = t.to.local(8);
        const DAT_RMR_TRIPLET remote = t.to.remote(8);
        const DAT_RMR_TRIPLET local = t.from.remote(8);
        DAT_RMR_CONTEXT context = 0;
        REQUIRE_OK(t.ia->ep_post_recv_func(t.passive.ep, 1, &sink, cookie_of(1), flags_of(flags)));
        REQUIRE_OK(t.send({segment}, flags));
        REQUIRE_OK(t.write({segment}, &remote, flags));
        REQUIRE_OK(t.read({segment}, &remote, flags));
        REQUIRE_OK(t.ia->ep_post_rdma_read_to_rmr_func(t.active.ep, &local, cookie_of(1), &remote,
                                                       flags_of(flags)));
        REQUIRE_OK(t.ia->rmr_bind_func(rmr, t.from.lmr, &segment, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                                       DAT_VA_TYPE_VA, t.active.ep, cookie_of(1), flags_of(flags),
                                       &context));
        Rig::run();
        BOOST_CHECK_EQUAL(taken(t.active.request_evd), (flags & kSuppress) != 0 ? 0 : 5);
        BOOST_CHECK_EQUAL(taken(t.passive.recv_evd), 1);  // never suppressed
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(flags_reach_the_transport) {
  DAT_EP_ATTR attr = attributes();
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  Transfers t(true, attr);
  const auto armed_after = [&](unsigned flags) {
    auto& cq = static_cast<fake::Cq&>(*object(t.active.request_evd).cq());
    cq.arm();
    REQUIRE_OK(t.write({}, nullptr, flags));
    static_cast<void>(t.take_dto(t.active.request_evd));
    Rig::run();
    return cq.armed();
  };
  BOOST_CHECK(!armed_after(kDefault));
  BOOST_CHECK(armed_after(kUnsignalled));
  // A solicited send notifies a receiver that is notified of solicited sends only.
  DAT_EP_ATTR solicited = attributes();
  solicited.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  Transfers s(true, solicited);
  auto& cq = static_cast<fake::Cq&>(*object(s.passive.recv_evd).cq());
  cq.arm();
  REQUIRE_OK(s.post_recv(s.passive.ep, s.to, 1));
  REQUIRE_OK(s.post_recv(s.passive.ep, s.to, 2));
  REQUIRE_OK(s.send({s.from.local(1)}));
  Rig::run();
  BOOST_CHECK(cq.armed());
  REQUIRE_OK(s.send({s.from.local(1)}, kSolicited));
  Rig::run();
  BOOST_CHECK(!cq.armed());
}

BOOST_AUTO_TEST_CASE(full_queue_refuses_a_post) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(t.post_recv(t.passive.ep, t.to, i));
    CHECK_CODE(t.post_recv(t.passive.ep, t.to, 8),
               dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    t.qp(t.active.ep).hold(true);
    for (int i = 0; i < 8; ++i) REQUIRE_OK(t.send({t.from.local(1)}));
    CHECK_CODE(t.send({t.from.local(1)}),
               dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    DAT_BOOLEAN recv_idle = DAT_TRUE;
    DAT_BOOLEAN request_idle = DAT_TRUE;
    REQUIRE_OK(t.ia->ep_get_status_func(t.active.ep, nullptr, &recv_idle, &request_idle));
    BOOST_CHECK_EQUAL(recv_idle, DAT_TRUE);
    BOOST_CHECK_EQUAL(request_idle, DAT_FALSE);
    REQUIRE_OK(t.ia->ep_get_status_func(t.passive.ep, nullptr, &recv_idle, nullptr));
    BOOST_CHECK_EQUAL(recv_idle, DAT_FALSE);
    t.qp(t.active.ep).hold(false);
    for (int i = 0; i < 8; ++i) BOOST_CHECK_EQUAL(t.take_dto(t.active.request_evd).status, 0);
    REQUIRE_OK(t.ia->ep_get_status_func(t.active.ep, nullptr, nullptr, &request_idle));
    BOOST_CHECK_EQUAL(request_idle, DAT_TRUE);
    REQUIRE_OK(t.post_recv(t.passive.ep, t.to, 8));  // the completions have made room
    REQUIRE_OK(t.send({t.from.local(1)}));
  }
}

BOOST_AUTO_TEST_CASE(a_queue_that_is_kept_full) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(t.post_recv(t.passive.ep, t.to, i));
    for (std::uint64_t i = 8; i < 40; ++i) {
      REQUIRE_OK(t.send({t.from.local(1)}));
      BOOST_CHECK_EQUAL(t.take_dto(t.active.request_evd).status, DAT_DTO_SUCCESS);
      BOOST_CHECK_EQUAL(t.take_dto(t.passive.recv_evd).user_cookie.as_64, i - 8);
      REQUIRE_OK(t.post_recv(t.passive.ep, t.to, i));
      CHECK_CODE(t.post_recv(t.passive.ep, t.to, i),
                 dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    }
  }
}

// What a poll would complete makes room without one, as what hardware completes.
BOOST_AUTO_TEST_CASE(a_post_that_finds_no_slot_asks_the_transport) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    t.qp(t.active.ep).completes_if_asked = true;
    for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(t.post_recv(t.passive.ep, t.to, i));
    t.qp(t.active.ep).hold(true);
    for (int i = 0; i < 8; ++i) REQUIRE_OK(t.send({t.from.local(1)}));
    REQUIRE_OK(t.send({t.from.local(1)}));
  }
}

// The peer has reacted to what it was sent before the transport knows that it was placed.
BOOST_AUTO_TEST_CASE(a_post_that_finds_no_slot_waits_for_an_answer_on_its_way) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(t.post_recv(t.passive.ep, t.to, i));
    fake::Qp& qp = t.qp(t.active.ep);
    qp.hold(true);
    for (int i = 0; i < 8; ++i) REQUIRE_OK(t.send({t.from.local(1)}));
    CHECK_ERROR(t.send({t.from.local(1)}), DAT_INSUFFICIENT_RESOURCES);
    qp.answers_after = 3;
    REQUIRE_OK(t.send({t.from.local(1)}));
    BOOST_CHECK_EQUAL(qp.answers_after, 0);
  }
}

BOOST_AUTO_TEST_CASE(a_post_refused_by_the_transport_leaves_no_trace) {
  qp(active.ep).refuse_posts = true;
  CHECK_ERROR(send({from.local(1)}), DAT_INSUFFICIENT_RESOURCES);
  CHECK_ERROR(post_recv(active.ep, to, 1), DAT_INSUFFICIENT_RESOURCES);
  qp(active.ep).refuse_posts = false;
  BOOST_CHECK_EQUAL(ep_object(active.ep).requests.cookies.outstanding(), 0U);
  BOOST_CHECK_EQUAL(ep_object(active.ep).receives.cookies.outstanding(), 0U);
  DAT_LMR_TRIPLET unknown = from.local(1);
  unknown.lmr_context = 0x7777;
  CHECK_ERROR(send({unknown}), DAT_PRIVILEGES_VIOLATION);
  Buffer elsewhere(ia, ia.pz());
  CHECK_ERROR(send({elsewhere.local(1)}), DAT_PROTECTION_VIOLATION);
  Buffer readable(ia, pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  CHECK_ERROR(post_recv(active.ep, readable, 1), DAT_PRIVILEGES_VIOLATION);
}

BOOST_AUTO_TEST_CASE(suppressed_successes_free_their_slots) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    for (int i = 0; i < 1000; ++i) REQUIRE_OK(t.write({}, nullptr, kSuppress));
    BOOST_CHECK(t.empty(t.active.request_evd));
    REQUIRE_OK(t.send({t.from.local(1)}, kSuppress));  // without a receive it fails, and reports it
    BOOST_CHECK_EQUAL(t.take_dto(t.active.request_evd).status, DAT_DTO_ERR_RECEIVER_NOT_READY);
    Rig::run();
    BOOST_CHECK_EQUAL(t.take_connection(t.active.connect_evd), DAT_CONNECTION_EVENT_BROKEN);
  }
}

// A random mixture of suppressed and other requests, checked against a model: exactly those that
// are not suppressed have events, in posting order, and the ring does not fill up with suppressed
// ones.
BOOST_AUTO_TEST_CASE(suppressed_and_signalled_requests_mix) {
  std::uint32_t random = 12345;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < 7; ++i) {
      random = random * 1664525 + 1013904223;
      const bool suppress = (random >> 16) % 3 != 0;
      REQUIRE_OK(ia->ep_post_rdma_write_func(active.ep, 0, nullptr, cookie_of(i), nullptr,
                                             flags_of(suppress ? kSuppress : 0)));
      if (!suppress) expected.push_back(i);
    }
    for (const std::uint64_t cookie : expected)
      BOOST_CHECK_EQUAL(take_dto(active.request_evd).user_cookie.as_64, cookie);
    BOOST_CHECK(empty(active.request_evd));
  }
}

void check_without_evds(bool thread_safe, const DAT_EP_ATTR* attributes) {
  Transfers t(thread_safe);
  Side quiet;
  quiet.connect_evd = t.ia.evd(DAT_EVD_CONNECTION_FLAG, 8);
  REQUIRE_OK(t.ia->ep_create_func(t.ia.raw, t.pz, nullptr, nullptr, quiet.connect_evd, attributes,
                                  &quiet.ep));
  const Side peer = t.side();
  t.join(quiet, peer);
  for (std::uint64_t i = 0; i < 100; ++i) {
    REQUIRE_OK(t.post_recv(quiet.ep, t.to, i));
    REQUIRE_OK(t.post_send(peer.ep, t.from, i));
    BOOST_CHECK_EQUAL(t.take_dto(peer.request_evd).status, DAT_DTO_SUCCESS);
    REQUIRE_OK(t.post_recv(peer.ep, t.to, i));
    REQUIRE_OK(t.post_send(quiet.ep, t.from, i));
    BOOST_CHECK_EQUAL(t.take_dto(peer.recv_evd).status, DAT_DTO_SUCCESS);
  }
  DAT_BOOLEAN recv_idle = DAT_FALSE;
  REQUIRE_OK(t.ia->ep_get_status_func(quiet.ep, nullptr, &recv_idle, nullptr));
  BOOST_CHECK_EQUAL(recv_idle, DAT_TRUE);
  REQUIRE_OK(t.post_recv(quiet.ep, t.to, 1));
  REQUIRE_OK(t.ia->ep_disconnect_func(quiet.ep, DAT_CLOSE_ABRUPT_FLAG));  // flushes are discarded
  for (std::uint64_t i = 0; i < 50; ++i) REQUIRE_OK(t.post_send(quiet.ep, t.from, i));
  REQUIRE_OK(t.ia->ep_reset_func(quiet.ep));
  Rig::run();
}

BOOST_AUTO_TEST_CASE(directions_without_evd) {
  const DAT_EP_ATTR attr = Rig::attributes();
  for (const bool thread_safe : {true, false}) {
    check_without_evds(thread_safe, &attr);
    check_without_evds(thread_safe, nullptr);
  }
}

// As many as OpenFabrics accepts.
BOOST_AUTO_TEST_CASE(receives_of_an_ep_without_attributes_and_evds) {
  Transfers t(true);
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(t.ia->ep_create_func(t.ia.raw, t.pz, nullptr, nullptr, nullptr, nullptr, &ep));
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE_OK(t.post_recv(ep, t.to, i));
  CHECK_CODE(t.post_recv(ep, t.to, 16), dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  REQUIRE_OK(t.ia->ep_free_func(ep));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
