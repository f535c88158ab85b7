// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/settings.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/connecting/words.h"

namespace udapl::soft {

namespace {

constexpr int kMaxSeconds = 86400;
constexpr int kMaxMegabytes = 1 << 20;

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

bool read_path(std::string_view text, Settings::Path& to) noexcept {
  for (const Settings::Path path :
       {Settings::Path::kTcp, Settings::Path::kAuto, Settings::Path::kShm}) {
    to = path;
    if (text == name(path)) return true;
  }
  return false;
}

bool read_delayed_ack(std::string_view text, Settings::DelayedAck& to) noexcept {
  using DelayedAck = Settings::DelayedAck;
  for (const DelayedAck which : {DelayedAck::kOff, DelayedAck::kWrites, DelayedAck::kOn}) {
    to = which;
    if (text == name(which)) return true;
  }
  return false;
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
    {"delayed_ack", "on, off or writes",
     [](std::string_view t, Settings& s) { return read_delayed_ack(t, s.delayed_ack); }},
    {"drain", "seconds, 0 to 86400",
     [](std::string_view t, Settings& s) { return read_seconds(t, s.drain_limit); }},
    {"no_receive", "wait or break",
     [](std::string_view t, Settings& s) {
       s.no_receive_breaks = t == "break";
       return s.no_receive_breaks || t == "wait";
     }},
    {"half_open", "1 to 1024",
     [](std::string_view t, Settings& s) {
       return read_number(t, 1, Settings::kMaxHalfOpen, s.half_open_limit);
     }},
    {"peer_timeout", "seconds, 0 to 86400",
     [](std::string_view t, Settings& s) { return read_seconds(t, s.peer_timeout); }},
    {"staging", "megabytes, 1 to 1048576",
     [](std::string_view t, Settings& s) {
       return read_number(t, 1, kMaxMegabytes, s.staging_mb);
     }},
    {"direct", "on or off",
     [](std::string_view t, Settings& s) { return read_switch(t, s.direct); }},
    {"path", "tcp, auto or shm",
     [](std::string_view t, Settings& s) { return read_path(t, s.path); }}};

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

constexpr int kInfiniteRetries = 7;  // this value of DAPL_RNR_RETRY
constexpr int kDefaultPause = 12;

// The pauses of InfiniBand's RNR timer codes (volume 1, table 45), in units of 10 us.
constexpr int kPauses[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                             48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                             2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

int number_of(const Lookup& lookup, const char* name, int least, int most, int otherwise) {
  const char* const text = lookup(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 0);
  if (errno == 0 && end != text && *end == '\0' && value >= least && value <= most)
    return static_cast<int>(value);
  UDAPL_TRACE(kError, "%s: \"%s\" is not a number from %d to %d and is ignored", name, text, least,
              most);
  return otherwise;
}

}  // namespace

const char* name(Settings::Path path) noexcept {
  switch (path) {
    case Settings::Path::kTcp:
      return "tcp";
    case Settings::Path::kShm:
      return "shm";
    case Settings::Path::kAuto:
      break;
  }
  return "auto";
}

const char* name(Settings::DelayedAck which) noexcept {
  switch (which) {
    case Settings::DelayedAck::kOff:
      return "off";
    case Settings::DelayedAck::kWrites:
      return "writes";
    case Settings::DelayedAck::kOn:
      break;
  }
  return "on";
}

std::optional<std::chrono::microseconds> no_receive_limit(const Settings& settings,
                                                          const Lookup& lookup) {
  if (settings.no_receive_breaks) return std::chrono::microseconds(0);
  const int retries = number_of(lookup, "DAPL_RNR_RETRY", 0, kInfiniteRetries, kInfiniteRetries);
  const int pause = number_of(lookup, "DAPL_RNR_TIMER", 0, 31, kDefaultPause);
  if (retries == kInfiniteRetries) return std::nullopt;
  return std::chrono::microseconds(10) * (retries * kPauses[pause]);
}

std::chrono::milliseconds first_message_limit(const Lookup& lookup) {
  return std::chrono::milliseconds(number_of(lookup, "DAPL_CM_RTU_TIMEOUT_MS", 1,
                                             std::numeric_limits<int>::max(),
                                             static_cast<int>(kFirstMessageLimit.count())));
}

Result<Settings> read_settings(std::string_view ia_params) {
  const std::vector<std::string_view> words = words_of(ia_params);
  Settings settings;
  std::vector<std::string_view> seen;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      if (i == 1) continue;  // the port
      return refuse(word, "only settings may follow device and port, as in \"crc=off\"");
    }
    const std::string_view name = word.substr(0, equals);
    const auto* const option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                            [&](const Option& o) { return o.name == name; });
    if (option == std::end(kOptions))
      return refuse(word, "no such setting; the settings are: " + option_names());
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return refuse(word, "the setting is given twice");
    seen.push_back(name);
    if (!option->read(word.substr(equals + 1), settings))
      return refuse(word, std::string("invalid value; allowed: ") + option->values);
  }
  return settings;
}

}  // namespace udapl::soft
