// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any bytes as dat.conf: parsing must end without a crash, and the result must keep the promises of
// conf.h.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "dat/conf.h"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

// Checks that `items` are in file order, that their lines exist, and that there is at most one
// entry per line.
template <typename Items>
void require_order(const Items& items, std::size_t lines, bool unique) {
  std::size_t previous = 0;
  for (const auto& item : items) {
    require(item.line >= 1 && item.line <= lines);
    require(unique ? item.line > previous : item.line >= previous);
    previous = item.line;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const udapl::dat::Conf conf = udapl::dat::parse_conf(text);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  require_order(conf.entries, lines, true);
  require_order(conf.diagnostics, lines, false);
  for (const auto& entry : conf.entries) {
    require(entry.ia_name.size() <= 255);
  }
  for (const auto& diagnostic : conf.diagnostics) {
    require(!diagnostic.reason.empty() && diagnostic.reason.find('\n') == std::string::npos);
  }

  // A malformed line must not affect others: one more record must give one more entry.
  const udapl::dat::Conf more = udapl::dat::parse_conf(
      std::string(text) + "\nname u2.0 threadsafe default library.so id.1.2 params platform\n");
  require(more.entries.size() == conf.entries.size() + 1);
  require(more.entries.back().ia_name == "name");
  return 0;
}
