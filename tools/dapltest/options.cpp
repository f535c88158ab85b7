// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a command may request, whether it comes from the command line or from a client.
#include "options.h"

#include <fmt/core.h>

namespace dapltest {
namespace {

bool paired(const std::vector<Operation>& operations) {
  bool client_open = false;
  for (const Operation& operation : operations) {
    if (!operation.reap_on_receive) {
      continue;
    }
    if (operation.by_server != client_open) {
      return false;
    }
    client_open = !client_open;
  }
  return !client_open;
}

}  // namespace

std::string check_command(const Options& options) {
  if (options.test != Test::kTransaction && options.test != Test::kPerformance) {
    return {};
  }
  if (options.operations.empty()) {
    return "no operation is given";
  }
  if (options.operations.size() > kMaxOperations) {
    return fmt::format("more than {} operations", kMaxOperations);
  }
  if (options.iterations == 0 || options.threads == 0 || options.threads > 64 ||
      options.endpoints == 0 || options.endpoints > 1000) {
    return "iterations, threads or endpoints out of range";
  }
  bool sends[2] = {false, false};
  for (const Operation& operation : options.operations) {
    if (operation.transfer > Transfer::kSend) {
      return "an operation is SR, RR or RW";
    }
    if (operation.bytes() == 0 || operation.bytes() > (1U << 30) || operation.segments > 1024) {
      return fmt::format("{} {} {}: an operation has 1 byte to 1 GiB in at most 1024 segments",
                         name(operation.transfer), operation.segment_size, operation.segments);
    }
    if (operation.transfer == Transfer::kSend) {
      sends[operation.by_server ? 1 : 0] = true;
    }
  }
  if (options.test == Test::kPerformance) {
    return sends[0] ? "the performance test supports only RR and RW" : "";
  }
  if (!sends[0] || !sends[1]) {
    return "at least one SR of the client and one of the server are needed";
  }
  return paired(options.operations)
             ? ""
             : "-f comes in pairs: an SR of the client, then one of the server";
}

const std::vector<std::string>& limit_names() {
  static const std::vector<std::string> names{
      "limit_ia",  "limit_pz",  "limit_cno", "limit_evd",   "limit_ep",
      "limit_rsp", "limit_psp", "limit_lmr", "limit_rpost", "limit_size_lmr"};
  return names;
}

const std::vector<std::string>& feature_names() {
  static const std::vector<std::string> names{"hwconn", "endpoint", "pz",
                                              "mem",    "connmgt",  "queryinfo"};
  return names;
}

const char* name(Transfer transfer) {
  static constexpr const char* kNames[] = {"RR", "RW", "SR"};
  return transfer <= Transfer::kSend ? kNames[static_cast<std::uint32_t>(transfer)] : "?";
}

const char* name(Test test) {
  static constexpr const char* kNames[] = {"server", "transaction", "performance",
                                           "limit",  "feature",     "quit"};
  return kNames[static_cast<std::uint8_t>(test)];
}

}  // namespace dapltest
