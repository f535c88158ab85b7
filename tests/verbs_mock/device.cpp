// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Devices, contexts, ports, and the asynchronous events.
#include "device.h"

#include "mock_control.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace verbs_mock {

namespace {

std::atomic<bool> siw{false};

ibv_device& the_device() {
  static ibv_device* const made = [] {
    auto* const device = new ibv_device{};
    device->node_type = IBV_NODE_CA;
    device->transport_type = IBV_TRANSPORT_IB;
    std::strcpy(device->name, "mock0");
    std::strcpy(device->dev_name, "uverbs_mock0");
    std::strcpy(device->dev_path, "/nonexistent/infiniband_verbs/uverbs_mock0");
    std::strcpy(device->ibdev_path, "/nonexistent/infiniband/mock0");
    return device;
  }();
  return *made;
}

ibv_device_attr device_attributes() {
  ibv_device_attr attr{};
  std::strcpy(attr.fw_ver, "1.2.3");
  attr.node_guid = htobe64(kGuid);
  attr.sys_image_guid = htobe64(kGuid);
  attr.max_mr_size = ~std::uint64_t{0};
  attr.page_size_cap = 0xfffff000;
  attr.vendor_id = verbs_mock_is_siw() ? 0x626d74 : 0x1234;
  attr.vendor_part_id = 1;
  attr.hw_ver = 1;
  attr.max_qp = 65536;
  attr.max_qp_wr = kMaxWr;
  attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                          IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE |
                          IBV_DEVICE_RC_RNR_NAK_GEN;
  attr.max_sge = kMaxSge;
  attr.max_sge_rd = kMaxSge;
  attr.max_cq = 65536;
  attr.max_cqe = kMaxCqe;
  attr.max_mr = 524288;
  attr.max_pd = 65536;
  attr.max_qp_rd_atom = kMaxReads;
  attr.max_res_rd_atom = kMaxReads * 1024;
  attr.max_qp_init_rd_atom = kMaxReads;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mw = 65536;
  attr.max_srq = 65536;
  attr.max_srq_wr = kMaxWr;
  attr.max_srq_sge = kMaxSge;
  attr.max_pkeys = kMaxPkeys;
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = port_count();
  return attr;
}

int query_device_ex(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr,
                    std::size_t size) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  ibv_device_attr_ex all{};
  all.orig_attr = device_attributes();
  all.phys_port_cnt_ex = port_count();
  if (device().pages) {
    all.odp_caps.general_caps = IBV_ODP_SUPPORT;
    all.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                                  IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                                  IBV_ODP_SUPPORT_ATOMIC;
  }
  give(all, attr, size);
  return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr*) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  verbs_mock_count(Kind::kThreadDomain, 1);
  return new ibv_td{context};
}

int dealloc_td(ibv_td* td) {
  delete td;
  verbs_mock_count(Kind::kThreadDomain, -1);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  auto* const pd = new Pd{};
  pd->context = context;
  pd->parent = static_cast<Pd*>(init->pd);
  const Lock lock(device().mutex);
  pd->handle = device().next_handle++;
  ++pd->parent->uses;
  verbs_mock_count(Kind::kPd, 1);
  return pd;
}

void fill_operations(Context& context, const DataPath& path) {
  ibv_context_ops& ops = context.context.ops;
  ops.alloc_mw = &alloc_mw;
  ops.bind_mw = &bind_mw;
  ops.dealloc_mw = &dealloc_mw;
  ops.post_send = path.post_send;
  ops.post_recv = path.post_recv;
  ops.post_srq_recv = path.post_srq_recv;
  ops.poll_cq = path.poll_cq;
  ops.req_notify_cq = path.req_notify_cq;
  context.query_port = &query_port;
  context.query_device_ex = &query_device_ex;
  context.alloc_td = &alloc_td;
  context.dealloc_td = &dealloc_td;
  context.alloc_parent_domain = &alloc_parent_domain;
  context.create_qp_ex = &create_qp_ex;
}

[[nodiscard]] EventSource& source_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return Cq::of(event.element.cq);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return *static_cast<Srq*>(event.element.srq);
    default:
      return *static_cast<Qp*>(event.element.qp);
  }
}

[[nodiscard]] bool has_source(ibv_event_type type) {
  return type < IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_SRQ_ERR ||
         type == IBV_EVENT_SRQ_LIMIT_REACHED || type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

}  // namespace

Device& device() {
  static auto* const made = [] {
    auto* const device = new Device;
    const char* const null = std::getenv("VERBS_MOCK_NULL");
    device->null_mode = null != nullptr && *null != '\0' && *null != '0';
    return device;
  }();
  return *made;
}

void raise_event(ibv_context* context, ibv_event_type type, Qp* qp, Cq* cq, Srq* srq) {
  ibv_async_event event{};
  event.event_type = type;
  if (qp != nullptr) event.element.qp = qp;
  if (cq != nullptr) event.element.cq = cq->handle();
  if (srq != nullptr) event.element.srq = srq;
  Context::of(context).events.push_back(event);
  ::eventfd_write(context->async_fd, 1);
}

void drain_events(Lock& lock, ibv_context* context, EventSource& source) {
  std::erase_if(Context::of(context).events, [&](const ibv_async_event& event) {
    return has_source(event.event_type) && &source_of(event) == &source;
  });
  device().acknowledged.wait(lock, [&] { return source.unacked == 0; });
}

}  // namespace verbs_mock

using namespace verbs_mock;

extern "C" {

bool verbs_mock_is_siw() noexcept { return siw; }

void verbs_mock_set_siw(bool chosen) {
  siw = chosen;
  the_device().transport_type = chosen ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
}

namespace {

void raise_everywhere(ibv_event_type type, unsigned port) {
  const Lock lock(device().mutex);
  for (Context* const context : device().contexts) {
    raise_event(&context->context, type, nullptr, nullptr, nullptr);
    context->events.back().element.port_num = static_cast<int>(port);
  }
}

}  // namespace

void verbs_mock_fail_port(unsigned port) { raise_everywhere(IBV_EVENT_PORT_ERR, port); }

void verbs_mock_fail_device() { raise_everywhere(IBV_EVENT_DEVICE_FATAL, 0); }

void verbs_mock_raise_on_qps(int event) {
  const Lock lock(device().mutex);
  for (const auto& [number, qp] : device().qps)
    raise_event(qp->context, static_cast<ibv_event_type>(event), qp, nullptr, nullptr);
}

ibv_device** ibv_get_device_list(int* count) {
  if (count != nullptr) *count = 0;
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  if (count != nullptr) *count = 1;
  return new ibv_device* [2] { &the_device(), nullptr };
}

void ibv_free_device_list(ibv_device** list) { delete[] list; }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

__be64 ibv_get_device_guid(ibv_device*) { return htobe64(kGuid); }

int ibv_get_device_index(ibv_device*) { return 0; }

ibv_context* ibv_open_device(ibv_device* opened) {
  VERBS_MOCK_FAULT(ENODEV, nullptr);
  const int fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  auto* const context = new Context{};
  context->sz = sizeof(verbs_context);
  fill_operations(*context, device().null_mode ? kNull : kWorks);
  context->context.device = opened;
  context->context.cmd_fd = -1;
  context->context.async_fd = fd;
  context->context.num_comp_vectors = 1;
  context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  {
    const Lock lock(device().mutex);
    device().contexts.push_back(context);
  }
  verbs_mock_count(Kind::kContext, 1);
  return &context->context;
}

int ibv_close_device(ibv_context* context) {
  {
    const Lock lock(device().mutex);
    std::erase(device().contexts, &Context::of(context));
  }
  ::close(context->async_fd);
  delete &Context::of(context);
  verbs_mock_count(Kind::kContext, -1);
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  *attr = device_attributes();
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  VERBS_MOCK_FAULT(EINTR, -1);
  for (;;) {
    eventfd_t one = 0;
    if (::eventfd_read(context->async_fd, &one) != 0) return -1;
    const Lock lock(device().mutex);
    std::deque<ibv_async_event>& events = Context::of(context).events;
    if (events.empty()) continue;  // dropped with its object
    *event = events.front();
    events.pop_front();
    if (has_source(event->event_type)) ++source_of(*event).unacked;
    return 0;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  if (!has_source(event->event_type)) return;
  const Lock lock(device().mutex);
  --source_of(*event).unacked;
  device().acknowledged.notify_all();
}

int ibv_fork_init() { return 0; }

ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_DISABLED; }

const char* ibv_node_type_str(ibv_node_type) { return "InfiniBand channel adapter"; }

const char* ibv_port_state_str(ibv_port_state state) {
  return state == IBV_PORT_ACTIVE ? "active" : "not active";
}

const char* ibv_event_type_str(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return "CQ error";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "local access violation work queue error";
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return "last WQE reached";
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return "SRQ limit reached";
    default:
      return "other event";
  }
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr const char* kNames[] = {"success",
                                           "local length error",
                                           "local QP operation error",
                                           "local EE context operation error",
                                           "local protection error",
                                           "Work Request Flushed Error",
                                           "memory management operation error",
                                           "bad response error",
                                           "local access error",
                                           "remote invalid request error",
                                           "remote access error",
                                           "remote operation error",
                                           "transport retry counter exceeded",
                                           "RNR retry counter exceeded"};
  return static_cast<std::size_t>(status) < std::size(kNames) ? kNames[status] : "other error";
}

ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr*) {
  errno = EOPNOTSUPP;  // connected services only
  return nullptr;
}

int ibv_destroy_ah(ibv_ah*) { return EINVAL; }

}  // extern "C"
