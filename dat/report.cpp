// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/report.h"

#include <cerrno>

#include <unistd.h>

#include "common/trace.h"
#include "dat/strerror.h"
#include "dat/text.h"

namespace udapl::dat {

namespace {

constexpr std::size_t kLinesShown = 10;  // of a file that is wrong from top to bottom

void add_line(std::string& text, const std::string& line) {
  text += "dat:   ";
  for (const char c : line) text += c == '\n' ? ' ' : c;
  text += '\n';
}

std::string at_line(const ConfDiagnostic& diagnostic) {
  return "line " + std::to_string(diagnostic.line) + ": " + diagnostic.reason;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
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
    add_name_hints(failure, details);
    add_configuration(details);
  }
  if (details.empty()) return {};
  return "dat: cannot open " + quoted(failure.ia_name) + " (version " +
         std::to_string(failure.major) + '.' + std::to_string(failure.minor) +
         (failure.thread_safe ? ", threadsafe): " : ", nonthreadsafe): ") +
         error_text(failure.code) + '\n' + details;
}

std::string Report::explain(const std::string& ia_name,
                            const std::vector<PassedOver>& passed_over) {
  ScopedLock lock(mutex_);
  std::string details;
  add_passed_over(passed_over, details);
  if (details.empty()) return {};
  return "dat: entries for " + quoted(ia_name) + " that could not be used:\n" + details;
}

void Report::add_passed_over(const std::vector<PassedOver>& passed_over, std::string& text) {
  for (const PassedOver& candidate : passed_over)
    if (is_new(candidate.subject)) add_line(text, candidate.reason);
}

void Report::add_name_hints(const NotFound& failure, std::string& text) {
  if (!failure.alternatives.empty()) {
    add_line(text, "there is only " + joined(failure.alternatives));
    return;
  }
  for (const ConfDiagnostic& diagnostic : file_.conf.diagnostics)
    if (diagnostic.ia_name == failure.ia_name && diagnostic.issue == ConfIssue::kNotForUs)
      add_line(text, at_line(diagnostic));
  std::vector<std::string> meant;
  for (const std::string& name : near_names(failure.ia_name, failure.known_names))
    meant.push_back(quoted(name));
  if (!meant.empty()) add_line(text, "did you mean " + joined(meant) + '?');
}

void Report::add_configuration(std::string& text) {
  for (const ConfAttempt& attempt : file_.attempts)
    if (!attempt.failure.empty()) add_line(text, attempt.path + ": " + attempt.failure);
  if (file_.path() == nullptr) {
    add_line(text, "no configuration file was read");
    return;
  }
  std::size_t dropped = 0;
  for (const ConfDiagnostic& diagnostic : file_.conf.diagnostics)
    if (diagnostic.issue == ConfIssue::kMalformed) ++dropped;
  std::string summary =
      *file_.path() + ": entries read: " + std::to_string(file_.conf.entries.size());
  if (dropped != 0) summary += ", malformed lines skipped: " + std::to_string(dropped);
  add_line(text, summary);
  if (dropped == 0 || !is_new("\nmalformed lines")) return;
  std::size_t shown = 0;
  for (const ConfDiagnostic& diagnostic : file_.conf.diagnostics) {
    if (diagnostic.issue != ConfIssue::kMalformed) continue;
    if (shown++ == kLinesShown) {
      add_line(text, "and " + std::to_string(dropped - kLinesShown) + " more");
      break;
    }
    add_line(text, at_line(diagnostic));
  }
}

void tell(const std::string& text) noexcept {
  if (text.empty() || !trace::enabled(trace::kError)) return;
  const int saved_errno = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  errno = saved_errno;
}

}  // namespace udapl::dat
