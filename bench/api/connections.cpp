// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The cost of a connection: connect, accept, established on both sides, graceful disconnect, both
// EPs reset.
#include "loopback.h"

#include <benchmark/benchmark.h>

namespace {

void connect_cycle(benchmark::State& state) {
  bench::Loopback link(16);
  for (auto _ : state) {
    link.connect();
    link.disconnect();
    link.reset();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(connect_cycle)->Name("connection/cycle")->UseRealTime();

void create_endpoint(benchmark::State& state) {
  bench::Adapter adapter;
  for (auto _ : state) {
    bench::End end;
    end.create(adapter, 16);
    end.destroy();
  }
}
BENCHMARK(create_endpoint)->Name("endpoint/create_and_free");

}  // namespace
