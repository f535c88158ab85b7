// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Channels, ids, addresses and events.
#include "cm.h"

#include "mock_control.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "fault.h"

namespace verbs_mock::cm {

namespace {

// If an active id has a QP, ESTABLISHED is generated when its owner gets the event: only then is
// the QP made ready.
void finish_reply(Event& event) {
  Id& id = *static_cast<Id*>(event.id);
  const Lock lock(manager().mutex);
  if (event.event != RDMA_CM_EVENT_CONNECT_RESPONSE || id.qp == nullptr ||
      id.state != State::kReplied)
    return;
  if (move_qp(id, IBV_QPS_RTR) != 0 || move_qp(id, IBV_QPS_RTS) != 0) {
    abandon(id);
    id.state = State::kOver;
    event.event = RDMA_CM_EVENT_CONNECT_ERROR;
    event.status = -errno;
    return;
  }
  event.event = RDMA_CM_EVENT_ESTABLISHED;
  id.state = State::kEstablished;
  if (id.peer != nullptr && id.peer->state == State::kAccepted) {
    id.peer->state = State::kEstablished;
    post(*id.peer, RDMA_CM_EVENT_ESTABLISHED, 0);
  }
}

}  // namespace

ibv_context* shared_context() {
  if (manager().context != nullptr) return manager().context;
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr) return nullptr;
  manager().context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  // The application's objects are counted, not the library's.
  if (manager().context != nullptr) verbs_mock_count(Kind::kContext, -1);
  return manager().context;
}

Manager& manager() {
  static auto* const made = new Manager;
  return *made;
}

std::vector<std::byte> padded(const void* data, std::size_t length, std::size_t size) {
  std::vector<std::byte> bytes(verbs_mock_is_siw() ? length : size);
  if (length != 0) std::memcpy(bytes.data(), data, std::min(length, size));
  return bytes;
}

void post(Id& id, rdma_cm_event_type type, int status, std::vector<std::byte> data) {
  auto* const event = new Event{};
  event->data = std::move(data);
  event->id = &id;
  event->event = type;
  event->status = status;
  event->param.conn.private_data = event->data.empty() ? nullptr : event->data.data();
  event->param.conn.private_data_len = static_cast<std::uint8_t>(event->data.size());
  event->param.conn.responder_resources = id.responder_resources;
  event->param.conn.initiator_depth = id.initiator_depth;
  event->param.conn.retry_count = 7;
  event->param.conn.rnr_retry_count = id.rnr_retry;
  event->param.conn.qp_num = id.remote_qp_num;
  static_cast<Channel*>(id.channel)->events.push_back(event);
  ::eventfd_write(id.channel->fd, 1);
  manager().changed.notify_all();
}

int move_qp(Id& id, ibv_qp_state to) {
  if (id.qp == nullptr) return 0;
  ibv_qp_attr attr{};
  attr.qp_state = to;
  int mask = IBV_QP_STATE;
  if (to != IBV_QPS_ERR && rdma_init_qp_attr(&id, &attr, &mask) != 0) return -1;
  const int error = ibv_modify_qp(id.qp, &attr, mask);
  if (error != 0) errno = error;
  return error == 0 ? 0 : -1;
}

void abandon(Id& id) {
  Id* const peer = id.peer;
  if (peer == nullptr) return;
  switch (id.state) {
    case State::kRequesting:  // the peer notices when it accepts
      break;
    case State::kReplied:
    case State::kAccepted:
      if (verbs_mock_disconnects_lost()) break;
      peer->state = State::kOver;
      post(*peer, RDMA_CM_EVENT_REJECTED, kInvalidComm, padded(nullptr, 0, kRejectData));
      break;
    case State::kRequested:
      peer->state = State::kOver;
      post(*peer, RDMA_CM_EVENT_REJECTED, kByConsumer, padded(nullptr, 0, kRejectData));
      break;
    case State::kEstablished:
      peer->state = State::kDisconnected;
      post(*peer, RDMA_CM_EVENT_DISCONNECTED, 0);
      break;
    case State::kDisconnected:  // the answer that the peer waits for
      peer->state = State::kOver;
      post(*peer, RDMA_CM_EVENT_DISCONNECTED, 0);
      break;
    default:
      break;
  }
  peer->peer = nullptr;
  id.peer = nullptr;
}

}  // namespace verbs_mock::cm

using namespace verbs_mock;
using namespace verbs_mock::cm;

extern "C" {

void verbs_mock_remove_device() {
  const Lock lock(manager().mutex);
  for (Id* const id : manager().ids)
    if (id->verbs != nullptr) post(*id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

rdma_event_channel* rdma_create_event_channel() {
  if (verbs_mock_fault(__func__, EMFILE)) return nullptr;
  const int fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  auto* const channel = new cm::Channel{};
  channel->fd = fd;
  verbs_mock_count(Kind::kCmChannel, 1);
  return channel;
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ::close(channel->fd);
  delete static_cast<cm::Channel*>(channel);
  verbs_mock_count(Kind::kCmChannel, -1);
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** made, void* context,
                   rdma_port_space space) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  if (channel == nullptr || space != RDMA_PS_TCP) return fail(EINVAL);
  auto id = std::make_unique<Id>();
  id->channel = channel;
  id->context = context;
  id->ps = space;
  id->qp_type = IBV_QPT_RC;
  {
    const Lock lock(manager().mutex);
    manager().ids.insert(id.get());
  }
  verbs_mock_count(Kind::kCmId, 1);
  *made = id.release();
  return 0;
}

int rdma_destroy_id(rdma_cm_id* handle) {
  Id& id = of(handle);
  Lock lock(manager().mutex);
  if (verbs_mock_is_siw())
    manager().changed.wait(lock, [&] { return id.state != State::kRequesting; });
  abandon(id);
  id.state = State::kOver;
  if (id.port != 0) {
    const auto found = manager().ports.find(id.port);
    if (found != manager().ports.end() && found->second == &id) manager().ports.erase(found);
  }
  // Refuses requests whose events were not delivered, and drops other events.
  std::vector<Id*> unseen;
  std::erase_if(static_cast<cm::Channel*>(id.channel)->events, [&](Event* event) {
    const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->listen_id == &id;
    if (request) unseen.push_back(&of(event->id));
    const bool gone = request || event->id == &id;
    if (gone) delete event;
    return gone;
  });
  manager().changed.wait(lock, [&] { return id.unacked == 0; });
  manager().ids.erase(&id);
  lock.unlock();
  for (Id* const child : unseen) rdma_destroy_id(child);
  delete &id;
  verbs_mock_count(Kind::kCmId, -1);
  return 0;
}

int rdma_get_cm_event(rdma_event_channel* handle, rdma_cm_event** got) {
  if (verbs_mock_fault(__func__, EINTR)) return -1;
  auto* const channel = static_cast<cm::Channel*>(handle);
  for (;;) {
    eventfd_t one = 0;
    if (::eventfd_read(channel->fd, &one) != 0) return -1;
    Event* event = nullptr;
    {
      const Lock lock(manager().mutex);
      if (channel->events.empty()) continue;  // its id was destroyed
      event = channel->events.front();
      channel->events.pop_front();
      ++of(event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id).unacked;
    }
    verbs_mock_count(Kind::kCmEvent, 1);
    // From here on the new id belongs to the application.
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) verbs_mock_count(Kind::kCmId, 1);
    finish_reply(*event);
    *got = event;
    return 0;
  }
}

int rdma_ack_cm_event(rdma_cm_event* handle) {
  auto* const event = static_cast<Event*>(handle);
  {
    const Lock lock(manager().mutex);
    --of(event->listen_id != nullptr ? event->listen_id : event->id).unacked;
    manager().changed.notify_all();
  }
  delete event;
  verbs_mock_count(Kind::kCmEvent, -1);
  return 0;
}

int rdma_migrate_id(rdma_cm_id* handle, rdma_event_channel* to) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  if (to == nullptr) return fail(EINVAL);
  Id& id = of(handle);
  Lock lock(manager().mutex);
  manager().changed.wait(lock, [&] { return id.unacked == 0; });
  std::erase_if(static_cast<cm::Channel*>(id.channel)->events, [&](Event* event) {
    if (event->id != &id || event->event == RDMA_CM_EVENT_CONNECT_REQUEST) return false;
    static_cast<cm::Channel*>(to)->events.push_back(event);
    ::eventfd_write(to->fd, 1);
    return true;
  });
  id.channel = to;
  return 0;
}

ibv_context** rdma_get_devices(int* count) {
  if (verbs_mock_fault(__func__, ENOMEM)) return nullptr;
  const Lock lock(manager().mutex);
  ibv_context* const context = shared_context();
  if (context == nullptr) return nullptr;
  if (count != nullptr) *count = 1;
  return new ibv_context* [2] { context, nullptr };
}

void rdma_free_devices(ibv_context** list) { delete[] list; }

const char* rdma_event_str(rdma_cm_event_type type) {
  static constexpr const char* kNames[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
      "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
      "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
      "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
      "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
      "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  return static_cast<std::size_t>(type) < std::size(kNames) ? kNames[type] : "UNKNOWN EVENT";
}

}  // extern "C"
