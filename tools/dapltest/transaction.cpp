// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "transaction.h"

#include <algorithm>

namespace dapltest {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kControlReceives = 2;  // before the first operation: memory list and Sync

std::size_t aligned(std::uint64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

std::byte pattern(std::uint32_t iteration) { return static_cast<std::byte>(iteration + 1); }

}  // namespace

Transaction::Transaction(const Options& options, bool server, bool peer_little_endian)
    : options_(options), server_(server), peer_little_endian_(peer_little_endian) {
  for (std::size_t i = 0; i < options_.operations.size(); ++i) {
    const Operation& operation = options_.operations[i];
    offsets_.push_back(memory_size_);
    memory_size_ += aligned(operation.bytes());
    if (operation.transfer == Transfer::kSend && !is_own(operation)) {
      receives_.push_back(i);
    }
  }
  lists_offset_ = memory_size_;
  sync_offset_ = lists_offset_ + 2 * aligned(wire::kMemoryListSize);
  memory_size_ = sync_offset_ + 3 * aligned(wire::kSyncSize);
}

bool Transaction::create() {
  if (!adapter_.open(options_.device)) {
    return false;
  }
  EndpointPlan plan;
  plan.requests = static_cast<std::uint32_t>(options_.operations.size()) + 2;
  plan.receives = static_cast<std::uint32_t>(receives_.size() + kControlReceives) + 1;
  plan.largest = wire::kMemoryListSize;
  for (const Operation& operation : options_.operations) {
    plan.largest = std::max(plan.largest, operation.bytes());
    plan.segments = std::max(plan.segments, operation.segments);
  }
  plan.qos = options_.qos;
  plan.poll = options_.poll;
  plan.cno = options_.cno;
  plan.timeout_s = options_.timeout_s;
  plan.peer_gone = options_.client_gone;
  for (std::uint32_t i = 0; i < options_.endpoints; ++i) {
    Lane& lane = lanes_.emplace_back();
    lane.endpoint = std::make_unique<Endpoint>();
    lane.remote.resize(kMaxOperations);
    if (!lane.endpoint->create(adapter_, plan, memory_size_)) {
      return false;
    }
    if (options_.validate) {
      refill(lane, 0);
    }
    if (!post_receives(lane, kControlReceives + receives_.size())) {
      return false;
    }
  }
  return true;
}

Endpoint::Listening Transaction::listen(std::uint32_t first_port) {
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    const auto result = lanes_[i].endpoint->listen(first_port + i, options_.reserved_point);
    if (result != Endpoint::Listening::kDone) {
      stop_listening();
      return result;
    }
  }
  return Endpoint::Listening::kDone;
}

void Transaction::stop_listening() {
  for (Lane& lane : lanes_) {
    lane.endpoint->stop_listening();
  }
}

// ---- Receives

std::uint64_t Transaction::total_receives() const {
  return kControlReceives + std::uint64_t{receives_.size()} * options_.iterations + 1;
}

std::span<std::byte> Transaction::data(Lane& lane, std::size_t operation) {
  return lane.endpoint->memory().span(offsets_[operation], options_.operations[operation].bytes());
}

bool Transaction::post_receive(Lane& lane, std::uint64_t index) {
  Memory& memory = lane.endpoint->memory();
  if (index == 0) {
    return lane.endpoint->post_receive(
        memory.span(lists_offset_ + aligned(wire::kMemoryListSize), wire::kMemoryListSize));
  }
  if (index == 1 || index + 1 == total_receives()) {
    const std::size_t at = sync_offset_ + (index == 1 ? 1 : 2) * aligned(wire::kSyncSize);
    return lane.endpoint->post_receive(memory.span(at, wire::kSyncSize));
  }
  const std::size_t operation = receives_[(index - kControlReceives) % receives_.size()];
  return lane.endpoint->post_receive(data(lane, operation),
                                     options_.operations[operation].segments);
}

// Posts the receives before index `end`. The last Sync is posted together with the last operation,
// because the peer sends both without a pause.
bool Transaction::post_receives(Lane& lane, std::uint64_t end) {
  const std::uint64_t last = total_receives() - 1;
  const std::uint64_t until = end >= last ? last + 1 : end;
  for (; lane.posted < until; ++lane.posted) {
    if (!post_receive(lane, lane.posted)) {
      return false;
    }
  }
  return true;
}

// Waits for the next message and posts a receive into the buffer that has become free.
bool Transaction::receive(Lane& lane) {
  const std::uint64_t index = lane.received;
  std::uint64_t size = wire::kSyncSize;
  const char* what = "a message to synchronise";
  if (index == 0) {
    size = wire::kMemoryListSize;
    what = "the list of the peer's memory";
  } else if (index >= kControlReceives && index + 1 < total_receives()) {
    size = options_.operations[receives_[(index - kControlReceives) % receives_.size()]].bytes();
    what = "a send of the peer";
  }
  if (!lane.endpoint->reap_receive(size, what)) {
    return false;
  }
  ++lane.received;
  return index < kControlReceives || post_receives(lane, index + receives_.size() + 1);
}

// ---- Beginning and end

bool Transaction::run(Address* server, std::uint32_t first_port, Progress* progress) {
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    if (!open_lane(lanes_[i], server, first_port + i)) {
      return false;
    }
  }
  if (!synchronize()) {
    return false;
  }
  const Clock::time_point start = Clock::now();
  Clock::time_point before = start;
  for (std::uint32_t iteration = 0; iteration < options_.iterations; ++iteration) {
    if (!iterate(iteration)) {
      return false;
    }
    const Clock::time_point now = Clock::now();
    histogram_.record(now - before);
    before = now;
    if (progress != nullptr) {
      progress->advance();
    }
  }
  if (!synchronize()) {
    return false;
  }
  span_ = Clock::now() - start;
  for (Lane& lane : lanes_) {
    if (server_) {
      lane.endpoint->await_disconnect();
    } else {
      lane.endpoint->disconnect();
    }
  }
  return true;
}

bool Transaction::open_lane(Lane& lane, Address* server, std::uint32_t port) {
  const bool open = server_ ? lane.endpoint->accept()
                            : lane.endpoint->connect(*server, port, wire::kGreeting, true);
  return open && exchange_memory(lane);
}

bool Transaction::exchange_memory(Lane& lane) {
  Memory& memory = lane.endpoint->memory();
  const auto mine = memory.span(lists_offset_, wire::kMemoryListSize);
  for (std::size_t i = 0; i < options_.operations.size(); ++i) {
    const Operation& operation = options_.operations[i];
    if (operation.transfer != Transfer::kSend && !is_own(operation)) {
      wire::encode({memory.rmr_context(), reinterpret_cast<std::uintptr_t>(data(lane, i).data())},
                   mine.subspan(i * wire::kMemorySize));
    }
  }
  if (!lane.endpoint->post_send(mine) || !lane.endpoint->reap_request() || !receive(lane)) {
    return false;
  }
  const auto theirs =
      memory.span(lists_offset_ + aligned(wire::kMemoryListSize), wire::kMemoryListSize);
  for (std::size_t i = 0; i < options_.operations.size(); ++i) {
    lane.remote[i] =
        wire::decode_memory(theirs.subspan(i * wire::kMemorySize), peer_little_endian_);
  }
  return true;
}

// The server sends its Syncs first; the client sends its own once it has received all of them.
bool Transaction::synchronize() {
  const auto send_all = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [&](Lane& lane) {
      return lane.endpoint->post_send(
                 lane.endpoint->memory().span(sync_offset_, wire::kSyncSize)) &&
             lane.endpoint->reap_request();
    });
  };
  const auto receive_all = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [&](Lane& lane) { return receive(lane); });
  };
  return server_ ? send_all() && receive_all() : receive_all() && send_all();
}

// ---- Operations

bool Transaction::iterate(std::uint32_t iteration) {
  for (std::size_t i = 0; i < options_.operations.size(); ++i) {
    if (!(is_own(options_.operations[i]) ? initiate(i) : await_peer(i, iteration))) {
      return false;
    }
  }
  // Sends with -f that were not followed by a receive.
  for (Lane& lane : lanes_) {
    for (; lane.deferred > 0; --lane.deferred) {
      if (!lane.endpoint->reap_request()) {
        return false;
      }
    }
  }
  return true;
}

// Posts on all endpoints before waiting, so that the transfers overlap.
bool Transaction::initiate(std::size_t index) {
  const Operation& operation = options_.operations[index];
  for (Lane& lane : lanes_) {
    const bool posted =
        operation.transfer == Transfer::kSend
            ? lane.endpoint->post_send(data(lane, index), operation.segments)
            : lane.endpoint->post_rdma(operation.transfer, data(lane, index), operation.segments,
                                       lane.remote[index].rmr_context, lane.remote[index].address);
    if (!posted) {
      return false;
    }
  }
  for (Lane& lane : lanes_) {
    if (operation.reap_on_receive) {
      ++lane.deferred;
      continue;
    }
    // Deferred sends are older and complete first.
    for (; lane.deferred > 0; --lane.deferred) {
      if (!lane.endpoint->reap_request()) {
        return false;
      }
    }
    if (!lane.endpoint->reap_request()) {
      return false;
    }
  }
  return true;
}

bool Transaction::await_peer(std::size_t index, std::uint32_t iteration) {
  if (options_.operations[index].transfer != Transfer::kSend) {
    return true;  // RDMA: the peer accesses our memory without our help
  }
  // With -V, the client compares at the third-last operation and the server at the second-last.
  const std::size_t checkpoint = options_.operations.size() - (server_ ? 2 : 3);
  for (Lane& lane : lanes_) {
    if (!receive(lane)) {
      return false;
    }
    for (; lane.deferred > 0; --lane.deferred) {
      if (!lane.endpoint->reap_request()) {
        return false;
      }
    }
    if (options_.validate && index == checkpoint) {
      if (!compare(lane, iteration)) {
        return false;
      }
      refill(lane, iteration + 1);
    }
  }
  return true;
}

// ---- Validation. The three operations added by -V are not compared.

bool Transaction::compare(Lane& lane, std::uint32_t iteration) {
  const std::byte expected = pattern(iteration);
  for (std::size_t i = 0; i + 3 < options_.operations.size(); ++i) {
    const Operation& operation = options_.operations[i];
    const auto bytes = data(lane, i);
    const auto wrong =
        std::find_if(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte != expected; });
    if (wrong != bytes.end()) {
      return fail(fmt::format(
          "data of operation {} ({} {} {} {}), iteration {}: byte {} is {:#04x}, not {:#04x}", i,
          operation.by_server ? "server" : "client", name(operation.transfer),
          operation.segment_size, operation.segments, iteration, wrong - bytes.begin(),
          std::to_integer<unsigned>(*wrong), std::to_integer<unsigned>(expected)));
    }
  }
  return true;
}

// Fills the sources of sends, writes and reads with the pattern, and the destinations with its
// complement.
void Transaction::refill(Lane& lane, std::uint32_t iteration) {
  for (std::size_t i = 0; i + 3 < options_.operations.size(); ++i) {
    const Operation& operation = options_.operations[i];
    const bool source = is_own(operation) != (operation.transfer == Transfer::kRead);
    const auto bytes = data(lane, i);
    std::fill(bytes.begin(), bytes.end(), source ? pattern(iteration) : ~pattern(iteration));
  }
}

}  // namespace dapltest
