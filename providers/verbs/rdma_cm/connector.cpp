// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/connector.h"

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/channels.h"
#include "providers/verbs/rdma_cm/address.h"
#include "providers/verbs/rdma_cm/connection.h"
#include "providers/verbs/rdma_cm/listener.h"
#include "providers/verbs/rdma_cm/trace_points.h"
#include "providers/verbs/rdma_cm/wire.h"
#include "providers/verbs/status.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace udapl::verbs {

namespace {

constexpr int kEventsPerTurn = 32;  // timers and other descriptors are served before more are read

}  // namespace

Result<std::unique_ptr<Connector>> RdmaConnector::open(Adapter& adapter) {
  Channel channel(point::made("rdma_create_event_channel", ::rdma_create_event_channel()));
  if (channel == nullptr) return no_resources("rdma_create_event_channel");
  const int fd = channel->fd;
  if (!make_nonblocking(fd)) return no_resources("cannot make an event descriptor non-blocking");
  std::unique_ptr<RdmaConnector> connector(new RdmaConnector(adapter, std::move(channel)));
  if (const Status status = connector->watch_.start(fd); !status.ok()) return status;
  return std::unique_ptr<Connector>(std::move(connector));
}

RdmaConnector::RdmaConnector(Adapter& adapter, Channel channel) noexcept
    : adapter_(adapter),
      channel_(std::move(channel)),
      watch_(adapter.reactor(), Call::to<&RdmaConnector::on_readable>(this)),
      destruction_(adapter.reactor(), Call::to<&RdmaConnector::destroy_retired_ids>(this)) {}

RdmaConnector::~RdmaConnector() {
  watch_.stop();
  destruction_.close();
  const ScopedLock lock(lock_);
  const auto destroy = [](CmId* id) { delete id; };
  lingering_.clear_and_dispose(destroy);
  dead_.clear_and_dispose(destroy);
}

Result<std::unique_ptr<CmId>> RdmaConnector::make_id(CmOwner& owner) {
  Result<std::unique_ptr<CmId>> id = CmId::create(adapter_.reactor(), *channel_, owner);
  if (!id.ok()) return id;
  const Environment& environment = adapter_.environment();
  // These options are hints: connections work even if the kernel does not support them.
  if (environment.tos != 0) {
    std::uint8_t tos = environment.tos;
    if (::rdma_set_option((*id)->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) != 0)
      UDAPL_TRACE(kNormal, "type of service %u: %s", tos, ErrnoText(errno).c_str());
  }
  if (environment.ack_timer.has_value()) {
    std::uint8_t timer = *environment.ack_timer;
    if (::rdma_set_option((*id)->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timer,
                          sizeof timer) != 0)
      UDAPL_TRACE(kNormal, "ACK timeout %u: %s", timer, ErrnoText(errno).c_str());
  }
  return id;
}

void RdmaConnector::retire(std::unique_ptr<CmId>&& id, Teardown how) noexcept {
  if (id == nullptr) return;
  id->set_owner(*this);  // first: waits for a running call of the former owner, which uses the id
  const ScopedLock lock(lock_);
  // The answer may have arrived already, at the former owner or here, before the id was in a list.
  const bool blocks = adapter_.device().iwarp() && id->awaits_outcome();
  const bool lingers = blocks || (how == Teardown::kAwaitPeer && !id->over());
  (lingers ? lingering_ : dead_).push_back(*id.release());
  if (!lingers) destruction_.post();
}

Result<std::unique_ptr<CmConnection>> RdmaConnector::prepare(
    const transport::ConnectRequest& request, ConnectionEnd& end) {
  Result<std::unique_ptr<RdmaConnection>> made =
      RdmaConnection::create(adapter_, *this, request, end);
  if (!made.ok()) return made.status();
  return std::unique_ptr<CmConnection>(*std::move(made));
}

Result<std::unique_ptr<transport::Listener>> RdmaConnector::listen(
    const transport::ListenRequest& request, transport::ListenSink& sink) {
  auto listener = std::make_unique<RdmaListener>(adapter_, *this, sink);
  const transport::SocketAddress place =
      request.address != nullptr ? *request.address : adapter_.device().address;
  if (const Status status = listener->start(place, request.conn_qual); !status.ok()) return status;
  return std::unique_ptr<transport::Listener>(std::move(listener));
}

// ---- in the driving thread ----------------------------------------------------------------------

void RdmaConnector::on_readable() noexcept {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    rdma_cm_event* event = nullptr;
    if (::rdma_get_cm_event(channel_.get(), &event) != 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        UDAPL_TRACE(kError, "rdma_get_cm_event: %s", ErrnoText(errno).c_str());
      return;
    }
    const bool removed = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
    CmId::deliver(*event);
    ::rdma_ack_cm_event(event);
    if (removed) adapter_.on_removal();
  }
}

// The id lingers, waits to be destroyed, or is about to be put into a list by retire(), which then
// sees that the id is over() or has its outcome. If it has connected although no owner wants the
// connection any more, the destruction of the id ends the connection.
void RdmaConnector::on_cm_event(const rdma_cm_event& event) noexcept {
  point::event(event);
  auto& id = *static_cast<CmId*>(event.id->context);
  const ScopedLock lock(lock_);
  if ((!id.over() && !is_connected(event.event)) || !id.hook.is_linked()) return;
  id.hook.unlink();
  dead_.push_back(id);
  destruction_.post();
}

// Runs when no event is being handled, because rdma_destroy_id waits until events are acknowledged.
void RdmaConnector::destroy_retired_ids() noexcept {
  Ids dead;
  {
    const ScopedLock lock(lock_);
    dead.swap(dead_);
  }
  dead.clear_and_dispose([](CmId* id) { delete id; });
}

// ---- before a connector exists -----------------------------------------------------------------

namespace {

std::optional<Place> place_of(const transport::SocketAddress& address,
                              std::optional<std::uint16_t> pkey) {
  std::unique_ptr<rdma_event_channel, decltype(&rdma_destroy_event_channel)> channel(
      rdma_create_event_channel(), rdma_destroy_event_channel);
  if (channel == nullptr) return std::nullopt;
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
    const int error = errno;
    channel.reset();
    errno = error;
    return std::nullopt;
  }
  std::optional<Place> place;
  CmAddress where{};
  if (pkey)
    where = native_address(address, *pkey, 0);
  else
    where.ip = address.storage;
  int error = ENODEV;
  if (rdma_bind_addr(id, &where.any) != 0)
    error = errno;
  else if (id->verbs != nullptr)
    place = Place{ibv_get_device_name(id->verbs->device), id->port_num};
  rdma_destroy_id(id);
  errno = error;
  return place;
}

transport::PrivateDataRoom room_of(const Device& device) noexcept {
  return wire::data_room(carrier_of(device));
}

}  // namespace

constinit const ConnectorKit kRdmaCm = {&place_of, &room_of, &RdmaConnector::open};

}  // namespace udapl::verbs
