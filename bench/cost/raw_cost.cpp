// SPDX-License-Identifier: MIT OR GPL-2.0-only
// raw_cost [--count=N]
//
// The lower bound of `dat_cost connections`: the same cycle with only the necessary calls of
// librdmacm and libibverbs, in one thread, from rdma_create_id until both sides have seen the end.
// The QPs are created outside of the measured time, like the resets of dat_cost. A graceful end
// with nothing outstanding and an abrupt end consist of the same calls.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "raw_cost: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

[[nodiscard]] double now_us(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Shared by both ends.
struct Host {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  sockaddr_in address{};

  Host() {
    check(channel != nullptr, "rdma_create_event_channel");
    int devices = 0;
    ibv_context** const list = rdma_get_devices(&devices);
    check(list != nullptr && devices > 0, "rdma_get_devices");
    context = list[0];
    rdma_free_devices(list);
    pd = ibv_alloc_pd(context);
    check(pd != nullptr, "ibv_alloc_pd");
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    check(cq != nullptr, "ibv_create_cq");
    check(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)) == 0, "rdma_bind_addr");
    check(rdma_listen(listener, 0) == 0, "rdma_listen");
    address.sin_port = rdma_get_src_port(listener);
  }
  ~Host() {
    rdma_destroy_id(listener);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    rdma_destroy_event_channel(channel);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] ibv_qp* make_qp() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = init.cap.max_recv_wr = 16;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    ibv_qp* const qp = ibv_create_qp(pd, &init);
    check(qp != nullptr, "ibv_create_qp");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    check(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
          "ibv_modify_qp to INIT");
    return qp;
  }

  // Waits for the next event, which must be of type `type`, and returns its id.
  rdma_cm_id* expect(rdma_cm_event_type type) const {
    while (true) {
      rdma_cm_event* event = nullptr;
      check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
      rdma_cm_id* const id = event->id;
      const rdma_cm_event_type got = event->event;
      check(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
      if (got == RDMA_CM_EVENT_TIMEWAIT_EXIT && type != got) continue;
      check(got == type, rdma_event_str(got));
      return id;
    }
  }
};

void move(rdma_cm_id* id, ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  int mask = IBV_QP_STATE;
  if (state != IBV_QPS_ERR) check(rdma_init_qp_attr(id, &attr, &mask) == 0, "rdma_init_qp_attr");
  check(ibv_modify_qp(qp, &attr, mask) == 0, "ibv_modify_qp");
}

void cycle(Host& host, ibv_qp* active_qp, ibv_qp* passive_qp) {
  constexpr int kPatience = 4000;  // ms
  rdma_cm_id* active = nullptr;
  check(rdma_create_id(host.channel, &active, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  check(rdma_resolve_addr(active, nullptr, reinterpret_cast<sockaddr*>(&host.address), kPatience) ==
            0,
        "rdma_resolve_addr");
  host.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(active, kPatience) == 0, "rdma_resolve_route");
  host.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param param{};
  param.responder_resources = param.initiator_depth = 4;
  param.retry_count = param.rnr_retry_count = 7;
  param.qp_num = active_qp->qp_num;
  check(rdma_connect(active, &param) == 0, "rdma_connect");

  rdma_cm_id* const passive = host.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  move(passive, passive_qp, IBV_QPS_RTR);
  move(passive, passive_qp, IBV_QPS_RTS);
  param.qp_num = passive_qp->qp_num;
  check(rdma_accept(passive, &param) == 0, "rdma_accept");

  host.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  move(active, active_qp, IBV_QPS_RTR);
  move(active, active_qp, IBV_QPS_RTS);
  check(rdma_establish(active) == 0, "rdma_establish");
  host.expect(RDMA_CM_EVENT_ESTABLISHED);

  move(active, active_qp, IBV_QPS_ERR);
  check(rdma_disconnect(active) == 0, "rdma_disconnect");
  host.expect(RDMA_CM_EVENT_DISCONNECTED);
  move(passive, passive_qp, IBV_QPS_ERR);
  check(rdma_disconnect(passive) == 0, "rdma_disconnect, the answer");
  host.expect(RDMA_CM_EVENT_DISCONNECTED);
  rdma_destroy_id(passive);
  rdma_destroy_id(active);
}

}  // namespace

int main(int argc, char** argv) {
  int count = 1000;
  for (int i = 1; i < argc; ++i) {
    if (std::sscanf(argv[i], "--count=%d", &count) == 1 && count > 0) continue;
    std::fprintf(stderr, "usage: raw_cost [--count=N]\n");
    return 2;
  }
  Host host;
  double cpu = 0;
  double wall = 0;
  for (int i = 0; i <= count; ++i) {
    ibv_qp* const active = host.make_qp();
    ibv_qp* const passive = host.make_qp();
    const double cpu_before = now_us(CLOCK_PROCESS_CPUTIME_ID);
    const double wall_before = now_us(CLOCK_MONOTONIC);
    cycle(host, active, passive);
    if (i != 0) {  // the first cycle is a warm-up
      cpu += now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
      wall += now_us(CLOCK_MONOTONIC) - wall_before;
    }
    ibv_destroy_qp(active);
    ibv_destroy_qp(passive);
  }
  std::printf("cpu_us=%.2f wall_us=%.2f\n", cpu / count, wall / count);
  return 0;
}
