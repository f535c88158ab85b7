// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "check.h"
#include "../program.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "json.h"

namespace datinfo {

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
  // Places that were tried before the file was found.
  if (remark.kind == DAT_CONF_FILE) return file_was_read ? Severity::kRemark : Severity::kError;
  return remark.kind == DAT_CONF_ERROR ? Severity::kError : Severity::kRemark;
}

// Older libraries read a CR as part of the last field, which makes nine of eight.
std::uint32_t first_line_with_cr(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line;
  for (std::uint32_t number = 1; std::getline(in, line); ++number)
    if (!line.empty() && line.back() == '\r') return number;
  return 0;
}

class Checker {
 public:
  explicit Checker(const Conf& conf) : conf_(conf) {}

  std::vector<Finding> run() {
    for (const Remark& remark : conf_.remarks)
      findings_.push_back(
          {severity_of(remark, !conf_.file.empty()), remark.file, remark.line, remark.text});
    if (conf_.file.empty()) return findings_;
    if (const std::uint32_t line = first_line_with_cr(conf_.file); line != 0)
      say(Severity::kWarning, line,
          "ends with CR LF, as on Windows; older DAT libraries lose every such entry. try: sed -i "
          "'s/\\r$//'");
    for (auto entry = conf_.entries.begin(); entry != conf_.entries.end(); ++entry) {
      look_at(*entry);
      const auto earlier = std::find_if(conf_.entries.begin(), entry, [&](const Entry& other) {
        return same_key(other, *entry);
      });
      if (earlier == entry) continue;
      const bool same =
          earlier->library == entry->library && earlier->ia_params == entry->ia_params;
      say(same ? Severity::kWarning : Severity::kRemark, entry->line,
          fmt::format("{} is in line {} already: {}", quoted(entry->ia_name), earlier->line,
                      same ? "the same entry twice" : "tried if that one does not open"));
    }
    if (conf_.entries.empty())
      say(Severity::kError, 0, "no entry that could be used. try: datinfo generate");
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.line < b.line; });
    return findings_;
  }

 private:
  static std::string quoted(const std::string& text) { return '"' + printable(text) + '"'; }

  void look_at(const Entry& entry) {
    if (entry.ia_name.empty()) say(Severity::kWarning, entry.line, "the ia_name is empty");
    if (entry.ia_params.empty())
      say(Severity::kWarning, entry.line,
          "the ia_params are empty; providers want a device, as in \"eth0 0\"");
    if (entry.major != 2 || entry.minor != 0)
      say(Severity::kRemark, entry.line,
          fmt::format("version {}.{}: programs ask for 2.0 unless they say otherwise", entry.major,
                      entry.minor));
    if (entry.library.empty()) {
      say(Severity::kError, entry.line, "the lib_path is empty, so the entry cannot be opened");
    } else if (std::error_code error; entry.library.find('/') != std::string::npos &&
                                      !std::filesystem::is_regular_file(entry.library, error)) {
      say(Severity::kWarning, entry.line,
          "the library " + printable(entry.library) + " is not a file here");
    }
  }

  void say(Severity severity, std::uint32_t line, std::string text) {
    findings_.push_back({severity, conf_.file, line, std::move(text)});
  }

  const Conf& conf_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check(const Conf& conf) { return Checker(conf).run(); }

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
