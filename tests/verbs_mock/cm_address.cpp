// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Addresses and routes: which port has which address, and what an id is bound to.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "cm.h"
#include "fault.h"

namespace verbs_mock::cm {

namespace {

[[nodiscard]] socklen_t size_of(const sockaddr& address) {
  if (address.sa_family == AF_IB) return sizeof(sockaddr_ib);
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

[[nodiscard]] const sockaddr_ib& as_ib(const sockaddr& address) {
  return reinterpret_cast<const sockaddr_ib&>(address);
}

// The port that has the address; 0: no port of the device.
[[nodiscard]] std::uint8_t port_with(const sockaddr& address) {
  if (address.sa_family == AF_IB) return verbs_mock_port_with_gid(&as_ib(address).sib_addr);
  return verbs_mock_has_ip() ? verbs_mock_active_port() : 0;
}

// Whether the service id, under its mask, is in the port space RDMA_PS_TCP.
[[nodiscard]] bool in_port_space(const sockaddr_ib& address) {
  const std::uint64_t mask = be64toh(address.sib_sid_mask) & RDMA_IB_IP_PS_MASK;
  return (be64toh(address.sib_sid) & mask) == (RDMA_IB_IP_PS_TCP & mask);
}

[[nodiscard]] bool is_wildcard(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
  if (address.sa_family == AF_IB) return ib_addr_any(&as_ib(address).sib_addr) != 0;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr);
}

[[nodiscard]] bool same_host(const sockaddr& one, const sockaddr& other) {
  if (one.sa_family != other.sa_family) return false;
  if (one.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(one).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other).sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(one).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(other).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

[[nodiscard]] bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

[[nodiscard]] std::uint16_t free_port() {
  Manager& cm = manager();
  for (int tries = 0; tries < 32768; ++tries) {
    const std::uint16_t port = cm.next_port++;
    if (cm.next_port == 0) cm.next_port = 32768;
    if (!cm.ports.contains(port)) return port;
  }
  return 0;
}

}  // namespace

bool is_local(const sockaddr& address) {
  if (address.sa_family == AF_IB) return port_with(address) != 0;
  if (is_wildcard(address) || is_loopback(address)) return true;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  bool found = false;
  for (const ifaddrs* i = list; i != nullptr && !found; i = i->ifa_next)
    found = i->ifa_addr != nullptr && same_host(*i->ifa_addr, address);
  ::freeifaddrs(list);
  return found;
}

int bind(Id& id, const sockaddr& address) {
  if (id.state != State::kIdle) return EINVAL;
  const bool ib = address.sa_family == AF_IB;
  if (!ib && address.sa_family != AF_INET && address.sa_family != AF_INET6) return EAFNOSUPPORT;
  if (ib && !in_port_space(as_ib(address))) return EPROTONOSUPPORT;
  if (!is_local(address)) return ib ? ENODEV : EADDRNOTAVAIL;
  if (!is_wildcard(address) && port_with(address) == 0) return ENODEV;
  std::memcpy(&id.route.addr.src_storage, &address, size_of(address));
  std::uint16_t port = ntohs(port_of(id.route.addr.src_addr));
  if (port == 0) port = free_port();
  if (port == 0 || manager().ports.contains(port)) return EADDRINUSE;
  if (!is_wildcard(address)) {
    id.verbs = shared_context();
    if (id.verbs == nullptr) return errno;
    id.port_num = port_with(address);
    if (ib) id.pkey_index = verbs_mock_index_of_pkey(ntohs(as_ib(address).sib_pkey));
  }
  id.port = port;
  port_of(id.route.addr.src_addr) = htons(port);
  manager().ports.emplace(port, &id);
  id.state = State::kBound;
  return 0;
}

}  // namespace verbs_mock::cm

using namespace verbs_mock;
using namespace verbs_mock::cm;

extern "C" {

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  if (verbs_mock_fault(__func__, ENODEV)) return -1;
  const Lock lock(manager().mutex);
  const int error = cm::bind(of(id), *address);
  return error == 0 ? 0 : fail(error);
}

int rdma_resolve_addr(rdma_cm_id* handle, sockaddr* from, sockaddr* to, int) {
  if (verbs_mock_fault(__func__, ENODEV)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if (id.state == State::kIdle) {
    sockaddr_storage any{};
    any.ss_family = to->sa_family;
    std::memcpy(&any, from != nullptr ? from : to,
                from != nullptr ? size_of(*from) : offsetof(sockaddr, sa_data));
    const int error = cm::bind(id, reinterpret_cast<sockaddr&>(any));
    if (error != 0) return fail(error);
  }
  if (id.state != State::kBound || id.route.addr.src_addr.sa_family != to->sa_family)
    return fail(EINVAL);
  std::memcpy(&id.route.addr.dst_storage, to, size_of(*to));
  if (verbs_mock_loses_resolution()) {
    post(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    return 0;
  }
  // GIDs are not resolved here: the subnet administrator knows them, and is queried for the route.
  if (to->sa_family != AF_IB && !is_local(*to)) {
    post(id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
    return 0;
  }
  if (is_wildcard(id.route.addr.src_addr)) {
    const std::uint16_t port = port_of(id.route.addr.src_addr);
    std::memcpy(&id.route.addr.src_storage, to, size_of(*to));
    port_of(id.route.addr.src_addr) = port;
  }
  id.verbs = shared_context();
  if (id.verbs == nullptr) return -1;
  if (id.port_num == 0) id.port_num = verbs_mock_active_port();
  post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
  return 0;
}

int rdma_resolve_route(rdma_cm_id* handle, int) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  Id& id = of(handle);
  const Lock lock(manager().mutex);
  if (id.state != State::kBound || id.verbs == nullptr) return fail(EINVAL);
  if (verbs_mock_loses_resolution()) {
    post(id, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
    return 0;
  }
  if (!is_local(id.route.addr.dst_addr) || id.pkey_index < 0) {
    post(id, RDMA_CM_EVENT_ROUTE_ERROR, -EINVAL);
    return 0;
  }
  id.state = State::kResolved;
  post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return 0;
}

int rdma_set_option(rdma_cm_id*, int level, int option, void* value, std::size_t) {
  if (verbs_mock_fault(__func__, ENOMEM)) return -1;
  if (level == RDMA_OPTION_ID && option == RDMA_OPTION_ID_TOS)
    verbs_mock_note_tos(*static_cast<std::uint8_t*>(value));
  return level == RDMA_OPTION_ID || level == RDMA_OPTION_IB ? 0 : fail(ENOSYS);
}

__be16 rdma_get_src_port(rdma_cm_id* id) { return port_of(id->route.addr.src_addr); }

__be16 rdma_get_dst_port(rdma_cm_id* id) { return port_of(id->route.addr.dst_addr); }

}  // extern "C"
