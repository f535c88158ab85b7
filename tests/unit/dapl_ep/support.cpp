// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {

Buffer::Buffer(const OpenIa& ia, DAT_PZ_HANDLE pz, std::size_t size, unsigned privileges)
    : bytes(size) {
  DAT_REGION_DESCRIPTION region{};
  region.for_va = bytes.data();
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
  REQUIRE_OK(ia->lmr_create_func(ia.raw, DAT_MEM_TYPE_VIRTUAL, region, size, pz,
                                 static_cast<DAT_MEM_PRIV_FLAGS>(privileges), DAT_VA_TYPE_VA, &lmr,
                                 &context, &remote_context, &length, &address));
}

DAT_LMR_TRIPLET Buffer::local(DAT_SEG_LENGTH length, std::size_t offset) {
  return {reinterpret_cast<DAT_VADDR>(bytes.data() + offset), length, context};
}

DAT_RMR_TRIPLET Buffer::remote(DAT_SEG_LENGTH length, std::size_t offset) {
  return {reinterpret_cast<DAT_VADDR>(bytes.data() + offset), length, remote_context};
}

namespace {

OpenIa open_adjusted(bool thread_safe, Rig::Adjust adjust) {
  if (adjust != nullptr) adjust(fake::settings().attributes);
  return OpenIa(thread_safe);
}

}  // namespace

Rig::Rig(bool thread_safe, Adjust adjust) : Fixture{{}, open_adjusted(thread_safe, adjust)} {
  pz = ia.pz();
  cr_evd = ia.evd(DAT_EVD_CR_FLAG, 8);
}

DAT_EP_ATTR Rig::attributes() {
  DAT_EP_ATTR attr{};
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = 4096;
  attr.max_rdma_size = 4096;
  attr.max_recv_dtos = 8;
  attr.max_request_dtos = 8;
  attr.max_recv_iov = 2;
  attr.max_request_iov = 2;
  attr.max_rdma_read_in = 4;
  attr.max_rdma_read_out = 4;
  return attr;
}

Side Rig::side(const DAT_EP_ATTR& attr) const {
  Side side;
  side.recv_evd = ia.evd(DAT_EVD_DTO_FLAG, 64);
  side.request_evd = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, 64);
  side.connect_evd = ia.evd(DAT_EVD_CONNECTION_FLAG, 8);
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, side.recv_evd, side.request_evd, side.connect_evd,
                                &attr, &side.ep));
  return side;
}

Side Rig::srq_side(DAT_SRQ_HANDLE srq) const {
  Side side;
  side.recv_evd = ia.evd(DAT_EVD_DTO_FLAG, 64);
  side.request_evd = ia.evd(DAT_EVD_DTO_FLAG, 64);
  side.connect_evd = ia.evd(DAT_EVD_CONNECTION_FLAG, 8);
  DAT_EP_ATTR attr = attributes();
  attr.srq_soft_hw = DAT_WATERMARK_INFINITE;
  REQUIRE_OK(ia->ep_create_with_srq_func(ia.raw, pz, side.recv_evd, side.request_evd,
                                         side.connect_evd, srq, &attr, &side.ep));
  return side;
}

fake::Qp& Rig::qp(DAT_EP_HANDLE ep) {
  fake::Qp* const found = fake::Qp::of(ep);
  BOOST_REQUIRE(found != nullptr);
  return *found;
}

DAT_PSP_HANDLE Rig::psp(DAT_CONN_QUAL conn_qual, DAT_PSP_FLAGS flags) const {
  DAT_PSP_HANDLE made = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->psp_create_func(ia.raw, conn_qual, cr_evd, flags, &made));
  return made;
}

DAT_RETURN Rig::connect(DAT_EP_HANDLE ep, DAT_CONN_QUAL conn_qual,
                        const std::vector<std::uint8_t>& data) const {
  transport::SocketAddress peer = fake::Network::address();
  return ia->ep_connect_func(ep, peer.get(), conn_qual, kLate, static_cast<DAT_COUNT>(data.size()),
                             data.empty() ? nullptr : const_cast<std::uint8_t*>(data.data()),
                             DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

DAT_CR_ARRIVAL_EVENT_DATA Rig::take_request() const {
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(cr_evd, &event));
  BOOST_REQUIRE_EQUAL(static_cast<int>(event.event_number),
                      static_cast<int>(DAT_CONNECTION_REQUEST_EVENT));
  return event.event_data.cr_arrival_event_data;
}

void Rig::join(const Side& active, const Side& passive) const {
  const DAT_PSP_HANDLE listening = psp();
  REQUIRE_OK(connect(active.ep));
  run();
  REQUIRE_OK(ia->cr_accept_func(take_cr(), passive.ep, 0, nullptr));
  run();
  BOOST_REQUIRE_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  BOOST_REQUIRE_EQUAL(take_connection(passive.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(ia->psp_free_func(listening));
}

Side Rig::reach(DAT_EP_STATE wanted) {
  static DAT_CONN_QUAL next = 20000;
  Side side;
  const DAT_CONN_QUAL conn_qual = next++;
  switch (wanted) {
    case DAT_EP_STATE_UNCONNECTED:
      side = this->side();
      break;
    case DAT_EP_STATE_RESERVED:
    case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING: {
      side = this->side();
      DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
      REQUIRE_OK(ia->rsp_create_func(ia.raw, conn_qual, side.ep, cr_evd, &rsp));
      if (wanted == DAT_EP_STATE_RESERVED) break;
      REQUIRE_OK(connect(this->side().ep, conn_qual));
      run();
      pending_crs.push_back(take_cr());
      break;
    }
    case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING: {
      psp(conn_qual, DAT_PSP_PROVIDER_FLAG);
      REQUIRE_OK(connect(this->side().ep, conn_qual));
      run();
      const DAT_CR_HANDLE cr = take_cr();
      pending_crs.push_back(cr);
      DAT_CR_PARAM param{};
      REQUIRE_OK(ia->cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
      side.ep = param.local_ep_handle;
      break;
    }
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
      side = this->side();
      psp(conn_qual);
      REQUIRE_OK(connect(side.ep, conn_qual));
      break;
    case DAT_EP_STATE_COMPLETION_PENDING:
      side = this->side();
      psp(conn_qual);
      REQUIRE_OK(connect(this->side().ep, conn_qual));
      run();
      REQUIRE_OK(ia->cr_accept_func(take_cr(), side.ep, 0, nullptr));
      break;  // the outcome stays pending, because the scheduler does not run
    case DAT_EP_STATE_CONNECTED:
    case DAT_EP_STATE_DISCONNECT_PENDING:
    case DAT_EP_STATE_DISCONNECTED: {
      side = this->side();
      join(side, this->side());
      if (wanted == DAT_EP_STATE_CONNECTED) break;
      if (wanted == DAT_EP_STATE_DISCONNECTED) {
        REQUIRE_OK(ia->ep_disconnect_func(side.ep, DAT_CLOSE_ABRUPT_FLAG));
        BOOST_REQUIRE_EQUAL(take_connection(side.connect_evd), DAT_CONNECTION_EVENT_DISCONNECTED);
        break;
      }
      Buffer buffer(ia, pz);
      qp(side.ep).hold(true);
      REQUIRE_OK(post_send(side.ep, buffer, 1));
      REQUIRE_OK(ia->ep_disconnect_func(side.ep, DAT_CLOSE_GRACEFUL_FLAG));
      break;
    }
    default:
      BOOST_FAIL("no such state");
  }
  BOOST_REQUIRE_EQUAL(state(side.ep), wanted);
  return side;
}

DAT_EP_STATE Rig::state(DAT_EP_HANDLE ep) const {
  DAT_EP_STATE now{};
  REQUIRE_OK(ia->ep_get_status_func(ep, &now, nullptr, nullptr));
  return now;
}

int Rig::take_connection(DAT_EVD_HANDLE evd, DAT_EVENT* event) const {
  DAT_EVENT taken{};
  if (ia->evd_dequeue_func(evd, &taken) != DAT_SUCCESS) return 0;
  if (event != nullptr) *event = taken;
  return taken.event_number;
}

DAT_DTO_COMPLETION_EVENT_DATA Rig::take_dto(DAT_EVD_HANDLE evd) const {
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number),
                    static_cast<int>(DAT_DTO_COMPLETION_EVENT));
  return event.event_data.dto_completion_event_data;
}

bool Rig::empty(DAT_EVD_HANDLE evd) const {
  DAT_EVENT event{};
  return type_of(ia->evd_dequeue_func(evd, &event)) == DAT_QUEUE_EMPTY;
}

DAT_RETURN Rig::post_recv(DAT_EP_HANDLE ep, Buffer& buffer, std::uint64_t cookie,
                          DAT_SEG_LENGTH length, unsigned flags) const {
  DAT_LMR_TRIPLET segment = buffer.local(length);
  return ia->ep_post_recv_func(ep, 1, &segment, cookie_of(cookie), flags_of(flags));
}

DAT_RETURN Rig::post_send(DAT_EP_HANDLE ep, Buffer& buffer, std::uint64_t cookie,
                          DAT_SEG_LENGTH length, unsigned flags) const {
  DAT_LMR_TRIPLET segment = buffer.local(length);
  return ia->ep_post_send_func(ep, 1, &segment, cookie_of(cookie), flags_of(flags));
}

}  // namespace udapl::test
