// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/events/peer_data.h"
#include "dapl/transport/cm.h"

#include <cstddef>
#include <optional>

namespace udapl::dapl {

// How the consumer names the peer of a connect.
enum class ConnectKind {
  kByQualifier,  // dat_ep_connect, dat_ep_dup_connect
  kByAddress     // dat_ep_common_connect: the port of the address is the qualifier
};

// What an EP records of its connection, from connect or accept until reset: both ends, the peer's
// private data, and the target of a connect. The state is stored in the EP.
//
// Not thread-safe: the Ep's lock protects it. Owned by the Ep.
class EpConnection {
 public:
  // The peer of a connect.
  struct Target {
    transport::SocketAddress address;
    DAT_CONN_QUAL conn_qual;
    ConnectKind kind;
  };

  // ---- set-up
  // Before a connect: drops the private data of an earlier one and makes room for that of the next,
  // filled with zeros, since on_established must not allocate. Throws std::bad_alloc.
  void reserve_peer_data(std::size_t most);
  // The transport connects to `target` from `local`.
  void begin_active(const Target& target, transport::Endpoints local) noexcept;
  // The transport accepts a request. `ends` as the CR shows them, `max_rdma_read_out` if the peer
  // serves fewer Reads than the EP's attributes say.
  void begin_passive(const transport::Endpoints& ends,
                     std::optional<DAT_COUNT> max_rdma_read_out) noexcept;
  // Both ends, as queries show them while a CR of this EP is pending.
  void set_endpoints(const transport::Endpoints& ends) noexcept { ends_ = ends; }

  // ---- the peer's answer
  // Copies the private data of a reply or a rejection. More than there is room for is cut off: no
  // conforming peer sends more.
  void store_peer_data(transport::PrivateData data) noexcept;
  // Takes the addresses and ports of the established connection. No effect if the transport does
  // not know them.
  void complete_endpoints(transport::Endpoints ends) noexcept;

  // The EP is reset or freed. Returns the peer's private data: queued events may point at it.
  [[nodiscard]] PeerDataList clear() noexcept;

  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept { return ends_; }
  // Stays where it is: events point at it. Zeros follow, as many as were reserved for the connect.
  [[nodiscard]] transport::PrivateData peer_data() const noexcept {
    if (peer_data_.empty()) return {};
    return {peer_data_.front().room.data(), peer_data_.front().size};
  }
  // None if the peer connected.
  [[nodiscard]] const std::optional<Target>& target() const noexcept { return target_; }
  // The target; if the peer connected, the address and port that it connected from, where in
  // general nothing listens.
  [[nodiscard]] Target peer() const noexcept {
    return target_.value_or(Target{ends_.remote, ends_.remote_port, ConnectKind::kByQualifier});
  }
  // The depth of this connection, if it is less than that of the EP's attributes.
  [[nodiscard]] std::optional<DAT_COUNT> max_rdma_read_out() const noexcept {
    return max_rdma_read_out_;
  }

 private:
  transport::Endpoints ends_;
  std::optional<Target> target_;
  PeerDataList peer_data_;  // one, or none
  std::optional<DAT_COUNT> max_rdma_read_out_;
};

}  // namespace udapl::dapl
