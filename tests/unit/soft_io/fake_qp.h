// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/qp.h"
#include "providers/soft/cm/connector.h"
#include "providers/soft/connector.h"
#include "tests/unit/reactor/support.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace udapl::soft::test {

using namespace udapl::test;

using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::size_t size, unsigned seed = 1) {
  Bytes result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<std::byte>(i * 7 + seed);
  return result;
}

// A QP as the connection manager sees it; posts are not implemented. Records the connection
// manager's calls.
class FakeQp final : public transport::Qp, public ConnectionEnd {
 public:
  // A driving thread may be calling this QP now: the handshake's destructor waits for that call.
  ~FakeQp() override { drop_handshake(); }

  // ---- called by the tests ----
  // Does what Qp::connect does.
  Status start(TcpConnector& cm, const transport::ConnectRequest& request) {
    auto started = cm.connect(request, *this);
    if (!started.ok()) return started.status();
    std::unique_ptr<Handshake> superfluous;
    const std::lock_guard guard(lock_);
    (outcomes_ == 0 ? handshake_ : superfluous) = *std::move(started);
    return Status();
  }
  void drop_handshake() {
    std::unique_ptr<Handshake> dropped;
    {
      const std::lock_guard guard(lock_);
      dropped = std::move(handshake_);
    }
  }
  [[nodiscard]] int outcomes() const {
    const std::lock_guard guard(lock_);
    return outcomes_;
  }
  [[nodiscard]] bool attached() const {
    const std::lock_guard guard(lock_);
    return stream_ != nullptr;
  }
  [[nodiscard]] std::optional<SetupFailure> setup_failure() const {
    const std::lock_guard guard(lock_);
    return failure_;
  }
  [[nodiscard]] Bytes data() const {
    const std::lock_guard guard(lock_);
    return data_;
  }
  [[nodiscard]] iwarp::Agreed agreed() const {
    const std::lock_guard guard(lock_);
    return agreed_;
  }
  ByteStream& stream() {
    const std::lock_guard guard(lock_);
    return *stream_;
  }
  [[nodiscard]] transport::Endpoints handshake_endpoints() const {
    const std::lock_guard guard(lock_);
    return handshake_ != nullptr ? handshake_->endpoints() : transport::Endpoints{};
  }

  iwarp::MpaConfig config;       // set before start() or accept
  bool refuse_stream = false;    // makes attach() fail
  std::atomic<int> attempts{0};  // calls of attach()

  // ---- ConnectionEnd ----
  [[nodiscard]] iwarp::MpaConfig mpa_config() const noexcept override { return config; }
  Status attach(std::unique_ptr<ByteStream>& stream,
                const Negotiated& negotiated) noexcept override {
    std::unique_ptr<Handshake> ended;
    const std::lock_guard guard(lock_);
    ++attempts;
    if (refuse_stream) return failure(DAT_INVALID_STATE);
    ++outcomes_;
    ended = std::move(handshake_);
    stream_ = std::move(stream);
    agreed_ = negotiated.agreed;
    data_.assign(negotiated.private_data.begin(), negotiated.private_data.end());
    if (!negotiated.reply.empty()) stream_->answer(negotiated.reply);
    return Status();
  }
  void on_failed(SetupFailure why, transport::PrivateData from_peer) noexcept override {
    std::unique_ptr<Handshake> ended;
    const std::lock_guard guard(lock_);
    ++outcomes_;
    ended = std::move(handshake_);
    failure_ = why;
    data_.assign(from_peer.begin(), from_peer.end());
  }

  // ---- transport::Qp ----
  using Id = transport::WorkId;
  using Flags = transport::WorkFlags;
  using List = const DAT_LMR_TRIPLET*;
  using Remote = const DAT_RMR_TRIPLET&;
  DAT_RETURN post_recv(Id, List, DAT_COUNT, Flags) noexcept override { return kNo; }
  DAT_RETURN post_send(Id, List, DAT_COUNT, Flags) noexcept override { return kNo; }
  DAT_RETURN post_send_invalidate(Id, List, DAT_COUNT, DAT_RMR_CONTEXT, Flags) noexcept override {
    return kNo;
  }
  DAT_RETURN post_rdma_write(Id, List, DAT_COUNT, Remote, Flags) noexcept override { return kNo; }
  DAT_RETURN post_rdma_read(Id, List, DAT_COUNT, Remote, Flags) noexcept override { return kNo; }
  DAT_RETURN post_rdma_read_to_rmr(Id, Remote, Remote, Flags) noexcept override { return kNo; }
  DAT_RETURN post_bind(Id, const transport::BindRequest&, Flags,
                       DAT_RMR_CONTEXT*) noexcept override {
    return kNo;
  }
  DAT_RETURN post_write_immediate(Id, List, DAT_COUNT, Remote, std::uint32_t,
                                  Flags) noexcept override {
    return kNo;
  }
  DAT_RETURN post_fetch_add(Id, const DAT_LMR_TRIPLET&, Remote, std::uint64_t,
                            Flags) noexcept override {
    return kNo;
  }
  DAT_RETURN post_compare_swap(Id, const DAT_LMR_TRIPLET&, Remote, std::uint64_t, std::uint64_t,
                               Flags) noexcept override {
    return kNo;
  }
  Status modify(const transport::QpInit&) override { return Status(kNo); }
  Status connect(const transport::ConnectRequest&) override { return Status(kNo); }
  void disconnect(transport::DisconnectMode) noexcept override {}
  Status reset() override { return Status(kNo); }
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override { return {}; }
  void set_watermarks(int, int) noexcept override {}
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override { return {}; }

 private:
  static constexpr DAT_RETURN kNo = dat_error(DAT_NOT_IMPLEMENTED);
  mutable std::mutex lock_;
  int outcomes_ = 0;
  std::optional<SetupFailure> failure_;
  iwarp::Agreed agreed_;
  Bytes data_;
  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<Handshake> handshake_;
};

// Keeps the connection requests that arrive.
class Desk final : public transport::ListenSink {
 public:
  void on_request(std::unique_ptr<transport::IncomingConnection> request) noexcept override {
    const std::lock_guard guard(lock_);
    ++count_;
    if (drop_all) return;
    requests_.push_back(std::move(request));
  }
  [[nodiscard]] int count() const {
    const std::lock_guard guard(lock_);
    return count_;
  }
  // Waits for a request and returns the oldest one, or null if none has arrived in time.
  std::unique_ptr<transport::IncomingConnection> next(Clock::duration patience = kPatience) {
    std::unique_ptr<transport::IncomingConnection> result;
    static_cast<void>(eventually(
        [&] {
          const std::lock_guard guard(lock_);
          if (requests_.empty()) return false;
          result = std::move(requests_.front());
          requests_.erase(requests_.begin());
          return true;
        },
        patience));
    return result;
  }
  std::atomic<bool> drop_all{false};

 private:
  mutable std::mutex lock_;
  int count_ = 0;
  std::vector<std::unique_ptr<transport::IncomingConnection>> requests_;
};

}  // namespace udapl::soft::test
