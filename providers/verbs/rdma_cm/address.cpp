// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/rdma_cm/address.h"

#include <endian.h>

#include <cstring>

#include "providers/connecting/socket_address.h"

namespace udapl::verbs {

using transport::SocketAddress;

std::size_t size_of(const sockaddr& address) noexcept {
  if (address.sa_family == AF_IB) return sizeof(sockaddr_ib);
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

CmAddress native_address(const SocketAddress& gid, std::uint16_t pkey,
                         std::uint16_t port) noexcept {
  sockaddr_ib ib{};
  ib.sib_family = AF_IB;
  ib.sib_pkey = htobe16(pkey);
  std::memcpy(&ib.sib_addr, &gid.storage.sin6_addr, sizeof ib.sib_addr);
  ib.sib_sid = htobe64(RDMA_IB_IP_PS_TCP | port);
  ib.sib_sid_mask =
      htobe64(port != 0 ? RDMA_IB_IP_PS_MASK | RDMA_IB_IP_PORT_MASK : RDMA_IB_IP_PS_MASK);
  ib.sib_scope_id = gid.storage.sin6_scope_id;
  CmAddress result{};
  result.ib = ib;
  return result;
}

CmAddress to_cm(const Device& device, const SocketAddress& address, std::uint16_t port) noexcept {
  if (device.by_gid && address.family() == AF_INET6)
    return native_address(address, device.pkey, port);
  CmAddress result{};
  SocketAddress with_port = address;
  with_port.set_port(port);
  result.ip = with_port.storage;
  return result;
}

SocketAddress from_cm(const sockaddr* address) noexcept {
  SocketAddress result;
  if (address == nullptr) return result;
  if (address->sa_family == AF_INET || address->sa_family == AF_INET6)
    return SocketAddress::from(address);
  if (address->sa_family != AF_IB) return result;
  sockaddr_ib ib;
  std::memcpy(&ib, address, sizeof ib);
  result.storage.sin6_family = AF_INET6;
  std::memcpy(&result.storage.sin6_addr, &ib.sib_addr, sizeof ib.sib_addr);
  result.set_port(static_cast<std::uint16_t>(be64toh(ib.sib_sid) & RDMA_IB_IP_PORT_MASK));
  return result;
}

transport::Endpoints endpoints_of(const Device& device, rdma_cm_id& id) noexcept {
  transport::Endpoints ends;
  ends.local = adapted_to(device.address, from_cm(::rdma_get_local_addr(&id)));
  ends.remote = adapted_to(device.address, from_cm(::rdma_get_peer_addr(&id)));
  ends.local_port = ends.local.port();
  ends.remote_port = ends.remote.port();
  return ends;
}

}  // namespace udapl::verbs
