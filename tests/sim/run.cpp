// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/sim/run.h"

#include "dapl/provider_table.h"
#include "providers/soft/adapter.h"
#include "providers/soft/cq.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"
#include "tests/fake_transport/registry.h"

#include <dat/dat_registry.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

namespace udapl::sim {

namespace {

constexpr std::size_t kSlots = 8;  // of a kind, per endpoint
constexpr std::size_t kSlotSize = 16384;
constexpr std::size_t kSourceSize = 32768;
constexpr DAT_CONN_QUAL kPort = 5000;
constexpr auto kPatience = std::chrono::seconds(200);  // simulated: longer than all time limits

// The memory of an endpoint, in its node's.
enum Area : std::size_t { kSendArea, kReceiveArea, kWriteArea, kTargetArea, kSinkArea, kAreas };
constexpr std::size_t kAreaSize = kSlots * kSlotSize;
constexpr std::size_t kEndpointSize = kAreas * kAreaSize + kSourceSize;

std::byte pattern(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>(number * 131 + at * 7 + (at >> 8));
}

const dapl::ProviderKit& kit() {
  static const dapl::ProviderKit made =
      dapl::make_provider_kit<soft::Qp, soft::Cq, soft::Srq>(&soft::Adapter::open);
  return made;
}

DAT_PROVIDER_INFO info(bool thread_safe) {
  DAT_PROVIDER_INFO entry{};
  std::strcpy(entry.ia_name, "sim");
  entry.dapl_version_major = 2;
  entry.is_thread_safe = thread_safe ? DAT_TRUE : DAT_FALSE;
  return entry;
}

enum class Kind : std::uint8_t { kSend, kWrite, kRead };

struct Request {
  std::uint64_t cookie;
  Kind kind;
  std::uint64_t number;  // of its kind
  std::size_t length;
  std::size_t offset;  // kRead: in the peer's source
};

struct Receive {
  std::uint64_t cookie;
  std::size_t slot;
};

struct Message {
  std::size_t length;
  std::uint64_t writes_before;
};

struct Node;

// One side of a connection, and what has to come out of what it was asked to do.
struct Side {
  Node* node = nullptr;
  Side* peer = nullptr;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE receive_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL;
  std::byte* memory = nullptr;
  enum class State : std::uint8_t {
    kIdle,
    kConnecting,
    kConnected,
    kEnded,
    kRefused
  } state = State::kIdle;
  bool disconnects = false;  // it was asked to end
  bool failed_request = false;
  bool failed_receive = false;
  std::deque<Request> requests;
  std::deque<Receive> receives;
  std::deque<Message> messages;  // sent, and not received by the peer
  std::array<std::uint64_t, 3> posted{};
  std::array<std::uint64_t, 3> done{};
  std::uint64_t received = 0;
  std::uint64_t receives_posted = 0;
  std::uint64_t next_cookie = 1;
  std::uint64_t credits = 0;  // receives that the peer has posted and we have not used

  [[nodiscard]] std::byte* slot(Area area, std::uint64_t number) const {
    return memory + area * kAreaSize + (number % kSlots) * kSlotSize;
  }
  [[nodiscard]] std::byte* source() const { return memory + kAreas * kAreaSize; }
};

struct Node {
  const DAT_PROVIDER* table = nullptr;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE pump = DAT_HANDLE_NULL;  // looking into it drives the adapter
  DAT_EVD_HANDLE connections = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE arrivals = DAT_HANDLE_NULL;
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
  std::vector<std::byte> memory;
  int stalled = 0;  // steps in which it does nothing
};

class Run {
 public:
  Run(std::uint64_t seed, const Options& options) : rng_(seed), options_(options) {
    weather_ = draw_weather();
    Kernel::instance().reset(seed ^ 0x5DEECE66D, weather_);
    thread_safe_ = below(2) == 0;
  }

  Outcome go() {
    const DAT_PROVIDER_INFO entry = info(thread_safe_);
    dapl::register_provider(kit(), &entry, "lo 0");
    play();
    dapl::unregister_provider(&entry);
    check(Kernel::instance().open_descriptors() == 0, "descriptors are still open");
    return outcome_;
  }

 private:
  // ---- chance

  std::uint64_t below(std::uint64_t limit) { return rng_() % limit; }

  Weather draw_weather() {
    Weather weather;
    weather.fault = static_cast<Weather::Fault>(below(4));
    // Early faults hit the handshake; a changed byte there is not covered by any checksum.
    weather.at = weather.fault == Weather::Fault::kCorrupt ? 100 + below(20000)
                 : below(3) == 0                           ? below(200)
                                                           : below(60000);
    weather.from_client = below(2) == 0;
    constexpr std::size_t kPieces[] = {1, 7, 100, 1461, 65536, 65536};
    weather.piece = kPieces[below(std::size(kPieces))];
    // One byte at a time takes long: then there is less to do.
    slow_ = weather.piece < 100;
    weather.buffer = std::size_t{4096} << below(7);
    weather.mss = static_cast<std::uint32_t>(536 + below(9000));
    weather.delay_us = 1U << below(15);
    weather.spurious_blocking = below(2) == 0;
    return weather;
  }

  // ---- verdict

  bool check(bool condition, const char* what) {
    if (!condition && outcome_.violation.empty()) outcome_.violation = what;
    return condition;
  }
  bool success(DAT_RETURN status, const char* what) {
    if (status == DAT_SUCCESS) return true;
    if (outcome_.violation.empty()) {
      char text[160];
      std::snprintf(text, sizeof text, "%s returns %#x", what, static_cast<unsigned>(status));
      outcome_.violation = text;
    }
    return false;
  }
  void note(std::uint64_t value) { outcome_.digest = (outcome_.digest ^ value) * 0x100000001B3; }
  void tell(const char* what, std::uint64_t number) const {
    if (options_.verbose)
      std::printf("%12.3f us %s %llu\n",
                  std::chrono::duration<double, std::micro>(
                      Kernel::instance().now().time_since_epoch() - std::chrono::hours(1))
                      .count(),
                  what, static_cast<unsigned long long>(number));
  }

  // ---- the course of a run

  void play() {
    const std::size_t connections = 1 + below(3);
    if (!open(nodes_[0], connections) || !open(nodes_[1], connections)) return close_nodes();
    if (!success(nodes_[1].table->psp_create_func(nodes_[1].ia, kPort, nodes_[1].arrivals,
                                                  DAT_PSP_CONSUMER_FLAG, &nodes_[1].psp),
                 "psp_create"))
      return close_nodes();
    for (std::size_t i = 0; i < connections; ++i) {
      clients_.push_back(make_side(nodes_[0], i));
      servers_.push_back(make_side(nodes_[1], i));
      if (!outcome_.violation.empty()) return close_nodes();
    }
    const int rounds = 1 + static_cast<int>(below(2));
    for (int round = 0; round < rounds && outcome_.violation.empty(); ++round) {
      begin_round();
      const std::uint64_t steps = 30 + below(slow_ ? 60 : 200);
      for (std::uint64_t step = 0; step < steps && outcome_.violation.empty(); ++step) take_step();
      end_round();
    }
    close_nodes();
  }

  bool open(Node& node, std::size_t connections) {
    node.table = fake::registered("sim", thread_safe_);
    if (!check(node.table != nullptr, "the provider is not registered")) return false;
    char name[] = "sim";
    DAT_IA_HANDLE raw = DAT_HANDLE_NULL;
    if (!success(node.table->ia_open_func(name, 8, &node.async, &raw), "ia_open")) return false;
    node.ia = raw;
    static_cast<void>(fake::note_open(raw));
    node.memory.assign(connections * kEndpointSize, std::byte{0});
    const auto evd = [&](int flags, DAT_COUNT length, DAT_EVD_HANDLE& to) {
      return success(node.table->evd_create_func(raw, length, DAT_HANDLE_NULL,
                                                 static_cast<DAT_EVD_FLAGS>(flags), &to),
                     "evd_create");
    };
    DAT_REGION_DESCRIPTION region{};
    region.for_va = node.memory.data();
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;
    return evd(DAT_EVD_DTO_FLAG, 4, node.pump) &&
           evd(DAT_EVD_CONNECTION_FLAG, 32, node.connections) &&
           evd(DAT_EVD_CR_FLAG, 32, node.arrivals) &&
           success(node.table->pz_create_func(raw, &node.pz), "pz_create") &&
           success(node.table->lmr_create_func(raw, DAT_MEM_TYPE_VIRTUAL, region,
                                               node.memory.size(), node.pz, DAT_MEM_PRIV_ALL_FLAG,
                                               DAT_VA_TYPE_VA, &node.lmr, &node.lmr_context,
                                               &node.rmr_context, &length, &address),
                   "lmr_create");
  }

  std::unique_ptr<Side> make_side(Node& node, std::size_t index) {
    auto side = std::make_unique<Side>();
    side->node = &node;
    side->memory = node.memory.data() + index * kEndpointSize;
    const auto evd = [&](DAT_EVD_HANDLE& to) {
      return success(
          node.table->evd_create_func(node.ia, 4 * kSlots, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &to),
          "evd_create");
    };
    DAT_EP_ATTR attributes{};
    attributes.service_type = DAT_SERVICE_TYPE_RC;
    attributes.max_message_size = kSlotSize;
    attributes.max_rdma_size = kSlotSize;
    attributes.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    attributes.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    attributes.max_recv_dtos = kSlots;
    attributes.max_request_dtos = 3 * kSlots;
    attributes.max_recv_iov = attributes.max_request_iov = 4;
    attributes.max_rdma_read_in = attributes.max_rdma_read_out = static_cast<int>(1 + below(4));
    attributes.max_rdma_read_iov = attributes.max_rdma_write_iov = 4;
    if (evd(side->receive_evd) && evd(side->request_evd))
      success(node.table->ep_create_func(node.ia, node.pz, side->receive_evd, side->request_evd,
                                         node.connections, &attributes, &side->ep),
              "ep_create");
    return side;
  }

  void begin_round() {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Side& client = *clients_[i];
      Side& server = *servers_[i];
      if (client.state != Side::State::kIdle || server.state != Side::State::kIdle) continue;
      for (Side* side : {&client, &server}) {
        side->peer = nullptr;
        side->messages.clear();
        side->posted = side->done = {};
        side->received = side->credits = 0;
        side->receives_posted = side->receives.size();  // of an EP that nobody connected to
        side->disconnects = side->failed_request = side->failed_receive = false;
        for (std::size_t at = 0; at < kSourceSize; ++at) side->source()[at] = pattern(99, at);
        std::memset(side->slot(kTargetArea, 0), 0, kAreaSize);
        while (side->receives.size() < kSlots && outcome_.violation.empty()) post_receive(*side);
      }
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      // Tells the server which of its endpoints is meant.
      auto index = static_cast<std::uint8_t>(i);
      const DAT_TIMEOUT timeout = below(4) == 0 ? 3'000'000 : DAT_TIMEOUT_INFINITE;
      if (success(client.node->table->ep_connect_func(
                      client.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), kPort, timeout, 1,
                      &index, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                  "ep_connect"))
        client.state = Side::State::kConnecting;
    }
  }

  void take_step() {
    Kernel& kernel = Kernel::instance();
    switch (below(8)) {
      case 0:
        kernel.next_event();
        break;
      case 1:
        kernel.advance(std::chrono::microseconds(below(2 * weather_.delay_us + 1)));
        break;
      case 2: {
        Node& node = nodes_[below(2)];
        if (below(20) == 0) node.stalled = static_cast<int>(below(60));
        break;
      }
      case 3:
        if (below(60) == 0) disconnect(random_side());
        break;
      default:
        act(random_side());
    }
    drive();
  }

  Side& random_side() {
    auto& sides = below(2) == 0 ? clients_ : servers_;
    return *sides[below(sides.size())];
  }

  void drive() {
    for (Node& node : nodes_) {
      if (node.stalled > 0) {
        --node.stalled;
        continue;
      }
      look(node);
    }
  }

  // Lets the nodes and the network go on until `done`, or for so long that nothing can come any
  // more.
  template <class Done>
  bool go_on(Done done) {
    Kernel& kernel = Kernel::instance();
    const Clock::time_point limit = kernel.now() + kPatience;
    for (Node& node : nodes_) node.stalled = 0;
    while (!done() && outcome_.violation.empty() && kernel.now() < limit) {
      drive();
      // In small steps while something is on its way; timers of the adapters need the clock, too.
      if (!kernel.next_event()) kernel.advance(std::chrono::milliseconds(100));
    }
    return done();
  }

  void end_round() {
    const auto all = [&](auto condition) {
      return std::all_of(clients_.begin(), clients_.end(),
                         [&](const auto& side) { return condition(*side); }) &&
             std::all_of(servers_.begin(), servers_.end(),
                         [&](const auto& side) { return condition(*side); });
    };
    // Every request of a connection that lives completes, and every message arrives.
    const bool settled = go_on([&] {
      return all([](const Side& side) {
        const bool busy = side.state == Side::State::kConnecting ||
                          (side.state == Side::State::kConnected &&
                           (!side.requests.empty() || !side.messages.empty()));
        return !busy;
      });
    });
    if (!outcome_.violation.empty()) return;
    check(settled || Kernel::instance().fault_happened(), "a fair network, and transfers hang");
    for (std::size_t i = 0; i < clients_.size(); ++i)
      disconnect(below(2) == 0 ? *clients_[i] : *servers_[i]);
    const auto over = [&] {
      return all([](const Side& side) {
        return side.state != Side::State::kConnected && side.state != Side::State::kConnecting;
      });
    };
    // Whatever the weather: both sides hear of the end, within the time limits of TCP and the
    // provider.
    check(go_on(over), "a connection does not end");
    if (!outcome_.violation.empty()) return;
    // What the application has not looked at yet.
    for (int i = 0; i < 20; ++i) drive();
    for (const auto* sides : {&clients_, &servers_})
      for (const auto& side : *sides) settle(*side);
  }

  // Nothing is outstanding any more, and a new round may begin.
  void settle(Side& side) {
    if (side.state != Side::State::kEnded) return;
    check(side.requests.empty(), "a request never completed");
    check(side.receives.empty(), "a receive never completed");
    if (success(side.node->table->ep_reset_func(side.ep), "ep_reset"))
      side.state = Side::State::kIdle;
  }

  void close_nodes() {
    // In a run that went wrong objects may be in use; the abrupt close takes them along.
    const bool orderly = outcome_.violation.empty();
    for (const auto* sides : {&clients_, &servers_}) {
      for (const auto& side : *sides) {
        if (!orderly || side->ep == DAT_HANDLE_NULL) continue;
        const DAT_PROVIDER* const table = side->node->table;
        success(table->ep_free_func(side->ep), "ep_free");
        // Receives of an EP that was never connected go silently, and nothing else is left.
        expect_empty(*side->node, side->receive_evd);
        expect_empty(*side->node, side->request_evd);
        success(table->evd_free_func(side->receive_evd), "evd_free");
        success(table->evd_free_func(side->request_evd), "evd_free");
      }
    }
    for (Node& node : nodes_) {
      if (node.ia == DAT_HANDLE_NULL) continue;
      if (orderly) {
        expect_empty(node, node.connections);
        if (node.psp != DAT_HANDLE_NULL) success(node.table->psp_free_func(node.psp), "psp_free");
        success(node.table->lmr_free_func(node.lmr), "lmr_free");
        success(node.table->pz_free_func(node.pz), "pz_free");
        for (DAT_EVD_HANDLE evd : {node.pump, node.connections, node.arrivals})
          success(node.table->evd_free_func(evd), "evd_free");
      }
      success(node.table->ia_close_func(node.ia,
                                        orderly ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG),
              "ia_close");
      fake::note_close(node.ia);
    }
  }

  void expect_empty(const Node& node, DAT_EVD_HANDLE evd) {
    DAT_EVENT event{};
    check(node.table->evd_dequeue_func(evd, &event) != DAT_SUCCESS, "an event nobody expects");
  }

  // ---- what the application does

  void act(Side& side) {
    if (side.state != Side::State::kConnected || side.peer == nullptr || side.disconnects) return;
    switch (below(4)) {
      case 0:
      case 1:
        return send(side);
      case 2:
        return write(side);
      default:
        return read(side);
    }
  }

  std::size_t random_length(std::size_t most) {
    const std::size_t limit = slow_ ? 300 : most;
    return below(3) == 0 ? below(limit + 1) : below(std::min<std::size_t>(limit, 200) + 1);
  }

  // Cuts the bytes into one to four segments.
  DAT_COUNT cut(const Side& side, std::byte* data, std::size_t length,
                std::array<DAT_LMR_TRIPLET, 4>& segments) {
    const auto count = static_cast<std::size_t>(1 + below(4));
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t size = i + 1 == count ? length - at : below(length - at + 1);
      segments[i] = {};
      segments[i].lmr_context = side.node->lmr_context;
      segments[i].virtual_address = reinterpret_cast<std::uintptr_t>(data + at);
      segments[i].segment_length = static_cast<DAT_SEG_LENGTH>(size);
      at += size;
    }
    return static_cast<DAT_COUNT>(count);
  }

  static DAT_DTO_COOKIE cookie(std::uint64_t value) {
    DAT_DTO_COOKIE result{};
    result.as_64 = value;
    return result;
  }

  void post_receive(Side& side) {
    const std::size_t slot = side.receives_posted % kSlots;
    std::array<DAT_LMR_TRIPLET, 4> segments{};
    const DAT_COUNT count = cut(side, side.slot(kReceiveArea, slot), kSlotSize, segments);
    const std::uint64_t number = side.next_cookie++;
    if (success(side.node->table->ep_post_recv_func(side.ep, count, segments.data(), cookie(number),
                                                    DAT_COMPLETION_DEFAULT_FLAG),
                "post_recv")) {
      side.receives.push_back({number, slot});
      ++side.receives_posted;
      if (side.peer != nullptr) ++side.peer->credits;
    }
  }

  void posted(Side& side, Kind kind, std::uint64_t number, std::size_t length, std::size_t offset) {
    side.requests.push_back({side.next_cookie++, kind, number, length, offset});
    ++side.posted[static_cast<std::size_t>(kind)];
  }

  [[nodiscard]] static bool has_slot(const Side& side, Kind kind) {
    const auto index = static_cast<std::size_t>(kind);
    return side.posted[index] - side.done[index] < kSlots;
  }

  // The connection may end at any moment: then the post is refused or flushed, both are right.
  bool accepted(DAT_RETURN status, const char* what) {
    if (DAT_GET_TYPE(status) == DAT_INVALID_STATE) return false;
    return success(status, what);
  }

  void send(Side& side) {
    if (!has_slot(side, Kind::kSend) || side.credits == 0) return;
    const std::uint64_t number = side.posted[0];
    const std::size_t length = random_length(kSlotSize);
    std::byte* const data = side.slot(kSendArea, number);
    for (std::size_t at = 0; at < length; ++at) data[at] = pattern(number, at);
    std::array<DAT_LMR_TRIPLET, 4> segments{};
    const DAT_COUNT count = cut(side, data, length, segments);
    if (!accepted(side.node->table->ep_post_send_func(side.ep, count, segments.data(),
                                                      cookie(side.next_cookie),
                                                      DAT_COMPLETION_DEFAULT_FLAG),
                  "post_send"))
      return;
    posted(side, Kind::kSend, number, length, 0);
    side.messages.push_back({length, side.posted[1]});
    --side.credits;
    if (options_.saboteur && length > 0) data[length / 2] ^= std::byte{1};
  }

  // The peer's slot may hold a later write by the time it looks: every write begins with its
  // number.
  void write(Side& side) {
    if (!has_slot(side, Kind::kWrite)) return;
    const std::uint64_t number = side.posted[1] + 1;
    const std::size_t length = 8 + random_length(kSlotSize - 8);
    std::byte* const data = side.slot(kWriteArea, number);
    for (std::size_t at = 8; at < length; ++at) data[at] = pattern(number, at);
    std::memcpy(data, &number, sizeof number);
    std::array<DAT_LMR_TRIPLET, 4> segments{};
    const DAT_COUNT count = cut(side, data, length, segments);
    const DAT_RMR_TRIPLET remote = target(*side.peer, side.peer->slot(kTargetArea, number), length);
    if (accepted(side.node->table->ep_post_rdma_write_func(side.ep, count, segments.data(),
                                                           cookie(side.next_cookie), &remote,
                                                           DAT_COMPLETION_DEFAULT_FLAG),
                 "post_rdma_write"))
      posted(side, Kind::kWrite, number, length, 0);
  }

  void read(Side& side) {
    if (!has_slot(side, Kind::kRead)) return;
    const std::uint64_t number = side.posted[2];
    const std::size_t length = random_length(kSlotSize);
    const std::size_t offset = below(kSourceSize - length + 1);
    std::array<DAT_LMR_TRIPLET, 4> segments{};
    std::byte* const data = side.slot(kSinkArea, number);
    std::memset(data, 0xEE, length);
    const DAT_COUNT count = cut(side, data, length, segments);
    const DAT_RMR_TRIPLET remote = target(*side.peer, side.peer->source() + offset, length);
    if (accepted(side.node->table->ep_post_rdma_read_func(side.ep, count, segments.data(),
                                                          cookie(side.next_cookie), &remote,
                                                          DAT_COMPLETION_DEFAULT_FLAG),
                 "post_rdma_read"))
      posted(side, Kind::kRead, number, length, offset);
  }

  static DAT_RMR_TRIPLET target(const Side& owner, const std::byte* data, std::size_t length) {
    DAT_RMR_TRIPLET result{};
    result.rmr_context = owner.node->rmr_context;
    result.virtual_address = reinterpret_cast<std::uintptr_t>(data);
    result.segment_length = static_cast<DAT_SEG_LENGTH>(length);
    return result;
  }

  void disconnect(Side& side) {
    if (side.state != Side::State::kConnected || side.disconnects) return;
    const bool graceful = below(2) == 0;
    tell(graceful ? "graceful disconnect" : "abrupt disconnect", side.next_cookie);
    const DAT_RETURN status = side.node->table->ep_disconnect_func(
        side.ep, graceful ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG);
    // It may have ended a moment ago; then the event is there.
    if (DAT_GET_TYPE(status) != DAT_INVALID_STATE) success(status, "ep_disconnect");
    side.disconnects = true;
    if (side.peer != nullptr) side.peer->disconnects = true;
  }

  // ---- what the application sees

  void look(Node& node) {
    DAT_EVENT event{};
    check(node.table->evd_dequeue_func(node.pump, &event) != DAT_SUCCESS,
          "an event in an EVD that nobody uses");
    while (node.table->evd_dequeue_func(node.arrivals, &event) == DAT_SUCCESS) on_arrival(event);
    // First the ends of connections are looked at, then what they flushed, or the other way round.
    if (below(2) == 0) look_at_connections(node);
    for (const auto* sides : {&clients_, &servers_}) {
      for (const auto& side : *sides) {
        if (side->node != &node) continue;
        // Sometimes the application is slow.
        if (below(4) == 0 && side->state == Side::State::kConnected) continue;
        look_at_transfers(*side);
      }
    }
    look_at_connections(node);
  }

  void look_at_connections(Node& node) {
    DAT_EVENT event{};
    while (node.table->evd_dequeue_func(node.connections, &event) == DAT_SUCCESS)
      on_connection(event);
  }

  void look_at_transfers(Side& side) {
    DAT_EVENT event{};
    const DAT_PROVIDER* const table = side.node->table;
    while (table->evd_dequeue_func(side.request_evd, &event) == DAT_SUCCESS)
      on_request_done(side, event);
    while (table->evd_dequeue_func(side.receive_evd, &event) == DAT_SUCCESS)
      on_receive_done(side, event);
  }

  void on_arrival(const DAT_EVENT& event) {
    const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
    const DAT_PROVIDER* const table = nodes_[1].table;
    DAT_CR_PARAM param{};
    if (!success(table->cr_query_func(cr, DAT_CR_FIELD_ALL, &param), "cr_query")) return;
    const std::size_t index =
        param.private_data_size == 1 ? *static_cast<const std::uint8_t*>(param.private_data) : 99;
    if (!check(index < servers_.size(), "private data are wrong")) return;
    Side& server = *servers_[index];
    note(index);
    tell("connection request", index);
    // A client that tried again (it lost its connection while connecting) finds the EP in use.
    if (server.state != Side::State::kIdle || below(20) == 0) {
      success(table->cr_reject_func(cr, 0, nullptr), "cr_reject");
      return;
    }
    if (success(table->cr_accept_func(cr, server.ep, 0, nullptr), "cr_accept"))
      server.state = Side::State::kConnecting;
  }

  Side* side_of(DAT_EP_HANDLE ep) {
    for (const auto* sides : {&clients_, &servers_})
      for (const auto& side : *sides)
        if (side->ep == ep) return side.get();
    return nullptr;
  }

  void on_connection(const DAT_EVENT& event) {
    Side* const side = side_of(event.event_data.connect_event_data.ep_handle);
    if (!check(side != nullptr, "a connection event of no endpoint")) return;
    note(static_cast<std::uint64_t>(event.event_number));
    tell("connection event", static_cast<std::uint64_t>(event.event_number));
    switch (event.event_number) {
      case DAT_CONNECTION_EVENT_ESTABLISHED:
        check(side->state == Side::State::kConnecting, "established twice, or out of nothing");
        side->state = Side::State::kConnected;
        return meet(*side);
      case DAT_CONNECTION_EVENT_DISCONNECTED:
      case DAT_CONNECTION_EVENT_BROKEN:
        check(side->state == Side::State::kConnected ||
                  (side->state == Side::State::kConnecting && side->disconnects),
              "ended twice, or before it began");
        if (event.event_number == DAT_CONNECTION_EVENT_BROKEN) {
          ++outcome_.broken;
          check(side->disconnects || Kernel::instance().fault_happened(),
                "a fair network, and a connection breaks");
        }
        break;
      default:
        check(side->state == Side::State::kConnecting, "a failure to connect, out of nothing");
        break;
    }
    side->state = Side::State::kEnded;
    if (side->peer != nullptr) {
      side->peer->disconnects = true;  // its end is near
      side->peer->messages.clear();    // nobody will tell
      side->messages.clear();
      side->peer->peer = nullptr;
      side->peer = nullptr;
    }
  }

  // From when both know of the connection they know each other.
  void meet(Side& side) {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Side& client = *clients_[i];
      Side& server = *servers_[i];
      if ((&side != &client && &side != &server) || client.state != Side::State::kConnected ||
          server.state != Side::State::kConnected)
        continue;
      client.peer = &server;
      server.peer = &client;
      client.disconnects = server.disconnects = client.disconnects || server.disconnects;
      client.credits = server.receives.size();
      server.credits = client.receives.size();
    }
  }

  void on_request_done(Side& side, const DAT_EVENT& event) {
    const DAT_DTO_COMPLETION_EVENT_DATA& done = event.event_data.dto_completion_event_data;
    ++outcome_.completions;
    note(done.user_cookie.as_64 * 16 + static_cast<std::uint64_t>(done.status));
    if (!check(event.event_number == DAT_DTO_COMPLETION_EVENT, "not a completion") ||
        !check(done.ep_handle == side.ep, "a completion of another endpoint") ||
        !check(!side.requests.empty(), "a request completes twice") ||
        !check(side.requests.front().cookie == done.user_cookie.as_64, "requests out of order"))
      return;
    const Request request = side.requests.front();
    side.requests.pop_front();
    ++side.done[static_cast<std::size_t>(request.kind)];
    tell("request done", request.cookie);
    if (done.status != DAT_DTO_SUCCESS) {
      side.failed_request = true;
      check(side.disconnects || Kernel::instance().fault_happened(),
            "a fair network, and a request fails");
      return;
    }
    check(!side.failed_request, "a request succeeds behind one that failed");
    if (request.kind != Kind::kRead) return;
    const std::byte* const data = side.slot(kSinkArea, request.number);
    for (std::size_t at = 0; at < request.length; ++at)
      if (!check(data[at] == pattern(99, request.offset + at), "an RDMA read brought wrong data"))
        return;
  }

  void on_receive_done(Side& side, const DAT_EVENT& event) {
    const DAT_DTO_COMPLETION_EVENT_DATA& done = event.event_data.dto_completion_event_data;
    ++outcome_.completions;
    note(done.user_cookie.as_64 * 16 + static_cast<std::uint64_t>(done.status));
    if (!check(event.event_number == DAT_DTO_COMPLETION_EVENT, "not a completion") ||
        !check(done.ep_handle == side.ep, "a completion of another endpoint") ||
        !check(!side.receives.empty(), "a receive completes twice") ||
        !check(side.receives.front().cookie == done.user_cookie.as_64, "receives out of order"))
      return;
    const Receive receive = side.receives.front();
    side.receives.pop_front();
    tell("receive done", receive.cookie);
    if (done.status != DAT_DTO_SUCCESS) {
      side.failed_receive = true;
      return;
    }
    check(!side.failed_receive, "a receive succeeds behind one that failed");
    const std::uint64_t number = side.received++;
    const std::byte* const data = side.slot(kReceiveArea, receive.slot);
    for (std::size_t at = 0; at < done.transfered_length; ++at)
      if (!check(data[at] == pattern(number, at), "a message has wrong data")) return;
    if (side.peer == nullptr || side.state != Side::State::kConnected) return;
    if (!check(!side.peer->messages.empty(), "a message that nobody sent")) return;
    const Message message = side.peer->messages.front();
    side.peer->messages.pop_front();
    check(message.length == done.transfered_length, "a message has another length");
    look_at_targets(side, message.writes_before);
    if (!side.disconnects) post_receive(side);
  }

  // Of the writes before a message each is there, or a later one.
  void look_at_targets(const Side& side, std::uint64_t writes) {
    for (std::uint64_t number = writes; number > 0 && number + kSlots > writes; --number) {
      std::uint64_t found = 0;
      std::memcpy(&found, side.slot(kTargetArea, number), sizeof found);
      check(found >= number && (found - number) % kSlots == 0,
            "a message arrived before a write that was posted earlier");
    }
  }

  Rng rng_;
  const Options options_;
  Weather weather_;
  bool slow_ = false;
  bool thread_safe_ = true;
  std::array<Node, 2> nodes_;
  std::vector<std::unique_ptr<Side>> clients_;
  std::vector<std::unique_ptr<Side>> servers_;
  Outcome outcome_;
};

}  // namespace

Outcome run(std::uint64_t seed, const Options& options) {
  return std::make_unique<Run>(seed, options)->go();
}

}  // namespace udapl::sim
