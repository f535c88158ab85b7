// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Runs seeds of the simulator. A seed that violates an invariant is printed with the command that
// runs it again; the exit status is then 1.
#include "common/trace.h"
#include "tests/sim/run.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

using namespace udapl::sim;

constexpr char kUsage[] =
    "usage: sim [--first N] [--seeds N] [--seed N [--verbose]] [--same N] [--saboteur]\n"
    "  --seeds N     runs N seeds (1000), from --first (1)\n"
    "  --seed N      runs one; --verbose says what happens in it\n"
    "  --same N      runs N seeds twice and compares what the application saw\n"
    "  --saboteur    one byte of the data is changed: the simulator has to notice\n";

struct Plan {
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  bool twice = false;
  Options options;
};

bool parse(int argc, char** argv, Plan& plan) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--verbose") {
      plan.options.verbose = true;
      continue;
    }
    if (word == "--saboteur") {
      plan.options.saboteur = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string_view text = argv[++i];
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return false;
    if (word == "--first") {
      plan.first = value;
    } else if (word == "--seeds") {
      plan.count = value;
    } else if (word == "--seed") {
      plan.first = value;
      plan.count = 1;
    } else if (word == "--same") {
      plan.count = value;
      plan.twice = true;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (!parse(argc, argv, plan)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  udapl::trace::set_level(plan.options.verbose ? 7 : 0);
  Outcome all;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = plan.first; seed < plan.first + plan.count; ++seed) {
    Outcome outcome = run(seed, plan.options);
    if (plan.twice && outcome.violation.empty() && run(seed, plan.options).digest != outcome.digest)
      outcome.violation = "another run of the same seed went another way";
    all.completions += outcome.completions;
    all.broken += outcome.broken;
    if (outcome.violation.empty()) continue;
    ++failed;
    std::printf("sim: seed %llu failed: %s\nagain: %s --seed %llu --verbose%s\n",
                static_cast<unsigned long long>(seed), outcome.violation.c_str(), argv[0],
                static_cast<unsigned long long>(seed), plan.options.saboteur ? " --saboteur" : "");
    if (failed == 10) break;
  }
  std::printf("sim: %llu seeds from %llu, %llu failed; %llu completions, %llu connections broken\n",
              static_cast<unsigned long long>(plan.count),
              static_cast<unsigned long long>(plan.first), static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(all.completions),
              static_cast<unsigned long long>(all.broken));
  return failed == 0 ? 0 : 1;
}
