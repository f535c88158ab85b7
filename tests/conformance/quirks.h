// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace conformance {

// Tests that must not run on a provider, each with the reason: limits that no attribute reports.
// Read from a file with lines "TEST REASON...", where TEST is suite/test, suite/* or a name that
// ends in *. Empty lines and lines that begin with # are ignored.
class Quirks {
 public:
  // Reads a file. Returns why it cannot be used, or an empty string.
  std::string load(const std::string& file);
  // The same for a stream of lines, which is called `name` in error messages.
  std::string read(std::istream& lines, const std::string& name);
  // The reason not to run this test; empty if it may run.
  [[nodiscard]] std::string_view reason(std::string_view path) const;

 private:
  struct Line {
    std::string pattern;
    std::string reason;
  };
  std::vector<Line> lines_;
};

// Returns whether `path` matches `pattern`, which may end in *.
bool matches(std::string_view pattern, std::string_view path);

}  // namespace conformance
