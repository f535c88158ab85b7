// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connector.h"

#include "common/tracing/trace.h"
#include "providers/connecting/interfaces.h"
#include "providers/connecting/socket_address.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/qp.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace udapl::local {

using transport::PrivateData;
using verbs::CmConnection;

namespace {

using Locked = std::lock_guard<std::mutex>;

Bytes copy_of(PrivateData data) { return {data.begin(), data.end()}; }

bool is_local(const transport::SocketAddress& address) {
  const auto interfaces = local_interfaces();
  return interfaces && by_address(*interfaces, address) != nullptr;
}

}  // namespace

// Never destroyed, as some adapters and their connections exist until the process ends.
Exchange& Exchange::of_process() {
  static auto* const made = new Exchange;
  return *made;
}

std::uint16_t Exchange::take_port() {
  do {
    next_port = next_port == UINT16_MAX ? 32768 : static_cast<std::uint16_t>(next_port + 1);
  } while (listeners.count(next_port) != 0);
  return next_port;
}

// ---- one end -----------------------------------------------------------------------------------

LocalConnection::LocalConnection(verbs::Adapter& adapter, const transport::ConnectRequest& request,
                                 verbs::ConnectionEnd& end)
    : adapter_(adapter),
      end_(&end),
      state_(State::kNew),
      request_(copy_of(request.private_data)),
      notifier_(adapter.reactor(), Call::to<&LocalConnection::notify_next>(this)) {
  endpoints_.local = adapter.device().address;
  endpoints_.remote = adapted_to(endpoints_.local, request.remote);
  endpoints_.remote_port = request.conn_qual;
}

LocalConnection::LocalConnection(verbs::Adapter& adapter, LocalConnection& active)
    : adapter_(adapter),
      end_(nullptr),
      peer_terms_(active.terms_),
      peer_(&active),
      state_(State::kAsked),
      request_(active.request_),
      notifier_(adapter.reactor(), Call::to<&LocalConnection::notify_next>(this)) {
  active.peer_ = this;
  endpoints_.local = active.endpoints_.remote;
  endpoints_.local_port = transport::port_of(active.endpoints_.remote_port);
  endpoints_.local.set_port(static_cast<std::uint16_t>(endpoints_.local_port));
  endpoints_.remote = active.endpoints_.local;
  endpoints_.remote_port = active.endpoints_.local_port;
  endpoints_.remote.set_port(static_cast<std::uint16_t>(endpoints_.remote_port));
}

LocalConnection::~LocalConnection() {
  {
    const Locked lock(Exchange::of_process().lock);
    switch (state_) {
      case State::kAsked:    // neither accepted nor rejected
      case State::kReplied:  // the peer has not confirmed
        notify_and_detach_peer(What::kRefused);
        break;
      case State::kRequested:
        if (peer_ != nullptr && peer_->state_ == State::kAsked) peer_->peer_gone_ = true;
        notify_and_detach_peer(What::kEnded);
        break;
      default:
        notify_and_detach_peer(What::kEnded);
        break;
    }
  }
  notifier_.close();  // waits for a call in another thread
}

void LocalConnection::notify(What what, Bytes data) {
  notifications_.push_back({what, std::move(data)});
  notifier_.post();
}

void LocalConnection::notify_and_detach_peer(What what, Bytes data) {
  state_ = State::kOver;
  LocalConnection* const peer = std::exchange(peer_, nullptr);
  if (peer == nullptr) return;
  peer->peer_ = nullptr;
  if (peer->end_ != nullptr) peer->notify(what, std::move(data));
}

// The QP may destroy this object within the call.
void LocalConnection::notify_next() noexcept {
  Notification notification;
  verbs::ConnectionEnd* end = nullptr;
  const void* context = nullptr;
  {
    const Locked lock(Exchange::of_process().lock);
    if (notifications_.empty() || end_ == nullptr) return;
    notification = std::move(notifications_.front());
    notifications_.pop_front();
    if (!notifications_.empty()) notifier_.post();
    end = end_;
    context = terms_.context;
  }
  const trace::About about(context);
  const PrivateData data(notification.data);
  switch (notification.what) {
    case What::kReply:
      return end->on_reply(*this, data);
    case What::kEstablished:
      return end->on_established(*this, {});
    case What::kRejected:
      return end->on_failed(*this, verbs::SetupFailure::kRejected, data);
    case What::kRefused:
      return end->on_failed(*this, verbs::SetupFailure::kRefused, {});
    case What::kUnreachable:
      return end->on_failed(*this, verbs::SetupFailure::kUnreachable, {});
    case What::kEnded:
      return end->on_lost(*this, verbs::Loss::kEndedByPeer);
  }
}

Result<bool> LocalConnection::start(const verbs::QpTerms& terms) {
  const bool known = is_local(endpoints_.remote);
  Exchange& exchange = Exchange::of_process();
  const Locked lock(exchange.lock);
  terms_ = terms;
  endpoints_.local_port = exchange.take_port();
  state_ = State::kRequested;
  const auto listener = exchange.listeners.find(transport::port_of(endpoints_.remote_port));
  if (!known)
    notify(What::kUnreachable);
  else if (listener == exchange.listeners.end())
    notify(What::kRefused);
  else
    listener->second->queue_request(*this);
  return true;
}

void LocalConnection::attach(verbs::ConnectionEnd& end, const verbs::QpTerms& terms) noexcept {
  const Locked lock(Exchange::of_process().lock);
  end_ = &end;
  terms_ = terms;
}

bool LocalConnection::peer_gone() const noexcept {
  const Locked lock(Exchange::of_process().lock);
  return peer_gone_;
}

bool LocalConnection::reply(PrivateData data) noexcept {
  const Locked lock(Exchange::of_process().lock);
  if (peer_ == nullptr) {
    errno = ECONNRESET;
    return false;
  }
  state_ = State::kReplied;
  peer_->peer_terms_ = terms_;
  peer_->notify(What::kReply, copy_of(data));
  return true;
}

bool LocalConnection::confirm() noexcept {
  const Locked lock(Exchange::of_process().lock);
  if (peer_ == nullptr) {
    errno = ECONNRESET;
    return false;
  }
  state_ = State::kEstablished;
  if (peer_->state_ != State::kReplied) return true;  // the peer is established already
  peer_->state_ = State::kEstablished;
  peer_->notify(What::kEstablished);
  return true;
}

void LocalConnection::first_message_came() noexcept {
  const Locked lock(Exchange::of_process().lock);
  if (state_ != State::kReplied) return;
  state_ = State::kEstablished;
  notify(What::kEstablished);
}

void LocalConnection::refuse() noexcept {
  const Locked lock(Exchange::of_process().lock);
  notify_and_detach_peer(What::kRefused);
}

void LocalConnection::reject(PrivateData data) noexcept {
  const Locked lock(Exchange::of_process().lock);
  notify_and_detach_peer(What::kRejected, copy_of(data));
}

void LocalConnection::disconnect(bool) noexcept {
  const Locked lock(Exchange::of_process().lock);
  notify_and_detach_peer(What::kEnded);
}

transport::Endpoints LocalConnection::endpoints() const noexcept {
  const Locked lock(Exchange::of_process().lock);
  return endpoints_;
}

// Sets the read depths of both ends, as received from the other end.
bool LocalConnection::attributes(ibv_qp_state state, ibv_qp_attr& attr, int& mask) noexcept {
  static constexpr int kMaxReads = 16;
  const verbs::Device& device = adapter_.device();
  const auto depth = [](int ours, int theirs) {
    return static_cast<std::uint8_t>(std::clamp(std::min(ours, theirs), 0, kMaxReads));
  };
  const Locked lock(Exchange::of_process().lock);
  attr = {};
  attr.qp_state = state;
  mask = IBV_QP_STATE;
  switch (state) {
    case IBV_QPS_INIT:
      attr.port_num = device.port;
      mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      return true;
    case IBV_QPS_RTR:
      attr.path_mtu = device.port_attr.active_mtu;
      attr.dest_qp_num = peer_terms_.number;
      attr.max_dest_rd_atomic = depth(terms_.read_in, peer_terms_.read_out);
      attr.ah_attr.is_global = 1;
      attr.ah_attr.grh.dgid = device.gid;
      attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
      attr.ah_attr.port_num = device.port;
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      return true;
    case IBV_QPS_RTS:
      attr.timeout = 14;
      attr.retry_cnt = adapter_.environment().retry_count;
      attr.rnr_retry = adapter_.environment().rnr_retry;
      attr.max_rd_atomic = depth(terms_.read_out, peer_terms_.read_in);
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
              IBV_QP_MAX_QP_RD_ATOMIC;
      return true;
    default:
      errno = EINVAL;
      return false;
  }
}

// ---- the passive side --------------------------------------------------------------------------

LocalIncoming::LocalIncoming(std::unique_ptr<LocalConnection> connection)
    : connection_(std::move(connection)),
      data_(connection_->request()),
      endpoints_(connection_->endpoints()),
      read_in_(connection_->peer_terms().read_in),
      read_out_(connection_->peer_terms().read_out) {}

LocalIncoming::~LocalIncoming() = default;  // an undecided connection refuses its peer

Status LocalIncoming::accept(transport::Qp& qp, PrivateData private_data) {
  if (connection_ == nullptr) return failure(DAT_INVALID_PARAMETER);
  if (private_data.size() > kRoom) return failure(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
  std::unique_ptr<CmConnection> offered = std::move(connection_);
  const Status status = static_cast<verbs::Qp&>(qp).accept(offered, private_data);
  connection_.reset(static_cast<LocalConnection*>(offered.release()));
  return status;
}

void LocalIncoming::reject(PrivateData private_data) noexcept {
  if (connection_ == nullptr) return;
  connection_->reject(private_data);
  connection_.reset();
}

LocalListener::LocalListener(verbs::Adapter& adapter, transport::ListenSink& sink)
    : adapter_(adapter),
      sink_(sink),
      gate_(adapter.reactor(), SinkGate::to<&LocalListener::deliver, LocalListener>(), this) {}

LocalListener::~LocalListener() {
  std::deque<std::unique_ptr<LocalConnection>> waiting;
  {
    Exchange& exchange = Exchange::of_process();
    const Locked lock(exchange.lock);
    if (port_ != 0) exchange.listeners.erase(port_);
    waiting.swap(waiting_);
  }
  waiting.clear();
  gate_.close();
}

Status LocalListener::start(const transport::SocketAddress& place, DAT_CONN_QUAL conn_qual) {
  const auto interfaces = local_interfaces();
  if (!interfaces) return failure(DAT_INSUFFICIENT_RESOURCES);
  if (by_address(*interfaces, place) == nullptr) return failure(DAT_INVALID_ADDRESS);
  Exchange& exchange = Exchange::of_process();
  const Locked lock(exchange.lock);
  const std::uint16_t port = conn_qual == 0 ? exchange.take_port() : transport::port_of(conn_qual);
  if (!exchange.listeners.emplace(port, this).second) return failure(DAT_CONN_QUAL_IN_USE);
  port_ = port;
  conn_qual_ = conn_qual != 0 ? conn_qual : port;
  address_ = place;
  address_.set_port(port);
  return Status();
}

void LocalListener::queue_request(LocalConnection& active) {
  waiting_.push_back(std::make_unique<LocalConnection>(adapter_, active));
  gate_.post(0);
}

void LocalListener::deliver(unsigned) noexcept {
  std::unique_ptr<LocalConnection> connection;
  {
    const Locked lock(Exchange::of_process().lock);
    if (waiting_.empty()) return;
    connection = std::move(waiting_.front());
    waiting_.pop_front();
    if (!waiting_.empty()) gate_.post(0);
  }
  sink_.on_request(std::make_unique<LocalIncoming>(std::move(connection)));
}

// ---- the connector -----------------------------------------------------------------------------

namespace {

class LocalConnector final : public verbs::Connector {
 public:
  explicit LocalConnector(verbs::Adapter& adapter) noexcept : adapter_(adapter) {}

  Result<std::unique_ptr<CmConnection>> prepare(const transport::ConnectRequest& request,
                                                verbs::ConnectionEnd& end) override {
    if (request.private_data.size() > kRoom) return failure(DAT_INVALID_PARAMETER);
    return std::unique_ptr<CmConnection>(std::make_unique<LocalConnection>(adapter_, request, end));
  }
  Result<std::unique_ptr<transport::Listener>> listen(const transport::ListenRequest& request,
                                                      transport::ListenSink& sink) override {
    auto listener = std::make_unique<LocalListener>(adapter_, sink);
    const transport::SocketAddress place =
        request.address != nullptr ? *request.address : adapter_.device().address;
    if (const Status status = listener->start(place, request.conn_qual); !status.ok())
      return status;
    return std::unique_ptr<transport::Listener>(std::move(listener));
  }

 private:
  verbs::Adapter& adapter_;
};

// All addresses of this machine belong to the first device.
std::optional<verbs::Place> place_of(const transport::SocketAddress& address,
                                     std::optional<std::uint16_t> pkey) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  std::optional<verbs::Place> place;
  if (count > 0 && !pkey && is_local(address))
    place = verbs::Place{ibv_get_device_name(devices[0]), 1};
  if (devices != nullptr) ibv_free_device_list(devices);
  if (!place) errno = ENODEV;
  return place;
}

transport::PrivateDataRoom room_of(const verbs::Device&) noexcept { return {kRoom, kRoom, kRoom}; }

Result<std::unique_ptr<verbs::Connector>> open(verbs::Adapter& adapter) {
  return std::unique_ptr<verbs::Connector>(std::make_unique<LocalConnector>(adapter));
}

}  // namespace

constinit const verbs::ConnectorKit kLocal = {&place_of, &room_of, &open};

}  // namespace udapl::local
