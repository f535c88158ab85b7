// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any words as the command line of dapltest, one per line: parsing must end, and its result must
// have been checked.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../../tools/dapltest/options.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> words;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    words.emplace_back(word);
  }
  if (words.size() == 2 && words[0] == "-f") return 0;  // would read a file
  const dapltest::Parsed parsed = dapltest::parse(words);
  if (parsed.exit_status < 0 && !dapltest::check_command(parsed.options).empty()) std::abort();
  return 0;
}
