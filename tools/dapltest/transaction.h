// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "endpoint.h"
#include "options.h"
#include "report.h"
#include "wire.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dapltest {

// One thread's part of a transaction test on one side: its endpoints and their transfers, in the
// same order as in the packaged dapltest. Not thread-safe, but it may be created in one thread and
// run in another.
//
// Per endpoint: the client connects with a greeting; both sides send a list of their memory, with
// one entry per operation (nonzero where the other side reads or writes); the server sends a Sync
// and receives one; the operations run in order, `iterations` times; at the end come Syncs as
// before. Each operation of a side completes before its next one starts. With -V the last three
// operations are sends that separate the iterations: the client compares and refills its memory
// after the first of them, the server after the second. The data of iteration i are bytes of value
// i + 1.
class Transaction {
 public:
  Transaction(const Options& options, bool server, bool peer_little_endian);

  // Creates everything that does not need the peer.
  [[nodiscard]] bool create();
  // Server: listens on one conn qual per endpoint. After kInUse it listens on none of them.
  [[nodiscard]] Endpoint::Listening listen(std::uint32_t first_port);
  void stop_listening();

  // Connects, runs and disconnects. Clients pass the first of the server's conn quals.
  [[nodiscard]] bool run(Address* server, std::uint32_t first_port, Progress* progress);

  [[nodiscard]] std::uint64_t memory_size() const { return memory_size_; }  // bytes per endpoint
  [[nodiscard]] const Histogram& iterations() const { return histogram_; }
  [[nodiscard]] Clock::duration span() const { return span_; }

 private:
  // An endpoint and the progress of its receives. Messages arrive in this order: memory list, Sync,
  // the peer's sends in each iteration, Sync.
  struct Lane {
    std::unique_ptr<Endpoint> endpoint;
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
    std::uint32_t deferred = 0;  // sends to be reaped with the next receive
    std::vector<wire::MemoryInfo> remote;
  };

  [[nodiscard]] bool is_own(const Operation& operation) const {
    return operation.by_server == server_;
  }
  [[nodiscard]] std::span<std::byte> data(Lane& lane, std::size_t operation);
  [[nodiscard]] std::uint64_t total_receives() const;
  [[nodiscard]] bool post_receive(Lane& lane, std::uint64_t index);
  [[nodiscard]] bool post_receives(Lane& lane, std::uint64_t end);
  [[nodiscard]] bool receive(Lane& lane);
  [[nodiscard]] bool open_lane(Lane& lane, Address* server, std::uint32_t port);
  [[nodiscard]] bool exchange_memory(Lane& lane);
  [[nodiscard]] bool synchronize();
  [[nodiscard]] bool iterate(std::uint32_t iteration);
  [[nodiscard]] bool initiate(std::size_t index);
  [[nodiscard]] bool await_peer(std::size_t index, std::uint32_t iteration);
  [[nodiscard]] bool compare(Lane& lane, std::uint32_t iteration);
  void refill(Lane& lane, std::uint32_t iteration);

  const Options options_;
  const bool server_;
  const bool peer_little_endian_;
  std::vector<std::size_t> receives_;  // indices of the peer's SR operations
  std::vector<std::size_t> offsets_;   // of the operations' data in the memory
  std::size_t lists_offset_ = 0;
  std::size_t sync_offset_ = 0;
  std::uint64_t memory_size_ = 0;
  Adapter adapter_;
  std::vector<Lane> lanes_;
  Histogram histogram_;
  Clock::duration span_{};
};

}  // namespace dapltest
