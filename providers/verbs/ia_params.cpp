// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/ia_params.h"

#include "providers/connecting/words.h"

#include <cstdlib>
#include <span>
#include <vector>

namespace udapl::verbs {

std::optional<IaParams> parse_ia_params(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.empty()) return std::nullopt;
  IaParams params;
  params.name = words[0];
  if (words.size() == 1) return params;
  const std::string port(words[1]);
  constexpr std::string_view kDelayedAck = "delayed_ack=";
  for (const std::string_view word : std::span(words).subspan(2)) {
    if (!word.starts_with(kDelayedAck)) continue;
    const std::string_view value = word.substr(kDelayedAck.size());
    if (value != "on" && value != "off" && value != "writes") return std::nullopt;
    params.delayed_ack = value == "on";
  }
  char* end = nullptr;
  const long value = std::strtol(port.c_str(), &end, 0);
  if (end == port.c_str() || *end != '\0' || value < 0 || value > 255) return std::nullopt;
  params.port = static_cast<int>(value);
  return params;
}

}  // namespace udapl::verbs
