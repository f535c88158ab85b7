// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "quirks.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace conformance {

bool matches(std::string_view pattern, std::string_view path) {
  if (!pattern.empty() && pattern.back() == '*') {
    pattern.remove_suffix(1);
    return path.substr(0, pattern.size()) == pattern;
  }
  return pattern == path;
}

std::string Quirks::load(const std::string& file) {
  std::ifstream in(file);
  if (!in) return file + ": " + std::strerror(errno);
  return read(in, file);
}

std::string Quirks::read(std::istream& lines, const std::string& name) {
  std::string text;
  for (int number = 1; std::getline(lines, text); ++number) {
    std::istringstream words(text);
    Line line;
    if (!(words >> line.pattern) || line.pattern.front() == '#') continue;
    std::getline(words >> std::ws, line.reason);
    if (line.reason.empty())
      return name + ":" + std::to_string(number) + ": no reason is given for " + line.pattern;
    lines_.push_back(std::move(line));
  }
  return {};
}

std::string_view Quirks::reason(std::string_view path) const {
  for (const Line& line : lines_)
    if (matches(line.pattern, path)) return line.reason;
  return {};
}

}  // namespace conformance
