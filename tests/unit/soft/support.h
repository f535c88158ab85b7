// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "providers/soft/cq.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/mr.h"
#include "providers/soft/qp.h"
#include "providers/soft/shm/offer.h"
#include "providers/soft/srq.h"
#include "tests/unit/soft/memory_link.h"
#include "tests/unit/soft/path.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace udapl::soft::test {

using transport::Completion;
using transport::kFence;
using transport::kQuiet;
using transport::kSignalled;
using transport::kSolicited;
using transport::kUnseen;
using transport::WorkFlags;
using transport::WorkId;
using namespace std::chrono_literals;

inline constexpr auto kPatience = 20s;  // only a hang takes longer, on any machine
inline constexpr auto kAll =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG | DAT_MEM_PRIV_EXTENSION_BASE);
inline constexpr auto kLocalOnly =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);

// Pseudo-random bytes, the same for the same seed.
inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte& b : bytes) {
    state = state * 1664525U + 1013904223U;
    b = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// Whether the first `length` bytes are equal. The peer's thread may be writing some of them at the
// same time, so this data race is intended.
[[nodiscard]] __attribute__((no_sanitize("thread"))) inline bool same_bytes(
    const std::vector<std::byte>& one, const std::vector<std::byte>& other, std::size_t length) {
  const volatile std::byte* const here = one.data();
  const volatile std::byte* const there = other.data();
  for (std::size_t i = 0; i != length; ++i)
    if (here[i] != there[i]) return false;
  return true;
}

class CountingCqSink final : public transport::CqSink {
 public:
  void on_notify() noexcept override { ++notified; }
  void on_overflow() noexcept override { ++overflowed; }
  std::atomic<int> notified{0};
  std::atomic<int> overflowed{0};
};

class CountingSrqSink final : public transport::SrqSink {
 public:
  void on_low_watermark() noexcept override { ++low; }
  void on_async_error() noexcept override { ++errors; }
  std::atomic<int> low{0};
  std::atomic<int> errors{0};
};

// Records the sink calls of a QP in order, for example "established disconnected".
class RecordingSink final : public transport::ConnectionSink {
 public:
  void on_established(transport::PrivateData d) noexcept override { add("established", d); }
  void on_rejected(transport::PrivateData d) noexcept override { add("rejected", d); }
  void on_refused() noexcept override { add("refused"); }
  void on_unreachable() noexcept override { add("unreachable"); }
  void on_timed_out() noexcept override { add("timed_out"); }
  void on_accept_failed() noexcept override { add("accept_failed"); }
  void on_disconnected() noexcept override { add("disconnected"); }
  void on_broken(transport::BreakCause cause) noexcept override {
    reason = cause.why;
    detail = cause.detail;
    add("broken");
  }
  void on_soft_watermark() noexcept override { ++soft_watermarks; }
  void on_async_error() noexcept override { add("async_error"); }

  [[nodiscard]] std::string calls() const {
    const std::scoped_lock lock(mutex_);
    return calls_;
  }
  [[nodiscard]] bool ended() const {
    const std::string all = calls();
    return all.find("broken") != std::string::npos || all.find("disconnected") != std::string::npos;
  }
  std::atomic<transport::BreakReason> reason{transport::BreakReason::kTransportLost};
  std::atomic<const char*> detail{""};
  std::atomic<int> soft_watermarks{0};
  std::vector<std::byte> private_data;  // to be read only after the call

 private:
  void add(const char* what, transport::PrivateData data = {}) noexcept {
    const std::scoped_lock lock(mutex_);
    if (!calls_.empty()) calls_ += ' ';
    calls_ += what;
    private_data.assign(data.begin(), data.end());
  }
  mutable std::mutex mutex_;
  std::string calls_;
};

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
    Clock::duration drain_limit = Settings{}.drain_limit;
    Clock::duration peer_timeout = Settings{}.peer_timeout;
    std::optional<Clock::duration> no_receive_limit{};
    Clock::duration first_message_limit = kFirstMessageLimit;
  };

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
                                              .first_message_limit = options.first_message_limit},
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

// Two connected TCP sockets on the loopback interface.
inline std::pair<Fd, Fd> tcp_pair() {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BOOST_REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  BOOST_REQUIRE(::listen(listener.get(), 1) == 0);
  socklen_t size = sizeof address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  Fd active(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BOOST_REQUIRE(::connect(active.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  Fd passive(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  BOOST_REQUIRE(passive.valid());
  return {std::move(active), std::move(passive)};
}

inline Negotiated negotiated(bool initiator, iwarp::RtrSet rtr = iwarp::kRtrRead,
                             std::uint16_t ird = 4, std::uint16_t ord = 4, bool crc = true) {
  Negotiated n;
  n.initiator = initiator;
  n.agreed.crc = crc;
  n.agreed.rtr = rtr;
  n.agreed.ird = ird;
  n.agreed.ord = ord;
  return n;
}

inline constexpr std::array<std::byte, 20> kReply{};  // a stand-in for the MPA Reply

inline void attach_responder(Side& side, Fd socket, Negotiated n) {
  n.reply = kReply;
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*side.reactor, std::move(socket), transport::Endpoints{});
  BOOST_REQUIRE(side.qp->attach(stream, n).ok());
  BOOST_REQUIRE(stream == nullptr);
}

inline void read_reply(int fd) {
  std::array<std::byte, kReply.size()> reply;
  BOOST_REQUIRE(::recv(fd, reply.data(), reply.size(), MSG_WAITALL) ==
                static_cast<ssize_t>(reply.size()));
}

inline void attach_initiator(Side& side, Fd socket, const Negotiated& n) {
  read_reply(socket.get());
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*side.reactor, std::move(socket), transport::Endpoints{});
  BOOST_REQUIRE(side.qp->attach(stream, n).ok());
}

// Rings for the two ends of a TCP connection: first the connecting end's, then the accepting end's.
inline std::pair<shm::Rings, shm::Rings> ring_pair(int accepted) {
  sockaddr_storage place{};
  socklen_t size = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  BOOST_REQUIRE(::getsockname(accepted, address, &size) == 0);
  shm::OfferBox box;
  BOOST_REQUIRE(box.open(*address));
  shm::NoOffer failure;
  std::optional<shm::Offer> offer = shm::make_offer(*address, failure);
  BOOST_REQUIRE_MESSAGE(offer.has_value(), failure.why);
  shm::Rings taken = box.take(offer->token);
  BOOST_REQUIRE(taken.valid());
  return {std::move(offer->rings), std::move(taken)};
}

inline void attach_rings(Side& side, Fd socket, shm::Rings rings, Negotiated n) {
  if (n.initiator)
    read_reply(socket.get());
  else
    n.reply = kReply;
  n.agreed.crc = false;
  auto tcp = std::make_unique<TcpStream>(*side.reactor, std::move(socket), transport::Endpoints{});
  std::unique_ptr<ByteStream> stream =
      std::make_unique<RingStream>(std::move(tcp), std::move(rings), is_direct());
  BOOST_REQUIRE(side.qp->attach(stream, n).ok());
}

inline void attach_memory(Side& side, std::shared_ptr<Wire> wire, int end, Negotiated n,
                          bool refers = false) {
  if (!n.initiator) n.reply = kReply;
  std::unique_ptr<Link> link =
      std::make_unique<MemoryLink>(*side.reactor, std::move(wire), end, refers);
  BOOST_REQUIRE(side.qp->attach(link, n).ok());
}

// Drives the reactors of `sides` until condition() holds. Without sides, waits for their service
// threads. Returns false when kPatience has passed.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, std::initializer_list<Side*> sides = {}) {
  const auto end = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    for (Side* const side : sides) side->reactor->progress();
    if (sides.size() == 0) std::this_thread::sleep_for(100us);
  }
  return true;
}

// Two connected processes: a is the initiator.
struct Pair {
  explicit Pair(const Side::Options& a_options = {}, const Side::Options& b_options = {},
                iwarp::RtrSet rtr = iwarp::kRtrRead, bool crc = true)
      : a(a_options), b(b_options) {
    connect(rtr, crc);
  }
  void connect(iwarp::RtrSet rtr = iwarp::kRtrRead, bool crc = true) {
    const auto depth = [](int n) { return static_cast<std::uint16_t>(n); };
    const Negotiated passive =
        negotiated(false, rtr, depth(b.options.read_in),
                   depth(std::min(b.options.read_out, a.options.read_in)), crc);
    const Negotiated active =
        negotiated(true, rtr, depth(a.options.read_in),
                   depth(std::min(std::max(a.options.read_out, a.options.delayed_ack ? 1 : 0),
                                  b.options.read_in)),
                   crc);
    if (kPath == Path::kInProcess) {
      auto wire = std::make_shared<Wire>();
      attach_memory(b, wire, 1, passive);
      attach_memory(a, wire, 0, active);
    } else if (has_rings()) {
      auto [active_socket, passive_socket] = tcp_pair();
      auto [active_rings, passive_rings] = ring_pair(passive_socket.get());
      attach_rings(b, std::move(passive_socket), std::move(passive_rings), passive);
      attach_rings(a, std::move(active_socket), std::move(active_rings), active);
    } else {
      auto [active_socket, passive_socket] = tcp_pair();
      attach_responder(b, std::move(passive_socket), passive);
      attach_initiator(a, std::move(active_socket), active);
    }
    BOOST_REQUIRE(wait([this] {
      return a.sink.calls().ends_with("established") && b.sink.calls().ends_with("established");
    }));
  }
  template <class Condition>
  [[nodiscard]] bool wait(Condition condition) {
    return eventually(condition, {&a, &b});
  }
  // Waits for the next completion of `cq`; fails the test if there is none.
  [[nodiscard]] Completion next(Cq& cq) {
    Completion c{};
    BOOST_REQUIRE_MESSAGE(wait([&] { return cq.poll(&c, 1) == 1; }), "no completion came");
    see_placed();
    return c;
  }
  // Takes the locks under which the QPs place data. The rings' pages are mapped twice in this
  // process, so ThreadSanitizer does not see the ordering that goes through them.
  void see_placed() const {
    for (const Side* const side : {&a, &b})
      if (side->qp != nullptr) static_cast<void>(side->qp->receive_counts());
  }
  // Returns whether `cq` stays empty while both sides are driven for a while.
  [[nodiscard]] bool quiet(Cq& cq) {
    for (int i = 0; i < 50; ++i) {
      a.reactor->progress();
      b.reactor->progress();
      std::this_thread::sleep_for(200us);
      if (cq.size() != 0) return false;
    }
    return true;
  }

  Side a;
  Side b;
};

inline DAT_LMR_TRIPLET local(const Mr& mr, const void* address, std::size_t length) {
  return {reinterpret_cast<DAT_VADDR>(address), static_cast<DAT_SEG_LENGTH>(length),
          mr.lmr_context()};
}
inline DAT_LMR_TRIPLET local(const Mr& mr, const std::vector<std::byte>& bytes) {
  return local(mr, bytes.data(), bytes.size());
}
inline DAT_RMR_TRIPLET remote(DAT_RMR_CONTEXT context, const void* address, std::size_t length) {
  return {reinterpret_cast<DAT_VADDR>(address), static_cast<DAT_SEG_LENGTH>(length), context};
}
inline DAT_RMR_TRIPLET remote(const Mr& mr, const std::vector<std::byte>& bytes) {
  return remote(mr.rmr_context(), bytes.data(), bytes.size());
}

#define CHECK_OK(expression) BOOST_CHECK_EQUAL((expression), static_cast<DAT_RETURN>(DAT_SUCCESS))
#define REQUIRE_OK(expression) \
  BOOST_REQUIRE_EQUAL((expression), static_cast<DAT_RETURN>(DAT_SUCCESS))

}  // namespace udapl::soft::test
