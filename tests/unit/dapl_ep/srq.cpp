// SPDX-License-Identifier: MIT OR GPL-2.0-only
// EPs that use the receives of an SRQ; with and without locks.
#include "tests/unit/dapl_ep/transfers.h"

#include <array>
#include <utility>

namespace udapl::test {
namespace {

BOOST_FIXTURE_TEST_SUITE(shared_receives, Transfers)

BOOST_AUTO_TEST_CASE(two_eps_share_the_receives) {
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
    CHECK_CODE(post(t.pz, 1, &segment, 1), invalid_handle(DAT_INVALID_HANDLE_SRQ));
    CHECK_CODE(post(queue, 2, &segment, 1), invalid_parameter(DAT_INVALID_ARG2));
    CHECK_CODE(post(queue, -1, &segment, 1), invalid_parameter(DAT_INVALID_ARG2));
    CHECK_CODE(post(queue, 1, nullptr, 1), invalid_parameter(DAT_INVALID_ARG2));
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
  static_cast<void>(take_dto(one.recv_evd));  // moves two more into the stash
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
