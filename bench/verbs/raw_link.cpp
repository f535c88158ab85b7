// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "raw_link.h"

#include <netinet/in.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench {

namespace {

constexpr int kPatienceMs = 5000;
constexpr std::uint32_t kMaxInline = 64;  // the default of both providers
constexpr std::uint8_t kReads = 4;
constexpr std::uint8_t kRetries = 7;

void set_port(sockaddr_storage& address, std::uint16_t port) {
  if (address.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = port;
  else
    reinterpret_cast<sockaddr_in&>(address).sin_port = port;
}

void post(const RawEnd& end, ibv_send_wr& work, unsigned flags) {
  work.num_sge = 1;
  work.send_flags = IBV_SEND_SIGNALED | flags;
  ibv_send_wr* bad = nullptr;
  must(::ibv_post_send(end.id->qp, &work, &bad) == 0, "ibv_post_send");
}

}  // namespace

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "verbs_bench: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void RawEnd::create(ibv_pd* pd, int depth, std::uint32_t max_inline, Reap how) {
  const auto create_cq = [&] {
    ibv_comp_channel* channel = nullptr;
    if (how == Reap::kWait) {
      channel = ::ibv_create_comp_channel(id->verbs);
      must(channel != nullptr, "ibv_create_comp_channel");
    }
    return ::ibv_create_cq(id->verbs, depth, nullptr, channel, 0);
  };
  recv_cq = create_cq();
  send_cq = create_cq();
  must(recv_cq != nullptr && send_cq != nullptr, "ibv_create_cq");
  ibv_qp_init_attr attr{};
  attr.recv_cq = recv_cq;
  attr.send_cq = send_cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {static_cast<std::uint32_t>(depth), static_cast<std::uint32_t>(depth), 1, 1,
              max_inline};
  must(::rdma_create_qp(id, pd, &attr) == 0, "rdma_create_qp");
}

void RawEnd::destroy() {
  ::rdma_destroy_qp(id);
  for (ibv_cq* const cq : {recv_cq, send_cq}) {
    ibv_comp_channel* const channel = cq->channel;
    ::ibv_destroy_cq(cq);
    if (channel != nullptr) ::ibv_destroy_comp_channel(channel);
  }
  ::rdma_destroy_id(id);
}

void RawEnd::post_recv(ibv_sge segment) const {
  ibv_recv_wr work{};
  work.sg_list = &segment;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  must(::ibv_post_recv(id->qp, &work, &bad) == 0, "ibv_post_recv");
}

void RawEnd::post_send(ibv_sge segment, unsigned flags) const {
  ibv_send_wr work{};
  work.sg_list = &segment;
  work.opcode = IBV_WR_SEND;
  post(*this, work, flags);
}

void RawEnd::post_write(ibv_sge segment, std::uint64_t address, std::uint32_t rkey,
                        unsigned flags) const {
  ibv_send_wr work{};
  work.sg_list = &segment;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.wr.rdma.remote_addr = address;
  work.wr.rdma.rkey = rkey;
  post(*this, work, flags);
}

void poll_one(ibv_cq* cq) {
  ibv_wc completion;
  int count = 0;
  while ((count = ::ibv_poll_cq(cq, 1, &completion)) == 0) continue;
  must(count == 1, "ibv_poll_cq");
  if (completion.status == IBV_WC_SUCCESS) return;
  std::fprintf(stderr, "verbs_bench: %s\n", ::ibv_wc_status_str(completion.status));
  std::exit(1);
}

RawLink::RawLink(const sockaddr& address, int depth, std::size_t buffer_size, Reap how)
    : channel_(::rdma_create_event_channel()), bytes_(buffer_size) {
  must(channel_ != nullptr, "rdma_create_event_channel");
  sockaddr_storage here{};
  std::memcpy(&here, &address,
              address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  auto* const any = reinterpret_cast<sockaddr*>(&here);
  set_port(here, 0);
  must(::rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) == 0 &&
           ::rdma_create_id(channel_, &active.id, nullptr, RDMA_PS_TCP) == 0,
       "rdma_create_id");
  must(::rdma_bind_addr(listener_, any) == 0, "rdma_bind_addr");
  must(::rdma_listen(listener_, 1) == 0, "rdma_listen");
  sockaddr_storage there = here;
  set_port(there, ::rdma_get_src_port(listener_));
  must(::rdma_resolve_addr(active.id, any, reinterpret_cast<sockaddr*>(&there), kPatienceMs) == 0,
       "rdma_resolve_addr");
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  must(::rdma_resolve_route(active.id, kPatienceMs) == 0, "rdma_resolve_route");
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);

  pd_ = ::ibv_alloc_pd(active.id->verbs);
  must(pd_ != nullptr, "ibv_alloc_pd");
  mr_ = ::ibv_reg_mr(pd_, bytes_.data(), bytes_.size(),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  must(mr_ != nullptr, "ibv_reg_mr");
  active.create(pd_, depth, kMaxInline, how);
  rdma_conn_param param{};
  param.responder_resources = kReads;
  param.initiator_depth = kReads;
  param.retry_count = kRetries;
  param.rnr_retry_count = kRetries;
  must(::rdma_connect(active.id, &param) == 0, "rdma_connect");
  passive.id = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  passive.create(pd_, depth, kMaxInline, how);
  must(::rdma_accept(passive.id, &param) == 0, "rdma_accept");
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect(RDMA_CM_EVENT_ESTABLISHED);
}

RawLink::~RawLink() {
  ::rdma_disconnect(active.id);
  active.destroy();
  passive.destroy();
  ::ibv_dereg_mr(mr_);
  ::ibv_dealloc_pd(pd_);
  ::rdma_destroy_id(listener_);
  ::rdma_destroy_event_channel(channel_);
}

ibv_sge RawLink::segment(std::size_t length) const {
  return {reinterpret_cast<std::uint64_t>(bytes_.data()), static_cast<std::uint32_t>(length),
          mr_->lkey};
}

unsigned RawLink::flags(std::size_t length) const {
  return length <= kMaxInline ? static_cast<unsigned>(IBV_SEND_INLINE) : 0;
}

rdma_cm_id* RawLink::expect(rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  must(::rdma_get_cm_event(channel_, &event) == 0, "rdma_get_cm_event");
  rdma_cm_id* const id = event->id;
  const rdma_cm_event_type got = event->event;
  ::rdma_ack_cm_event(event);
  if (got == type) return id;
  std::fprintf(stderr, "verbs_bench: %s instead of %s\n", ::rdma_event_str(got),
               ::rdma_event_str(type));
  std::exit(1);
}

}  // namespace bench
