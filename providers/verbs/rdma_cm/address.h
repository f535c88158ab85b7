// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include "dapl/transport/cm.h"
#include "providers/verbs/device.h"

#include <cstddef>
#include <cstdint>

// Addresses as rdma_cm wants them. An InfiniBand port without an IP address is named by its GID,
// which DAT sees as an IPv6 address and rdma_cm as AF_IB (docs/adr/0015).
namespace udapl::verbs {

union CmAddress {
  sockaddr any;
  sockaddr_in6 ip;  // large enough for IPv4
  sockaddr_ib ib;
};

// Bytes of a complete address of this family: IPv4, IPv6 or AF_IB.
[[nodiscard]] std::size_t size_of(const sockaddr& address) noexcept;
// A GID, as DAT sees it, as rdma_cm wants it. The port becomes a service id of RDMA_PS_TCP.
[[nodiscard]] CmAddress native_address(const transport::SocketAddress& gid, std::uint16_t pkey,
                                       std::uint16_t port) noexcept;
// `address` with port `port`, for an id of an adapter at `device`.
[[nodiscard]] CmAddress to_cm(const Device& device, const transport::SocketAddress& address,
                              std::uint16_t port) noexcept;
// The reverse; unset for a null pointer or another family.
[[nodiscard]] transport::SocketAddress from_cm(const sockaddr* address) noexcept;

// Both ends as the id knows them.
[[nodiscard]] transport::Endpoints endpoints_of(rdma_cm_id& id) noexcept;

}  // namespace udapl::verbs
