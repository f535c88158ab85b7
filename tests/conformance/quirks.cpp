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
  constexpr std::size_t kMaxSize = 1 << 20;  // a device may be endless
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxSize + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  // A folder can be opened, but not read.
  if (!in.is_open() || in.bad()) return file + ": " + std::strerror(errno != 0 ? errno : EIO);
  if (!in.eof()) return file + ": larger than 1 MiB";
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::istringstream lines(text);
  return read(lines, file);
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
