// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The life of a connection: connect, accept, disconnect.
#include "dapl/endpoint/connect_arguments.h"
#include "dapl/endpoint/ep.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"
#include "dapl/objects/trace_points.h"

namespace udapl::dapl {

namespace {

// More private data than any peer's connection manager puts into a reply or rejection. OpenFabrics
// over InfiniBand sends 196 bytes, however many its program passed.
constexpr std::size_t kPeerData = 256;

}  // namespace

Status illegal(const Ep& ep, EpInput input) noexcept {
  const Status status(wrong_state(ep.state()));
  const char* const broken = ep.state() == DAT_EP_STATE_DISCONNECTED ? ep.break_reason() : "";
  UDAPL_EXPLAIN(kNormal, status.code(), "ep %p: %s in state %s%s%s%s%s",
                static_cast<const void*>(&ep), name(input), name(ep.state()),
                *broken != '\0' ? ", after its connection broke: " : "", broken,
                *broken != '\0' && *ep.break_detail() != '\0' ? ": " : "",
                *broken != '\0' ? ep.break_detail() : "");
  return status;
}

// ---- setup ------------------------------------------------------------------------------------

Status Ep::connect(const transport::ConnectRequest& request, ConnectKind kind) {
  const ScopedLock lock(mutex_);
  const EpStep change = step(state(), EpInput::kConnect);
  if (change.verdict != EpVerdict::kProceed) {
    // Expected if the EP has just accepted a request of the peer: see accept().
    const bool by_peer = !connection_.target() && (is_connecting(state()) || is_connected(state()));
    if (by_peer) trace::Refusal::mark_expected();
    return illegal(*this, EpInput::kConnect);
  }
  if (const Status status = check_ready(); !status.ok()) return status;
  const bool by_address = kind == ConnectKind::kByAddress;
  if (by_address && config_.comm.domain == 0)
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY, "ep %p has no communicator",
                 static_cast<void*>(this));
  if (by_address && config_.comm.domain != request.remote.family())
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "address family %d, communicator's %d",
                 request.remote.family(), config_.comm.domain);
  connection_.reserve_peer_data(kPeerData);

  await_established(true);
  if (const Status status = qp_->connect(request); !status.ok()) {
    await_established(false);
    UDAPL_TRACE(kNormal, "ep %p: the transport failed to connect: 0x%x", static_cast<void*>(this),
                status.code());
    return status;
  }
  connection_.begin_active({request.remote, request.conn_qual, kind}, qp_->endpoints());
  set_state(change.next, EpInput::kConnect);
  return Status();
}

Status Ep::dup_connect(Ep& like, transport::ConnectRequest request) {
  EpConnection::Target target{};
  {
    const ScopedLock lock(like.mutex_);
    if (like.state() != DAT_EP_STATE_CONNECTED) return illegal(like, EpInput::kConnect);
    target = like.connection_.peer();
  }
  if (target.kind == ConnectKind::kByAddress)
    UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE,
                 "ep %p was connected by dat_ep_common_connect", static_cast<void*>(&like));
  request.remote = target.address;
  request.conn_qual = target.conn_qual;
  return connect(request, target.kind);
}

namespace {

// The transport never has more Reads in flight than the peer serves. Queries show that only if the
// consumer has not set the depths.
std::optional<DAT_COUNT> reduced_read_out(const EpConfig& config,
                                          const transport::IncomingConnection& peer) noexcept {
  const int theirs = peer.peer_rdma_read_in();
  if (!config.default_read_depths || theirs < 0 || theirs >= config.attr.max_rdma_read_out)
    return std::nullopt;
  return theirs;
}

}  // namespace

Status Ep::accept(transport::IncomingConnection& incoming, const transport::Endpoints& ends,
                  EpInput how, transport::PrivateData data) {
  const ScopedLock lock(mutex_);
  const EpStep change = step(state(), how);
  if (change.verdict != EpVerdict::kProceed) {
    // Expected in programs such as MVAPICH2, in which both sides connect and accept with the same
    // EP, and find out by trial which connection comes first.
    if (connection_.target()) trace::Refusal::mark_expected();
    return illegal(*this, how);
  }
  if (const Status status = check_ready(); !status.ok()) return status;
  const std::optional<DAT_COUNT> read_out = reduced_read_out(config_, incoming);
  await_established(true);
  if (const Status status = incoming.accept(*qp_, data); !status.ok()) {
    await_established(false);
    UDAPL_TRACE(kNormal, "ep %p: the transport failed to accept: 0x%x", static_cast<void*>(this),
                status.code());
    return status;
  }
  connection_.begin_passive(ends, read_out);
  set_state(change.next, how);
  return Status();
}

// ---- end --------------------------------------------------------------------------------------

Status Ep::disconnect(DAT_CLOSE_FLAGS flags) {
  EpInput input =
      flags == DAT_CLOSE_GRACEFUL_FLAG ? EpInput::kDisconnectGraceful : EpInput::kDisconnectAbrupt;
  Upcall upcall;
  const ScopedLock lock(mutex_);
  EpStep change = step(state(), input);
  if (change.verdict == EpVerdict::kIllegal) return illegal(*this, input);
  if (change.verdict == EpVerdict::kNothing) return Status();
  if (change.next == DAT_EP_STATE_DISCONNECT_PENDING) {
    bool idle = ia->attributes().completed_is_delivered;
    {
      const ScopedLock posts(requests.lock);  // waits for a post in progress; later ones see it
      set_state(change.next, input);
      idle = idle && requests.cookies.outstanding() == 0;
    }
    if (!idle) {
      qp_->disconnect(transport::DisconnectMode::kGraceful);
      return Status();
    }
    // No request is outstanding, and completed ones need nothing more from this side.
    input = EpInput::kDisconnectAbrupt;
    change = step(state(), input);
  }
  // The QP flushes its work before the event is posted, so that in a merged EVD successful
  // completions precede the event.
  qp_->disconnect(transport::DisconnectMode::kAbrupt);
  set_state(change.next, input);
  upcall = post_event(change.event);
  return Status();
}

// ---- table entries ----------------------------------------------------------------------------

namespace calls {
namespace {

Status check_timeout(DAT_TIMEOUT timeout, DAT_RETURN arg) noexcept {
  if (timeout == 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg,
                 "timeout 0 (microseconds; DAT_TIMEOUT_INFINITE: none)");
  return Status();
}

Status check_flags(DAT_CONNECT_FLAGS flags) noexcept {
  const int value = flags;
  if (value != DAT_CONNECT_DEFAULT_FLAG && value != DAT_CONNECT_MULTIPATH_REQUESTED_FLAG &&
      value != DAT_CONNECT_MULTIPATH_REQUIRED_FLAG)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8, "connect flags 0x%x",
                 static_cast<unsigned>(value));
  return Status();
}

DAT_COUNT room_of_request(const Ep& ep) noexcept {
  return ep.ia->attributes().private_data.request;
}

}  // namespace

DAT_RETURN ep_connect(DAT_EP_HANDLE handle, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL conn_qual,
                      DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                      const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    if (remote == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null address");
    if (const Status status = check_timeout(timeout, DAT_INVALID_ARG4); !status.ok()) return status;
    Result<transport::PrivateData> data = check_private_data(
        room_of_request(*ep), private_data_size, private_data, DAT_INVALID_ARG5, DAT_INVALID_ARG6);
    if (!data.ok()) return data.status();
    if (const Status status = check_flags(flags); !status.ok()) return status;
    Result<transport::SocketAddress> peer = check_peer(remote, DAT_INVALID_ARG2);
    if (!peer.ok()) return peer.status();
    if (const Status status = check_qos(qos); !status.ok()) return status;
    if (flags == DAT_CONNECT_MULTIPATH_REQUIRED_FLAG)
      UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "several paths are required");
    return ep->connect({*peer, conn_qual, timeout, *data}, ConnectKind::kByQualifier);
  });
}

DAT_RETURN ep_common_connect(DAT_EP_HANDLE handle, DAT_IA_ADDRESS_PTR remote, DAT_TIMEOUT timeout,
                             DAT_COUNT private_data_size, const DAT_PVOID private_data) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    if (remote == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null address");
    if (const Status status = check_timeout(timeout, DAT_INVALID_ARG3); !status.ok()) return status;
    Result<transport::PrivateData> data = check_private_data(
        room_of_request(*ep), private_data_size, private_data, DAT_INVALID_ARG4, DAT_INVALID_ARG5);
    if (!data.ok()) return data.status();
    Result<transport::SocketAddress> peer = check_peer(remote, DAT_INVALID_ARG2);
    if (!peer.ok()) return peer.status();
    if (peer->port() == 0)
      UDAPL_REFUSE(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED, "an address without port");
    return ep->connect({*peer, peer->port(), timeout, *data}, ConnectKind::kByAddress);
  });
}

DAT_RETURN ep_dup_connect(DAT_EP_HANDLE handle, DAT_EP_HANDLE dup, DAT_TIMEOUT timeout,
                          DAT_COUNT private_data_size, const DAT_PVOID private_data,
                          DAT_QOS qos) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    const auto like = require<Ep>(dup);
    if (like == nullptr) return like.refusal();
    if (like->ia != ep->ia)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE2, "EPs of different IAs");
    if (const Status status = check_timeout(timeout, DAT_INVALID_ARG3); !status.ok()) return status;
    Result<transport::PrivateData> data = check_private_data(
        room_of_request(*ep), private_data_size, private_data, DAT_INVALID_ARG4, DAT_INVALID_ARG5);
    if (!data.ok()) return data.status();
    if (const Status status = check_qos(qos); !status.ok()) return status;
    return ep->dup_connect(*like, {{}, 0, timeout, *data});
  });
}

DAT_RETURN ep_disconnect(DAT_EP_HANDLE handle, DAT_CLOSE_FLAGS flags) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    return ep->disconnect(flags);  // flags other than graceful are abrupt
  });
}

DAT_RETURN ep_reset(DAT_EP_HANDLE handle) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    return ep != nullptr ? ep->reset() : ep.refusal();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
