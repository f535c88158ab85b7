// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Runs seeds of the simulator. A run that violates an invariant is printed with the command that
// repeats it; the exit status is then 1.
#include "common/tracing/trace.h"
#include "tests/sim/run.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

namespace {

using namespace udapl::sim;

constexpr char kUsage[] =
    "usage: sim [--first N] [--seeds N] [--sweep] [--same N] [--file NAME] [--setting TEXT]\n"
    "           [--seed N [--strike FAULT,BYTE,SIDE] [--verbose]] [--saboteur]\n"
    "  --seeds N     runs N seeds (1000), from --first (1)\n"
    "  --seed N      runs one; --verbose says what happens in it\n"
    "  --strike ...  with this fault: 1 reset, 2 silence, 3 a changed bit, 4 and 5 deaf; what the\n"
    "                client (c) or the server (s) sends is hit at that byte\n"
    "  --sweep       short runs of each seed with every fault at every byte of either direction: "
    "at\n"
    "                each of the first 400, then at every 37th\n"
    "  --file NAME   runs the seeds in a file, one a line; # starts a comment\n"
    "  --same N      runs N seeds twice and compares what the application saw\n"
    "  --setting T   for the adapters, as in dat.conf: drain=0\n"
    "  --saboteur    one byte of the data is changed: the simulator has to notice\n";

constexpr std::uint64_t kEveryByte = 400;
constexpr std::uint64_t kStride = 37;
constexpr std::uint64_t kMaxFailures = 10;

struct Plan {
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  bool twice = false;
  bool sweep = false;
  std::string file;
  Options options;
};

bool number(std::string_view text, std::uint64_t& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_strike(std::string_view text, Options& options) {
  const std::size_t comma = text.find(',');
  const std::size_t last = text.rfind(',');
  if (comma == std::string_view::npos || last == comma) return false;
  std::uint64_t fault = 0;
  std::uint64_t at = 0;
  const std::string_view side = text.substr(last + 1);
  if (!number(text.substr(0, comma), fault) || fault == 0 || fault >= Weather::kFaults ||
      !number(text.substr(comma + 1, last - comma - 1), at) || (side != "c" && side != "s"))
    return false;
  options.strike = {static_cast<Weather::Fault>(fault), at, side == "c"};
  options.small = true;
  return true;
}

bool parse_word(std::string_view word, std::string_view value, Plan& plan) {
  if (word == "--first") return number(value, plan.first);
  if (word == "--seeds") return number(value, plan.count);
  if (word == "--strike") return parse_strike(value, plan.options);
  if (word == "--file") {
    plan.file = value;
    return true;
  }
  if (word == "--setting") {
    plan.options.settings = value;
    return true;
  }
  if (word == "--same") {
    plan.twice = true;
    return number(value, plan.count);
  }
  plan.count = 1;
  return word == "--seed" && number(value, plan.first);
}

bool parse(int argc, char** argv, Plan& plan) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--verbose") {
      plan.options.verbose = true;
    } else if (word == "--sweep") {
      plan.sweep = true;
    } else if (word == "--saboteur") {
      plan.options.saboteur = true;
    } else if (i + 1 == argc || !parse_word(word, argv[++i], plan)) {
      return false;
    }
  }
  return true;
}

class Session {
 public:
  Session(const char* program, const Plan& plan) : program_(program), plan_(plan) {}

  // Makes one run and counts it; if it fails, prints how to repeat it.
  Outcome one(std::uint64_t seed, const Options& options) {
    Outcome outcome = run(seed, options);
    if (plan_.twice && outcome.violation.empty() && run(seed, options).digest != outcome.digest)
      outcome.violation = "another run of the same seed went another way";
    ++runs_;
    completions_ += outcome.completions;
    broken_ += outcome.broken;
    if (outcome.violation.empty()) return outcome;
    ++failed_;
    std::printf("sim: seed %llu failed: %s\nagain: %s --seed %llu%s%s%s --verbose\n",
                static_cast<unsigned long long>(seed), outcome.violation.c_str(), program_,
                static_cast<unsigned long long>(seed), strike_of(options).c_str(),
                options.settings.empty() ? "" : (" --setting " + options.settings).c_str(),
                options.saboteur ? " --saboteur" : "");
    return outcome;
  }

  // Strikes at one byte after the other, until the connection is too short to have it.
  void sweep(std::uint64_t seed) {
    Options options = plan_.options;
    options.small = true;
    for (std::uint64_t fault = 1; fault < Weather::kFaults; ++fault) {
      for (const bool from_client : {true, false}) {
        for (std::uint64_t at = 0;; at += at < kEveryByte ? 1 : kStride) {
          options.strike = {static_cast<Weather::Fault>(fault), at, from_client};
          if (!one(seed, options).fault_injected || enough()) break;
        }
      }
    }
  }

  bool seeds_of(const std::string& name) {
    std::ifstream in(name);
    std::string line;
    while (std::getline(in, line)) {
      line.erase(std::min(line.find('#'), line.size()));
      line.erase(line.find_last_not_of(" \t") + 1);
      if (line.empty()) continue;
      std::uint64_t seed = 0;
      if (!number(line, seed)) return false;
      one(seed, plan_.options);
    }
    return in.eof() && runs_ != 0;
  }

  [[nodiscard]] bool enough() const { return failed_ >= kMaxFailures; }

  int end() const {
    std::printf("sim: %llu runs, %llu failed; %llu completions, %llu connections broken\n",
                static_cast<unsigned long long>(runs_), static_cast<unsigned long long>(failed_),
                static_cast<unsigned long long>(completions_),
                static_cast<unsigned long long>(broken_));
    return failed_ == 0 ? 0 : 1;
  }

 private:
  static std::string strike_of(const Options& options) {
    if (!options.strike) return {};
    return " --strike " + std::to_string(static_cast<int>(options.strike->fault)) + "," +
           std::to_string(options.strike->at) + (options.strike->from_client ? ",c" : ",s");
  }

  const char* const program_;
  const Plan& plan_;
  std::uint64_t runs_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t completions_ = 0;
  std::uint64_t broken_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (!parse(argc, argv, plan)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  udapl::trace::set_level(plan.options.verbose ? 7 : 0);
  Session session(argv[0], plan);
  if (!plan.file.empty()) {
    if (!session.seeds_of(plan.file)) {
      std::fprintf(stderr, "sim: %s: cannot be read, or holds something but seeds\n",
                   plan.file.c_str());
      return 2;
    }
  }
  for (std::uint64_t i = 0; plan.file.empty() && i < plan.count && !session.enough(); ++i) {
    if (plan.sweep)
      session.sweep(plan.first + i);
    else
      session.one(plan.first + i, plan.options);
  }
  return session.end();
}
