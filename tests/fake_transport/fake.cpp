// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/fake_transport/fake.h"

#include "dapl/table/provider_table.h"

#include <arpa/inet.h>

#include <map>
#include <utility>

namespace udapl::fake {

namespace {

class Listener;

std::map<DAT_CONN_QUAL, Listener*>& listeners() {
  static auto* const all = new std::map<DAT_CONN_QUAL, Listener*>;
  return *all;
}

class Incoming final : public transport::IncomingConnection {
 public:
  explicit Incoming(std::shared_ptr<Handshake> handshake) : handshake_(std::move(handshake)) {
    const transport::Endpoints& peer = handshake_->active_ends;
    ends_ = {peer.remote, peer.local, peer.remote_port, peer.local_port};
  }
  ~Incoming() override {
    const std::scoped_lock lock(world());
    if (!decided_ && handshake_->active != nullptr) handshake_->active->refused_locked();
  }
  [[nodiscard]] transport::PrivateData private_data() const noexcept override {
    return handshake_->request_data;
  }
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept override { return ends_; }
  [[nodiscard]] int peer_rdma_read_in() const noexcept override { return handshake_->read_in; }
  [[nodiscard]] int peer_rdma_read_out() const noexcept override { return handshake_->read_out; }

  Status accept(transport::Qp& qp, transport::PrivateData data) override {
    const std::scoped_lock lock(world());
    const Status status = static_cast<Qp&>(qp).accept_locked(handshake_, data);
    decided_ = status.ok();
    return status;
  }
  void reject(transport::PrivateData data) noexcept override {
    const std::scoped_lock lock(world());
    decided_ = true;
    if (handshake_->active != nullptr)
      handshake_->active->rejected_locked({data.begin(), data.end()});
  }

 private:
  const std::shared_ptr<Handshake> handshake_;
  transport::Endpoints ends_;
  bool decided_ = false;
};

class Listener final : public transport::Listener {
 public:
  Listener(DAT_CONN_QUAL conn_qual, transport::ListenSink& sink)
      : conn_qual_(conn_qual), address_(Network::address()), sink_(sink) {}
  ~Listener() override {
    {
      const std::scoped_lock lock(world());
      listeners().erase(transport::port_of(conn_qual_));
    }
    Scheduler::instance().cancel(this);
  }
  [[nodiscard]] DAT_CONN_QUAL conn_qual() const noexcept override { return conn_qual_; }
  [[nodiscard]] const transport::SocketAddress& address() const noexcept override {
    return address_;
  }
  void offer_locked(const std::shared_ptr<Handshake>& handshake) {
    // If the request never reaches the sink, it is destroyed with the deferred call, which refuses
    // it.
    auto request =
        std::make_shared<std::unique_ptr<Incoming>>(std::make_unique<Incoming>(handshake));
    Scheduler::instance().defer(this, [this, request] {
      if (settings().before_request) settings().before_request();
      sink_.on_request(std::move(*request));
    });
  }

 private:
  const DAT_CONN_QUAL conn_qual_;
  const transport::SocketAddress address_;
  transport::ListenSink& sink_;
};

bool may_create() {
  std::atomic<int>& countdown = settings().fail_from;
  if (countdown == 0) return true;
  if (countdown == 1) return false;
  --countdown;
  return true;
}

Status no_resources() { return failure(DAT_INSUFFICIENT_RESOURCES); }

Result<std::unique_ptr<transport::Adapter>> open_adapter(std::string_view ia_params,
                                                         transport::AdapterSink& sink) {
  if (settings().refuse_open) return failure(DAT_INVALID_ADDRESS);
  settings().latest_params = ia_params;
  auto adapter = std::make_unique<Adapter>(settings().attributes, sink);
  settings().latest = adapter.get();
  return Result<std::unique_ptr<transport::Adapter>>(std::move(adapter));
}

}  // namespace

// ---- Network -----------------------------------------------------------------------------------

transport::SocketAddress Network::address() {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return transport::SocketAddress::from(reinterpret_cast<const sockaddr*>(&in));
}

DAT_PORT_QUAL Network::next_port_locked() {
  static DAT_PORT_QUAL next = 40000;
  return next++;
}

void Network::offer_locked(DAT_CONN_QUAL conn_qual, const std::shared_ptr<Handshake>& handshake) {
  const auto found = listeners().find(transport::port_of(conn_qual));
  if (found == listeners().end())
    handshake->active->refused_locked();
  else
    found->second->offer_locked(handshake);
}

// ---- Adapter -----------------------------------------------------------------------------------

Adapter::Adapter(transport::Attributes attributes, transport::AdapterSink& sink)
    : attributes_(std::move(attributes)), sink_(sink) {}

Adapter::~Adapter() {
  Scheduler::instance().cancel(this);
  if (settings().latest == this) settings().latest = nullptr;
}

Result<std::unique_ptr<transport::Pd>> Adapter::create_pd() {
  if (!may_create()) return no_resources();
  return Result<std::unique_ptr<transport::Pd>>(std::make_unique<Pd>());
}

Result<std::unique_ptr<transport::Mr>> Adapter::register_memory(transport::Pd& pd,
                                                                const transport::MrInit& init) {
  if (!may_create()) return no_resources();
  return Result<std::unique_ptr<transport::Mr>>(std::make_unique<Mr>(static_cast<Pd&>(pd), init));
}

Result<std::unique_ptr<transport::Window>> Adapter::create_window(transport::Pd& pd,
                                                                  transport::WindowScope scope) {
  if (!may_create()) return no_resources();
  return Result<std::unique_ptr<transport::Window>>(
      std::make_unique<Window>(static_cast<Pd&>(pd), scope == transport::WindowScope::kQp));
}

Result<std::unique_ptr<transport::Cq>> Adapter::create_cq(int depth, transport::CqSink& sink) {
  if (!may_create()) return no_resources();
  return Result<std::unique_ptr<transport::Cq>>(std::make_unique<Cq>(depth, sink));
}

Result<std::unique_ptr<transport::Srq>> Adapter::create_srq(transport::Pd& pd, int depth, int,
                                                            transport::SrqSink& sink) {
  if (!may_create()) return no_resources();
  return Result<std::unique_ptr<transport::Srq>>(
      std::make_unique<Srq>(static_cast<Pd&>(pd), depth, sink));
}

Result<std::unique_ptr<transport::Qp>> Adapter::create_qp(const transport::QpInit& init) {
  if (!may_create()) return no_resources();
  return Result<std::unique_ptr<transport::Qp>>(
      std::make_unique<Qp>(init, attributes_.private_data.reply));
}

Result<std::unique_ptr<transport::Listener>> Adapter::listen(
    const transport::ListenRequest& request, transport::ListenSink& sink) {
  if (settings().before_listen) settings().before_listen();
  if (!may_create()) return no_resources();
  std::unique_ptr<Listener> listener;  // destroyed without the lock
  const std::scoped_lock lock(world());
  DAT_CONN_QUAL conn_qual = request.conn_qual;
  for (DAT_CONN_QUAL free = 50000; conn_qual == 0; ++free)
    if (!listeners().contains(free)) conn_qual = free;
  const std::uint16_t port = transport::port_of(conn_qual);
  if (listeners().contains(port)) return failure(DAT_CONN_QUAL_IN_USE);
  listener = std::make_unique<Listener>(conn_qual, sink);
  listeners()[port] = listener.get();
  return Result<std::unique_ptr<transport::Listener>>(std::move(listener));
}

WaitResult Adapter::block(WaitWord& word, std::uint32_t seen, const Deadline& deadline) noexcept {
  if (settings().drive && Scheduler::instance().run() > 0) return WaitResult::kChanged;
  if (settings().sleep_briefly) {
    ++settings().sleeps;
    return WaitResult::kSleptLong;
  }
  return word.wait(seen, deadline);
}

Call Adapter::idle_poll() noexcept { return Call::to<&Settings::count_idle_poll>(&settings()); }

void Adapter::catastrophe() {
  Scheduler::instance().defer(this, [this] { sink_.on_catastrophic(); });
}

void Adapter::internal_error() {
  Scheduler::instance().defer(this, [this] { sink_.on_internal_error(); });
}

// ---- Settings ----------------------------------------------------------------------------------

Settings& settings() {
  static auto* const all = [] {
    auto* const made = new Settings;
    made->reset();
    return made;
  }();
  return *all;
}

void Settings::reset() {
  fail_from = 0;
  drive = false;
  sleep_briefly = false;
  sleeps = 0;
  idle_polls = 0;
  refuse_open = false;
  before_request = nullptr;
  before_listen = nullptr;
  transport::Attributes a;
  a.device_name = "fake0";
  a.vendor_name = "udapl tests";
  a.hardware_version[0] = 3;
  a.hardware_version[1] = 1;
  a.firmware_version[0] = 4;
  a.firmware_version[1] = 2;
  a.address = Network::address();
  a.max_eps = 100;
  a.max_dto_per_ep = 256;
  a.max_rdma_read_in = 16;
  a.max_rdma_read_out = 8;
  a.max_rdma_read_in_total = 1600;
  a.max_rdma_read_out_total = 100;
  a.max_evds = 64;
  a.max_evd_qlen = 4096;
  a.max_segments = 8;
  a.max_read_segments = 4;
  a.max_write_segments = 8;
  a.max_lmrs = 64;
  a.max_lmr_size = std::uint64_t{1} << 40;
  a.max_lmr_address = ~DAT_VADDR{0};
  a.max_pzs = 16;
  a.max_message_size = 1U << 30;
  a.max_rdma_size = 1U << 30;
  a.max_rmrs = 32;
  a.max_rmr_address = ~DAT_VADDR{0};
  a.max_srqs = 8;
  a.max_eps_per_srq = 100;
  a.max_recv_per_srq = 512;
  a.private_data = {256, 256, 256};
  a.zero_based_va = true;
  a.shared_memory_lmr = true;
  a.read_sink_context_exposed = true;
  a.send_invalidate = true;
  a.read_to_rmr = true;
  a.extension = DAT_EXTENSION_IB;
  a.extension_version = 209;
  a.provider_specific = {{"FAKE_NAME", "value"}, {"FAKE_OTHER", "TRUE"}};
  attributes = a;
}

const dapl::ProviderKit& provider_kit() {
  static const dapl::ProviderKit kit = dapl::make_provider_kit<Qp, Cq, Srq>(open_adapter);
  return kit;
}

}  // namespace udapl::fake
