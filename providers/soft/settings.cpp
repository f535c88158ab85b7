// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/settings.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "common/cause.h"

namespace udapl::soft {

namespace {

constexpr int kMaxSeconds = 86400;
constexpr int kMaxHalfOpen = 1024;  // they are searched one after the other

bool read_switch(std::string_view text, bool& to) noexcept {
  to = text == "on";
  return to || text == "off";
}

bool read_number(std::string_view text, int least, int most, int& to) noexcept {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, to);
  return error == std::errc{} && stop == end && to >= least && to <= most;
}

bool read_seconds(std::string_view text, std::chrono::milliseconds& to) noexcept {
  int seconds = 0;
  if (!read_number(text, 0, kMaxSeconds, seconds)) return false;
  to = std::chrono::seconds(seconds);
  return true;
}

struct Option {
  std::string_view name;
  const char* values;
  bool (*read)(std::string_view text, Settings& settings);
};

constexpr Option kOptions[] = {
    {"crc", "on or off", [](std::string_view t, Settings& s) { return read_switch(t, s.crc); }},
    {"fallback", "on or off",
     [](std::string_view t, Settings& s) { return read_switch(t, s.revision1_fallback); }},
    {"drain", "seconds, 0 to 86400",
     [](std::string_view t, Settings& s) { return read_seconds(t, s.drain_limit); }},
    {"half_open", "1 to 1024",
     [](std::string_view t, Settings& s) {
       return read_number(t, 1, kMaxHalfOpen, s.half_open_limit);
     }},
    {"half_open_per_host", "1 to 1024", [](std::string_view t, Settings& s) {
       return read_number(t, 1, kMaxHalfOpen, s.half_open_per_host);
     }}};

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string option_names() {
  std::string list;
  for (const Option& option : kOptions) {
    if (!list.empty()) list += ", ";
    list += option.name;
  }
  return list;
}

Status refuse(std::string_view word, const std::string& why) {
  UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_PARAMETER), "dat.conf: \"%s\": %s",
                std::string(word).c_str(), why.c_str());
  return failure(DAT_INVALID_PARAMETER);
}

}  // namespace

Result<Settings> read_settings(std::string_view ia_params) {
  const std::vector<std::string_view> words = words_of(ia_params);
  Settings settings;
  std::vector<std::string_view> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      if (i == 1) continue;  // the port
      return refuse(word, "behind device and port there are only settings, as in \"crc=off\"");
    }
    const std::string_view name = word.substr(0, equals);
    const auto* const option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                            [&](const Option& o) { return o.name == name; });
    if (option == std::end(kOptions))
      return refuse(word, "no such setting; there are: " + option_names());
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return refuse(word, "the setting comes twice");
    seen.push_back(name);
    if (!option->read(word.substr(equals + 1), settings))
      return refuse(word, std::string("wrong value; it can be ") + option->values);
  }
  return settings;
}

}  // namespace udapl::soft
