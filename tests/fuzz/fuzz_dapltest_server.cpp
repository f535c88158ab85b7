// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The server of dapltest, with one client and one thread: reads the client's command, checks it,
// and runs its side of the test. fake_dat.h describes the input and the assertions about the calls.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "../../tools/dapltest/control.h"
#include "../../tools/dapltest/performance.h"
#include "../../tools/dapltest/transaction.h"
#include "fake_dat.h"

using namespace dapltest;

namespace {

constexpr std::uint64_t kMaxMemory = 1U << 20;  // so that an input takes milliseconds
constexpr std::uint32_t kMaxIterations = 1000;

void serve(const Adapter& adapter) {
  Control control;
  wire::Info info;
  Options command;
  if (!control.create(adapter, 1) || !control.accept(&command, info, command)) return;
  if (command.test == Test::kQuit) return static_cast<void>(control.answer(1));
  if (!check_command(command).empty()) return;
  command.iterations = std::min(command.iterations, kMaxIterations);
  command.timeout_s = 1;
  if (command.test == Test::kPerformance) {
    Performance test(command, true, info.little_endian);
    if (test.memory_size() > kMaxMemory || !test.create() || !control.answer(1)) return;
    if (test.listen(1) == Endpoint::Listening::kDone) static_cast<void>(test.serve());
    return;
  }
  command.endpoints = 1;  // there is one peer
  command.poll = false;   // events are there immediately or never
  Transaction test(command, true, info.little_endian);
  if (test.memory_size() > kMaxMemory || !test.create() || !control.answer(1)) return;
  if (test.listen(1) == Endpoint::Listening::kDone)
    static_cast<void>(test.run(nullptr, 0, nullptr));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::begin(std::as_bytes(std::span(data, size)));
  Adapter adapter;
  if (!adapter.open("fake")) std::abort();
  serve(adapter);
  return 0;
}
