// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/tracing/trace_settings.h"

#include <cstdlib>

#include <unistd.h>

#include "common/tracing/trace.h"

namespace udapl::trace {

namespace {

// The message classes of the old variables and the equivalent levels. The bits mean different
// things in the registry and in a provider.
struct OldClass {
  unsigned long bits;
  int level;
};
constexpr OldClass kRegistryClasses[] = {{0x1, kError},    // errors
                                         {0xe, kNormal},   // generic, static and dynamic registry
                                         {0x30, kCalls}};  // provider and consumer API
constexpr OldClass kProviderClasses[] = {
    {0x1, kError},         // errors
    {0x2, kError + 1},     // warnings
    {0x3fda488, kNormal},  // connections, DTO errors, exceptions, all summaries
    {0x20320, kCalls},     // utilities, API calls and returns, extensions
    {0x5854, kDetail}};    // EVD, EP, upcalls, SRQ, counters, threads

// A number in C syntax; anything else counts as 0, as in OpenFabrics.
unsigned long old_number(const char* text) noexcept { return std::strtoul(text, nullptr, 0); }

template <std::size_t N>
int old_level(const OldClass (&classes)[N], unsigned long mask) noexcept {
  int level = 0;
  for (const OldClass& entry : classes)
    if ((mask & entry.bits) != 0 && entry.level > level) level = entry.level;
  return level;
}

class Reader {
 public:
  Reader(std::string_view prefix, Environment environment)
      : prefix_(prefix), environment_(environment) {}

  const char* value(const char* suffix) const { return environment_((prefix_ + suffix).c_str()); }
  bool is_provider() const { return prefix_ != "DAT"; }

  void read_level(Settings& settings) const {
    settings.level = kDefaultLevel;
    if (const char* const text = value("_TRACE_LEVEL"); text != nullptr) {
      char* end = nullptr;
      const unsigned long level = std::strtoul(text, &end, 0);  // C syntax, as every variable
      if (*text >= '0' && *text <= '9' && *end == '\0' && level <= kMax) {
        settings.level = static_cast<int>(level);
        return;
      }
      settings.complaints.push_back(prefix_ + "_TRACE_LEVEL=\"" + text +
                                    "\" is not a number from 0 to " + std::to_string(kMax) +
                                    ", using " + std::to_string(kDefaultLevel));
      return;
    }
    const char* const type = value("_DBG_TYPE");
    const char* const extra = value("_DBG_LEVEL");
    if (type == nullptr && extra == nullptr) return;
    // Without _DBG_TYPE, its old default applies, to which _DBG_LEVEL adds.
    const unsigned long mask = (type != nullptr ? old_number(type)
                                : is_provider() ? 0x3UL
                                                : 0x1UL) |
                               (extra != nullptr ? old_number(extra) : 0);
    settings.level =
        is_provider() ? old_level(kProviderClasses, mask) : old_level(kRegistryClasses, mask);
  }

  void read_sinks(Settings& settings) const {
    const char* text = value("_TRACE_SINK");
    if (text != nullptr) return parse_sinks(prefix_ + "_TRACE_SINK", text, settings);
    if (read_old_destination(settings)) return;
    if (!is_provider()) return;
    text = environment_("DAT_TRACE_SINK");
    if (text != nullptr) parse_sinks("DAT_TRACE_SINK", text, settings);
  }

 private:
  // Users of the old variables expect the output on stdout.
  bool read_old_destination(Settings& settings) const {
    const char* const destination = value("_DBG_DEST");
    const bool old_level_counts = value("_TRACE_LEVEL") == nullptr &&
                                  (value("_DBG_TYPE") != nullptr || value("_DBG_LEVEL") != nullptr);
    if (destination == nullptr && !old_level_counts) return false;
    constexpr unsigned long kOldStdout = 1;
    constexpr unsigned long kOldSyslog = 2;
    const unsigned long bits = destination == nullptr ? kOldStdout : old_number(destination);
    settings.sinks =
        ((bits & kOldStdout) != 0 ? kStdout : 0U) | ((bits & kOldSyslog) != 0 ? kSyslog : 0U);
    if (settings.sinks != 0) return true;
    settings.complaints.push_back(prefix_ + "_DBG_DEST=\"" + destination +
                                  "\" is not 1, 2 or 3, using stderr");
    settings.sinks = kStderr;
    return true;
  }

  static void parse_sinks(const std::string& variable, std::string_view list, Settings& settings) {
    unsigned sinks = 0;
    for (std::string_view rest = list; !rest.empty();) {
      const std::size_t comma = rest.find(',');
      const std::string_view word = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      constexpr std::string_view kFilePrefix = "file:";
      if (word == "stderr") {
        sinks |= kStderr;
      } else if (word == "stdout") {
        sinks |= kStdout;
      } else if (word == "syslog") {
        sinks |= kSyslog;
      } else if (word.starts_with(kFilePrefix) && word.size() > kFilePrefix.size()) {
        sinks |= kFile;
        settings.path = expand(word.substr(kFilePrefix.size()));
      } else {
        sinks = 0;
        break;
      }
    }
    if (sinks != 0) {
      settings.sinks = sinks;
      return;
    }
    settings.path.clear();
    settings.complaints.push_back(variable + "=\"" + std::string(list) +
                                  "\" is not stderr, stdout, syslog or file:PATH, using stderr");
  }

  static std::string expand(std::string_view pattern) {
    std::string path(pattern);
    for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at + 1))
      path.replace(at, 2, std::to_string(::getpid()));
    return path;
  }

  const std::string prefix_;
  const Environment environment_;
};

}  // namespace

Settings read_settings(std::string_view prefix, Environment environment) {
  const Reader reader(prefix, environment);
  Settings settings{};
  settings.sinks = kStderr;
  reader.read_level(settings);
  reader.read_sinks(settings);
  return settings;
}

}  // namespace udapl::trace
