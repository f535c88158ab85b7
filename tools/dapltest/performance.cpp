// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "performance.h"

#include "wire.h"

#include <sys/resource.h>

#include <algorithm>
#include <vector>

namespace dapltest {
namespace {

constexpr std::uint32_t kDefaultPipeline = 256;
constexpr std::uint64_t kWarmUp = 100;

std::uint64_t aligned(std::uint64_t size) { return (size + 63) / 64 * 64; }

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return double(time.tv_sec) + double(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Performance::Performance(const Options& options, bool server, bool peer_little_endian)
    : options_(options),
      server_(server),
      peer_little_endian_(peer_little_endian),
      data_size_(options.operations.front().bytes()),
      memory_size_(aligned(data_size_) + 64) {}

bool Performance::create() {
  if (!adapter_.open(options_.device)) {
    return false;
  }
  const auto most =
      static_cast<std::uint32_t>(std::max(1, adapter_.attributes().max_dto_per_ep - 1));
  pipeline_ = options_.pipeline == kWholePipeline ? kDefaultPipeline : options_.pipeline;
  pipeline_ = std::clamp(pipeline_, 1U, std::min(most, options_.iterations));
  EndpointPlan plan;
  plan.requests = (server_ ? 1 : pipeline_) + 1;
  plan.receives = 1;
  plan.segments = server_ ? 1 : options_.operations.front().segments;
  plan.largest = std::max<std::uint64_t>(data_size_, wire::kMemorySize);
  plan.qos = options_.qos;
  plan.poll = options_.poll && !server_;  // the server has nothing to do
  plan.timeout_s = options_.timeout_s;
  plan.peer_gone = options_.client_gone;
  return endpoint_.create(adapter_, plan, memory_size_) &&
         endpoint_.post_receive(endpoint_.memory().span(aligned(data_size_), wire::kMemorySize));
}

Endpoint::Listening Performance::listen(std::uint32_t port) {
  return endpoint_.listen(port, options_.reserved_point);
}

bool Performance::serve() {
  Memory& memory = endpoint_.memory();
  const auto message = memory.span(aligned(data_size_) + 32, wire::kMemorySize);
  wire::encode(
      {memory.rmr_context(), reinterpret_cast<std::uintptr_t>(memory.span(0, data_size_).data())},
      message);
  if (!endpoint_.accept()) {
    return false;
  }
  endpoint_.set_timeout(0);  // a client sends nothing while it measures
  const bool done = endpoint_.post_send(message) && endpoint_.reap_request() &&
                    endpoint_.reap_receive(wire::kMemorySize, "the end of the measurement");
  if (done) {
    endpoint_.await_disconnect();
  }
  return done;
}

bool Performance::measure(Address& server, std::uint32_t port, Progress& progress,
                          Measurement& result) {
  Memory& memory = endpoint_.memory();
  const auto message = memory.span(aligned(data_size_), wire::kMemorySize);
  if (!endpoint_.connect(server, port, {}, true) ||
      !endpoint_.reap_receive(wire::kMemorySize, "the place of the server's memory")) {
    return false;
  }
  const wire::MemoryInfo target = wire::decode_memory(message, peer_little_endian_);
  rmr_context_ = target.rmr_context;
  address_ = target.address;
  result.pipeline = pipeline_;
  Measurement warm_up;
  if (!transfer(std::min<std::uint64_t>(options_.iterations, kWarmUp), nullptr, warm_up)) {
    return false;
  }
  const double processor = processor_seconds();
  const Clock::time_point start = Clock::now();
  if (!transfer(options_.iterations, &progress, result)) {
    return false;
  }
  result.span = Clock::now() - start;
  const double elapsed = std::chrono::duration<double>(result.span).count();
  result.cpu_share = elapsed > 0 ? (processor_seconds() - processor) / elapsed : 0;
  std::fill(message.begin(), message.end(), std::byte{0});
  if (!endpoint_.post_send(message) || !endpoint_.reap_request()) {
    return false;
  }
  endpoint_.disconnect();
  return true;
}

bool Performance::transfer(std::uint64_t count, Progress* progress, Measurement& result) {
  std::vector<Clock::time_point> posted(pipeline_);
  std::uint64_t begun = 0;
  for (std::uint64_t done = 0; done < count; ++done) {
    for (; begun < count && begun - done < pipeline_; ++begun) {
      if (!post(result, posted[begun % pipeline_])) {
        return false;
      }
    }
    const Clock::time_point before = Clock::now();
    if (!endpoint_.reap_request()) {
      return false;
    }
    const Clock::time_point now = Clock::now();
    result.reaps.record(now - before);
    result.latency.record(now - posted[done % pipeline_]);
    if (progress != nullptr) {
      progress->advance();
    }
  }
  return true;
}

bool Performance::post(Measurement& result, Clock::time_point& posted) {
  const Operation& operation = options_.operations.front();
  posted = Clock::now();
  if (!endpoint_.post_rdma(operation.transfer, endpoint_.memory().span(0, data_size_),
                           operation.segments, rmr_context_, address_)) {
    return false;
  }
  result.posts.record(Clock::now() - posted);
  return true;
}

}  // namespace dapltest
