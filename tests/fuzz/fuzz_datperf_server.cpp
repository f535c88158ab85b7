// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The server of datperf with up to eight connections of clients whose private data and messages
// come from the fuzzer. fake_dat.h describes the input and the assertions about the calls.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "../../tools/datperf/server.h"
#include "../../tools/datperf/wire.h"
#include "fake_dat.h"

namespace {

constexpr std::size_t kMaxPeers = 8;
constexpr datperf::Limits kLimits{1U << 20, 4, 4};  // so that an input takes milliseconds

// If the bytes can be decoded, the result must be within the limits and survive another round of
// encoding and decoding.
void check_hello(std::span<const std::byte> bytes) {
  const auto hello = datperf::hello_of(bytes);
  if (!hello) return;
  const datperf::Case& what = hello->what;
  if (what.size > datperf::kMaxSize || what.window > datperf::kMaxWindow ||
      what.endpoints > datperf::kMaxEndpoints || what.size == 0 || what.window == 0 ||
      what.endpoints == 0)
    std::abort();
  const auto again = datperf::hello_of(datperf::encode(*hello));
  if (!again || again->role != hello->role || !(again->what == what) ||
      again->group != hello->group || again->address != hello->address ||
      again->context != hello->context)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  if (size > 2) check_hello(input.subspan(2));
  fuzz::begin(input, kMaxPeers);
  static_cast<void>(datperf::serve(
      datperf::Plan{}, 0, [] {}, kLimits));
  return 0;
}
