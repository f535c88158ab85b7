// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "wire.h"

#include <algorithm>

namespace dapltest::wire {
namespace {

// Offsets in a transaction command. The words at 276 and 300 have always been observed as 0.
enum TransactionOffset : std::size_t {
  kServerName = 8,
  kIterations = 264,
  kThreads = 268,
  kEndpoints = 272,
  kReserved = 280,
  kDebug = 284,
  kValidate = 288,
  kPoll = 292,
  kPort = 296,
  kDevice = 304,
  kQos = 560,
  kOperationCount = 564,
  kOperations = 568,
  kOperationSize = 20
};

// Offsets in a performance command.
enum PerformanceOffset : std::size_t {
  kPerfServerName = 8,
  kPerfDevice = 264,
  kPerfQos = 520,
  kPerfDebug = 524,
  kPerfMode = 528,
  kPerfIterations = 532,
  kPerfPipeline = 536,
  kPerfTransfer = 540,
  kPerfSize = 544,
  kPerfSegments = 548,
  kPerfPort = 556
};

// Offsets in a quit command, which has no header.
enum QuitOffset : std::size_t { kQuitServerName = 0, kQuitDevice = 256, kQuitPort = 520 };

void clear(Control to) { std::fill(to.begin(), to.end(), std::byte{0}); }

Words with_head(Control to) {
  clear(to);
  Words words(to);
  words.set(0, kVersion);
  words.set(4, 1);
  return words;
}

}  // namespace

void encode(const Info& info, Control to) {
  Words words = with_head(to);
  words.set(8, info.third);
  words.set(12, info.endpoints);
}

Info decode_info(Control from) {
  // The sender stores "little-endian" as 1 or 0 in its own byte order, so the first byte is 1 only
  // if the sender is little-endian.
  const bool little = from[4] == std::byte{1};
  const Words words(from, little);
  return {words.get(0), little, words.get(8), words.get(12)};
}

void encode_transaction(const Options& options, Control to) {
  Words words = with_head(to);
  words.set_name(kServerName, options.server);
  words.set(kIterations, options.iterations);
  words.set(kThreads, options.threads);
  words.set(kEndpoints, options.endpoints);
  words.set(kReserved, options.reserved_point ? 1 : 0);
  words.set(kDebug, options.debug);
  words.set(kValidate, options.validate ? 1 : 0);
  words.set(kPoll, options.poll ? 1 : 0);
  words.set(kPort, options.port);
  words.set_name(kDevice, options.device);
  words.set(kQos, static_cast<std::uint32_t>(options.qos));
  words.set(kOperationCount, static_cast<std::uint32_t>(options.operations.size()));
  std::size_t at = kOperations;
  for (const Operation& operation : options.operations) {
    words.set(at, operation.by_server ? 1 : 0);
    words.set(at + 4, static_cast<std::uint32_t>(operation.transfer));
    words.set(at + 8, operation.segments);
    words.set(at + 12, operation.segment_size);
    words.set(at + 16, operation.reap_on_receive ? 1 : 0);
    at += kOperationSize;
  }
}

Options decode_transaction(Control from, bool little_endian) {
  const Words words(from, little_endian);
  Options options;
  options.test = Test::kTransaction;
  options.iterations = words.get(kIterations);
  options.threads = words.get(kThreads);
  options.endpoints = words.get(kEndpoints);
  options.reserved_point = words.get(kReserved) != 0;
  options.debug = words.get(kDebug);
  options.validate = words.get(kValidate) != 0;
  options.poll = words.get(kPoll) != 0;
  options.qos = static_cast<DAT_QOS>(words.get(kQos));
  const std::uint32_t count = words.get(kOperationCount);
  std::size_t at = kOperations;
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(count, kMaxOperations + 1); ++i) {
    Operation operation;
    operation.by_server = words.get(at) != 0;
    operation.transfer = static_cast<Transfer>(words.get(at + 4));
    operation.segments = words.get(at + 8);
    operation.segment_size = words.get(at + 12);
    operation.reap_on_receive = words.get(at + 16) != 0;
    options.operations.push_back(operation);
    at += kOperationSize;
  }
  return options;
}

void encode_performance(const Options& options, Control to) {
  const Operation& operation = options.operations.front();
  Words words = with_head(to);
  words.set_name(kPerfServerName, options.server);
  words.set_name(kPerfDevice, options.device);
  words.set(kPerfQos, static_cast<std::uint32_t>(options.qos));
  words.set(kPerfDebug, options.debug);
  words.set(kPerfMode, options.poll ? 1 : 0);
  words.set(kPerfIterations, options.iterations);
  words.set(kPerfPipeline, options.pipeline);
  words.set(kPerfTransfer, static_cast<std::uint32_t>(operation.transfer));
  words.set(kPerfSize, operation.segment_size);
  words.set(kPerfSegments, operation.segments);
  words.set(kPerfPort, options.port);
}

Options decode_performance(Control from, bool little_endian) {
  const Words words(from, little_endian);
  Options options;
  options.test = Test::kPerformance;
  options.qos = static_cast<DAT_QOS>(words.get(kPerfQos));
  options.debug = words.get(kPerfDebug);
  options.poll = words.get(kPerfMode) != 0;
  options.iterations = words.get(kPerfIterations);
  options.pipeline = words.get(kPerfPipeline);
  Operation operation;
  operation.transfer = static_cast<Transfer>(words.get(kPerfTransfer));
  operation.segment_size = words.get(kPerfSize);
  operation.segments = words.get(kPerfSegments);
  options.operations.push_back(operation);
  return options;
}

void encode_quit(const Options& options, Control to) {
  clear(to);
  Words words(to);
  words.set_name(kQuitServerName, options.server);
  words.set_name(kQuitDevice, options.device);
  words.set(kQuitPort, options.port);
}

void encode(const MemoryInfo& info, std::span<std::byte> to) {
  Words words(to);
  words.set(0, info.rmr_context);
  words.set64(4, info.address);
}

MemoryInfo decode_memory(std::span<std::byte> from, bool little_endian) {
  const Words words(from, little_endian);
  return {words.get(0), words.get64(4)};
}

}  // namespace dapltest::wire
