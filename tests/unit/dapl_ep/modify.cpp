// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_ep_modify changes all masked fields or none.
#include <atomic>
#include <thread>

#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {
namespace {

struct Modification : Rig {
  DAT_RETURN modify(DAT_EP_PARAM_MASK mask) const {
    return ia->ep_modify_func(side.ep, mask, &param);
  }
  DAT_EP_PARAM query() const {
    DAT_EP_PARAM now{};
    REQUIRE_OK(ia->ep_query_func(side.ep, DAT_EP_FIELD_ALL, &now));
    return now;
  }
  Side side = Rig::side();
  DAT_EP_PARAM param{};
};

BOOST_FIXTURE_TEST_SUITE(modify, Modification)

BOOST_AUTO_TEST_CASE(read_only_fields) {
  for (const DAT_EP_PARAM_MASK field :
       {DAT_EP_FIELD_IA_HANDLE, DAT_EP_FIELD_EP_STATE, DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR,
        DAT_EP_FIELD_LOCAL_PORT_QUAL, DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR,
        DAT_EP_FIELD_REMOTE_PORT_QUAL, DAT_EP_FIELD_ALL + 1})
    CHECK_CODE(modify(field), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(ia->ep_modify_func(side.ep, DAT_EP_FIELD_COMM, nullptr),
             invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(modify(0), DAT_SUCCESS);
}

BOOST_AUTO_TEST_CASE(one_bad_field_changes_nothing) {
  const DAT_EP_PARAM before = query();
  param.pz_handle = ia.pz();
  param.recv_evd_handle = ia.evd(DAT_EVD_DTO_FLAG);
  param.ep_attr.max_request_dtos = 4;
  param.ep_attr.max_recv_iov = 1000;
  CHECK_CODE(modify(DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                    DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV),
             invalid_parameter(DAT_INVALID_ARG3));
  const DAT_EP_PARAM after = query();
  BOOST_CHECK_EQUAL(before.pz_handle, after.pz_handle);
  BOOST_CHECK_EQUAL(before.recv_evd_handle, after.recv_evd_handle);
  BOOST_CHECK_EQUAL(before.ep_attr.max_request_dtos, after.ep_attr.max_request_dtos);
  REQUIRE_OK(ia->evd_free_func(param.recv_evd_handle));  // the new ones are not referenced
  REQUIRE_OK(ia->pz_free_func(param.pz_handle));
}

// The transport may block, so no spin lock is held while it replaces the queue. A receive posted
// meanwhile waits, and is posted to the new queue.
BOOST_AUTO_TEST_CASE(receive_posts_wait_without_a_lock) {
  dapl::Ep& ep = ep_object(side.ep);
  Buffer buffer(ia, pz);
  std::thread poster;
  std::atomic<bool> posted{false};
  DAT_RETURN code = DAT_INTERNAL_ERROR;
  bool waited = false;
  qp(side.ep).on_modify = [&] {
    const bool locked = !ep.receives.lock.try_lock();
    if (!locked) ep.receives.lock.unlock();
    BOOST_CHECK(!locked);
    poster = std::thread([&] {
      code = post_recv(side.ep, buffer, 1);
      posted = true;
    });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    waited = !posted;
  };
  param.ep_attr.max_recv_iov = 1;
  CHECK_CODE(modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV), DAT_SUCCESS);
  poster.join();
  qp(side.ep).on_modify = nullptr;
  CHECK_CODE(code, DAT_SUCCESS);
  BOOST_CHECK(waited);
  BOOST_CHECK_EQUAL(ep.receives.cookies.outstanding(), 1U);
}

BOOST_AUTO_TEST_CASE(all_at_once) {
  const DAT_PZ_HANDLE old_pz = pz;
  param.pz_handle = ia.pz();
  param.recv_evd_handle = ia.evd(DAT_EVD_DTO_FLAG);
  param.request_evd_handle = ia.evd(DAT_EVD_DTO_FLAG);
  param.connect_evd_handle = ia.evd(DAT_EVD_CONNECTION_FLAG);
  param.ep_attr = attributes();
  param.ep_attr.max_recv_dtos = 20;
  param.ep_attr.max_request_dtos = 30;
  param.ep_attr.max_rdma_read_out = 2;
  param.ep_attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  REQUIRE_OK(modify(DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                    DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE |
                    DAT_EP_FIELD_EP_ATTR_ALL));
  const DAT_EP_PARAM now = query();
  BOOST_CHECK_EQUAL(now.pz_handle, param.pz_handle);
  BOOST_CHECK_EQUAL(now.connect_evd_handle, param.connect_evd_handle);
  BOOST_CHECK_EQUAL(now.ep_attr.max_recv_dtos, 20);
  const transport::QpInit init = qp(side.ep).init();
  BOOST_CHECK_EQUAL(init.max_request, 30);
  BOOST_CHECK_EQUAL(init.max_rdma_read_out, 2);
  BOOST_CHECK(init.pd == &static_cast<dapl::Pz*>(param.pz_handle)->pd());
  BOOST_CHECK(init.recv_cq == object(param.recv_evd_handle).cq());
  // The old EVDs and PZ are no longer in use.
  for (const DAT_EVD_HANDLE evd : {side.recv_evd, side.request_evd, side.connect_evd})
    REQUIRE_OK(ia->evd_free_func(evd));
  REQUIRE_OK(ia->pz_free_func(old_pz));
}

BOOST_AUTO_TEST_CASE(completion_mode_of_its_own_evd) {
  param.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  REQUIRE_OK(modify(DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS));
  BOOST_CHECK_EQUAL(object(side.recv_evd).state() & 0x30, DAT_EVD_STATE_CONFIG_NOTIFY);
  // The mode moves with the EP to another EVD.
  const Side neighbour = Rig::side();
  param.recv_evd_handle = neighbour.recv_evd;
  REQUIRE_OK(modify(DAT_EP_FIELD_RECV_EVD_HANDLE));
  BOOST_CHECK_EQUAL(query().recv_evd_handle, neighbour.recv_evd);
  BOOST_CHECK_EQUAL(object(side.recv_evd).state() & 0x30, DAT_EVD_STATE_CONFIG_THRESHOLD);
  BOOST_CHECK_EQUAL(object(neighbour.recv_evd).state() & 0x30, DAT_EVD_STATE_CONFIG_NOTIFY);
}

BOOST_AUTO_TEST_CASE(posted_receives_forbid_another_queue) {
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE_OK(post_recv(side.ep, buffer, i));
  param.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  REQUIRE_OK(modify(DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS));
  param.ep_attr.max_recv_dtos = 4;
  CHECK_CODE(modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS), invalid_parameter(DAT_INVALID_ARG3));
  param.ep_attr.max_recv_dtos = 9;  // the posted receives would have to move
  CHECK_ERROR(modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS), DAT_INVALID_STATE);
  param.ep_attr.max_recv_dtos = 6;
  REQUIRE_OK(modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS));
  REQUIRE_OK(post_recv(side.ep, buffer, 5));
  CHECK_ERROR(post_recv(side.ep, buffer, 6), DAT_INSUFFICIENT_RESOURCES);
  param.pz_handle = DAT_HANDLE_NULL;
  CHECK_ERROR(modify(DAT_EP_FIELD_PZ_HANDLE), DAT_INVALID_STATE);
  // The receives stay posted, and complete to the new EVD.
  param.recv_evd_handle = ia.evd(DAT_EVD_DTO_FLAG);
  REQUIRE_OK(modify(DAT_EP_FIELD_RECV_EVD_HANDLE));
  const Side peer = Rig::side();
  join(side, peer);
  REQUIRE_OK(post_send(peer.ep, buffer, 9));
  BOOST_CHECK_EQUAL(take_dto(param.recv_evd_handle).user_cookie.as_64, 0U);
  BOOST_CHECK(empty(side.recv_evd));
}

BOOST_AUTO_TEST_CASE(without_and_with_a_pz) {
  param.pz_handle = DAT_HANDLE_NULL;
  REQUIRE_OK(modify(DAT_EP_FIELD_PZ_HANDLE));
  BOOST_CHECK(fake::Qp::of(side.ep) == nullptr);
  Buffer buffer(ia, pz);
  CHECK_CODE(post_recv(side.ep, buffer, 1), invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
  CHECK_CODE(connect(side.ep), invalid_state(DAT_INVALID_STATE_EP_NOTREADY));
  param.pz_handle = pz;
  REQUIRE_OK(modify(DAT_EP_FIELD_PZ_HANDLE));
  REQUIRE_OK(post_recv(side.ep, buffer, 1));
}

BOOST_AUTO_TEST_CASE(setting_an_evd_grants_dtos) {
  DAT_EP_HANDLE bare = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, nullptr, nullptr, nullptr, nullptr, &bare));
  param.recv_evd_handle = side.recv_evd;
  param.request_evd_handle = side.request_evd;
  REQUIRE_OK(ia->ep_modify_func(
      bare, DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE, &param));
  DAT_EP_PARAM now{};
  REQUIRE_OK(ia->ep_query_func(bare, DAT_EP_FIELD_ALL, &now));
  BOOST_CHECK_EQUAL(now.ep_attr.max_recv_dtos, 16);
  BOOST_CHECK_EQUAL(now.ep_attr.max_request_dtos, 16);
  Buffer buffer(ia, pz);
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE_OK(post_recv(bare, buffer, i));
  CHECK_ERROR(post_recv(bare, buffer, 16), DAT_INSUFFICIENT_RESOURCES);
}

// Programs pass attributes in which they have filled in what they need.
BOOST_AUTO_TEST_CASE(no_dtos_and_segments) {
  param.ep_attr.max_recv_dtos = param.ep_attr.max_request_dtos = 0;
  param.ep_attr.max_recv_iov = param.ep_attr.max_request_iov = 0;
  REQUIRE_OK(modify(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV));
  Buffer buffer(ia, pz);
  REQUIRE_OK(post_recv(side.ep, buffer, 1));
  const Side fresh = Rig::side();
  REQUIRE_OK(ia->ep_modify_func(
      fresh.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
      &param));
  CHECK_CODE(post_recv(fresh.ep, buffer, 1),
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  join(side, fresh);
  CHECK_CODE(post_send(fresh.ep, buffer, 1),
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
}

// Also a soft watermark, which OpenFabrics does not read.
BOOST_AUTO_TEST_CASE(soft_watermark_without_an_srq) {
  DAT_EP_ATTR attr = attributes();
  attr.srq_soft_hw = 1;
  const Side made = Rig::side(attr);
  param.ep_attr.srq_soft_hw = 1;
  REQUIRE_OK(modify(DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW));
  BOOST_CHECK_EQUAL(query().ep_attr.srq_soft_hw, 1);
  Buffer buffer(ia, pz);
  for (const DAT_EP_HANDLE ep : {made.ep, side.ep})
    for (std::uint64_t i = 0; i < 3; ++i) REQUIRE_OK(post_recv(ep, buffer, i));
  run();
  BOOST_CHECK(empty(ia.async));
  // The call has an effect, and the attribute shows it until the mark is exceeded.
  REQUIRE_OK(ia->ep_set_watermark_func(side.ep, 3, DAT_WATERMARK_INFINITE));
  BOOST_CHECK_EQUAL(query().ep_attr.srq_soft_hw, 3);
  REQUIRE_OK(post_recv(side.ep, buffer, 3));
  run();
  BOOST_CHECK(!empty(ia.async));
  BOOST_CHECK_EQUAL(query().ep_attr.srq_soft_hw, DAT_WATERMARK_INFINITE);
}

BOOST_AUTO_TEST_CASE(only_a_stream_communicator_is_accepted) {
  param.comm = {AF_INET, SOCK_DGRAM, 0};
  CHECK_CODE(modify(DAT_EP_FIELD_COMM), invalid_parameter(DAT_INVALID_ARG3));
  param.comm = {AF_UNIX, SOCK_STREAM, 0};
  CHECK_CODE(modify(DAT_EP_FIELD_COMM), invalid_parameter(DAT_INVALID_ARG3));
  param.comm = {0, 0, 0};
  CHECK_CODE(modify(DAT_EP_FIELD_COMM), invalid_parameter(DAT_INVALID_ARG3));
  param.comm = {AF_INET6, SOCK_STREAM, IPPROTO_TCP};
  REQUIRE_OK(modify(DAT_EP_FIELD_COMM));
  BOOST_CHECK_EQUAL(query().comm.domain, AF_INET6);
  BOOST_CHECK_EQUAL(query().comm.protocol, IPPROTO_TCP);
}

BOOST_AUTO_TEST_CASE(wrong_handles_are_refused) {
  param.pz_handle = side.ep;
  CHECK_ERROR(modify(DAT_EP_FIELD_PZ_HANDLE), DAT_INVALID_HANDLE);
  param.recv_evd_handle = cr_evd;
  CHECK_ERROR(modify(DAT_EP_FIELD_RECV_EVD_HANDLE), DAT_INVALID_HANDLE);
  param.request_evd_handle = pz;
  CHECK_ERROR(modify(DAT_EP_FIELD_REQUEST_EVD_HANDLE), DAT_INVALID_HANDLE);
  param.connect_evd_handle = side.recv_evd;
  CHECK_ERROR(modify(DAT_EP_FIELD_CONNECT_EVD_HANDLE), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_SUITE_END()

// A passive EP and the request of a peer that serves two Reads at a time.
struct SmallPeer : Rig {
  explicit SmallPeer(const DAT_EP_ATTR* attr = nullptr) {
    REQUIRE_OK(ia->ep_create_func(ia.raw, pz, evds.recv_evd, evds.request_evd, evds.connect_evd,
                                  attr, &passive));
    DAT_EP_ATTR two = attributes();
    two.max_rdma_read_in = 2;
    active = Rig::side(two);
    psp();
    REQUIRE_OK(connect(active.ep));
    run();
    cr = take_cr();
  }
  [[nodiscard]] DAT_RETURN accept() const { return ia->cr_accept_func(cr, passive, 0, nullptr); }
  [[nodiscard]] DAT_COUNT reads() const {
    DAT_EP_PARAM param{};
    REQUIRE_OK(ia->ep_query_func(passive, DAT_EP_FIELD_ALL, &param));
    return param.ep_attr.max_rdma_read_out;
  }

  Side evds = Rig::side();
  Side active;
  DAT_EP_HANDLE passive = DAT_HANDLE_NULL;
  DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
};

BOOST_FIXTURE_TEST_SUITE(read_depths, SmallPeer)

BOOST_AUTO_TEST_CASE(default_depths_follow_the_peer_until_reset) {
  BOOST_CHECK_EQUAL(reads(), 4);
  REQUIRE_OK(accept());
  run();
  BOOST_CHECK_EQUAL(reads(), 2);
  REQUIRE_OK(ia->ep_disconnect_func(passive, DAT_CLOSE_ABRUPT_FLAG));
  run();
  BOOST_CHECK_EQUAL(reads(), 2);
  REQUIRE_OK(ia->ep_reset_func(passive));
  BOOST_CHECK_EQUAL(reads(), 4);
  BOOST_CHECK_EQUAL(qp(passive).init().max_rdma_read_out, 4);
}

BOOST_AUTO_TEST_CASE(default_depths_stay_if_accept_fails) {
  qp(passive).refuse_connect = true;
  CHECK_ERROR(accept(), DAT_INSUFFICIENT_RESOURCES);
  BOOST_CHECK_EQUAL(reads(), 4);
  BOOST_CHECK_EQUAL(qp(passive).init().max_rdma_read_out, 4);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(depths_of_the_consumer_are_shown_as_set) {
  const DAT_EP_ATTR four = Rig::attributes();
  const SmallPeer rig(&four);
  REQUIRE_OK(rig.accept());
  SmallPeer::run();
  BOOST_CHECK_EQUAL(rig.reads(), 4);
}

}  // namespace
}  // namespace udapl::test
