// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any text as a file for datconform --quirks: every test that does not run must have a reason.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "../conformance/quirks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  conformance::Quirks quirks;
  const std::string complaint = quirks.read(lines, "file");
  if (!complaint.empty() && !complaint.starts_with("file:")) std::abort();
  for (const char* const path : {"memory/lmr_create", "ia/ia_open", ""}) {
    const std::string_view reason = quirks.reason(path);
    if (reason.data() != nullptr && reason.empty()) std::abort();
  }
  return 0;
}
