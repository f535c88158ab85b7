// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A complete connection of the software RNIC with a peer that sends bytes of the fuzzer: listener,
// handshake, QP, memory and disconnect. Input: one control byte; then, with kRaw, the TCP stream
// from its first byte on. Otherwise the harness performs a good handshake, and the input is a list
// of {2 bytes of length, ULPDU} that are framed with a good CRC. STags below 4 in tagged ULPDUs are
// replaced by those of existing memory, which the fuzzer could not guess.
//
// Checks, besides those of the sanitizers: memory without a remote right never changes, no receive
// completes twice, and every connection ends.
#include <dat/dat_ib_extensions.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "common/tracing/trace.h"
#include "dapl/transport/srq.h"
#include "providers/soft/adapter.h"
#include "providers/soft/iwarp/crc32c.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "providers/soft/iwarp/wire.h"
#include "soft_sinks.h"

using namespace udapl;
using namespace udapl::fuzz;

namespace {

constexpr unsigned kRaw = 1, kShared = 2, kReset = 4, kNoFirstMessage = 8;
constexpr int kReceives = 4;
constexpr std::size_t kSize = 512;

struct Requests final : transport::ListenSink {
  void on_request(std::unique_ptr<transport::IncomingConnection> request) noexcept override {
    latest = std::move(request);
    arrived = true;
  }
  std::unique_ptr<transport::IncomingConnection> latest;
  std::atomic<bool> arrived{false};
};

// Objects that are reused for all inputs.
class World {
 public:
  static World& instance() {
    static World& world = *new World;
    return world;
  }

  void run(unsigned control, std::span<const std::byte> input) {
    outcome_.ended = false;
    requests_.arrived = false;
    const std::unique_ptr<transport::Qp> qp = make_qp((control & kShared) != 0);
    Fd peer = connect();
    const bool raw = (control & kRaw) != 0;
    if (!raw) {
      iwarp::MpaConfig config;
      config.ird = config.ord = 4;
      std::array<std::byte, iwarp::kMpaMaxFrameSize> frame;
      push(peer, std::span(frame).first(iwarp::encode(iwarp::make_request(config, {}), frame)));
    } else {
      push(peer, input);
    }
    const bool accepted = accept(*qp, peer, raw);
    if (accepted && !raw) push(peer, framed(input, (control & kNoFirstMessage) == 0));
    end(peer, (control & kReset) != 0);
    drive([&] { return !accepted || outcome_.ended; });
    require(!accepted || outcome_.ended);
    count_completions(accepted);
    require(secret_ == std::vector<std::byte>(kSize, std::byte{0x5A}));
  }

 private:
  World() : buffers_(kReceives * kSize), open_(kSize), secret_(kSize, std::byte{0x5A}) {
    trace::set_level(0);
    adapter_ = *soft::Adapter::open("lo 0", silence_);
    pd_ = *adapter_->create_pd();
    cq_ = *adapter_->create_cq(4096, silence_);
    srq_ = *adapter_->create_srq(*pd_, kReceives, 1, silence_);
    listener_ = *adapter_->listen({0, nullptr}, requests_);
    constexpr auto kLocal = static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG |
                                                            DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    constexpr auto kReadOnly =
        static_cast<DAT_MEM_PRIV_FLAGS>(kLocal | DAT_MEM_PRIV_REMOTE_READ_FLAG);
    buffers_mr_ = reg(buffers_, kLocal);
    open_mr_ = reg(open_, DAT_MEM_PRIV_ALL_FLAG);
    secret_mr_ = reg(secret_, kReadOnly);
  }

  std::unique_ptr<transport::Mr> reg(std::vector<std::byte>& bytes, DAT_MEM_PRIV_FLAGS rights) {
    return *adapter_->register_memory(
        *pd_, {reinterpret_cast<DAT_VADDR>(bytes.data()), bytes.size(), rights, DAT_VA_TYPE_ZB});
  }

  std::unique_ptr<transport::Qp> make_qp(bool shared) {
    transport::QpInit init{};
    init.sink = &outcome_;
    init.pd = pd_.get();
    init.recv_cq = init.request_cq = cq_.get();
    init.srq = shared ? srq_.get() : nullptr;
    init.max_recv = shared ? 0 : kReceives;
    init.max_request = kReceives;
    init.max_recv_segments = init.max_request_segments = 1;
    init.max_rdma_read_in = init.max_rdma_read_out = 4;
    auto qp = *adapter_->create_qp(init);
    const int posted = shared ? srq_->available() : 0;
    for (int i = posted; i < kReceives; ++i) {
      const auto offset = static_cast<std::size_t>(i) * kSize;
      const DAT_LMR_TRIPLET place{offset, kSize, buffers_mr_->lmr_context()};
      const auto id = static_cast<transport::WorkId>(i);
      require((shared ? srq_->post_recv(id, &place, 1)
                      : qp->post_recv(id, &place, 1, transport::kSignalled)) == DAT_SUCCESS);
    }
    shared_ = shared;
    return qp;
  }

  // With thousands of connections per second, one sometimes gets the port of an earlier one and is
  // reset: retry.
  Fd connect() {
    const auto& place = listener_->address();
    for (int tries = 0;; ++tries) {
      require(tries < 100);
      Fd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(peer.get(), place.get(), place.size()) == 0) return peer;
    }
  }
  static void push(const Fd& peer, std::span<const std::byte> bytes) {
    ::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  static void end(Fd& peer, bool reset) {
    const linger hard{1, 0};
    if (!reset) ::shutdown(peer.get(), SHUT_WR);
    if (!reset) await_end(peer);
    ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    peer.reset();
  }
  // Waits until the other side has read everything or has given up.
  static void await_end(const Fd& peer) {
    std::array<std::byte, 4096> dropped;
    pollfd query{peer.get(), POLLIN, 0};
    while (instance().drive([&] { return ::poll(&query, 1, 0) != 0; }) &&
           ::recv(peer.get(), dropped.data(), dropped.size(), MSG_DONTWAIT) > 0) {
    }
  }

  // Accepts the request. Returns false if the listener closes the connection instead, because the
  // raw stream is no request.
  bool accept(transport::Qp& qp, const Fd& peer, bool raw) {
    if (raw) ::shutdown(peer.get(), SHUT_WR);
    pollfd query{peer.get(), POLLIN, 0};
    drive([&] { return requests_.arrived || ::poll(&query, 1, 0) != 0; });
    if (!requests_.arrived) return false;
    const bool accepted = requests_.latest->accept(qp, {}).ok();
    requests_.latest.reset();
    return accepted;
  }

  std::vector<std::byte> framed(std::span<const std::byte> in, bool first_message) {
    std::vector<std::byte> out;
    if (first_message) append(out, read_request());
    while (in.size() >= 2) {
      const std::size_t size =
          std::min<std::size_t>(iwarp::load16(in.data()) % 1024, in.size() - 2);
      append(out, {in.begin() + 2, in.begin() + 2 + static_cast<std::ptrdiff_t>(size)});
      in = in.subspan(2 + size);
    }
    return out;
  }
  void append(std::vector<std::byte>& out, std::vector<std::byte> ulpdu) {
    if (ulpdu.size() >= iwarp::kTaggedHeaderSize &&
        (iwarp::load8(ulpdu.data()) & iwarp::kDdpTagged) != 0)
      name_memory(&ulpdu[2]);
    constexpr std::size_t kSource = iwarp::kUntaggedHeaderSize + 16;
    if (ulpdu.size() >= iwarp::kUntaggedHeaderSize + iwarp::kReadRequestSize &&
        (iwarp::load8(&ulpdu[1]) & 0x0F) == 1)
      name_memory(&ulpdu[kSource]);
    const std::size_t start = out.size();
    out.resize(start + iwarp::fpdu_size(ulpdu.size()));
    std::byte* const fpdu = &out[start];
    std::copy(ulpdu.begin(), ulpdu.end(),
              iwarp::store16(fpdu, static_cast<std::uint16_t>(ulpdu.size())));
    const std::size_t covered = iwarp::fpdu_size(ulpdu.size()) - iwarp::kCrcSize;
    iwarp::store_crc(fpdu + covered, iwarp::crc32c(fpdu, covered));
  }
  void name_memory(std::byte* stag) {
    const std::array<std::uint32_t, 4> known{0, open_mr_->rmr_context(), secret_mr_->rmr_context(),
                                             buffers_mr_->rmr_context()};
    const std::uint32_t wanted = iwarp::load32(stag);
    if (wanted < known.size()) iwarp::store32(stag, known.at(wanted));
  }
  static std::vector<std::byte> read_request() {
    std::vector<std::byte> ulpdu(iwarp::kUntaggedHeaderSize + iwarp::kReadRequestSize);
    ulpdu[0] = std::byte{0x41};
    ulpdu[1] = std::byte{0x41};
    ulpdu[9] = std::byte{1};   // queue
    ulpdu[13] = std::byte{1};  // message number
    return ulpdu;
  }

  template <class Condition>
  bool drive(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      cq_->progress();
    }
    return true;
  }

  void count_completions(bool accepted) {
    std::array<transport::Completion, 64> done;
    std::array<int, kReceives> times{};
    const ScopedLock guard(cq_->lock);
    while (const int count = cq_->poll(done.data(), static_cast<int>(done.size())))
      for (int i = 0; i < count; ++i) {
        const auto& one = done.at(static_cast<std::size_t>(i));
        require(one.id < kReceives && ++times.at(one.id) == 1);
        // With immediate data, the length is the one that the peer claims to have written.
        const bool immediate = static_cast<int>(one.operation) == DAT_IB_DTO_RECV_IMMED;
        require(immediate || one.length <= kSize);
      }
    if (accepted && !shared_)
      for (const int count : times) require(count == 1);  // flushed at the latest
  }

  Silence silence_;
  Requests requests_;
  Outcome outcome_;
  std::vector<std::byte> buffers_, open_, secret_;
  std::unique_ptr<transport::Adapter> adapter_;
  std::unique_ptr<transport::Pd> pd_;
  std::unique_ptr<transport::Cq> cq_;
  std::unique_ptr<transport::Srq> srq_;
  std::unique_ptr<transport::Listener> listener_;
  std::unique_ptr<transport::Mr> buffers_mr_, open_mr_, secret_mr_;
  bool shared_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  World::instance().run(data[0], input.subspan(1));
  return 0;
}
