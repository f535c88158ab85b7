/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
// EPs.
#include <netinet/in.h>

#include <cstring>

#include "world.h"

namespace {

DAT_EP_ATTR attributes(World& w) {
  DAT_EP_ATTR attr;
  std::memset(&attr, 0, sizeof attr);
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = w.random.of({65536U, 0U, 4096U});
  attr.max_rdma_size = w.random.of({65536U, 0U, 4096U});
  attr.recv_completion_flags = static_cast<DAT_COMPLETION_FLAGS>(w.random.of({0, 0x10, 0, 4, 2}));
  attr.request_completion_flags =
      static_cast<DAT_COMPLETION_FLAGS>(w.random.of({0, 0x10, 0, 4, 1}));
  attr.max_recv_dtos = w.random.of({16, 4, 8, 32, 1});
  attr.max_request_dtos = w.random.of({16, 4, 8, 32, 1});
  attr.max_recv_iov = w.random.of({1, 2, 4});
  attr.max_request_iov = w.random.of({1, 2, 4});
  attr.max_rdma_read_in = w.random.of({4, 1, 2, 0});
  attr.max_rdma_read_out = w.random.of({4, 1, 2, 0});
  attr.max_rdma_read_iov = w.random.of({1, 0, 2});
  attr.max_rdma_write_iov = w.random.of({1, 0, 2, 4});
  if (w.random.percent(8)) {
    switch (w.random.below(12)) {
      case 0:
        attr.max_recv_dtos = 0;
        break;
      case 1:
        attr.max_request_dtos = 0;
        break;
      case 2:
        attr.max_recv_iov = 0;
        break;
      case 3:
        attr.max_request_iov = 0;
        break;
      case 4:
        attr.max_recv_dtos = 10000000;
        break;
      case 5:
        attr.max_request_iov = 10000;
        break;
      case 6:
        attr.max_rdma_read_in = 100000;
        break;
      case 7:
        attr.max_message_size = 0xffffffffU;
        break;
      case 8:
        attr.qos = DAT_QOS_PREMIUM;
        break;
      case 9:
        attr.recv_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG;
        break;
      case 10:
        attr.srq_soft_hw = w.random.of({-1, 1, 5});
        break;
      default:
        attr.max_rdma_size = 0xffffffffU;
        break;
    }
  }
  return attr;
}

std::string text(const DAT_EP_ATTR* attr) {
  if (attr == nullptr) {
    return "none";
  }
  std::string result;
  for (long value : std::initializer_list<long>{
           attr->service_type, attr->max_message_size, attr->max_rdma_size, attr->qos,
           attr->recv_completion_flags, attr->request_completion_flags, attr->max_recv_dtos,
           attr->max_request_dtos, attr->max_recv_iov, attr->max_request_iov,
           attr->max_rdma_read_in, attr->max_rdma_read_out, attr->srq_soft_hw,
           attr->max_rdma_read_iov, attr->max_rdma_write_iov}) {
    result += (result.empty() ? "" : ",") + std::to_string(value);
  }
  return result;
}

}  // namespace

void create_ep(World& w, Side& side) {
  const int place = w.free_place(side.ep);
  if (place < 0) {
    return;
  }
  const DAT_EP_ATTR attr = attributes(w);
  const DAT_EP_ATTR* used = w.random.percent(30) ? nullptr : &attr;
  DAT_PZ_HANDLE pz = w.maybe(side, &Side::pz, 1);
  DAT_EVD_HANDLE recv = w.evd_for(side, DAT_EVD_DTO_FLAG, 2);
  DAT_EVD_HANDLE request = w.evd_for(side, DAT_EVD_DTO_FLAG, 2);
  DAT_EVD_HANDLE connect = w.evd_for(side, DAT_EVD_CONNECTION_FLAG, 2);
  DAT_SRQ_HANDLE srq = w.random.percent(40) ? w.pick(side, &Side::srq) : DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  w.begin(std::string("ep_create ") + side.letter + " pz=" + w.name(pz) + " recv=" + w.name(recv) +
          " request=" + w.name(request) + " connect=" + w.name(connect) + " srq=" + w.name(srq) +
          " attr=" + text(used));
  const DAT_RETURN code =
      srq == DAT_HANDLE_NULL
          ? dat_ep_create(side.ia, pz, recv, request, connect, used, &ep)
          : dat_ep_create_with_srq(side.ia, pz, recv, request, connect, srq, used, &ep);
  if (w.end(code)) {
    side.ep[static_cast<std::size_t>(place)] = ep;
    w.named(ep, side, "ep", place);
  }
}

namespace {

void ep_create(World& w) {
  Side& side = w.any_side();
  if (side.ia != DAT_HANDLE_NULL) {
    create_ep(w, side);
  }
}

void ep_free(World& w) {
  Side& side = w.any_side();
  int index = 0;
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep, &index);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  w.begin("ep_free " + w.name(ep));
  if (w.end(dat_ep_free(ep))) {
    side.ep[static_cast<std::size_t>(index)] = DAT_HANDLE_NULL;
  }
  w.after(40);
}

std::string address(const DAT_SOCK_ADDR* address) {
  return address == nullptr ? "null" : std::to_string(address->sa_family);
}

void ep_query(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EP_PARAM param;
  std::memset(&param, 0, sizeof param);
  w.begin("ep_query " + w.name(ep));
  if (!w.end(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param))) {
    return;
  }
  w.field("ia", w.name(param.ia_handle));
  w.field("state", param.ep_state);
  w.field("local", address(param.local_ia_address_ptr));
  w.field("local_port", param.local_port_qual == 0 ? 0U : 1U);
  w.field("remote", address(param.remote_ia_address_ptr));
  const bool qualifier =
      param.remote_port_qual >= w.qualifiers && param.remote_port_qual < w.qualifiers + 32U;
  w.field("remote_port", qualifier                     ? param.remote_port_qual - w.qualifiers
                         : param.remote_port_qual == 0 ? 0x70U
                                                       : 0x71U);
  w.field("pz", w.name(param.pz_handle));
  w.field("recv", w.name(param.recv_evd_handle));
  w.field("request", w.name(param.request_evd_handle));
  w.field("connect", w.name(param.connect_evd_handle));
  w.field("srq", w.name(param.srq_handle));
  const DAT_EP_ATTR& attr = param.ep_attr;
  w.field("service", attr.service_type);
  w.field("message", attr.max_message_size);
  w.field("rdma", attr.max_rdma_size);
  w.field("qos", attr.qos);
  w.field("rflags", attr.recv_completion_flags);
  w.field("qflags", attr.request_completion_flags);
  w.field("rdtos", static_cast<unsigned>(attr.max_recv_dtos));
  w.field("qdtos", static_cast<unsigned>(attr.max_request_dtos));
  w.field("riov", static_cast<unsigned>(attr.max_recv_iov));
  w.field("qiov", static_cast<unsigned>(attr.max_request_iov));
  w.field("in", static_cast<unsigned>(attr.max_rdma_read_in));
  w.field("out", static_cast<unsigned>(attr.max_rdma_read_out));
  w.field("hw", static_cast<unsigned>(attr.srq_soft_hw));
  w.field("read_iov", static_cast<unsigned>(attr.max_rdma_read_iov));
  w.field("write_iov", static_cast<unsigned>(attr.max_rdma_write_iov));
  w.flush_fields(". ep");
}

void ep_status(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EP_STATE state{};
  DAT_BOOLEAN recv_idle{};
  DAT_BOOLEAN request_idle{};
  w.begin("ep_get_status " + w.name(ep));
  if (w.end(dat_ep_get_status(ep, &state, &recv_idle, &request_idle))) {
    w.field("state", state);
    w.flush_fields(". status");
  }
}

void ep_reset(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  w.begin("ep_reset " + w.name(ep));
  w.end(dat_ep_reset(ep));
  w.after(10);
}

/// What a program may change, one group of fields at a time or all of the attributes.
void ep_modify(World& w) {
  Side& side = w.any_side();
  DAT_EP_HANDLE ep = w.pick(side, &Side::ep);
  if (ep == DAT_HANDLE_NULL) {
    return;
  }
  DAT_EP_PARAM param;
  std::memset(&param, 0, sizeof param);
  param.ep_attr = attributes(w);
  param.pz_handle = w.maybe(side, &Side::pz, 5);
  param.recv_evd_handle = w.evd_for(side, DAT_EVD_DTO_FLAG, 5);
  param.request_evd_handle = w.evd_for(side, DAT_EVD_DTO_FLAG, 5);
  param.connect_evd_handle = w.evd_for(side, DAT_EVD_CONNECTION_FLAG, 5);
  const DAT_EP_PARAM_MASK mask = w.random.of<DAT_EP_PARAM_MASK>(
      {DAT_EP_FIELD_PZ_HANDLE,
       DAT_EP_FIELD_RECV_EVD_HANDLE,
       DAT_EP_FIELD_REQUEST_EVD_HANDLE,
       DAT_EP_FIELD_CONNECT_EVD_HANDLE,
       DAT_EP_FIELD_EP_ATTR_ALL,
       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_REQUEST_EVD_HANDLE |
           DAT_EP_FIELD_CONNECT_EVD_HANDLE,
       DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS,
       DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
       DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS,
       DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS,
       DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE,
       DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE,
       DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
       DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
       DAT_EP_FIELD_EP_ATTR_QOS,
       DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE,
       DAT_EP_FIELD_IA_HANDLE,
       DAT_EP_FIELD_EP_STATE,
       DAT_EP_FIELD_LOCAL_PORT_QUAL,
       DAT_EP_FIELD_SRQ_HANDLE,
       0});
  w.begin("ep_modify " + w.name(ep) + " mask=" + Protocol::hex(mask) +
          " pz=" + w.name(param.pz_handle) + " recv=" + w.name(param.recv_evd_handle) +
          " request=" + w.name(param.request_evd_handle) +
          " connect=" + w.name(param.connect_evd_handle) + " attr=" + text(&param.ep_attr));
  w.end(dat_ep_modify(ep, mask, &param));
}

}  // namespace

const std::vector<Step>& endpoint_steps() {
  static const std::vector<Step> steps = {{"ep_create", 5, ep_create}, {"ep_free", 2, ep_free},
                                          {"ep_query", 6, ep_query},   {"ep_status", 5, ep_status},
                                          {"ep_reset", 3, ep_reset},   {"ep_modify", 6, ep_modify}};
  return steps;
}
