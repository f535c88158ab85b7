// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A QP whose peer uses shared memory and writes data of the fuzzer to it: frames, and any value at
// any time to the control page and over earlier data. Input: one control byte, then steps of one
// byte each, followed by their arguments. Tagged frames refer to memory in the same way as in
// fuzz_soft_connection.cpp.
//
// The peer is this process, so direct copies are possible. Its grants and loans are of a buffer of
// its own or of addresses that are not mapped, as others would belong to the process under test.
//
// Checks, besides those of the sanitizers: memory without a remote right never changes, each posted
// request and receive completes once, and every connection ends.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "common/tracing/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/iwarp/wire.h"
#include "providers/soft/mr.h"
#include "providers/soft/qp.h"
#include "soft_pages.h"
#include "soft_sinks.h"

using namespace udapl;
using namespace udapl::fuzz;

namespace {

constexpr unsigned kNoFirstMessage = 1, kCloses = 2, kGreets = 4;
constexpr int kReceives = 4;
constexpr int kRequests = 8;
constexpr std::size_t kMostPayload = 60'001;  // of a frame that is lent

struct NoConnector final : soft::Connector {
  Result<std::unique_ptr<soft::Handshake>> connect(const transport::ConnectRequest&,
                                                   soft::ConnectionEnd&) override {
    std::abort();
  }
  void access_violation(const transport::SocketAddress&) noexcept override {}
};

// The remaining input.
class Steps {
 public:
  explicit Steps(std::span<const std::uint8_t> rest) noexcept : rest_(rest) {}
  [[nodiscard]] bool over() const noexcept { return rest_.empty(); }
  std::uint64_t number(std::size_t bytes) noexcept {
    std::uint64_t value = 0;
    for (const std::uint8_t b : take(bytes)) value = value << 8 | b;
    return value;
  }
  std::span<const std::uint8_t> take(std::size_t most) noexcept {
    const auto taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

// Objects that are reused for all inputs.
class World {
 public:
  static World& instance() {
    static World& world = *new World;
    return world;
  }

  // How many receives have completed successfully.
  [[nodiscard]] int received() const noexcept { return received_; }
  // Whether the last run ended with an offer of a receive to the peer.
  [[nodiscard]] bool offered() const noexcept { return offered_; }

  void run(unsigned control, Steps steps) {
    outcome_.ended = false;
    posted_ = 0;
    received_ = 0;
    auto [bell, our_bell] = socket_pair();
    auto [socket, our_socket] = socket_pair();
    soft::shm::Region region = soft::shm::Region::make(soft::shm::Layout::kSize);
    require(region.valid());
    Pages pages(region);
    if ((control & kGreets) != 0) pages.greet();
    const std::unique_ptr<soft::Qp> qp = make_qp();
    attach(*qp, std::move(socket), soft::shm::Rings(std::move(bell), std::move(region), false));
    if ((control & kNoFirstMessage) == 0) pages.put(framed(zero_write()), our_bell.get());
    while (!steps.over()) step(steps, *qp, pages, our_bell.get());
    offered_ = pages.has_offer();
    if ((control & kCloses) != 0) pages.set(8, 1);
    our_bell.reset();
    require(drive([&] { return outcome_.ended.load(); }));
    count_completions();
    require(secret_ == std::vector<std::byte>(kSize, std::byte{0x5A}));
  }

 private:
  World() : open_(kSize), secret_(kSize, std::byte{0x5A}) {
    trace::set_level(0);
    reactor_ = *Reactor::create("udapl-soft");
    cq_ = std::make_unique<soft::Cq>(*reactor_, 64, silence_);
    open_mr_ = reg(open_, DAT_MEM_PRIV_ALL_FLAG);
    large_mr_ = reg(large_, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    shared_mr_ = reg(shared_, DAT_MEM_PRIV_LOCAL_READ_FLAG);
    wide_mr_ = reg(wide_, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    secret_mr_ = reg(secret_, static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG |
                                                              DAT_MEM_PRIV_REMOTE_READ_FLAG));
  }

  std::unique_ptr<soft::Mr> reg(std::vector<std::byte>& bytes, DAT_MEM_PRIV_FLAGS rights) {
    auto ref = memory_.register_memory(pd_.id(), {reinterpret_cast<DAT_VADDR>(bytes.data()),
                                                  bytes.size(), rights, DAT_VA_TYPE_ZB});
    require(ref.ok());
    return std::make_unique<soft::Mr>(memory_, *ref);
  }

  static std::pair<Fd, Fd> socket_pair() {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    return {Fd(ends[0]), Fd(ends[1])};
  }

  std::unique_ptr<soft::Qp> make_qp() {
    transport::QpInit init{};
    init.sink = &outcome_;
    init.pd = &pd_;
    init.recv_cq = init.request_cq = cq_.get();
    init.max_recv = kReceives;
    init.max_request = kRequests;
    init.max_recv_segments = init.max_request_segments = 1;
    init.max_rdma_read_in = init.max_rdma_read_out = 4;
    auto qp = std::make_unique<soft::Qp>(
        soft::QpEnvironment{.reactor = *reactor_,
                            .memory = memory_,
                            .connector = connector_,
                            .staging = staging_,
                            .accepted = accepted_,
                            .drain_limit = std::chrono::milliseconds(100),
                            .peer_timeout = {},
                            .no_receive_limit = std::nullopt},
        init);
    for (int i = 0; i < kReceives; ++i) {
      const DAT_LMR_TRIPLET place = i < 2 ? DAT_LMR_TRIPLET{0, kShared, wide_mr_->lmr_context()}
                                          : DAT_LMR_TRIPLET{0, kSize, open_mr_->lmr_context()};
      require(qp->post_recv(static_cast<transport::WorkId>(i), &place, 1, transport::kSignalled) ==
              DAT_SUCCESS);
    }
    return qp;
  }

  void attach(soft::Qp& qp, Fd socket, soft::shm::Rings rings) {
    static constexpr std::array<std::byte, 20> kReply{};
    soft::Negotiated negotiated;
    negotiated.agreed.crc = false;
    negotiated.agreed.rtr = iwarp::kRtrWrite;
    negotiated.agreed.ird = negotiated.agreed.ord = 4;
    negotiated.reply = kReply;
    auto tcp =
        std::make_unique<soft::TcpStream>(*reactor_, std::move(socket), transport::Endpoints{});
    std::unique_ptr<soft::ByteStream> stream =
        std::make_unique<soft::RingStream>(std::move(tcp), std::move(rings), true);
    require(qp.attach(stream, negotiated).ok());
  }

  void step(Steps& steps, soft::Qp& qp, Pages& pages, int bell) {
    switch (steps.number(1) % 9) {
      case 0:
      case 1:
        pages.put(framed(steps.take(steps.number(2) % 1024)), bell);
        break;
      case 2: {
        const auto bytes = steps.take(steps.number(1));
        pages.put(std::as_bytes(bytes), bell);
        break;
      }
      case 3: {
        const auto field = static_cast<unsigned>(steps.number(1));
        pages.set(field, steps.number(field % 3 == 0 ? 8 : 2));
        break;
      }
      case 4:
        poke(steps, pages);
        break;
      case 5:
        Pages::ring(bell);
        break;
      case 6:
        post(qp, steps.number(1));
        break;
      case 8:
        lend(steps, pages, bell);
        break;
      default:
        reactor_->progress();
        break;
    }
  }

  // The first window is poked most.
  static void poke(Steps& steps, Pages& pages) {
    const std::uint64_t place = steps.number(2);
    const auto value = static_cast<std::uint8_t>(steps.number(1));
    switch (place / kWindow) {
      case 15:
        pages.poke_porch(place, value);
        break;
      case 14:
        pages.poke_spare(place, value);
        break;
      default:
        pages.poke(place, value);
        break;
    }
  }

  // One frame of a Send whose payload is lent, copied, being written or written.
  static void lend(Steps& steps, Pages& pages, int bell) {
    const auto msn = static_cast<std::uint8_t>(steps.number(1));
    const std::uint64_t what = steps.number(1);
    const auto payload = static_cast<std::uint32_t>(steps.number(2) % kMostPayload);
    const auto offset = static_cast<std::uint32_t>(steps.number(3));
    constexpr std::size_t kHeader = 2 + iwarp::kUntaggedHeaderSize;
    std::array<std::byte, kHeader> front{};
    std::byte* to = iwarp::store16(
        front.data(), static_cast<std::uint16_t>(iwarp::kUntaggedHeaderSize + payload));
    to[0] = std::byte((what & 1) != 0 ? 0x41 : 0x01);  // the last one of the message
    to[1] = std::byte{0x43};
    iwarp::store32(to + 10, msn);
    iwarp::store32(to + 14, offset);
    const std::size_t size = iwarp::fpdu_size(iwarp::kUntaggedHeaderSize + payload);
    constexpr std::array kStates{std::uint32_t{0}, soft::shm::kWriting, soft::shm::kWritten,
                                 std::uint32_t{1}};
    pages.lend(front, payload, kStates.at(what / 2 % 4), size - kHeader - payload, bell);
  }

  void post(soft::Qp& qp, std::uint64_t kind) {
    if (posted_ == kRequests) return;
    const DAT_LMR_TRIPLET place{0, kSize, open_mr_->lmr_context()};
    const DAT_RMR_TRIPLET remote = target();
    const auto id = static_cast<transport::WorkId>(kReceives + posted_);
    const DAT_LMR_TRIPLET large{0, kLarge, large_mr_->lmr_context()};
    const DAT_LMR_TRIPLET shared{0, kShared, shared_mr_->lmr_context()};
    const auto post_one = [&] {
      switch (kind % 5) {
        case 0:
          return qp.post_send(id, &place, 1, transport::kSignalled);
        case 1:
          return qp.post_rdma_write(id, &place, 1, remote, transport::kSignalled);
        case 2:
          return qp.post_rdma_read(id, &place, 1, remote, transport::kSignalled);
        case 3:
          return qp.post_send(id, &large, 1, transport::kSignalled);
        default:
          return qp.post_send(id, &shared, 1, transport::kSignalled);
      }
    };
    if (post_one() == DAT_SUCCESS) ++posted_;
  }

  static DAT_RMR_TRIPLET target() {
    DAT_RMR_TRIPLET target{};
    target.rmr_context = 1;
    target.segment_length = kSize;
    return target;
  }
  static std::vector<std::uint8_t> zero_write() {
    std::vector<std::uint8_t> ulpdu(iwarp::kTaggedHeaderSize);
    ulpdu[0] = 0xC1;
    ulpdu[1] = 0x40;
    return ulpdu;
  }
  std::vector<std::byte> framed(std::span<const std::uint8_t> ulpdu) {
    std::vector<std::byte> fpdu(iwarp::fpdu_size(ulpdu.size()));
    std::byte* const front = iwarp::store16(fpdu.data(), static_cast<std::uint16_t>(ulpdu.size()));
    std::ranges::copy(std::as_bytes(ulpdu), front);
    if (ulpdu.size() >= iwarp::kTaggedHeaderSize && (ulpdu[0] & iwarp::kDdpTagged) != 0) {
      const std::array<std::uint32_t, 3> known{0, open_mr_->rmr_context(),
                                               secret_mr_->rmr_context()};
      const std::uint32_t wanted = iwarp::load32(front + 2);
      if (wanted < known.size()) iwarp::store32(front + 2, known.at(wanted));
    }
    return fpdu;
  }

  template <class Condition>
  bool drive(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      reactor_->progress();
    }
    return true;
  }

  void count_completions() {
    std::array<transport::Completion, 64> done;
    std::array<int, kReceives + kRequests> times{};
    const ScopedLock guard(cq_->lock);
    const int count = cq_->poll(done.data(), static_cast<int>(done.size()));
    for (int i = 0; i < count; ++i) {
      const transport::Completion& c = done.at(static_cast<std::size_t>(i));
      ++times.at(c.id);
      if (c.id < kReceives && c.status == DAT_DTO_SUCCESS) ++received_;
    }
    for (int i = 0; i < kReceives + kRequests; ++i)
      require(times.at(static_cast<std::size_t>(i)) == (i < kReceives + posted_ ? 1 : 0));
  }

  Silence silence_;
  Outcome outcome_;
  NoConnector connector_;
  std::vector<std::byte> open_, secret_;
  std::vector<std::byte> large_ = std::vector<std::byte>(kLarge);
  std::vector<std::byte> shared_ = std::vector<std::byte>(kShared, std::byte{0x77});
  std::vector<std::byte> wide_ = std::vector<std::byte>(kShared);
  std::unique_ptr<Reactor> reactor_;
  soft::MrTable memory_;
  soft::Pd pd_{1};
  soft::StagingPool staging_;
  soft::AcceptedConnections accepted_;
  std::unique_ptr<soft::Cq> cq_;
  std::unique_ptr<soft::Mr> open_mr_, secret_mr_, large_mr_, shared_mr_, wide_mr_;
  int posted_ = 0;
  int received_ = 0;
  bool offered_ = false;
};

}  // namespace

namespace {

// What is fuzzed must be reached: a peer that follows the protocol has its messages received, also
// behind the porch.
void expect_messages() {
  constexpr std::size_t kPayload = 400;
  std::vector<std::uint8_t> input{0};
  for (std::uint8_t msn = 1; msn <= kReceives; ++msn) {
    constexpr std::uint16_t kUlpdu = iwarp::kUntaggedHeaderSize + kPayload;
    input.insert(input.end(), {0, kUlpdu >> 8, kUlpdu & 0xff});
    input.insert(input.end(), {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0});
    input.resize(input.size() + kPayload, msn);
    input.push_back(7);
  }
  World::instance().run(input[0], Steps(std::span(input).subspan(1)));
  require(World::instance().received() == kReceives);
}

constexpr std::uint8_t kSet = 3, kPost = 6, kProgress = 7, kLend = 8;

// It may borrow our memory, and is sent a message of which our side writes a part to its receive.
void expect_shared_send() {
  std::vector<std::uint8_t> input(64, kProgress);                      // until our side is awake
  const std::array<std::uint8_t, 11> steps{kSet,  25, 0x10,     0,     // the peer borrows
                                           kSet,  52, 0x08,     0x44,  // its offer for message 1
                                           kPost, 4,  kProgress};
  input.insert(input.end(), steps.begin(), steps.end());
  std::ranges::fill(Pages::memory(), std::byte{0});
  World::instance().run(kGreets, Steps(input));
  const auto written = std::ranges::count(Pages::memory(), std::byte{0x77});
  require(written >= static_cast<std::ptrdiff_t>(kShared / 4));
}

// It reaches our memory, has sent a large message, and is offered the receive of the next.
void expect_offer() {
  std::vector<std::uint8_t> input(64, kProgress);
  input.insert(input.end(), {kSet, 14, 0, 1});
  for (std::uint32_t frame = 0; frame != 5; ++frame) {
    const std::uint32_t offset = frame * 60'000;
    input.insert(input.end(), {kLend, 1, static_cast<std::uint8_t>(frame == 4 ? 7 : 6), 60'000 >> 8,
                               60'000 & 0xff, static_cast<std::uint8_t>(offset >> 16),
                               static_cast<std::uint8_t>(offset >> 8),
                               static_cast<std::uint8_t>(offset), kProgress});
  }
  World::instance().run(kGreets, Steps(input));
  require(World::instance().received() == 1);
  require(World::instance().offered());
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  expect_messages();
  expect_shared_send();
  expect_offer();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  World::instance().run(data[0], Steps({data + 1, size - 1}));
  return 0;
}
