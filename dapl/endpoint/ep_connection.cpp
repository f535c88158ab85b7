// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/ep_connection.h"

#include <algorithm>
#include <utility>

namespace udapl::dapl {

void EpConnection::reserve_peer_data(std::size_t most) {
  peer_data_.clear();
  peer_data_.emplace_back().room.resize(most);
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
  peer_data_.clear();
  ends_ = ends;
  max_rdma_read_out_ = max_rdma_read_out;
}

void EpConnection::store_peer_data(transport::PrivateData data) noexcept {
  if (peer_data_.empty()) return;
  PeerData& stored = peer_data_.front();
  stored.size = std::min(data.size(), stored.room.size());
  std::copy_n(data.begin(), stored.size, stored.room.begin());
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

PeerDataList EpConnection::clear() noexcept {
  ends_ = {};
  target_.reset();
  max_rdma_read_out_.reset();
  return std::exchange(peer_data_, {});
}

}  // namespace udapl::dapl
