// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The data path: arguments, flags, lengths, slots, suppression, binds; with and without locks.
#include "tests/unit/dapl_ep/support.h"

#include <array>
#include <cstring>

namespace udapl::test {
namespace {

constexpr unsigned kSuppress = DAT_COMPLETION_SUPPRESS_FLAG;
constexpr unsigned kSolicited = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
constexpr unsigned kUnsignalled = DAT_COMPLETION_UNSIGNALLED_FLAG;
constexpr unsigned kFence = DAT_COMPLETION_BARRIER_FENCE_FLAG;

// A connected pair and memory on both sides.
struct Transfers : Rig {
  explicit Transfers(bool thread_safe = true, const DAT_EP_ATTR& attr = attributes(),
                     Adjust adjust = nullptr)
      : Rig(thread_safe, adjust),
        active(side(attr)),
        passive(side(attr)),
        from(ia, pz),
        to(ia, pz) {
    join(active, passive);
    for (std::size_t i = 0; i < from.bytes.size(); ++i)
      from.bytes[i] = static_cast<std::uint8_t>(i + 1);
  }
  DAT_RETURN write(const std::vector<DAT_LMR_TRIPLET>& local, const DAT_RMR_TRIPLET* remote,
                   unsigned flags = kDefault) {
    std::vector<DAT_LMR_TRIPLET> list = local;
    return ia->ep_post_rdma_write_func(active.ep, static_cast<DAT_COUNT>(list.size()),
                                       list.empty() ? nullptr : list.data(), cookie_of(1), remote,
                                       flags_of(flags));
  }
  DAT_RETURN read(const std::vector<DAT_LMR_TRIPLET>& local, const DAT_RMR_TRIPLET* remote,
                  unsigned flags = kDefault) {
    std::vector<DAT_LMR_TRIPLET> list = local;
    return ia->ep_post_rdma_read_func(active.ep, static_cast<DAT_COUNT>(list.size()),
                                      list.empty() ? nullptr : list.data(), cookie_of(1), remote,
                                      flags_of(flags));
  }
  DAT_RETURN send(const std::vector<DAT_LMR_TRIPLET>& local, unsigned flags = kDefault) {
    std::vector<DAT_LMR_TRIPLET> list = local;
    return ia->ep_post_send_func(active.ep, static_cast<DAT_COUNT>(list.size()),
                                 list.empty() ? nullptr : list.data(), cookie_of(1),
                                 flags_of(flags));
  }

  Side active;
  Side passive;
  Buffer from;
  Buffer to;
};

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

BOOST_AUTO_TEST_CASE(segment_lists) {
  const DAT_LMR_TRIPLET one = from.local(1);
  CHECK_CODE(send({one, one, one}), 0x80060026);
  CHECK_CODE(ia->ep_post_send_func(active.ep, 1, nullptr, cookie_of(1), kDefault), 0x80060026);
  DAT_LMR_TRIPLET list = one;
  CHECK_CODE(ia->ep_post_send_func(active.ep, -1, &list, cookie_of(1), kDefault), 0x80060026);
  CHECK_CODE(ia->ep_post_recv_func(active.ep, -1, &list, cookie_of(1), kDefault), 0x80060026);
  CHECK_CODE(ia->ep_post_recv_func(active.ep, 3, &list, cookie_of(1), kDefault), 0x80060026);
  CHECK_CODE(ia->ep_post_recv_func(active.ep, 1, nullptr, cookie_of(1), kDefault), 0x80060026);
  BOOST_CHECK_EQUAL(ep_object(active.ep).requests.cookies.outstanding(), 0U);

  // Empty messages, in three ways.
  DAT_LMR_TRIPLET garbage{0xDEAD, 0, 0xFFFFFFFF};
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(post_recv(passive.ep, to, i));
  REQUIRE_OK(send({}));
  REQUIRE_OK(ia->ep_post_send_func(active.ep, 0, &list, cookie_of(1), kDefault));
  REQUIRE_OK(send({garbage}));
  for (int i = 0; i < 3; ++i) BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).transfered_length, 0U);
}

BOOST_AUTO_TEST_CASE(lengths) {
  const DAT_RMR_TRIPLET ten = to.remote(10);
  CHECK_CODE(write({from.local(8), from.local(3)}, &ten), dat_error(DAT_LENGTH_ERROR));
  CHECK_CODE(write({from.local(8)}, nullptr), 0x80060029);
  REQUIRE_OK(write({}, nullptr));  // nothing goes nowhere
  REQUIRE_OK(write({from.local(0)}, nullptr));
  REQUIRE_OK(write({from.local(8), from.local(2)}, &ten));
  CHECK_CODE(read({from.local(8), from.local(1)}, &ten), dat_error(DAT_LENGTH_ERROR));
  CHECK_CODE(read({}, &ten), dat_error(DAT_LENGTH_ERROR));
  CHECK_CODE(read({from.local(8)}, nullptr), 0x80060029);
  REQUIRE_OK(read({from.local(8), from.local(8)}, &ten));
  for (const DAT_SEG_LENGTH expected : {0U, 0U, 10U, 10U})
    BOOST_CHECK_EQUAL(take_dto(active.request_evd).transfered_length, expected);

  // The adapter's limits count; the EP's own are a wish (docs/compatibility.md).
  DAT_EP_ATTR attr = attributes();
  attr.max_message_size = attr.max_rdma_size = 20;
  Transfers small(true, attr, [](transport::Attributes& limits) {
    limits.max_message_size = 100;
    limits.max_rdma_size = 50;
  });
  REQUIRE_OK(small.post_recv(small.passive.ep, small.to, 1, 200));
  REQUIRE_OK(small.send({small.from.local(50), small.from.local(50)}));
  CHECK_CODE(small.send({small.from.local(50), small.from.local(51)}), 0x80060027);
  const DAT_RMR_TRIPLET remote = small.to.remote(51);
  CHECK_CODE(small.write({small.from.local(51)}, &remote), 0x80060027);
  CHECK_CODE(small.read({small.from.local(51)}, &remote), 0x80060029);
  const DAT_LMR_TRIPLET huge{0, 0xFFFFFFFF, 0};  // the total does not wrap
  CHECK_CODE(small.send({huge, huge}), 0x80060027);
}

// Which flags may a post carry? Every combination of the six bits, for every kind of request and
// mode of the EP.
BOOST_AUTO_TEST_CASE(every_flag_on_every_post) {
  for (const bool unsignalled_mode : {false, true}) {
    DAT_EP_ATTR attr = attributes();
    if (unsignalled_mode)
      attr.recv_completion_flags = attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
    Transfers t(true, attr);
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    REQUIRE_OK(t.ia->rmr_create_func(t.pz, &rmr));
    for (unsigned flags = 0; flags < 0x80; ++flags) {
      const unsigned requests = kSuppress | kFence | (unsignalled_mode ? kUnsignalled : 0);
      const bool as_send = (flags & ~(requests | kSolicited)) == 0;
      const bool as_rdma = (flags & ~requests) == 0;
      const bool as_recv = (flags & ~(unsignalled_mode ? kUnsignalled : 0)) == 0;
      DAT_LMR_TRIPLET segment = t.from.local(8);
      DAT_LMR_TRIPLET sink = t.to.local(8);
      const DAT_RMR_TRIPLET remote = t.to.remote(8);
      const DAT_RMR_TRIPLET local = t.from.remote(8);
      DAT_RMR_CONTEXT context = 0;
      const auto check = [&](DAT_RETURN code, bool legal, const char* what) {
        BOOST_TEST_CONTEXT(what << " with 0x" << std::hex << flags) {
          if (legal)
            CHECK_CODE(code, DAT_SUCCESS);
          else
            CHECK_ERROR(code, DAT_INVALID_PARAMETER);
        }
      };
      check(t.ia->ep_post_recv_func(t.passive.ep, 1, &sink, cookie_of(1), flags_of(flags)), as_recv,
            "recv");
      if (!as_recv)
        REQUIRE_OK(t.ia->ep_post_recv_func(t.passive.ep, 1, &sink, cookie_of(1), kDefault));
      check(t.send({segment}, flags), as_send, "send");
      if (!as_send) REQUIRE_OK(t.send({segment}));
      check(t.write({segment}, &remote, flags), as_rdma, "write");
      check(t.read({segment}, &remote, flags), as_rdma, "read");
      check(t.ia->ep_post_rdma_read_to_rmr_func(t.active.ep, &local, cookie_of(1), &remote,
                                                flags_of(flags)),
            as_rdma, "read to RMR");
      check(
          t.ia->rmr_bind_func(rmr, t.from.lmr, &segment, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                              DAT_VA_TYPE_VA, t.active.ep, cookie_of(1), flags_of(flags), &context),
          as_rdma, "bind");
      DAT_EVENT event{};
      while (t.ia->evd_dequeue_func(t.active.request_evd, &event) == DAT_SUCCESS) {
      }
      while (t.ia->evd_dequeue_func(t.passive.recv_evd, &event) == DAT_SUCCESS) {
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
  // A solicited send notifies a receiver that wants only those.
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

BOOST_AUTO_TEST_CASE(slots) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    for (std::uint64_t i = 0; i < 8; ++i) REQUIRE_OK(t.post_recv(t.passive.ep, t.to, i));
    CHECK_CODE(t.post_recv(t.passive.ep, t.to, 8), 0x80030002);
    t.qp(t.active.ep).hold(true);
    for (int i = 0; i < 8; ++i) REQUIRE_OK(t.send({t.from.local(1)}));
    CHECK_CODE(t.send({t.from.local(1)}), 0x80030002);
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
    REQUIRE_OK(t.post_recv(t.passive.ep, t.to, 8));  // recovered: completions make room
    REQUIRE_OK(t.send({t.from.local(1)}));
  }
}

BOOST_AUTO_TEST_CASE(a_refusal_of_the_transport_leaves_nothing) {
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
    REQUIRE_OK(t.send({t.from.local(1)}, kSuppress));  // nobody receives: it fails and is heard of
    BOOST_CHECK_EQUAL(t.take_dto(t.active.request_evd).status, DAT_DTO_ERR_RECEIVER_NOT_READY);
    Rig::run();
    BOOST_CHECK_EQUAL(t.take_connection(t.active.connect_evd), DAT_CONNECTION_EVENT_BROKEN);
  }
}

// A mixture of suppressed and other requests against a model: events come for exactly those that
// are not suppressed, in posting order, and the ring never runs full on its own.
BOOST_AUTO_TEST_CASE(suppressed_and_others_mixed) {
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

BOOST_AUTO_TEST_CASE(directions_without_evd) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    Side quiet;
    quiet.connect_evd = t.ia.evd(DAT_EVD_CONNECTION_FLAG, 8);
    const DAT_EP_ATTR attr = Rig::attributes();
    REQUIRE_OK(t.ia->ep_create_func(t.ia.raw, t.pz, nullptr, nullptr, quiet.connect_evd, &attr,
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
    REQUIRE_OK(t.ia->ep_disconnect_func(quiet.ep, DAT_CLOSE_ABRUPT_FLAG));  // flushed to nowhere
    for (std::uint64_t i = 0; i < 50; ++i) REQUIRE_OK(t.post_send(quiet.ep, t.from, i));
    REQUIRE_OK(t.ia->ep_reset_func(quiet.ep));
    Rig::run();
  }
}

BOOST_AUTO_TEST_CASE(send_with_invalidate) {
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(pz, &rmr));
  DAT_LMR_TRIPLET range = to.local(16);
  DAT_RMR_CONTEXT context = 0;
  REQUIRE_OK(ia->rmr_bind_func(rmr, to.lmr, &range, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_VA,
                               passive.ep, cookie_of(5), kDefault, &context));
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(passive.request_evd, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_RMR_BIND_COMPLETION_EVENT));
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.rmr_handle, rmr);
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.user_cookie.as_64, 5U);
  for (std::uint64_t i = 0; i < 2; ++i) REQUIRE_OK(post_recv(passive.ep, to, i));
  DAT_LMR_TRIPLET segment = from.local(8);
  const auto post = [&](DAT_BOOLEAN invalidate, unsigned flags = kDefault) {
    return ia->ep_post_send_with_invalidate_func(active.ep, 1, &segment, cookie_of(2),
                                                 flags_of(flags), invalidate, context);
  };
  REQUIRE_OK(post(DAT_FALSE));
  BOOST_CHECK_EQUAL(take_dto(passive.recv_evd).operation, DAT_DTO_RECEIVE);
  REQUIRE_OK(post(DAT_TRUE));
  const auto received = take_dto(passive.recv_evd);
  BOOST_CHECK_EQUAL(received.operation, DAT_DTO_RECEIVE_WITH_INVALIDATE);
  BOOST_CHECK_EQUAL(received.rmr_context, context);
  CHECK_ERROR(post(DAT_TRUE, 0x20), DAT_INVALID_PARAMETER);

  Transfers without(true, attributes(), [](transport::Attributes& limits) {
    limits.send_invalidate = false;
    limits.read_to_rmr = false;
  });
  segment = without.from.local(8);
  REQUIRE_OK(without.post_recv(without.passive.ep, without.to, 1));
  CHECK_ERROR(without.ia->ep_post_send_with_invalidate_func(without.active.ep, 1, &segment,
                                                            cookie_of(2), kDefault, DAT_TRUE, 1),
              DAT_MODEL_NOT_SUPPORTED);
  REQUIRE_OK(without.ia->ep_post_send_with_invalidate_func(without.active.ep, 1, &segment,
                                                           cookie_of(2), kDefault, DAT_FALSE, 1));
  const DAT_RMR_TRIPLET remote = without.to.remote(8);
  CHECK_ERROR(without.ia->ep_post_rdma_read_to_rmr_func(without.active.ep, &remote, cookie_of(1),
                                                        &remote, kDefault),
              DAT_MODEL_NOT_SUPPORTED);
}

BOOST_AUTO_TEST_CASE(read_to_rmr) {
  const DAT_RMR_TRIPLET sink = to.remote(8);
  const DAT_RMR_TRIPLET source = from.remote(8);
  const DAT_RMR_TRIPLET large = from.remote(9);
  const auto post = [&](const DAT_RMR_TRIPLET* a, const DAT_RMR_TRIPLET* b) {
    return ia->ep_post_rdma_read_to_rmr_func(active.ep, a, cookie_of(3), b, kDefault);
  };
  CHECK_CODE(post(nullptr, &source), 0x80060026);
  CHECK_CODE(post(&sink, nullptr), 0x80060028);
  CHECK_CODE(post(&sink, &large), dat_error(DAT_LENGTH_ERROR));
  REQUIRE_OK(post(&sink, &source));
  const auto done = take_dto(active.request_evd);
  BOOST_CHECK_EQUAL(done.operation, DAT_DTO_RDMA_READ);
  BOOST_CHECK_EQUAL(done.transfered_length, 8U);
  BOOST_CHECK(std::memcmp(to.bytes.data(), from.bytes.data(), 8) == 0);
}

BOOST_AUTO_TEST_CASE(bind_arguments) {
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(pz, &rmr));
  const DAT_LMR_TRIPLET good = to.local(16);
  DAT_RMR_CONTEXT context = 0;
  const auto bind = [&](DAT_HANDLE window, DAT_HANDLE lmr, const DAT_LMR_TRIPLET* range,
                        unsigned privileges, int va_type, DAT_HANDLE ep, DAT_RMR_CONTEXT* out) {
    return ia->rmr_bind_func(window, lmr, range,
                             raw_enum<DAT_MEM_PRIV_FLAGS>(static_cast<int>(privileges)),
                             raw_enum<DAT_VA_TYPE>(va_type), ep, cookie_of(1), kDefault, out);
  };
  constexpr unsigned kRead = DAT_MEM_PRIV_REMOTE_READ_FLAG;
  CHECK_CODE(bind(pz, to.lmr, &good, kRead, 0, active.ep, &context), 0x8005000E);
  CHECK_CODE(bind(rmr, nullptr, &good, kRead, 0, active.ep, &context), 0x8005000D);
  CHECK_CODE(bind(rmr, pz, &good, kRead, 0, active.ep, &context), 0x8005000D);
  CHECK_CODE(bind(rmr, to.lmr, &good, kRead, 0, pz, &context), 0x8005000C);
  CHECK_CODE(bind(rmr, to.lmr, nullptr, kRead, 0, active.ep, &context), 0x80060027);
  CHECK_CODE(bind(rmr, to.lmr, &good, kRead, 0, active.ep, nullptr), 0x8006002D);
  CHECK_CODE(bind(rmr, to.lmr, &good, 0x40, 0, active.ep, &context), 0x80060028);
  CHECK_CODE(bind(rmr, to.lmr, &good, kRead, 2, active.ep, &context), 0x80060029);
  const DAT_LMR_TRIPLET ranges[] = {to.local(257),
                                    to.local(1, 256),
                                    {good.virtual_address - 1, 1, to.context},
                                    {~DAT_VADDR{0}, 2, to.context},
                                    from.local(16),
                                    {good.virtual_address, 16, from.context}};
  for (const DAT_LMR_TRIPLET& range : ranges)
    CHECK_CODE(bind(rmr, to.lmr, &range, kRead, 0, active.ep, &context), 0x80060027);

  // Zones and rights.
  const DAT_PZ_HANDLE other = ia.pz();
  Buffer foreign(ia, other);
  const DAT_LMR_TRIPLET foreign_range = foreign.local(16);
  CHECK_CODE(bind(rmr, foreign.lmr, &foreign_range, kRead, 0, active.ep, &context),
             dat_error(DAT_PROTECTION_VIOLATION));
  DAT_RMR_HANDLE foreign_rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(other, &foreign_rmr));
  CHECK_CODE(bind(foreign_rmr, to.lmr, &good, kRead, 0, active.ep, &context),
             dat_error(DAT_PROTECTION_VIOLATION));
  Buffer read_only(ia, pz, 64, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  const DAT_LMR_TRIPLET readable = read_only.local(16);
  CHECK_CODE(
      bind(rmr, read_only.lmr, &readable, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 0, active.ep, &context),
      dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
  BOOST_CHECK_EQUAL(ep_object(active.ep).requests.cookies.outstanding(), 0U);

  // Local reading needs no right (docs/compatibility.md).
  Buffer write_only(ia, pz, 64, DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
  const DAT_LMR_TRIPLET writable = write_only.local(16);
  REQUIRE_OK(bind(rmr, write_only.lmr, &writable, kRead, 0, active.ep, &context));
  REQUIRE_OK(
      bind(rmr, to.lmr, &good, kRead | DAT_MEM_PRIV_LOCAL_READ_FLAG, 0, active.ep, &context));
  BOOST_CHECK_NE(context, 0U);
  CHECK_ERROR(ia->lmr_free_func(to.lmr), DAT_INVALID_STATE);
  const DAT_LMR_TRIPLET nothing{0, 0, 0};
  REQUIRE_OK(bind(rmr, nullptr, &nothing, 0, 0, active.ep, nullptr));  // unbind
  REQUIRE_OK(ia->lmr_free_func(to.lmr));
}

// ---- SRQ --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(srq) {
  for (const bool thread_safe : {true, false}) {
    Transfers t(thread_safe);
    const DAT_SRQ_HANDLE queue = t.ia.srq(t.pz, 4);
    const Side one = t.srq_side(queue);
    const Side two = t.srq_side(queue);
    const Side a = t.side();
    const Side b = t.side();
    t.join(a, one);
    t.join(b, two);
    DAT_LMR_TRIPLET segment = t.to.local(64);
    const auto post = [&](DAT_HANDLE srq_handle, DAT_COUNT count, DAT_LMR_TRIPLET* list,
                          std::uint64_t cookie) {
      return t.ia->srq_post_recv_func(srq_handle, count, list, cookie_of(cookie));
    };
    CHECK_CODE(post(t.pz, 1, &segment, 1), 0x80050019);
    CHECK_CODE(post(queue, 2, &segment, 1), 0x80060026);
    CHECK_CODE(post(queue, -1, &segment, 1), 0x80060026);
    CHECK_CODE(post(queue, 1, nullptr, 1), 0x80060026);
    DAT_LMR_TRIPLET unknown{0, 1, 0x7777};
    CHECK_ERROR(post(queue, 1, &unknown, 1), DAT_PRIVILEGES_VIOLATION);
    for (std::uint64_t round = 0; round < 20; ++round) {
      for (std::uint64_t i = 0; i < 4; ++i) REQUIRE_OK(post(queue, 1, &segment, i));
      CHECK_ERROR(post(queue, 1, &segment, 9), DAT_INSUFFICIENT_RESOURCES);
      for (std::uint64_t i = 0; i < 2; ++i) {
        REQUIRE_OK(t.post_send(a.ep, t.from, i));
        REQUIRE_OK(t.post_send(b.ep, t.from, i));
      }
      for (const auto& [side, cookies] :
           {std::pair{one, std::array{0U, 2U}}, std::pair{two, std::array{1U, 3U}}}) {
        for (const std::uint64_t cookie : cookies) {
          const auto received = t.take_dto(side.recv_evd);
          BOOST_CHECK_EQUAL(received.ep_handle, side.ep);
          BOOST_CHECK_EQUAL(received.user_cookie.as_64, cookie);
        }
      }
      DAT_EVENT event{};
      while (t.ia->evd_dequeue_func(a.request_evd, &event) == DAT_SUCCESS) {
      }
      while (t.ia->evd_dequeue_func(b.request_evd, &event) == DAT_SUCCESS) {
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(srq_buffers_survive_their_ep) {
  const DAT_SRQ_HANDLE queue = ia.srq(pz, 4);
  const Side one = srq_side(queue);
  const Side peer = side();
  join(peer, one);
  DAT_LMR_TRIPLET segment = to.local(64);
  for (std::uint64_t i = 0; i < 4; ++i)
    REQUIRE_OK(ia->srq_post_recv_func(queue, 1, &segment, cookie_of(i)));
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(post_send(peer.ep, from, i));
  static_cast<void>(take_dto(one.recv_evd));  // two more are in the stash
  REQUIRE_OK(ia->ep_free_func(one.ep));
  DAT_SRQ_PARAM param{};
  REQUIRE_OK(ia->srq_query_func(queue, DAT_SRQ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.available_dto_count, 1);
  BOOST_CHECK_EQUAL(param.outstanding_dto_count, 1);  // nothing leaked with the EP
  REQUIRE_OK(ia->srq_free_func(queue));
  run();
}

BOOST_AUTO_TEST_CASE(srq_ep_without_receive_evd) {
  const DAT_SRQ_HANDLE queue = ia.srq(pz, 4);
  Side quiet;
  quiet.connect_evd = ia.evd(DAT_EVD_CONNECTION_FLAG, 8);
  DAT_EP_ATTR attr = attributes();
  attr.max_recv_dtos = 0;
  REQUIRE_OK(ia->ep_create_with_srq_func(ia.raw, pz, nullptr, nullptr, quiet.connect_evd, queue,
                                         &attr, &quiet.ep));
  const Side peer = side();
  join(peer, quiet);
  DAT_LMR_TRIPLET segment = to.local(64);
  for (std::uint64_t i = 0; i < 50; ++i) {
    REQUIRE_OK(ia->srq_post_recv_func(queue, 1, &segment, cookie_of(i)));
    REQUIRE_OK(post_send(peer.ep, from, i));
    BOOST_CHECK_EQUAL(take_dto(peer.request_evd).status, DAT_DTO_SUCCESS);
    run();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
