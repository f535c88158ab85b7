// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/call.h"
#include "common/result.h"
#include "providers/reactor/reactor.h"
#include "providers/reactor/sink_gate.h"
#include "providers/verbs/connector.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

// A connection manager without a network: connects QPs of one process, also of several adapters.
// For tests of providers/verbs without librdmacm.
namespace udapl::local {

class LocalConnection;
class LocalListener;

inline constexpr std::size_t kRoom = 160;  // bytes of private data, in either direction

// The listeners, by port. One per process; its lock is a leaf and guards all connections as well.
struct Exchange {
  std::mutex lock;
  std::map<std::uint16_t, LocalListener*> listeners;
  std::uint16_t next_port = 32768;

  static Exchange& of_process();
  [[nodiscard]] std::uint16_t take_port();
};

using Bytes = std::vector<std::byte>;

// One end of a connection. Its notifications for its QP are queued, and delivered by the driving
// thread of its adapter.
class LocalConnection final : public verbs::CmConnection {
 public:
  // Active side.
  LocalConnection(verbs::Adapter& adapter, const transport::ConnectRequest& request,
                  verbs::ConnectionEnd& end);
  // Passive side. REQUIRES: the exchange's lock is held.
  LocalConnection(verbs::Adapter& adapter, LocalConnection& active);
  ~LocalConnection() override;
  LocalConnection(const LocalConnection&) = delete;
  LocalConnection& operator=(const LocalConnection&) = delete;

  Result<bool> start(const verbs::QpTerms& terms) override;
  void attach(verbs::ConnectionEnd& end, const verbs::QpTerms& terms) noexcept override;
  [[nodiscard]] bool peer_gone() const noexcept override;
  [[nodiscard]] bool reply(transport::PrivateData data) noexcept override;
  [[nodiscard]] bool on_our_port(const void*) const noexcept override { return true; }
  [[nodiscard]] bool attributes(ibv_qp_state state, ibv_qp_attr& attr, int& mask) noexcept override;
  [[nodiscard]] bool confirm() noexcept override;
  void refuse() noexcept override;
  void first_message_came() noexcept override;
  void disconnect(bool answers) noexcept override;
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override;

  // Called when the consumer rejects the request.
  void reject(transport::PrivateData data) noexcept;
  [[nodiscard]] const Bytes& request() const noexcept { return request_; }
  [[nodiscard]] const verbs::QpTerms& peer_terms() const noexcept { return peer_terms_; }

 private:
  enum class State : std::uint8_t { kNew, kRequested, kAsked, kReplied, kEstablished, kOver };
  enum class What : std::uint8_t {
    kReply,
    kEstablished,
    kRejected,
    kRefused,
    kUnreachable,
    kEnded
  };
  struct Notification {
    What what;
    Bytes data;
  };

  // REQUIRES: the exchange's lock is held.
  void notify(What what, Bytes data = {});
  void notify_and_detach_peer(What what, Bytes data = {});
  void notify_next() noexcept;  // called by the driving thread, without the lock

  verbs::Adapter& adapter_;
  verbs::ConnectionEnd* end_;
  verbs::QpTerms terms_{};
  verbs::QpTerms peer_terms_{};
  LocalConnection* peer_ = nullptr;
  State state_;
  bool peer_gone_ = false;  // before attach()
  Bytes request_;
  transport::Endpoints endpoints_;
  std::deque<Notification> notifications_;
  Deferred notifier_;
};

class LocalIncoming final : public transport::IncomingConnection {
 public:
  explicit LocalIncoming(std::unique_ptr<LocalConnection> connection);
  ~LocalIncoming() override;

  [[nodiscard]] transport::PrivateData private_data() const noexcept override { return data_; }
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept override {
    return endpoints_;
  }
  [[nodiscard]] int peer_rdma_read_in() const noexcept override { return read_in_; }
  [[nodiscard]] int peer_rdma_read_out() const noexcept override { return read_out_; }
  Status accept(transport::Qp& qp, transport::PrivateData private_data) override;
  void reject(transport::PrivateData private_data) noexcept override;

 private:
  std::unique_ptr<LocalConnection> connection_;  // null: accepted or rejected
  const Bytes data_;
  const transport::Endpoints endpoints_;
  const int read_in_;
  const int read_out_;
};

class LocalListener final : public transport::Listener {
 public:
  LocalListener(verbs::Adapter& adapter, transport::ListenSink& sink);
  ~LocalListener() override;
  Status start(const transport::SocketAddress& place, DAT_CONN_QUAL conn_qual);

  [[nodiscard]] DAT_CONN_QUAL conn_qual() const noexcept override { return conn_qual_; }
  [[nodiscard]] const transport::SocketAddress& address() const noexcept override {
    return address_;
  }
  // Queues a request. REQUIRES: the exchange's lock is held.
  void queue_request(LocalConnection& active);

 private:
  void deliver(unsigned call) noexcept;

  verbs::Adapter& adapter_;
  transport::ListenSink& sink_;
  transport::SocketAddress address_;
  DAT_CONN_QUAL conn_qual_ = 0;
  std::uint16_t port_ = 0;                                // 0: not in the exchange
  std::deque<std::unique_ptr<LocalConnection>> waiting_;  // under the exchange's lock
  SinkGate gate_;
};

extern const verbs::ConnectorKit kLocal;

}  // namespace udapl::local
