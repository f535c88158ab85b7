// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/cm_incoming.h"

#include "common/errno_text.h"
#include "common/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cm.h"
#include "providers/verbs/cm_address.h"
#include "providers/verbs/cm_wire.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/trace_points.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace udapl::verbs {

using transport::PrivateData;

Result<std::unique_ptr<RdmaIncoming>> RdmaIncoming::create(Adapter& adapter,
                                                           const rdma_cm_event& event) {
  std::unique_ptr<RdmaIncoming> self(new (std::nothrow) RdmaIncoming(adapter));
  if (self == nullptr) return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  CmOwner& owner = *self;
  self->id_.reset(new (std::nothrow) CmId(adapter.reactor(), *event.id, owner));
  if (self->id_ == nullptr) return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

  const rdma_conn_param& param = event.param.conn;
  const bool sized = param.flow_control == 0;
  const PrivateData received(static_cast<const std::byte*>(param.private_data),
                             param.private_data != nullptr ? param.private_data_len : 0U);
  const PrivateData data = wire::read_request(received, sized, adapter.device().carrier());
  self->data_size_ = std::min(data.size(), self->data_.size());
  std::copy_n(data.begin(), self->data_size_, self->data_.begin());
  self->endpoints_ = endpoints_of(*event.id);
  // rdma_cm says what we would have to give: resources for their reads, depth for ours.
  self->read_out_ = param.responder_resources;
  self->read_in_ = param.initiator_depth;
  return self;
}

RdmaIncoming::~RdmaIncoming() {
  if (id_ == nullptr) return;
  if (!gone_.load(std::memory_order_acquire)) {
    UDAPL_TRACE(kNormal, "refusing %s: nobody decided", to_text(endpoints_.remote).c_str());
    // Without the header of a consumer's rejection.
    ::rdma_reject(id_->get(), nullptr, 0);
  }
  adapter_.cm().retire(std::move(id_), ConnectionManager::Farewell::kAbort);
}

Status RdmaIncoming::accept(transport::Qp& qp, PrivateData private_data) {
  if (id_ == nullptr) return failure(DAT_INVALID_PARAMETER);
  if (private_data.size() > wire::reply_room(adapter_.device().carrier()))
    return failure(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
  return static_cast<Qp&>(qp).accept(id_, {endpoints_, gone_, read_in_, read_out_}, private_data);
}

void RdmaIncoming::reject(PrivateData private_data) noexcept {
  if (id_ == nullptr) return;
  const wire::Message message = wire::make_reject(private_data, adapter_.device().carrier());
  if (::rdma_reject(id_->get(), message.bytes.data(), message.size) != 0)
    UDAPL_TRACE(kNormal, "rejecting %s: %s", to_text(endpoints_.remote).c_str(),
                ErrnoText(errno).c_str());
  adapter_.cm().retire(std::move(id_), ConnectionManager::Farewell::kAbort);
}

// Before the decision the peer can only go away.
void RdmaIncoming::on_cm_event(const rdma_cm_event& event) noexcept {
  point::event(event);
  UDAPL_TRACE(kNormal, "%s has given up: %s", to_text(endpoints_.remote).c_str(),
              name_of(event.event));
  gone_.store(true, std::memory_order_release);
}

}  // namespace udapl::verbs
