// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/types.h"

#include <netinet/in.h>

#include <cstring>

namespace udapl::transport {

class Qp;

// An IPv4 or IPv6 socket address by value. family() 0: unset.
struct SocketAddress {
  sockaddr_in6 storage{};  // large enough for both families

  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] int family() const noexcept { return get()->sa_family; }
  [[nodiscard]] socklen_t size() const noexcept {
    return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  [[nodiscard]] std::uint16_t port()
      const noexcept {  // sin_port and sin6_port are at the same place
    return ntohs(storage.sin6_port);
  }
  void set_port(std::uint16_t port) noexcept { storage.sin6_port = htons(port); }

  // REQUIRES: address is a complete sockaddr_in or sockaddr_in6, by its family.
  static SocketAddress from(const sockaddr* address) noexcept {
    SocketAddress result;
    std::memcpy(&result.storage, address,
                address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    return result;
  }
};

// The port that a connection qualifier maps to. Programs use process ids and random 64-bit values
// as qualifiers: a value above 65535 is mapped into 33534..65534 in the same way as by OpenFabrics,
// so that both ends agree. Programs cannot listen on two qualifiers that map to the same port at
// the same time.
[[nodiscard]] constexpr std::uint16_t port_of(DAT_CONN_QUAL qualifier) noexcept {
  constexpr DAT_CONN_QUAL kPorts = 65536;
  constexpr DAT_CONN_QUAL kFolded = 32001;
  constexpr DAT_CONN_QUAL kFirstFolded = 33534;
  return static_cast<std::uint16_t>(qualifier < kPorts ? qualifier
                                                       : qualifier % kFolded + kFirstFolded);
}

struct Endpoints {
  SocketAddress local;
  SocketAddress remote;
  DAT_PORT_QUAL local_port = 0;
  DAT_PORT_QUAL remote_port = 0;
};

struct ConnectRequest {
  SocketAddress remote;      // the port in it is ignored
  DAT_CONN_QUAL conn_qual;   // of the peer's listener; only port_of(conn_qual) matters
  DAT_TIMEOUT timeout_us;    // covers everything until the peer's consumer accepts or rejects;
                             // DAT_TIMEOUT_INFINITE: no limit
  PrivateData private_data;  // copied; at most Attributes::private_data.request
};

// A peer's connection request. Owned by a CR. Thread-safe as long as only one thread accepts or
// rejects. Destroying it before either refuses the peer (on_refused at the peer).
class IncomingConnection {
 public:
  virtual ~IncomingConnection() = default;

  [[nodiscard]] virtual PrivateData private_data()
      const noexcept = 0;  // valid as long as the object
  [[nodiscard]] virtual const Endpoints& endpoints() const noexcept = 0;
  // Read depths that the peer proposes; -1: unknown.
  [[nodiscard]] virtual int peer_rdma_read_in() const noexcept = 0;
  [[nodiscard]] virtual int peer_rdma_read_out() const noexcept = 0;

  // Accepts into `qp`, which is idle and was created by the same adapter. Its sink gets the
  // outcome: on_established or on_accept_failed; do not destroy the QP before that. After success
  // the request is consumed. An error (private data too long for this peer, unsuitable QP) leaves
  // request, QP and peer unchanged.
  virtual Status accept(Qp& qp, PrivateData private_data) = 0;
  // Notifies the peer that the consumer rejects (on_rejected at the peer). The request is consumed.
  // May block briefly.
  virtual void reject(PrivateData private_data) noexcept = 0;
};

// A listening port. The destructor stops listening and frees the port at once.
class Listener {
 public:
  virtual ~Listener() = default;
  // The qualifier that the consumer passed, or the port that the transport picked.
  [[nodiscard]] virtual DAT_CONN_QUAL conn_qual() const noexcept = 0;
  [[nodiscard]] virtual const SocketAddress& address() const noexcept = 0;
};

struct ListenRequest {
  DAT_CONN_QUAL conn_qual;       // 0: the transport picks a free, non-privileged port
  const SocketAddress* address;  // null: the adapter's address. Only its host part counts.
};

}  // namespace udapl::transport
