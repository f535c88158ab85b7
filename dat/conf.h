// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace udapl::dat {

// Parses the text of dat.conf: no files, no environment, no state. Reentrant.
//
// A record is one line of eight fields separated by blanks or tabs:
//   ia_name api_version threadsafety default lib_path provider_version ia_params platform_params
// A field is a bare word or a quoted string in which a backslash makes the next character literal.
// '#' where a field could begin starts a comment. Lines end with LF or CRLF.
// Deviations from OpenFabrics' parser are listed in docs/compatibility.md#registry-and-loading.

// One usable line: a user-level ("u") provider marked "default".
struct ConfEntry {
  std::size_t line = 0;  // 1 is the first
  std::string ia_name;   // at most 255 bytes; may be empty
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool thread_safe = false;
  std::string library_path;      // for dlopen, as written
  std::string provider_version;  // id.major.minor, not used for anything
  std::string ia_params;         // passed to the provider
  std::string platform_params;   // not used for anything
};

enum class ConfIssue {
  kMalformed,  // the line was dropped because it is invalid
  kSkipped,    // a valid "k" or "nondefault" entry, which a user-level registry skips
  kTolerated,  // the line was used although it is not quite correct
};

// A message about a line.
struct ConfDiagnostic {
  std::size_t line = 0;
  ConfIssue issue = ConfIssue::kMalformed;
  std::string ia_name;  // empty if parsing failed before it
  std::string reason;   // for the user, no newline
};

struct Conf {
  std::vector<ConfEntry> entries;           // in file order, duplicates included
  std::vector<ConfDiagnostic> diagnostics;  // in file order
};

// Never fails: an invalid line becomes a diagnostic, and parsing continues with the next line.
[[nodiscard]] Conf parse_conf(std::string_view text);

}  // namespace udapl::dat
