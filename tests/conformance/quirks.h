// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace conformance {

// Tests of a provider that are not to run, each with the reason: limits that no attribute tells.
// A file of lines "TEST REASON...", TEST being suite/test, suite/* or a name with a * at its end;
// empty lines and lines that begin with # mean nothing.
class Quirks {
 public:
  // Why the file cannot be used; empty if it can.
  std::string load(const std::string& file);
  // The same of the lines themselves, which `name` tells in a complaint.
  std::string read(std::istream& lines, const std::string& name);
  // The reason not to run this test; empty if it runs.
  [[nodiscard]] std::string_view reason(std::string_view path) const;

 private:
  struct Line {
    std::string pattern;
    std::string reason;
  };
  std::vector<Line> lines_;
};

// Whether `path` is `pattern`, which may end in *.
bool matches(std::string_view pattern, std::string_view path);

}  // namespace conformance
