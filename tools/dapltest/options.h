// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The command line: that of the field's dapltest, plus --json, --timeout, --quiet and --help.
#pragma once

#include <dat/udat.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace dapltest {

inline constexpr std::uint32_t kMaxOperations = 100;
inline constexpr std::uint32_t kWholePipeline = UINT32_MAX;  // -p was not given

enum class Test : std::uint8_t { kServer, kTransaction, kPerformance, kLimit, kFeature, kQuit };

// The values are part of the wire format.
enum class Transfer : std::uint32_t { kRead = 0, kWrite = 1, kSend = 2 };

struct Operation {
  bool by_server = false;
  Transfer transfer = Transfer::kSend;
  std::uint32_t segment_size = 4096;
  std::uint32_t segments = 1;
  bool reap_on_receive = false;

  [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{segment_size} * segments; }
};

struct Options {
  Test test = Test::kServer;
  std::string device;  // empty: the first adapter of dat.conf
  std::string server;
  std::uint32_t port = 62000;
  std::uint32_t iterations = 1000;
  std::uint32_t threads = 1;
  std::uint32_t endpoints = 1;  // per thread
  std::uint32_t width = 1;      // limit test: sets of objects
  std::uint32_t maximum = 1000;
  std::uint32_t pipeline = kWholePipeline;
  std::uint32_t debug = 0;
  DAT_QOS qos = DAT_QOS_BEST_EFFORT;
  bool validate = false;
  bool poll = false;
  bool cno = false;
  bool reserved_point = false;
  std::vector<Operation> operations;  // including those added by -V
  std::vector<std::string> limits;    // empty: all
  std::string feature;
  std::vector<std::uint32_t> cases;  // empty: all

  bool json = false;
  bool quiet = false;
  std::uint32_t timeout_s = 60;  // for each wait of a client

  // Set by the server once the session's client has gone, which ends the waits for its connections.
  const std::atomic<bool>* client_gone = nullptr;
};

// The options. If `exit_status` >= 0, the program must exit with it; the reason or the help has
// been printed already.
struct Parsed {
  Options options;
  int exit_status = -1;
};
[[nodiscard]] Parsed parse(std::vector<std::string> arguments);

// Returns what is wrong with the command, or an empty string. Also checks commands from clients.
[[nodiscard]] std::string check_command(const Options& options);

[[nodiscard]] const std::vector<std::string>& limit_names();
[[nodiscard]] const std::vector<std::string>& feature_names();
[[nodiscard]] const char* name(Transfer transfer);
[[nodiscard]] const char* name(Test test);

}  // namespace dapltest
