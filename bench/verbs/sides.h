// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "loopback.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The command line "[--rounds=N] [--count=N] IA..." of the programs that measure several sides by
// turns: raw verbs and the adapters that are named. "+WORD" behind a name is for the program.
namespace bench {

struct Comparison {
  int rounds = 9;
  int count = 200;
  std::vector<std::string_view> names;  // of adapters, with "/threadsafe" for that kind of entry
};

// None, after a message, if the arguments are not valid.
[[nodiscard]] inline std::optional<Comparison> parse_comparison(int argc, char** argv,
                                                                const char* program) {
  using namespace std::literals;
  const auto number = [](std::string_view text, int* value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return error == std::errc() && end == text.data() + text.size() && *value > 0;
  };
  Comparison wanted;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument.starts_with("--rounds="sv))
      good = good && number(argument.substr("--rounds="sv.size()), &wanted.rounds);
    else if (argument.starts_with("--count="sv))
      good = good && number(argument.substr("--count="sv.size()), &wanted.count);
    else if (argument.starts_with('-'))
      good = false;
    else
      wanted.names.push_back(argument);
  }
  if (good && !wanted.names.empty()) return wanted;
  std::fprintf(stderr, "usage: %s [--rounds=N] [--count=N] IA[/threadsafe]...\n", program);
  return std::nullopt;
}

template <class Dat>
[[nodiscard]] std::unique_ptr<Dat> open_side(std::string_view name) {
  const std::string_view entry = name.substr(0, name.find('+'));
  const std::size_t slash = entry.find('/');
  set_ia_name(std::string(entry.substr(0, slash)));
  set_thread_safe(slash != std::string_view::npos);
  return std::make_unique<Dat>(std::string(name));
}

// Makes the sides and calls measure(side, round) for each in every round, which begins with another
// side than the one before. Side: the base of both; raw verbs use the address of the first adapter.
template <class Side, class Raw, class Dat, class Measure>
void compare(const Comparison& wanted, Measure&& measure) {
  auto first = open_side<Dat>(wanted.names.front());
  std::vector<std::unique_ptr<Side>> sides;
  sides.push_back(std::make_unique<Raw>(first->address()));
  sides.push_back(std::move(first));
  for (std::size_t i = 1; i < wanted.names.size(); ++i)
    sides.push_back(open_side<Dat>(wanted.names[i]));
  for (int round = 0; round < wanted.rounds; ++round)
    for (std::size_t i = 0; i < sides.size(); ++i)
      measure(*sides[(static_cast<std::size_t>(round) + i) % sides.size()], round);
}

}  // namespace bench
