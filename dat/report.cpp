// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/report.h"

#include <algorithm>

#include "common/printable.h"
#include "common/tracing/trace.h"
#include "dat/advice.h"
#include "dat/strerror.h"
#include "dat/text.h"

namespace udapl::dat {

namespace {

constexpr std::size_t kLinesShown = 10;  // of the malformed lines

using Lines = std::vector<std::string>;

// `line` contains text from files and from the dynamic linker.
void add_line(std::string& text, std::string line) {
  make_printable(line.data(), line.size());
  text += "dat:   " + line + '\n';
}

std::string at_line(const ConfDiagnostic& diagnostic) {
  return "line " + std::to_string(diagnostic.line) + ": " + diagnostic.reason;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::string headline(const NotFound& failure) {
  return "cannot open " + in_quotes(failure.ia_name) + " (version " +
         std::to_string(failure.major) + '.' + std::to_string(failure.minor) +
         (failure.thread_safe ? ", threadsafe): " : ", nonthreadsafe): ") +
         error_text(failure.code);
}

// Lines of the file that name the IA but do not make an entry.
Lines unused_lines(const ConfFile& file, const NotFound& failure, bool malformed_too) {
  Lines lines;
  for (const ConfDiagnostic& diagnostic : file.conf.diagnostics)
    if (diagnostic.ia_name == failure.ia_name &&
        (diagnostic.issue == ConfIssue::kSkipped ||
         (malformed_too && diagnostic.issue == ConfIssue::kMalformed)))
      lines.push_back(at_line(diagnostic));
  return lines;
}

Lines quoted_near_names(const NotFound& failure) {
  Lines names;
  for (const std::string& name : near_names(failure.ia_name, failure.known_names))
    names.push_back(in_quotes(name));
  return names;
}

std::size_t count_malformed(const ConfFile& file) {
  std::size_t count = 0;
  for (const ConfDiagnostic& diagnostic : file.conf.diagnostics)
    if (diagnostic.issue == ConfIssue::kMalformed) ++count;
  return count;
}

// The files that were tried, and a summary of the one that was read.
Lines files(const ConfFile& file) {
  Lines lines;
  for (const ConfAttempt& attempt : file.attempts)
    if (!attempt.failure.empty()) lines.push_back(attempt.path + ": " + attempt.failure);
  if (file.path() == nullptr) {
    lines.emplace_back("no configuration file was read");
    return lines;
  }
  const std::size_t dropped = count_malformed(file);
  lines.push_back(*file.path() + ": entries read: " + std::to_string(file.conf.entries.size()) +
                  (dropped == 0 ? "" : ", malformed lines skipped: " + std::to_string(dropped)));
  return lines;
}

Lines malformed_lines(const ConfFile& file) {
  Lines lines;
  for (const ConfDiagnostic& diagnostic : file.conf.diagnostics) {
    if (diagnostic.issue != ConfIssue::kMalformed) continue;
    if (lines.size() == kLinesShown) {
      lines.push_back("and " + std::to_string(count_malformed(file) - kLinesShown) + " more");
      break;
    }
    lines.push_back(at_line(diagnostic));
  }
  return lines;
}

// Advice if no entry matched.
std::string advice_for_no_entry(const ConfFile& file, const NotFound& failure) {
  if (file.path() == nullptr && !file.attempts.empty())
    return advice_for_file(file.attempts.back().path, file.attempts.back().failure);
  if (!failure.alternatives.empty())
    return "an entry with u" + std::to_string(failure.major) + '.' + std::to_string(failure.minor) +
           " and " + (failure.thread_safe ? "threadsafe" : "nonthreadsafe") +
           ", or another version or thread safety in the call";
  if (!unused_lines(file, failure, true).empty()) return "to correct that line of the file";
  if (failure.known_names.empty())
    return "`datinfo generate`, which writes entries for this machine: the file has none";
  return "a name that the file has; `datinfo list` shows them";
}

}  // namespace

std::string Report::explain(const NotFound& failure) {
  ScopedLock lock(mutex_);
  std::string details;
  add_passed_over(failure.passed_over, details);
  if (failure.passed_over.empty()) {
    const std::string what = failure.ia_name + '\n' + std::to_string(failure.major) + '.' +
                             std::to_string(failure.minor) + (failure.thread_safe ? 't' : 'n');
    if (!is_new(what)) return {};
    if (!failure.alternatives.empty()) {
      add_line(details, "there is only " + joined(failure.alternatives));
    } else {
      for (const std::string& line : unused_lines(file_, failure, false)) add_line(details, line);
      const Lines meant = quoted_near_names(failure);
      if (!meant.empty()) add_line(details, "did you mean " + joined(meant) + '?');
    }
    add_configuration(details);
  }
  if (details.empty()) return {};
  return "dat: " + headline(failure) + '\n' + details;
}

std::string Report::explain(const std::string& ia_name,
                            const std::vector<PassedOver>& passed_over) {
  ScopedLock lock(mutex_);
  std::string details;
  add_passed_over(passed_over, details);
  if (details.empty()) return {};
  return "dat: entries for " + in_quotes(ia_name) + " that could not be used:\n" + details;
}

void Report::add_passed_over(const std::vector<PassedOver>& passed_over, std::string& text) {
  for (const PassedOver& candidate : passed_over)
    if (is_new(candidate.subject)) add_line(text, candidate.reason);
}

void Report::add_configuration(std::string& text) {
  for (const std::string& line : files(file_)) add_line(text, line);
  if (count_malformed(file_) == 0 || !is_new("\nmalformed lines")) return;
  for (const std::string& line : malformed_lines(file_)) add_line(text, line);
}

std::string cause_of(const ConfFile& file, const NotFound& failure) {
  std::string text = headline(failure);
  const auto add = [&text](std::string_view lines) {
    text += "\n  ";
    for (const char c : lines) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  };
  for (const PassedOver& candidate : failure.tried) {
    add(candidate.reason);
    if (!candidate.advice.empty()) add("try: " + candidate.advice);
  }
  const Lines unused = unused_lines(file, failure, true);
  for (const std::string& line : unused) add(line);
  if (!failure.tried.empty()) return text;
  if (!failure.alternatives.empty()) {
    add("there is only " + joined(failure.alternatives));
  } else if (const Lines meant = quoted_near_names(failure); !meant.empty()) {
    add("did you mean " + joined(meant) + '?');
  }
  for (const std::string& line : files(file)) add(line);
  for (const std::string& line : malformed_lines(file))
    if (std::find(unused.begin(), unused.end(), line) == unused.end()) add(line);
  if (const std::string advice = advice_for_no_entry(file, failure); !advice.empty())
    add("try: " + advice);
  return text;
}

void write_report(const std::string& text) noexcept {
  if (!text.empty() && trace::enabled(trace::kError)) trace::report("ia_open", "dat: ", text);
}

}  // namespace udapl::dat
