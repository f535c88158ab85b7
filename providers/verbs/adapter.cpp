// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/adapter.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/errno_text.h"
#include "common/standard_fds.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/verbs/attributes.h"
#include "providers/verbs/channels.h"
#include "providers/verbs/cq.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/srq.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

namespace udapl::verbs {

namespace {

Pd& ours(transport::Pd& pd) noexcept { return static_cast<Pd&>(pd); }

}  // namespace

// ---- open and close ----------------------------------------------------------------------------

Result<std::unique_ptr<transport::Adapter>> Adapter::open(std::string_view ia_params,
                                                          transport::AdapterSink& sink,
                                                          const ConnectorKit& kit) {
  const StandardFdsTaken none_of_these;  // keeps descriptors opened below off 0 to 2
  const Environment environment = Environment::from(&Environment::of_process);
  Result<Device> device = find_device(ia_params, environment, kit);
  if (!device.ok()) return device.status();
  Result<std::unique_ptr<Reactor>> reactor = Reactor::create("udapl-verbs");
  if (!reactor.ok()) return reactor.status();
  std::unique_ptr<Adapter> adapter(
      new Adapter(*std::move(device), environment, *std::move(reactor), sink, kit));
  if (const Status status = adapter->start(kit); !status.ok()) return status;
  const Device& opened = adapter->device();
  const Addressing addressing = opened.by_gid       ? Addressing::kGid
                                : opened.ethernet() ? Addressing::kIpOnEthernet
                                                    : Addressing::kIpOnInfiniBand;
  for (const Ineffective& variable : ineffective(&Environment::of_process, addressing))
    UDAPL_TRACE(kNormal, "%s has no effect: %s", variable.name, variable.why);
  if (opened.port_attr.state != IBV_PORT_ACTIVE)
    UDAPL_TRACE(kError,
                "%s port %d is %s, so no peer can be reached until it is ACTIVE; check cable, "
                "switch, subnet manager",
                opened.name.c_str(), opened.port, name_of(opened.port_attr.state));
  UDAPL_TRACE(kNormal, "%s port %d (%s) at %s%s, GID index %d", opened.name.c_str(), opened.port,
              name_of(opened.port_attr.state), opened.by_gid ? "GID " : "",
              to_text(opened.address).c_str(), opened.gid_index);
  return std::unique_ptr<transport::Adapter>(std::move(adapter));
}

Adapter::Adapter(Device device, const Environment& environment, std::unique_ptr<Reactor> reactor,
                 transport::AdapterSink& sink, const ConnectorKit& kit)
    : device_(std::move(device)),
      environment_(environment),
      max_inline_(environment.max_inline),
      attributes_(make_attributes(device_, environment_, kit.private_data_room(device_))),
      sink_(sink),
      reactor_(std::move(reactor)),
      idle_cqs_(*reactor_),
      async_watch_(*reactor_, Call::to<&Adapter::on_async_fd>(this)),
      gate_(*reactor_, SinkGate::to<&Adapter::deliver, Adapter>(), this) {
  reactor_->on_descriptors_lost(Call::to<&Adapter::descriptors_lost>(this));
}

Status Adapter::start(const ConnectorKit& kit) {
  auto channel = CqChannel::create_watched(*this);
  if (!channel.ok()) return channel.status();
  cq_channel_ = *std::move(channel);
  if (!make_nonblocking(context()->async_fd))
    return no_resources("cannot make an event descriptor non-blocking");
  if (const Status status = async_watch_.start(context()->async_fd); !status.ok()) return status;
  Result<std::unique_ptr<Connector>> connector = kit.open(*this);
  if (!connector.ok()) return connector.status();
  connector_ = *std::move(connector);
  return Status();
}

Adapter::~Adapter() { CqChannel::note_closed_adapter(); }

// ---- factory -----------------------------------------------------------------------------------

Result<std::unique_ptr<transport::Pd>> Adapter::create_pd() { return Pd::create(*this); }

Result<std::unique_ptr<transport::Mr>> Adapter::register_memory(transport::Pd& pd,
                                                                const transport::MrInit& init) {
  return Mr::create(*this, ours(pd), init);
}

Result<std::unique_ptr<transport::Window>> Adapter::create_window(transport::Pd& pd,
                                                                  transport::WindowScope scope) {
  return Window::create(*this, ours(pd), scope);
}

Result<std::unique_ptr<transport::Cq>> Adapter::create_cq(int depth, transport::CqSink& sink) {
  return Cq::create(*this, cq_channel_, depth, sink);
}

// If the process has too few descriptors, the CQ shares the adapter's channel.
Result<std::unique_ptr<transport::Cq>> Adapter::create_cq_to_block(int depth,
                                                                   transport::CqSink& sink) {
  const std::shared_ptr<CqChannel> own = CqChannel::create_own(*this);
  return Cq::create(*this, own != nullptr ? own : cq_channel_, depth, sink);
}

std::unique_ptr<transport::EventDescriptor> Adapter::create_event_descriptor(int signal) {
  auto channel = CqChannel::create_shown(*this, signal);
  if (!channel.ok()) return nullptr;
  return std::make_unique<EventDescriptor>(*std::move(channel));
}

Result<std::unique_ptr<transport::Cq>> Adapter::create_cq_for(
    transport::EventDescriptor& descriptor, int depth, transport::CqSink& sink) {
  return Cq::create(*this, static_cast<EventDescriptor&>(descriptor).channel(), depth, sink);
}

std::unique_ptr<transport::WaitPlace> Adapter::create_wait_place() {
  std::shared_ptr<CqChannel> channel = CqChannel::create_place(*this);
  return channel != nullptr ? std::make_unique<WaitPlace>(std::move(channel)) : nullptr;
}

Result<std::unique_ptr<transport::Cq>> Adapter::create_cq_for(transport::WaitPlace& place,
                                                              int depth, transport::CqSink& sink) {
  return Cq::create(*this, static_cast<WaitPlace&>(place).channel(), depth, sink);
}

Result<std::unique_ptr<transport::Srq>> Adapter::create_srq(transport::Pd& pd, int depth,
                                                            int max_segments,
                                                            transport::SrqSink& sink) {
  return Srq::create(*this, ours(pd), depth, max_segments, sink);
}

Result<std::unique_ptr<transport::Qp>> Adapter::create_qp(const transport::QpInit& init) {
  return Qp::create(*this, init);
}

Result<std::unique_ptr<transport::Listener>> Adapter::listen(
    const transport::ListenRequest& request, transport::ListenSink& sink) {
  return connector_->listen(request, sink);
}

void Adapter::fewer_inline(std::uint32_t bytes) noexcept {
  std::uint32_t now = max_inline_.load(std::memory_order_relaxed);
  while (bytes < now && !max_inline_.compare_exchange_weak(now, bytes, std::memory_order_relaxed)) {
  }
}

int Adapter::next_completion_vector() noexcept {
  const int vectors = std::max(context()->num_comp_vectors, 1);
  return static_cast<int>(completion_vector_.fetch_add(1, std::memory_order_relaxed) %
                          static_cast<unsigned>(vectors));
}

// ---- events, in the driving thread -------------------------------------------------------------

void Adapter::on_async_fd() noexcept {
  ibv_async_event event{};
  while (ibv_get_async_event(context(), &event) == 0) {
    on_async_event(event);
    ibv_ack_async_event(&event);
  }
  if (errno == EAGAIN || errno == EINTR) return;
  async_watch_.stop();
  on_removal();
}

// An object that an event names exists until the event is acknowledged.
void Adapter::on_async_event(const ibv_async_event& event) noexcept {
  UDAPL_TRACE(kNormal, "%s: %s", device_.name.c_str(), name_of(event.event_type));
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:  // the Qp records the event about its EP
      return static_cast<Qp*>(event.element.qp->qp_context)->on_async_event(event.event_type);
    default:
      break;
  }
  point::event(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return static_cast<Cq*>(event.element.cq->cq_context)->on_error();
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return static_cast<Srq*>(event.element.srq->srq_context)->on_limit();
    case IBV_EVENT_SRQ_ERR:
      return static_cast<Srq*>(event.element.srq->srq_context)->on_error();
    case IBV_EVENT_DEVICE_FATAL:
      return on_removal();
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
      if (event.element.port_num == device_.port) sink_.on_catastrophic();
      return;
    default:  // for example, a port came up, or tables have changed
      return;
  }
}

void Adapter::on_removal() noexcept {
  if (dead_.exchange(true, std::memory_order_acq_rel)) return;
  UDAPL_TRACE(kError, "RDMA device %s has gone", device_.name.c_str());
  sink_.on_catastrophic();
}

}  // namespace udapl::verbs
