// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/ep_connection.h"

#include <algorithm>

namespace udapl::dapl {

void EpConnection::reserve_peer_data(std::size_t most) {
  peer_room_.assign(most, std::byte{});
  peer_data_size_ = 0;
}

// Keeps the memory: the consumer may still read it.
void EpConnection::drop_peer_data() noexcept {
  peer_room_.clear();
  peer_data_size_ = 0;
}

void EpConnection::begin_active(const Target& target, transport::Endpoints local) noexcept {
  target_ = target;
  ends_ = local;
  ends_.remote = target.address;
  ends_.remote_port = target.conn_qual;
}

void EpConnection::begin_passive(const transport::Endpoints& ends,
                                 std::optional<DAT_COUNT> max_rdma_read_out) noexcept {
  target_.reset();
  drop_peer_data();
  ends_ = ends;
  max_rdma_read_out_ = max_rdma_read_out;
}

void EpConnection::store_peer_data(transport::PrivateData data) noexcept {
  peer_data_size_ = std::min(data.size(), peer_room_.size());
  std::copy_n(data.begin(), peer_data_size_, peer_room_.begin());
}

// Keeps the consumer's own value of the qualifier that was connected to or listened on, since that
// need not be a port number.
void EpConnection::complete_endpoints(transport::Endpoints ends) noexcept {
  if (ends.remote.family() == 0) return;
  if (target_)
    ends.remote_port = ends_.remote_port;
  else
    ends.local_port = ends_.local_port;
  ends_ = ends;
}

void EpConnection::clear() noexcept {
  ends_ = {};
  target_.reset();
  drop_peer_data();
  max_rdma_read_out_.reset();
}

}  // namespace udapl::dapl
