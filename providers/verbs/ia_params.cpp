// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/ia_params.h"

#include <cstdlib>

namespace udapl::verbs {

namespace {

constexpr std::string_view kBlanks = " \t";

// Removes the first word from `text` and returns it.
std::string next_word(std::string_view& text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  std::string word(text.substr(0, text.find_first_of(kBlanks)));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace

std::optional<IaParams> parse_ia_params(std::string_view text) {
  IaParams params;
  params.name = next_word(text);
  if (params.name.empty()) return std::nullopt;
  const std::string port = next_word(text);
  if (port.empty()) return params;
  constexpr std::string_view kDelayedAck = "delayed_ack=";
  for (std::string word = next_word(text); !word.empty(); word = next_word(text)) {
    if (word.compare(0, kDelayedAck.size(), kDelayedAck) != 0) continue;
    const std::string_view value = std::string_view(word).substr(kDelayedAck.size());
    if (value != "on" && value != "off") return std::nullopt;
    params.delayed_ack = value == "on";
  }
  char* end = nullptr;
  const long value = std::strtol(port.c_str(), &end, 0);
  if (end == port.c_str() || *end != '\0' || value < 0 || value > 255) return std::nullopt;
  params.port = static_cast<int>(value);
  return params;
}

}  // namespace udapl::verbs
