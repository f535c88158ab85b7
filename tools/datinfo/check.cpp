// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "check.h"
#include "../program.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "../json.h"
#include "machine.h"

namespace datinfo {

using tools::Json;
using tools::printable;

namespace {

const char* name(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kRemark:
      break;
  }
  return "remark";
}

Severity severity_of(const Remark& remark, bool file_was_read) {
  // Files that were tried before the one that was read.
  if (remark.kind == DAT_CONF_FILE) return file_was_read ? Severity::kRemark : Severity::kError;
  return remark.kind == DAT_CONF_ERROR ? Severity::kError : Severity::kRemark;
}

// The first line that ends with CR LF, and the first that contains another CR; 0: none. Older
// libraries take the CR before LF for a ninth field and drop the entry; a CR alone ends no line.
struct CarriageReturns {
  std::uint32_t before_lf = 0;
  std::uint32_t alone = 0;
};
CarriageReturns carriage_returns(const std::string& path) {
  CarriageReturns found;
  std::ifstream in(path, std::ios::binary);
  std::string line;
  for (std::uint32_t number = 1; std::getline(in, line); ++number) {
    if (!in.eof() && line.ends_with('\r')) {
      if (found.before_lf == 0) found.before_lf = number;
      line.pop_back();
    }
    if (found.alone == 0 && line.find('\r') != std::string::npos) found.alone = number;
  }
  return found;
}

// Whether the file begins with the byte order mark of UTF-8.
bool has_byte_order_mark(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char start[3] = {};
  return in.read(start, sizeof start) && std::string_view(start, sizeof start) == "\xEF\xBB\xBF";
}

// The settings that our providers accept after "<device> <port>", and their values. Programs know
// only the public API; the test check_agrees_with_list compares this with the provider's parser.
struct Setting {
  const char* name;
  const char* values;  // words separated by bars; null: a number within the limits
  int least = 0;
  int most = 0;
};
struct Settings {
  const char* library;
  bool strict;  // refuses unknown and repeated settings and other words
  std::vector<Setting> known;
};
const std::vector<Settings>& all_settings() {
  static const std::vector<Settings> settings = {
      {"libdaplsoft.so",
       true,
       {{"crc", "on|off"},
        {"direct", "on|off"},
        {"fallback", "on|off"},
        {"delayed_ack", "on|off|writes"},
        {"drain", nullptr, 0, 86400},
        {"half_open", nullptr, 1, 1024},
        {"no_receive", "wait|break"},
        {"path", "tcp|auto|shm"},
        {"peer_timeout", nullptr, 0, 86400},
        {"staging", nullptr, 1, 1048576}}},
      {"libdaplofa.so", false, {{"delayed_ack", "on|off|writes"}}}};
  return settings;
}

bool is_number(const std::string& text, int least, int most) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end && value >= least && value <= most;
}

// Returns what is wrong with the word "name=value", or an empty string.
std::string wrong_setting(const Settings& settings, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos)
    return settings.strict ? word + ": only settings may follow device and port, as in crc=off"
                           : std::string();
  const std::string wanted = word.substr(0, equals);
  const std::string value = word.substr(equals + 1);
  const auto found = std::find_if(settings.known.begin(), settings.known.end(),
                                  [&](const Setting& setting) { return setting.name == wanted; });
  if (found == settings.known.end())
    return settings.strict ? "no such setting: " + word : std::string();
  const bool good = found->values == nullptr
                        ? is_number(value, found->least, found->most)
                        : value.find('|') == std::string::npos &&
                              ('|' + std::string(found->values) + '|').find('|' + value + '|') !=
                                  std::string::npos;
  if (good) return {};
  return word + ": " +
         (found->values == nullptr
              ? fmt::format("must be a number from {} to {}", found->least, found->most)
              : std::string("must be one of ") + found->values);
}

class Checker {
 public:
  Checker(const Conf& conf, const std::filesystem::path& sysfs)
      : conf_(conf), ports_(rdma_ports(sysfs)) {}

  std::vector<Finding> run() {
    for (const Remark& remark : conf_.remarks)
      findings_.push_back(
          {severity_of(remark, !conf_.file.empty()), remark.file, remark.line, remark.text});
    if (conf_.file.empty()) return findings_;
    check_bytes();
    for (auto entry = conf_.entries.begin(); entry != conf_.entries.end(); ++entry) {
      check_entry(*entry);
      const auto earlier = std::find_if(conf_.entries.begin(), entry, [&](const Entry& other) {
        return same_key(other, *entry);
      });
      if (earlier == entry) continue;
      const bool same =
          earlier->library == entry->library && earlier->ia_params == entry->ia_params;
      add_finding(
          same ? Severity::kWarning : Severity::kRemark, entry->line,
          fmt::format("{} is in line {} already: {}", in_quotes(entry->ia_name), earlier->line,
                      same ? "the same entry twice" : "tried if that one does not open"));
    }
    if (conf_.entries.empty())
      add_finding(Severity::kError, 0, "no usable entry. try: datinfo generate");
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.line < b.line; });
    return findings_;
  }

 private:
  void check_bytes() {
    if (has_byte_order_mark(conf_.file))
      add_finding(Severity::kWarning, 1,
                  "begins with a byte order mark, which becomes part of the first word. try: sed "
                  "-i '1s/^\\xEF\\xBB\\xBF//'");
    const CarriageReturns found = carriage_returns(conf_.file);
    if (found.before_lf != 0)
      add_finding(
          Severity::kWarning, found.before_lf,
          "ends with CR LF, as on Windows; older DAT libraries lose every such entry. try: sed -i "
          "'s/\\r$//'");
    if (found.alone != 0)
      add_finding(Severity::kWarning, found.alone,
                  "contains a CR without LF, which does not end the line. try: tr '\\r' '\\n'");
  }

  static std::string in_quotes(const std::string& text) { return '"' + printable(text) + '"'; }

  void check_entry(const Entry& entry) {
    if (entry.ia_name.empty()) add_finding(Severity::kWarning, entry.line, "the ia_name is empty");
    if (entry.ia_params.empty())
      add_finding(is_ours(entry) ? Severity::kError : Severity::kWarning, entry.line,
                  "the ia_params are empty; providers want a device, as in \"eth0 0\"");
    check_settings(entry);
    if (entry.major != 2 || entry.minor != 0)
      add_finding(Severity::kRemark, entry.line,
                  fmt::format("version {}.{}: programs ask for 2.0 unless they say otherwise",
                              entry.major, entry.minor));
    if (entry.library.empty()) {
      add_finding(Severity::kError, entry.line,
                  "the lib_path is empty, so the entry cannot be opened");
    } else if (const std::string wrong = wrong_library(entry.library); !wrong.empty()) {
      add_finding(Severity::kWarning, entry.line,
                  "the library " + printable(entry.library) + ' ' + wrong);
    }
    check_device(entry);
  }

  static bool is_soft(const Entry& entry) {
    return entry.library.find("libdaplsoft.so") != std::string::npos;
  }

  static bool is_ours(const Entry& entry) {
    return is_soft(entry) || entry.library.find("libdaplofa.so") != std::string::npos;
  }

  // Checks our own providers only: which devices others accept is unknown here.
  void check_device(const Entry& entry) {
    const bool soft = is_soft(entry);
    if (!is_ours(entry)) return;
    const std::string device = entry.ia_params.substr(0, entry.ia_params.find_first_of(" \t"));
    if (device.empty() || is_of_this_machine(device)) return;
    if (!soft && (device.find(':') != std::string::npos ||  // a GID
                  std::any_of(ports_.begin(), ports_.end(),
                              [&](const RdmaPort& port) { return port.device == device; })))
      return;
    add_finding(Severity::kWarning, entry.line,
                in_quotes(device) +
                    (soft ? " is not a network interface or address of this machine"
                          : " is not a network interface, address or RDMA device of this machine"));
  }

  void check_settings(const Entry& entry) {
    for (const Settings& settings : all_settings()) {
      if (entry.library.find(settings.library) == std::string::npos) continue;
      std::istringstream words(entry.ia_params);
      std::set<std::string> seen;
      std::string word;
      words >> word;  // the device
      for (bool first = true; words >> word; first = false) {
        const std::size_t equals = word.find('=');
        if (first && equals == std::string::npos) continue;  // the port
        std::string wrong = wrong_setting(settings, word);
        if (wrong.empty() && settings.strict && !seen.insert(word.substr(0, equals)).second)
          wrong = word + ": the setting is given twice";
        if (!wrong.empty())
          add_finding(Severity::kError, entry.line, "ia_params: " + printable(wrong));
      }
    }
  }

  void add_finding(Severity severity, std::uint32_t line, std::string text) {
    findings_.push_back({severity, conf_.file, line, std::move(text)});
  }

  // Checks each library once, as a file usually names the same library many times.
  const std::string& wrong_library(const std::string& library) {
    const auto [place, is_new] = libraries_.try_emplace(library);
    if (is_new) place->second = library_obstacle(library);
    return place->second;
  }

  const Conf& conf_;
  const std::vector<RdmaPort> ports_;
  std::map<std::string, std::string> libraries_;  // library -> what is wrong with it
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check(const Conf& conf, const std::filesystem::path& sysfs) {
  return Checker(conf, sysfs).run();
}

int print_check(const Conf& conf, const std::vector<Finding>& findings, bool json) {
  const auto errors = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::kError;
  });
  if (json) {
    Json out;
    out.open('{').key("file").text(conf.file).key("entries").number(conf.entries.size());
    out.key("errors").number(static_cast<std::size_t>(errors)).key("findings").open('[');
    for (const Finding& finding : findings) {
      out.open('{').key("severity").text(name(finding.severity)).key("file").text(finding.file);
      out.key("line").number(finding.line).key("text").text(finding.text).close('}');
    }
    out.close(']').close('}');
    tools::print("{}\n", out.result());
    return errors == 0 ? 0 : 1;
  }
  for (const Finding& finding : findings)
    tools::print(
        "{}: {}: {}\n",
        finding.line == 0 ? finding.file : fmt::format("{}:{}", finding.file, finding.line),
        name(finding.severity), finding.text);
  if (!conf.file.empty())
    tools::print("{}: entries: {}, errors: {}\n", conf.file, conf.entries.size(), errors);
  return errors == 0 ? 0 : 1;
}

}  // namespace datinfo
