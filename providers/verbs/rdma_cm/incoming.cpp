// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/incoming.h"

#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/qp.h"
#include "providers/verbs/rdma_cm/connector.h"

#include <algorithm>
#include <new>
#include <utility>

namespace udapl::verbs {

using transport::PrivateData;

Result<std::unique_ptr<RdmaIncoming>> RdmaIncoming::create(Adapter& adapter,
                                                           RdmaConnector& connector,
                                                           const rdma_cm_event& event) {
  std::unique_ptr<RdmaIncoming> self(new (std::nothrow) RdmaIncoming(adapter));
  if (self == nullptr) return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  self->connection_ = RdmaConnection::take(adapter, connector, event);
  if (self->connection_ == nullptr) return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

  const rdma_conn_param& param = event.param.conn;
  const bool sized = param.flow_control == 0;
  const PrivateData received(static_cast<const std::byte*>(param.private_data),
                             param.private_data != nullptr ? param.private_data_len : 0U);
  const PrivateData data = wire::read_request(received, sized, carrier_of(adapter.device()));
  self->data_size_ = std::min(data.size(), self->data_.size());
  std::copy_n(data.begin(), self->data_size_, self->data_.begin());
  self->endpoints_ = self->connection_->endpoints();
  self->read_out_ = self->connection_->peer_read_out();
  self->read_in_ = self->connection_->peer_read_in();
  return self;
}

RdmaIncoming::~RdmaIncoming() {
  if (connection_ == nullptr || connection_->peer_gone()) return;
  UDAPL_TRACE(kNormal, "refusing %s: neither accepted nor rejected",
              to_text(endpoints_.remote).c_str());
  connection_->refuse();  // without the header of a rejection by a consumer
}

Status RdmaIncoming::accept(transport::Qp& qp, PrivateData private_data) {
  if (connection_ == nullptr) return failure(DAT_INVALID_PARAMETER);
  if (std::cmp_greater(private_data.size(), wire::data_room(carrier_of(adapter_.device())).reply))
    return failure(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
  std::unique_ptr<CmConnection> offered = std::move(connection_);
  const Status status = static_cast<Qp&>(qp).accept(offered, private_data);
  connection_.reset(static_cast<RdmaConnection*>(offered.release()));
  return status;
}

void RdmaIncoming::reject(PrivateData private_data) noexcept {
  if (connection_ == nullptr) return;
  connection_->reject(private_data);
  connection_.reset();
}

}  // namespace udapl::verbs
