// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A QP whose peer uses shared memory and writes data of the fuzzer to it: frames, and any value at
// any time to the control page and over earlier data. Input: one control byte, then steps of one
// byte each, followed by their arguments. Tagged frames refer to memory in the same way as in
// fuzz_soft_connection.cpp.
//
// Checks, besides those of the sanitizers: memory without a remote right never changes, each posted
// request and receive completes once, and every connection ends.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
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
#include "soft_sinks.h"

using namespace udapl;
using namespace udapl::fuzz;

namespace {

constexpr unsigned kNoFirstMessage = 1, kCloses = 2;
constexpr int kReceives = 4;
constexpr int kRequests = 8;
constexpr std::size_t kSize = 512;
constexpr std::size_t kLarge = 4096;     // may be lent to the peer
constexpr std::uint32_t kWindow = 4096;  // small, so that frames wrap around its end

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

// The peer's mapping of the shared pages.
class Pages {
 public:
  explicit Pages(const soft::shm::Region& shared)
      : region_(soft::shm::Region::adopt(Fd(::dup(shared.fd())), soft::shm::Layout::kSize)) {
    require(region_.valid());
    out().window = kWindow;
  }
  // Appends bytes to the ring.
  void put(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) data()[head_++ % kWindow] = b;
    out().head = head_;
  }
  void set(unsigned field, std::uint64_t value) {
    soft::shm::RingControl& ring = field % 2 == 0 ? out() : in();
    const auto word = static_cast<std::uint32_t>(value);
    soft::shm::LoanControl& loans = layout().loans[field % 2];
    soft::shm::LoanSlot& loan = loans.slots[word / 2 % soft::shm::kLoanSlots];
    switch (field / 2 % 21) {
      case 0:
        ring.head = value;
        break;
      case 1:
        ring.tail = value;
        break;
      case 2:
        ring.base = value;
        break;
      case 3:
        ring.window = word;
        break;
      case 4:
        ring.end = word;
        break;
      case 5:
        ring.writer_sleeps = word;
        break;
      case 6:
        ring.delivered = value;
        break;
      case 7:  // the peer claims that it can access our memory
        layout().greeting[0].reaches = word;
        break;
      case 8:  // the peer claims to be using a grant
        layout().granted[1][word % soft::shm::kGrantSlots].user = word;
        break;
      case 9:  // a field that only our side should write
        layout().granted[1][word % soft::shm::kGrantSlots].stag = word;
        break;
      case 10:
        loans.lent = word;
        break;
      case 11:
        loans.returned = word;
        break;
      case 12:
        loans.welcome = word;
        break;
      case 13:
        loans.refused = word;
        break;
      case 14:
        loans.reads = word;
        break;
      case 15:
        loan.position = value / 2;
        break;
      case 16:
        loan.length = word / 2;
        break;
      case 17:
        loan.copied_to = word / 64;
        break;
      case 18:
        ring.reader_sleeps = word;
        break;
      case 19:
        ring.acknowledged = value;
        break;
      default:
        ring.awaited = value;
        break;
    }
  }
  void poke(std::size_t place, std::uint8_t value) { data()[place % kWindow] = std::byte{value}; }

 private:
  soft::shm::RingControl& out() { return layout().control[0]; }
  soft::shm::RingControl& in() { return layout().control[1]; }
  soft::shm::Layout& layout() {
    return *reinterpret_cast<soft::shm::Layout*>(region_.bytes().data());
  }
  std::span<std::byte> data() { return region_.bytes().subspan(soft::shm::Layout::kRingsAt); }

  soft::shm::Region region_;
  std::uint64_t head_ = 0;
};

// Objects that are reused for all inputs.
class World {
 public:
  static World& instance() {
    static World& world = *new World;
    return world;
  }

  void run(unsigned control, Steps steps) {
    outcome_.ended = false;
    posted_ = 0;
    auto [bell, our_bell] = socket_pair();
    auto [socket, our_socket] = socket_pair();
    soft::shm::Region region = soft::shm::Region::make(soft::shm::Layout::kSize);
    require(region.valid());
    Pages pages(region);
    const std::unique_ptr<soft::Qp> qp = make_qp();
    attach(*qp, std::move(socket), soft::shm::Rings(std::move(bell), std::move(region), false));
    if ((control & kNoFirstMessage) == 0) pages.put(framed(zero_write()));
    while (!steps.over()) step(steps, *qp, pages, our_bell.get());
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
      const DAT_LMR_TRIPLET place{0, kSize, open_mr_->lmr_context()};
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
    switch (steps.number(1) % 8) {
      case 0:
      case 1:
        pages.put(framed(steps.take(steps.number(2) % 1024)));
        break;
      case 2: {
        const auto bytes = steps.take(steps.number(1));
        pages.put(std::as_bytes(bytes));
        break;
      }
      case 3: {
        const auto field = static_cast<unsigned>(steps.number(1));
        pages.set(field, steps.number(field % 3 == 0 ? 8 : 2));
        break;
      }
      case 4: {
        const std::uint64_t place = steps.number(2);
        pages.poke(place, static_cast<std::uint8_t>(steps.number(1)));
        break;
      }
      case 5:
        ::send(bell, "", 1, MSG_NOSIGNAL);
        break;
      case 6:
        post(qp, steps.number(1));
        break;
      default:
        reactor_->progress();
        break;
    }
  }

  void post(soft::Qp& qp, std::uint64_t kind) {
    if (posted_ == kRequests) return;
    const DAT_LMR_TRIPLET place{0, kSize, open_mr_->lmr_context()};
    const DAT_RMR_TRIPLET remote = target();
    const auto id = static_cast<transport::WorkId>(kReceives + posted_);
    const DAT_LMR_TRIPLET large{0, kLarge, large_mr_->lmr_context()};
    const auto post_one = [&] {
      switch (kind % 4) {
        case 0:
          return qp.post_send(id, &place, 1, transport::kSignalled);
        case 1:
          return qp.post_rdma_write(id, &place, 1, remote, transport::kSignalled);
        case 2:
          return qp.post_rdma_read(id, &place, 1, remote, transport::kSignalled);
        default:
          return qp.post_send(id, &large, 1, transport::kSignalled);
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
    for (int i = 0; i < count; ++i) ++times.at(done.at(static_cast<std::size_t>(i)).id);
    for (int i = 0; i < kReceives + kRequests; ++i)
      require(times.at(static_cast<std::size_t>(i)) == (i < kReceives + posted_ ? 1 : 0));
  }

  Silence silence_;
  Outcome outcome_;
  NoConnector connector_;
  std::vector<std::byte> open_, secret_;
  std::vector<std::byte> large_ = std::vector<std::byte>(kLarge);
  std::unique_ptr<Reactor> reactor_;
  soft::MrTable memory_;
  soft::Pd pd_{1};
  soft::StagingPool staging_;
  soft::AcceptedConnections accepted_;
  std::unique_ptr<soft::Cq> cq_;
  std::unique_ptr<soft::Mr> open_mr_, secret_mr_, large_mr_;
  int posted_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  World::instance().run(data[0], Steps({data + 1, size - 1}));
  return 0;
}
