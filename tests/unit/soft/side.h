// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/cq.h"
#include "providers/soft/mr.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"
#include "tests/unit/soft/sinks.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace udapl::soft::test {

inline constexpr auto kAll =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG | DAT_MEM_PRIV_EXTENSION_BASE);

// An active connection setup that succeeds or fails when the test decides.
class FakeConnector final : public Connector {
 public:
  struct FakeHandshake final : Handshake {
    explicit FakeHandshake(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
    ~FakeHandshake() override { --alive_; }
    [[nodiscard]] transport::Endpoints endpoints() const noexcept override { return {}; }
    std::atomic<int>& alive_;
  };
  Result<std::unique_ptr<Handshake>> connect(const transport::ConnectRequest&,
                                             ConnectionEnd&) override {
    if (!result.ok()) return result;
    return std::unique_ptr<Handshake>(new FakeHandshake(alive));
  }
  void access_violation(const transport::SocketAddress&) noexcept override { ++violations; }
  Status result;
  std::atomic<int> alive{0};
  std::atomic<int> violations{0};
};

// One process: an adapter's parts and one QP.
struct Side {
  struct Options {
    int max_recv = 64;
    int max_request = 64;
    int max_segments = 8;
    int read_in = 4;
    int read_out = 4;
    int cq_depth = 1024;
    bool solicited_only = false;
    bool srq = false;
    ScopeId pd = 1;
    bool delayed_ack = false;
    bool confirms_writes = true;
    Clock::duration drain_limit = Settings{}.drain_limit;
    Clock::duration peer_timeout = Settings{}.peer_timeout;
    std::optional<Clock::duration> no_receive_limit{};
    Clock::duration first_message_limit = kFirstMessageLimit;
  };

  // The read depths that it offers to the peer.
  [[nodiscard]] int serves_reads() const { return std::max(options.read_in, asks()); }
  [[nodiscard]] int has_reads() const { return std::max(options.read_out, asks()); }
  [[nodiscard]] int asks() const { return options.delayed_ack || options.confirms_writes ? 1 : 0; }

  explicit Side(const Options& o) : options(o), pd(o.pd) {
    auto made = Reactor::create("udapl-soft");
    BOOST_REQUIRE(made.ok());
    reactor = std::move(*made);
    recv_cq = std::make_unique<Cq>(*reactor, o.cq_depth, recv_sink);
    request_cq = std::make_unique<Cq>(*reactor, o.cq_depth, request_sink);
    if (o.srq)
      srq = std::make_unique<Srq>(*reactor, memory, o.pd, o.max_recv, o.max_segments, srq_sink);
    qp = make_qp(sink);
  }
  Side() : Side(Options()) {}

  [[nodiscard]] transport::QpInit init(RecordingSink& connection_sink) {
    return {.context = this,
            .sink = &connection_sink,
            .pd = &pd,
            .recv_cq = recv_cq.get(),
            .request_cq = request_cq.get(),
            .srq = srq.get(),
            .max_recv = options.srq ? 0 : options.max_recv,
            .max_request = options.max_request,
            .max_recv_segments = options.max_segments,
            .max_request_segments = options.max_segments,
            .max_rdma_read_in = options.read_in,
            .max_rdma_read_out = options.read_out,
            .max_unseen = 0,
            .solicited_only = options.solicited_only,
            .delayed_ack = options.delayed_ack};
  }
  [[nodiscard]] std::unique_ptr<Qp> make_qp(RecordingSink& connection_sink) {
    return std::make_unique<Qp>(QpEnvironment{.reactor = *reactor,
                                              .memory = memory,
                                              .connector = connector,
                                              .staging = staging,
                                              .accepted = accepted,
                                              .drain_limit = options.drain_limit,
                                              .peer_timeout = options.peer_timeout,
                                              .no_receive_limit = options.no_receive_limit,
                                              .first_message_limit = options.first_message_limit,
                                              .confirms_writes = options.confirms_writes},
                                init(connection_sink));
  }

  [[nodiscard]] std::unique_ptr<Mr> reg(const void* address, std::size_t length,
                                        DAT_MEM_PRIV_FLAGS rights = kAll,
                                        DAT_VA_TYPE type = DAT_VA_TYPE_VA, ScopeId domain = 0) {
    auto ref = memory.register_memory(domain == 0 ? pd.id() : domain,
                                      {reinterpret_cast<DAT_VADDR>(address), length, rights, type});
    BOOST_REQUIRE(ref.ok());
    return std::make_unique<Mr>(memory, *ref);
  }
  [[nodiscard]] std::unique_ptr<Mr> reg(const std::vector<std::byte>& bytes,
                                        DAT_MEM_PRIV_FLAGS rights = kAll) {
    return reg(bytes.data(), bytes.size(), rights);
  }

  const Options options;
  std::unique_ptr<Reactor> reactor;
  MrTable memory;
  Pd pd;
  FakeConnector connector;
  StagingPool staging;
  AcceptedConnections accepted;
  CountingCqSink recv_sink;
  CountingCqSink request_sink;
  CountingSrqSink srq_sink;
  RecordingSink sink;
  std::unique_ptr<Cq> recv_cq;
  std::unique_ptr<Cq> request_cq;
  std::unique_ptr<Srq> srq;
  std::unique_ptr<Qp> qp;
};

}  // namespace udapl::soft::test
