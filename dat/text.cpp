// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/text.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace udapl::dat {

namespace {

bool same_letter(char a, char b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return lower(a) == lower(b);
}

// Edit distance (Levenshtein) of two short strings; case does not count.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (same_letter(a[i], b[j]) ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string in_quotes(std::string_view text, std::size_t limit) {
  std::string out = "\"";
  for (const char c : text.substr(0, limit)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  if (text.size() > limit) out += "...";
  return out + '"';
}

std::vector<std::string> near_names(std::string_view wanted,
                                    const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  const std::size_t tolerance =
      std::max<std::size_t>(1, std::min<std::size_t>(3, wanted.size() / 3));
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& name : names) {
    std::size_t far = distance(wanted, name);
    // An abbreviation ("ib0" for "ofa-v2-ib0") is likely, but less so than a typing error.
    if (far > tolerance && wanted.size() >= 3 && name.find(wanted) != std::string::npos)
      far = tolerance;
    if (far <= tolerance) found.emplace_back(far, name);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (auto& [far, name] : found)
    if (result.size() < kShown && std::find(result.begin(), result.end(), name) == result.end())
      result.push_back(std::move(name));
  return result;
}

}  // namespace udapl::dat
