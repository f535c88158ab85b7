// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "endpoint.h"
#include "options.h"
#include "report.h"

#include <cstdint>
#include <memory>

namespace dapltest {

// The result of a performance test.
struct Measurement {
  std::uint32_t pipeline = 0;
  Clock::duration span{};
  double cpu_share = 0;  // processor time / elapsed time
  Histogram latency;     // from the post of an operation to its completion
  Histogram posts;       // of the post calls
  Histogram reaps;       // of the waits for a completion
};

// One side of a performance test. The server sends the address of its memory; the client reads or
// writes that memory and sends one message at the end. Not thread-safe, but it may be created in
// one thread and run in another.
class Performance {
 public:
  Performance(const Options& options, bool server, bool peer_little_endian);

  [[nodiscard]] bool create();
  [[nodiscard]] Endpoint::Listening listen(std::uint32_t port);
  // Server: accepts the connection and waits for the end of the test.
  [[nodiscard]] bool serve();
  // Client: connects and measures.
  [[nodiscard]] bool measure(Address& server, std::uint32_t port, Progress& progress,
                             Measurement& result);
  [[nodiscard]] std::uint64_t memory_size() const { return memory_size_; }

 private:
  [[nodiscard]] bool transfer(std::uint64_t count, Progress* progress, Measurement& result);
  [[nodiscard]] bool post(Measurement& result, Clock::time_point& posted);

  const Options options_;
  const bool server_;
  const bool peer_little_endian_;
  const std::uint64_t data_size_;
  const std::uint64_t memory_size_;
  std::uint32_t pipeline_ = 1;
  std::uint32_t rmr_context_ = 0;
  std::uint64_t address_ = 0;
  Adapter adapter_;
  Endpoint endpoint_;
};

}  // namespace dapltest
