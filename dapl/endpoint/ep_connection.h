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
  // Called when the transport connects to `target` from `local`.
  void begin_active(const Target& target, transport::Endpoints local) noexcept;
  // Called when the transport accepts a request. `ends`: those that the CR shows.
  // `max_rdma_read_out`: set if the peer serves fewer Reads than the EP's attributes say.
  void begin_passive(const transport::Endpoints& ends,
                     std::optional<DAT_COUNT> max_rdma_read_out) noexcept;
  // Sets both ends, which queries show while a CR of this EP is pending.
  void set_endpoints(const transport::Endpoints& ends) noexcept { ends_ = ends; }

  // ---- the peer's answer
  // Copies the private data of a reply or a rejection. Cuts off what exceeds the reserved room; no
  // conforming peer sends that much.
  void store_peer_data(transport::PrivateData data) noexcept;
  // Takes the addresses and ports of the established connection. No effect if the transport does
  // not know them.
  void complete_endpoints(transport::Endpoints ends) noexcept;

  // Called when the EP is reset or freed. Returns the peer's private data, because queued events
  // may point at it.
  [[nodiscard]] PeerDataList clear() noexcept;

  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept { return ends_; }
  // Does not move until clear(), because events point at it. Zeros follow it up to the room that
  // was reserved for the connect.
  [[nodiscard]] transport::PrivateData peer_data() const noexcept {
    if (peer_data_.empty()) return {};
    return {peer_data_.front().room.data(), peer_data_.front().size};
  }
  // The peer that this EP connected to; none if the peer connected.
  [[nodiscard]] const std::optional<Target>& target() const noexcept { return target_; }
  // The target. If the peer connected, the address and port from which it did; in general no
  // process listens there.
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
  PeerDataList peer_data_;  // one element, or none
  std::optional<DAT_COUNT> max_rdma_read_out_;
};

}  // namespace udapl::dapl
