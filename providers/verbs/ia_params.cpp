// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/ia_params.h"

#include <cstdlib>

namespace udapl::verbs {

namespace {

constexpr std::string_view kBlanks = " \t";

// Takes the first word off `text`.
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
  char* end = nullptr;
  const long value = std::strtol(port.c_str(), &end, 0);
  if (end == port.c_str() || *end != '\0' || value < 0 || value > 255) return std::nullopt;
  params.port = static_cast<int>(value);
  return params;
}

}  // namespace udapl::verbs
