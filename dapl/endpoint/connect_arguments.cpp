// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/connect_arguments.h"

#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"

#include <netinet/in.h>

#include <cstddef>
#include <cstring>

namespace udapl::dapl {

namespace {

// A sockaddr_ib (<infiniband/ib.h>) has its GID where a sockaddr_in6 has its address. Its service
// id is ignored, like the port of other addresses.
Result<transport::SocketAddress> check_gid(const sockaddr& address, DAT_RETURN arg) noexcept {
  sockaddr_in6 gid{};
  gid.sin6_family = AF_INET6;
  std::memcpy(&gid.sin6_addr,
              reinterpret_cast<const char*>(&address) + offsetof(sockaddr_in6, sin6_addr),
              sizeof gid.sin6_addr);
  return check_peer(reinterpret_cast<DAT_IA_ADDRESS_PTR>(&gid), arg);
}

}  // namespace

Result<transport::PrivateData> check_private_data(DAT_COUNT most, DAT_COUNT size, const void* data,
                                                  DAT_RETURN size_arg,
                                                  DAT_RETURN data_arg) noexcept {
  if (size < 0 || size > most)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, size_arg, "private_data_size %d, at most %d", size, most);
  if (size > 0 && data == nullptr)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, data_arg, "null private data of size %d", size);
  return transport::PrivateData(static_cast<const std::byte*>(data),
                                static_cast<std::size_t>(size));
}

Result<transport::SocketAddress> check_peer(DAT_IA_ADDRESS_PTR address, DAT_RETURN arg) noexcept {
  if (address == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "null address");
  sockaddr_in plain{};
  if (address->sa_family == AF_UNSPEC) {  // some programs fill in only the host
    std::memcpy(&plain, address, sizeof plain);
    plain.sin_family = AF_INET;
    address = reinterpret_cast<DAT_IA_ADDRESS_PTR>(&plain);
  }
  if (address->sa_family == AF_INET) {
    const auto host = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    if (IN_MULTICAST(host) || host == INADDR_BROADCAST)
      UDAPL_REFUSE(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED,
                   "0x%08x is a multicast or broadcast address", host);
    if (host == INADDR_ANY)
      UDAPL_REFUSE(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED, "the wildcard address");
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& host = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_MULTICAST(&host))
      UDAPL_REFUSE(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED, "a multicast address");
    if (IN6_IS_ADDR_UNSPECIFIED(&host))
      UDAPL_REFUSE(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED, "the wildcard address");
  } else if (address->sa_family == AF_IB) {
    return check_gid(*address, arg);
  } else {
    UDAPL_REFUSE(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED, "address family %d",
                 address->sa_family);
  }
  return transport::SocketAddress::from(address);
}

Status check_qos(DAT_QOS qos) noexcept {
  if (qos == DAT_QOS_BEST_EFFORT) return Status();
  UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE,
               "quality_of_service 0x%x; there is only BEST_EFFORT (0)",
               static_cast<unsigned>(qos));
}

}  // namespace udapl::dapl
