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

// One thread's part of a transaction test on one side: its endpoints and what they do, in the
// order in which the packaged dapltest does it. Not thread-safe; made in one thread, it may run in
// another.
//
// Per endpoint: the client connects with a greeting; both send the list of their memory, one entry
// per operation (not 0 where the other side reads or writes); the server sends a Sync and gets one;
// then the operations in their order, `iterations` times; at the end Syncs as before. Operations of
// one side are complete before its next one begins. With -V the last three operations are sends
// that separate the iterations: after the first of them the client compares and refills its
// memory, after the second the server. The data of iteration i are bytes of i + 1.
class Transaction {
 public:
  Transaction(const Options& options, bool server, bool peer_little_endian);

  // Everything that can be made without the peer.
  [[nodiscard]] bool create();
  // Server: listens on as many conn quals as there are endpoints. None are kept after kInUse.
  [[nodiscard]] Endpoint::Listening listen(std::uint32_t first_port);
  void stop_listening();

  // Connects, runs and disconnects. A client says where the server's conn quals begin.
  [[nodiscard]] bool run(Address* server, std::uint32_t first_port, Progress* progress);

  [[nodiscard]] std::uint64_t memory_size() const { return memory_size_; }  // bytes per endpoint
  [[nodiscard]] const Histogram& iterations() const { return histogram_; }
  [[nodiscard]] Clock::duration span() const { return span_; }

 private:
  // An endpoint and how far its receives are. Messages arrive in the order: memory list, Sync,
  // the peer's sends once per iteration, Sync.
  struct Lane {
    std::unique_ptr<Endpoint> endpoint;
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
    std::uint32_t deferred = 0;  // sends to be reaped with the next receive
    std::vector<wire::MemoryInfo> remote;
  };

  [[nodiscard]] bool is_mine(const Operation& operation) const {
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
  std::vector<std::size_t> receives_;  // the peer's SR operations
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
