// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The server of dattx with a client whose greeting, commands and data come from the fuzzer.
// fake_dat.h describes the input and the assertions about the calls.
#include <cstdint>
#include <span>

#include "../../tools/dattx/server.h"
#include "fake_dat.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::begin(std::as_bytes(std::span(data, size)));
  static_cast<void>(dattx::serve(dattx::Settings{}, 1));
  return 0;
}
