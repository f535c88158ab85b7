// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/adapter.h"

#include <dat/dat_ib_extensions.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/soft/cq.h"
#include "providers/soft/io/lingering_close.h"
#include "providers/soft/memory_fault.h"
#include "providers/soft/mr.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"

namespace udapl::soft {

namespace {

// High enough that memory, or the process's limit of descriptors, is exhausted first.
constexpr int kMaxObjects = 65536;
constexpr int kMaxMemoryObjects = 1 << 19;  // registrations, and as many windows
constexpr int kMaxWork = 65536;             // per queue
constexpr int kMaxReads = 128;              // per QP and direction, as kernel siw
constexpr int kMaxSegments = 32;            // each needs one of the 1024 iovecs of a sendmsg
constexpr int kMaxEvents = 1 << 20;
constexpr int kMaxPrivateData = 252;  // every iWARP peer takes this: docs/semantics.md#iwarp-peers
constexpr std::uint32_t kMaxMessage = 1U << 31;

static_assert(kMaxMemoryObjects * 2 <= static_cast<int>(MrTable::kMaxEntries));

auto provider_specific(const Netdev& netdev, const Settings& settings) {
  // The names and spellings that programs written for OpenFabrics expect.
  decltype(transport::Attributes::provider_specific) list = {
      {"DAT_IB_PROVIDER_NAME", "SOFT"},
      {"DAT_IB_DEVICE_NAME", netdev.name},
      {"DAT_IB_CONNECTIVITY_MODE", "DIRECT"},
      {"DAT_IB_RDMA_READ", "TRUE"},
      {"DAT_IB_TRANSPORT_MTU", std::to_string(netdev.mtu)},
      {"DAT_IB_PORT_STATUS", "ACTIVE"},
      {"DAT_IB_PORT_NUMBER", "1"},
      {"DAT_EXTENSION_INTERFACE", "TRUE"},
      {DAT_IB_ATTR_FETCH_AND_ADD, "TRUE"},
      {DAT_IB_ATTR_CMP_AND_SWAP, "TRUE"},
      {DAT_IB_ATTR_IMMED_DATA, "TRUE"}};
  // The settings in dat.conf, for display by datinfo.
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count());
  };
  list.insert(list.end(), {{"SOFT_CRC", settings.crc ? "on" : "off"},
                           {"SOFT_PATH", name(settings.path)},
                           {"SOFT_DIRECT", settings.direct ? "on" : "off"},
                           {"SOFT_FALLBACK", settings.revision1_fallback ? "on" : "off"},
                           {"SOFT_DELAYED_ACK", name(settings.delayed_ack)},
                           {"SOFT_DRAIN", seconds(settings.drain_limit)},
                           {"SOFT_NO_RECEIVE", settings.no_receive_breaks ? "break" : "wait"},
                           {"SOFT_HALF_OPEN", std::to_string(settings.half_open_limit)},
                           {"SOFT_PEER_TIMEOUT", seconds(settings.peer_timeout)},
                           {"SOFT_STAGING", std::to_string(settings.staging_mb)}});
  return list;
}

transport::Attributes make_attributes(const Netdev& netdev, const Settings& settings) {
  transport::Attributes a;
  a.device_name = netdev.name;
  a.vendor_name = "udapl software RNIC";
  a.hardware_version[0] = 1;
  a.firmware_version[0] = 2;
  a.address = netdev.address;
  a.max_eps = kMaxObjects;
  a.max_dto_per_ep = kMaxWork;
  a.max_rdma_read_in = kMaxReads;
  a.max_rdma_read_out = kMaxReads;
  a.max_rdma_read_in_total = kMaxReads * kMaxObjects;
  a.max_rdma_read_out_total = kMaxReads * kMaxObjects;
  a.max_evds = kMaxObjects;
  a.max_evd_qlen = kMaxEvents;
  a.max_segments = kMaxSegments;
  a.max_read_segments = kMaxSegments;
  a.max_write_segments = kMaxSegments;
  a.max_lmrs = kMaxMemoryObjects;
  a.max_lmr_size = std::numeric_limits<DAT_VLEN>::max();
  a.max_lmr_address = std::numeric_limits<DAT_VADDR>::max();
  a.max_pzs = kMaxObjects;
  a.max_message_size = kMaxMessage;
  a.max_rdma_size = kMaxMessage;
  a.max_rmrs = kMaxMemoryObjects;
  a.max_rmr_address = std::numeric_limits<DAT_VADDR>::max();
  a.max_srqs = kMaxObjects;
  a.max_eps_per_srq = kMaxObjects;
  a.max_recv_per_srq = kMaxObjects;
  a.private_data = {kMaxPrivateData, kMaxPrivateData, kMaxPrivateData};
  a.zero_based_va = true;
  a.shared_memory_lmr = true;
  a.srq_pz_may_differ = true;  // an SRQ's segments are checked against its own PZ
  a.send_invalidate = true;
  a.read_to_rmr = true;
  a.delayed_ack = true;
  a.delayed_ack_by_default = settings.delayed_ack == Settings::DelayedAck::kOn;
  a.rmr_scope = DAT_RMR_SCOPE_ANY;
  a.extension = DAT_EXTENSION_IB;
  a.extension_version = DAT_IB_EXTENSION_VERSION;
  a.provider_specific = provider_specific(netdev, settings);
  return a;
}

const char* of_process(const char* name) { return ::secure_getenv(name); }

ScopeId id_of(const transport::Pd& pd) noexcept { return static_cast<const Pd&>(pd).id(); }

}  // namespace

Result<std::unique_ptr<transport::Adapter>> Adapter::open(std::string_view ia_params,
                                                          transport::AdapterSink& sink) {
  Result<Settings> settings = read_settings(ia_params);
  if (!settings.ok()) return settings.status();
  Result<Netdev> netdev = find_netdev(ia_params);
  if (!netdev.ok()) return netdev.status();
  Result<std::unique_ptr<Reactor>> reactor = Reactor::create("udapl-soft");
  if (!reactor.ok()) return reactor.status();
  UDAPL_TRACE(kNormal, "software RNIC at %s (%s)", to_text(netdev->address).c_str(),
              netdev->name.c_str());
  return std::unique_ptr<transport::Adapter>(
      std::make_unique<Adapter>(*std::move(reactor), *netdev, *settings, sink));
}

Adapter::Adapter(std::unique_ptr<Reactor> reactor, const Netdev& netdev, const Settings& settings,
                 transport::AdapterSink& sink)
    : attributes_(make_attributes(netdev, settings)),
      settings_(settings),
      no_receive_limit_(no_receive_limit(settings_, of_process)),
      first_message_limit_(first_message_limit(of_process)),
      reactor_(std::move(reactor)),
      staging_(static_cast<std::size_t>(settings.staging_mb) << 20),
      cm_(*reactor_, netdev.address, settings_),
      address_watch_(*reactor_, netdev.address, sink),
      sink_(sink),
      gate_(*reactor_, SinkGate::to<&Adapter::deliver, Adapter>(), this) {
  reactor_->on_descriptors_lost(Call::to<&Adapter::descriptors_lost>(this));
  address_watch_.start();
}

// The reactor, which is destroyed next, closes streams that still linger.
Adapter::~Adapter() { await_lingering(*reactor_, kLingerAtClose); }

Result<std::unique_ptr<transport::Pd>> Adapter::create_pd() {
  const ScopeId id = last_pd_.fetch_add(1, std::memory_order_relaxed) + 1;
  return std::unique_ptr<transport::Pd>(std::make_unique<Pd>(id));
}

Result<std::unique_ptr<transport::Mr>> Adapter::register_memory(transport::Pd& pd,
                                                                const transport::MrInit& init) {
  constexpr std::uint32_t kWrites = kLocalWrite | kRemoteWrite | kRemoteAtomic;
  const bool writes = (static_cast<std::uint32_t>(init.privileges) & kWrites) != 0;
  if (const char* const fault = memory_fault(init.address, init.length, writes); fault != nullptr) {
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_PRIVILEGES_VIOLATION), "%llu bytes of memory at %p: %s",
                  static_cast<unsigned long long>(init.length),
                  reinterpret_cast<const void*>(static_cast<std::uintptr_t>(init.address)), fault);
    return failure(DAT_PRIVILEGES_VIOLATION);
  }
  Result<MrRef> ref = memory_.register_memory(id_of(pd), init);
  if (!ref.ok()) return ref.status();
  return std::unique_ptr<transport::Mr>(std::make_unique<Mr>(memory_, *ref));
}

Result<std::unique_ptr<transport::Window>> Adapter::create_window(transport::Pd& pd,
                                                                  transport::WindowScope scope) {
  Result<std::uint32_t> index = memory_.create_window(id_of(pd), scope);
  if (!index.ok()) return index.status();
  return std::unique_ptr<transport::Window>(std::make_unique<Window>(memory_, *index));
}

Result<std::unique_ptr<transport::Cq>> Adapter::create_cq(int depth, transport::CqSink& sink) {
  return std::unique_ptr<transport::Cq>(std::make_unique<Cq>(*reactor_, depth, sink));
}

Result<std::unique_ptr<transport::Srq>> Adapter::create_srq(transport::Pd& pd, int depth,
                                                            int max_segments,
                                                            transport::SrqSink& sink) {
  return std::unique_ptr<transport::Srq>(
      std::make_unique<Srq>(*reactor_, memory_, id_of(pd), depth, max_segments, sink));
}

Result<std::unique_ptr<transport::Qp>> Adapter::create_qp(const transport::QpInit& init) {
  const QpEnvironment environment{*reactor_,
                                  memory_,
                                  cm_,
                                  staging_,
                                  accepted_,
                                  settings_.drain_limit,
                                  settings_.peer_timeout,
                                  no_receive_limit_,
                                  first_message_limit_,
                                  settings_.delayed_ack != Settings::DelayedAck::kOff};
  return std::unique_ptr<transport::Qp>(std::make_unique<Qp>(environment, init));
}

}  // namespace udapl::soft
