// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any text as the parameters of a dat.conf entry: the result must be within the limits of
// settings.h.
#include "providers/soft/settings.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto read = udapl::soft::read_settings({reinterpret_cast<const char*>(data), size});
  if (!read.ok()) return 0;
  const auto within = [](auto value, auto least, auto most) {
    if (value < least || value > most) std::abort();
  };
  using std::chrono::seconds;
  within(read->drain_limit, seconds(0), seconds(86400));
  within(read->peer_timeout, seconds(0), seconds(86400));
  within(read->half_open_limit, 1, udapl::soft::Settings::kMaxHalfOpen);
  within(read->staging_mb, 1, 1 << 20);
  return 0;
}
