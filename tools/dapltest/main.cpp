// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// dapltest - a rewrite of the field's test program for DAT adapters, with the same command line and
// the same protocol between client and server.
#include "../program.h"
#include "control.h"
#include "options.h"
#include "report.h"

#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace dapltest;

bool run(const Options& options, Json& json) {
  switch (options.test) {
    case Test::kServer:
      return run_server(options, json);
    case Test::kLimit:
      return run_limits(options, json);
    case Test::kFeature:
      return run_features(options, json);
    case Test::kTransaction:
    case Test::kPerformance:
    case Test::kQuit:
      break;
  }
  return run_client(options, json);
}

}  // namespace

int main(int argc, char** argv) {
  const Parsed parsed = parse(std::vector<std::string>(argv + 1, argv + argc));
  if (parsed.exit_status >= 0) {
    return tools::ended("dapltest", parsed.exit_status);
  }
  const Options& options = parsed.options;
  set_human(!options.json);
  Json json;
  json.add("program", "dapltest");
  json.add("test", name(options.test));
  json.add("device", options.device.empty() ? first_adapter() : options.device);
  const bool good = run(options, json);
  const std::string reason = first_failure();
  if (options.json) {
    json.add("verdict", good ? "PASSED" : "FAILED");
    if (!good) {
      json.add("reason", reason);
    }
    tools::print("{}\n", json.text());
  } else if (good) {
    say(fmt::format("dapltest: PASSED: {}", name(options.test)));
  } else {
    // The full reason went to stderr when the failure happened; repeat its first line only.
    say(fmt::format("dapltest: FAILED: {}: {}", name(options.test),
                    reason.substr(0, reason.find('\n'))));
  }
  return tools::ended("dapltest", good ? 0 : 1);
}
