// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "words.h"

#include "../program.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace dapltest {

std::optional<DAT_QOS> qos_of(const std::string& word) {
  struct Named {
    std::string_view name;
    DAT_QOS qos;
  };
  static constexpr Named kAll[] = {{"BE", DAT_QOS_BEST_EFFORT},
                                   {"HT", DAT_QOS_HIGH_THROUGHPUT},
                                   {"LL", DAT_QOS_LOW_LATENCY},
                                   {"EC", DAT_QOS_ECONOMY},
                                   {"PM", DAT_QOS_PREMIUM}};
  const auto* const found = std::ranges::find(kAll, word, &Named::name);
  if (found == std::end(kAll)) return std::nullopt;
  return found->qos;
}

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<std::uint32_t> number(const std::string& word) {
  std::uint32_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end || word.empty()) {
    return std::nullopt;
  }
  return value;
}

bool read_script(std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || arguments[0] != "-f") {
    return true;
  }
  const std::string name = arguments[1];
  errno = 0;
  std::ifstream file(name);
  arguments.clear();
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      if (word != "dapltest" || !arguments.empty()) {
        arguments.push_back(word);
      }
    }
  }
  // A folder can be opened, but not read.
  if (file.eof() && !file.bad()) {
    return true;
  }
  tools::print(stderr, "dapltest: cannot read '{}': {}\n", name,
               std::strerror(errno != 0 ? errno : EIO));
  return false;
}

}  // namespace dapltest
