// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "feature_case.h"

#include <algorithm>
#include <string>

namespace dapltest {
namespace {

bool run_case(const Options& options, const Feature& feature, std::uint32_t number) {
  const std::string rule(69, '*');
  say(rule);
  say(fmt::format("Function feature: {:<40} case: {}", feature.feature, number));
  say(fmt::format("Description: {}", feature.description));
  Case c(options);
  feature.run(c);
  say(fmt::format("Result: {}", c.good() ? "PASS" : "FAIL"));
  say(rule);
  return c.good();
}

}  // namespace

bool run_features(const Options& options, Json& json) {
  std::uint32_t number = 0;
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  for (const auto features : {object_features(), query_features()}) {
    for (const Feature& feature : features) {
      if (options.feature != feature.feature) {
        continue;
      }
      const std::uint32_t current = number++;
      if (options.cases.empty() ||
          std::find(options.cases.begin(), options.cases.end(), current) != options.cases.end()) {
        ++(run_case(options, feature, current) ? passed : failed);
      }
    }
  }
  json.add("feature", options.feature);
  json.add("passed", passed);
  json.add("failed", failed);
  if (passed + failed == 0) {
    return fail(fmt::format("{} has the cases 0 to {} only", options.feature, number - 1));
  }
  return failed == 0;
}

}  // namespace dapltest
