// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include "dapl/transport/cm.h"
#include "providers/verbs/device.h"

#include <cstddef>
#include <cstdint>

// Converts addresses between DAT and rdma_cm. An InfiniBand port without an IP address is addressed
// by its GID: an IPv6 address in DAT, AF_IB in rdma_cm (docs/adr/0015).
namespace udapl::verbs {

union CmAddress {
  sockaddr any;
  sockaddr_in6 ip;  // large enough for IPv4
  sockaddr_ib ib;
};

// The size of an address of this family (IPv4, IPv6 or AF_IB) in bytes.
[[nodiscard]] std::size_t size_of(const sockaddr& address) noexcept;
// Converts a GID from its DAT form to AF_IB. The port becomes a service id of RDMA_PS_TCP.
[[nodiscard]] CmAddress native_address(const transport::SocketAddress& gid, std::uint16_t pkey,
                                       std::uint16_t port) noexcept;
// Converts `address` with port `port`, for an id of an adapter at `device`.
[[nodiscard]] CmAddress to_cm(const Device& device, const transport::SocketAddress& address,
                              std::uint16_t port) noexcept;
// The reverse. Returns an unset address for a null pointer or another family.
[[nodiscard]] transport::SocketAddress from_cm(const sockaddr* address) noexcept;

// Both ends, as recorded in the id of an adapter at `device`. rdma_cm takes the addresses of a
// request from the message, which has no scopes: link-local ones get the adapter's.
[[nodiscard]] transport::Endpoints endpoints_of(const Device& device, rdma_cm_id& id) noexcept;

}  // namespace udapl::verbs
