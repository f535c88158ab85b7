// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_bench [--ia=NAME] [Google Benchmark options]: the API-level benchmark of any DAT provider.
#include "loopback.h"

#include <benchmark/benchmark.h>

#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  constexpr std::string_view kIaOption = "--ia=";
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument.substr(0, kIaOption.size()) == kIaOption)
      bench::set_ia_name(std::string(argument.substr(kIaOption.size())));
    else
      rest.push_back(argv[i]);
  }
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
