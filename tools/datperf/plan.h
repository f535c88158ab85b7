// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The cases to measure, and their results. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace datperf {

enum class Measure : std::uint8_t { kLatency, kBandwidth, kConnections };
enum class Operation : std::uint8_t { kSend, kWrite, kRead, kFetchAdd };
enum class Waiting : std::uint8_t { kPoll, kBlock };

// Names, indexed by the enumerators; options accept them as well.
inline constexpr std::array<const char*, 3> kMeasures{"latency", "bandwidth", "connections"};
inline constexpr std::array<const char*, 4> kOperations{"send", "write", "read", "fetch-add"};
inline constexpr std::array<const char*, 2> kWaitings{"poll", "block"};

inline const char* name_of(Measure measure) { return kMeasures[static_cast<std::size_t>(measure)]; }
inline const char* name_of(Waiting waiting) { return kWaitings[static_cast<std::size_t>(waiting)]; }
inline const char* name_of(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}

inline constexpr std::uint32_t kMaxSize = 64U << 20;
inline constexpr std::uint32_t kMaxWindow = 1024;
inline constexpr std::uint32_t kMaxEndpoints = 256;
inline constexpr std::uint32_t kMaxThreads = 64;
inline constexpr std::uint32_t kAtomicSize = 8;

/** One measurement. For connections, only waiting, endpoints and threads have a meaning. */
struct Case {
  Measure measure = Measure::kLatency;
  Operation operation = Operation::kSend;
  Waiting waiting = Waiting::kPoll;
  std::uint32_t size = 1;
  std::uint32_t window = 1;     // transfers in flight on each endpoint
  std::uint32_t endpoints = 1;  // per thread
  std::uint32_t threads = 1;

  [[nodiscard]] const char* operation_name() const {
    return measure == Measure::kConnections ? "connect" : name_of(operation);
  }
  bool operator==(const Case&) const = default;
};

/** The length of a measurement: rounds of `seconds` or, if `count` is not 0, of that many
 *  operations in each thread. */
struct Effort {
  std::uint32_t rounds = 10;
  double seconds = 0.05;
  std::uint64_t count = 0;
  double warm_up = 0.05;
};

struct Plan {
  std::vector<std::string> ias{"soft"};
  std::vector<std::string> hosts;
  std::uint16_t port = 45260;
  std::uint32_t timeout_s = 20;
  bool sockets = false;  // measure TCP sockets, too
  std::vector<Case> cases;
  Effort effort;
};

/** Order statistics of measured values. */
struct Distribution {
  double minimum = 0;
  double median = 0;
  double p99 = 0;
  double maximum = 0;
};

/** The interval that contains the median with the probability `level`. */
struct Interval {
  double low = 0;
  double high = 0;
  double level = 0;
};

/** The result of a case in one column. Latency and connections: microseconds per operation;
 *  bandwidth: 10^6 bytes per second, one value per round. */
struct Row {
  std::string column;  // the IA, or "sockets"
  Case what;
  std::uint64_t operations = 0;
  Distribution value;
  Interval interval;           // of the median, computed from the medians of the rounds
  double per_second = 0;       // operations per second, median of the rounds
  std::vector<double> rounds;  // the median of each round
};

/** All results, and where, when and how they were measured. */
struct Report {
  std::vector<std::string> columns;
  std::vector<Row> rows;
  Effort effort;
  std::string command;
  std::string date;
  std::string host;
  std::string kernel;
  std::string processor;
};

}  // namespace datperf
