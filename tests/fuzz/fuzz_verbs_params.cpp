// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any text as the parameters of a dat.conf entry of the verbs provider.
#include "providers/verbs/ia_params.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = udapl::verbs::parse_ia_params({reinterpret_cast<const char*>(data), size});
  if (!read) return 0;
  const bool one_word = !read->name.empty() && read->name.find_first_of(" \t") == std::string::npos;
  if (!one_word || read->port < 0 || read->port > 255) std::abort();
  return 0;
}
