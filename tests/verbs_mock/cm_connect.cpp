// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Listening, connecting and disconnecting.
#include <netinet/in.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cm.h"
#include "fault.h"
#include "mock_control.h"

using namespace verbs_mock;
using namespace verbs_mock::cm;

namespace {

[[nodiscard]] Id* listener_at(std::uint16_t port) {
  const auto found = manager().ports.find(port);
  return found != manager().ports.end() && found->second->state == State::kListening ? found->second
                                                                                     : nullptr;
}

void take_parameters(Id& id, const rdma_conn_param& param) {
  id.qp_num = id.qp != nullptr ? id.qp->qp_num : param.qp_num;
  id.rnr_retry = param.rnr_retry_count;
  // The passive side uses the value of the request.
  if (id.peer == nullptr) id.retry_count = param.retry_count;
}

// Creates the passive id of a connection request from `active`, and queues the listener's event.
void request(Id& listener, Id& active, const rdma_conn_param& param) {
  auto* const passive = new Id{};
  manager().ids.insert(passive);
  passive->verbs = active.verbs;
  passive->port_num = active.port_num;
  passive->pkey_index = active.pkey_index;
  passive->channel = listener.channel;
  passive->context = listener.context;
  passive->ps = listener.ps;
  passive->qp_type = IBV_QPT_RC;
  passive->route.addr.src_storage = active.route.addr.dst_storage;
  passive->route.addr.dst_storage = active.route.addr.src_storage;
  passive->state = State::kRequested;
  passive->peer = &active;
  active.peer = passive;
  passive->remote_qp_num = active.qp_num;
  // Each side's initiator depth is the number of reads to which the other side must respond.
  passive->responder_resources = param.initiator_depth;
  passive->initiator_depth = param.responder_resources;
  passive->retry_count = active.retry_count;
  passive->rnr_retry = param.rnr_retry_count;
  post(*passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0,
       padded(param.private_data, param.private_data_len, request_data(active)));
  static_cast<cm::Channel*>(passive->channel)->events.back()->listen_id = &listener;
}

// The MTU upon which the two ports have agreed.
ibv_mtu path_mtu() {
  const char* const text = std::getenv("VERBS_MOCK_PATH_MTU");
  return text == nullptr ? IBV_MTU_1024 : static_cast<ibv_mtu>(std::atoi(text));
}

}  // namespace

extern "C" {

void verbs_mock_lose_peers() {
  const Lock lock(manager().mutex);
  for (Id* const id : manager().ids)
    if (id->state == State::kEstablished) post(*id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

int rdma_create_qp(rdma_cm_id* handle, ibv_pd* pd, ibv_qp_init_attr* init) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  if (id.verbs == nullptr || pd == nullptr || id.verbs != pd->context) return fail(EINVAL);
  id.qp = ibv_create_qp(pd, init);
  if (id.qp == nullptr) return -1;
  id.pd = pd;
  const Lock lock(manager().mutex);
  if (move_qp(id, IBV_QPS_INIT) == 0) return 0;
  const int error = errno;
  ibv_destroy_qp(id.qp);
  id.qp = nullptr;
  return fail(error);
}

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* init) {
  if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) return fail(EINVAL);
  return rdma_create_qp(id, init->pd, reinterpret_cast<ibv_qp_init_attr*>(init));
}

void rdma_destroy_qp(rdma_cm_id* id) {
  ibv_destroy_qp(id->qp);
  id->qp = nullptr;
}

int rdma_init_qp_attr(rdma_cm_id* handle, ibv_qp_attr* attr, int* mask) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  const Id& id = of(handle);
  const ibv_qp_state to = attr->qp_state;
  *attr = {};
  attr->qp_state = to;
  switch (to) {
    case IBV_QPS_INIT:
      if (id.pkey_index < 0) return fail(EINVAL);
      attr->pkey_index = static_cast<std::uint16_t>(id.pkey_index);
      attr->port_num = id.port_num;
      attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
      *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      return 0;
    case IBV_QPS_RTR:
      attr->path_mtu = path_mtu();
      attr->dest_qp_num = id.remote_qp_num;
      attr->max_dest_rd_atomic = id.responder_resources;
      attr->ah_attr.is_global = 1;
      attr->ah_attr.port_num = id.port_num;
      *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      return 0;
    case IBV_QPS_RTS:
      attr->timeout = 14;
      attr->retry_cnt = id.retry_count;
      attr->rnr_retry = id.rnr_retry;
      attr->max_rd_atomic = id.initiator_depth;
      *mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
              IBV_QP_MAX_QP_RD_ATOMIC;
      return 0;
    default:
      return fail(EINVAL);
  }
}

int rdma_listen(rdma_cm_id* handle, int) {
  if (verbs_mock_fault(__func__, EADDRINUSE)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if (id.state != State::kBound) return fail(EINVAL);
  id.state = State::kListening;
  return 0;
}

int rdma_connect(rdma_cm_id* handle, rdma_conn_param* param) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if (id.state != State::kResolved || param->private_data_len > request_data(id))
    return fail(EINVAL);
  id.responder_resources = param->responder_resources;
  id.initiator_depth = param->initiator_depth;
  take_parameters(id, *param);
  Id* const listener = listener_at(ntohs(rdma_get_dst_port(&id)));
  if (listener == nullptr) {
    id.state = State::kOver;
    post(id, RDMA_CM_EVENT_REJECTED, kNoListener, padded(nullptr, 0, kRejectData));
    return 0;
  }
  id.state = State::kRequesting;
  request(*listener, id, *param);
  return 0;
}

int rdma_accept(rdma_cm_id* handle, rdma_conn_param* param) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if (id.state != State::kRequested || param == nullptr || param->private_data_len > kReplyData)
    return fail(EINVAL);
  id.responder_resources = param->responder_resources;
  id.initiator_depth = param->initiator_depth;
  take_parameters(id, *param);
  if (move_qp(id, IBV_QPS_RTR) != 0 || move_qp(id, IBV_QPS_RTS) != 0) return -1;
  Id* const active = id.peer;
  if (active == nullptr && verbs_mock_disconnects_lost()) {
    id.state = State::kAccepted;
    return 0;
  }
  if (active == nullptr) {
    id.state = State::kOver;
    post(id, RDMA_CM_EVENT_REJECTED, kInvalidComm, padded(nullptr, 0, kRejectData));
    return 0;
  }
  id.state = State::kAccepted;
  active->state = State::kReplied;
  active->remote_qp_num = id.qp_num;
  active->initiator_depth = std::min(active->initiator_depth, param->responder_resources);
  active->responder_resources = std::min(active->responder_resources, param->initiator_depth);
  post(*active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0,
       padded(param->private_data, param->private_data_len, kReplyData));
  return 0;
}

int rdma_establish(rdma_cm_id* handle) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if (id.state != State::kReplied || id.qp != nullptr) return fail(EINVAL);
  id.state = State::kEstablished;
  if (id.peer != nullptr && id.peer->state == State::kAccepted) {
    id.peer->state = State::kEstablished;
    post(*id.peer, RDMA_CM_EVENT_ESTABLISHED, 0);
  }
  return 0;
}

int rdma_reject(rdma_cm_id* handle, const void* data, std::uint8_t length) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if ((id.state != State::kRequested && id.state != State::kReplied) || length > kRejectData)
    return fail(EINVAL);
  id.state = State::kOver;
  if (id.peer == nullptr) return 0;
  id.peer->state = State::kOver;
  id.peer->peer = nullptr;
  post(*id.peer, RDMA_CM_EVENT_REJECTED, kByConsumer, padded(data, length, kRejectData));
  id.peer = nullptr;
  return 0;
}

int rdma_notify(rdma_cm_id* handle, ibv_event_type type) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if (type != IBV_EVENT_COMM_EST) return fail(EINVAL);
  if (id.state != State::kAccepted) return 0;
  id.state = State::kEstablished;
  post(id, RDMA_CM_EVENT_ESTABLISHED, 0);
  return 0;
}

int rdma_disconnect(rdma_cm_id* handle) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  Lock lock(manager().mutex);
  if (id.state < State::kRequesting) return fail(EINVAL);
  if (move_qp(id, IBV_QPS_ERR) != 0) return -1;
  if (id.state == State::kEstablished) {
    id.state = State::kDisconnecting;
    if (id.peer != nullptr) {
      id.peer->state = State::kDisconnected;
      post(*id.peer, RDMA_CM_EVENT_DISCONNECTED, 0);
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(verbs_mock_disconnect_delay()));
  } else if (id.state == State::kDisconnected) {
    id.state = State::kOver;
    if (id.peer != nullptr) {
      id.peer->state = State::kOver;
      post(*id.peer, RDMA_CM_EVENT_DISCONNECTED, 0);
      post(*id.peer, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
      id.peer->peer = nullptr;
      id.peer = nullptr;
    }
    post(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
  }
  return 0;
}

}  // extern "C"
