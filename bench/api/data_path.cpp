// SPDX-License-Identifier: MIT OR GPL-2.0-only
// One thread drives both ends: the cost of a post, a completion and a byte, without any wake-up.
#include "loopback.h"

#include <benchmark/benchmark.h>

namespace {

constexpr int kWindow = 16;

void empty_dequeue(benchmark::State& state) {
  bench::Loopback link;
  DAT_EVENT event;
  for (auto _ : state) benchmark::DoNotOptimize(dat_evd_dequeue(link.active.request_evd, &event));
}
BENCHMARK(empty_dequeue)->Name("dequeue/empty");

void send_receive(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  bench::Loopback link;
  bench::Buffer source(link.adapter, size);
  bench::Buffer target(link.adapter, size);
  link.connect();
  for (auto _ : state) {
    for (int i = 0; i < kWindow; ++i) link.passive.post_recv(target, size);
    for (int i = 0; i < kWindow; ++i) link.active.post_send(source, size);
    for (int i = 0; i < kWindow; ++i) bench::poll_one(link.passive.recv_evd);
    for (int i = 0; i < kWindow; ++i) bench::poll_one(link.active.request_evd);
  }
  state.SetItemsProcessed(state.iterations() * kWindow);
  state.SetBytesProcessed(state.iterations() * kWindow * state.range(0));
  link.disconnect();
}
BENCHMARK(send_receive)
    ->Name("send/window16")
    ->RangeMultiplier(16)
    ->Range(8, 1 << 20)
    ->UseRealTime();

// The target does nothing: the RDMA Read behind each batch of Writes proves that they have arrived.
void rdma_write(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  bench::Loopback link;
  bench::Buffer source(link.adapter, size);
  bench::Buffer target(link.adapter, size);
  link.connect();
  DAT_RMR_TRIPLET remote = target.remote(size);
  DAT_LMR_TRIPLET local = source.local(size);
  for (auto _ : state) {
    for (int i = 0; i < kWindow; ++i)
      bench::check(dat_ep_post_rdma_write(link.active.ep, 1, &local, DAT_DTO_COOKIE{}, &remote,
                                          DAT_COMPLETION_DEFAULT_FLAG),
                   "dat_ep_post_rdma_write");
    DAT_RMR_TRIPLET probe = target.remote(1);
    DAT_LMR_TRIPLET sink = source.local(1);
    bench::check(dat_ep_post_rdma_read(link.active.ep, 1, &sink, DAT_DTO_COOKIE{}, &probe,
                                       DAT_COMPLETION_DEFAULT_FLAG),
                 "dat_ep_post_rdma_read");
    for (int i = 0; i < kWindow + 1; ++i) bench::poll_one(link.active.request_evd);
  }
  state.SetItemsProcessed(state.iterations() * kWindow);
  state.SetBytesProcessed(state.iterations() * kWindow * state.range(0));
  link.disconnect();
}
BENCHMARK(rdma_write)
    ->Name("rdma_write/window16")
    ->RangeMultiplier(16)
    ->Range(8, 1 << 20)
    ->UseRealTime();

void rdma_read(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  bench::Loopback link;
  bench::Buffer sink(link.adapter, size);
  bench::Buffer source(link.adapter, size);
  link.connect();
  DAT_RMR_TRIPLET remote = source.remote(size);
  DAT_LMR_TRIPLET local = sink.local(size);
  for (auto _ : state) {
    bench::check(dat_ep_post_rdma_read(link.active.ep, 1, &local, DAT_DTO_COOKIE{}, &remote,
                                       DAT_COMPLETION_DEFAULT_FLAG),
                 "dat_ep_post_rdma_read");
    bench::poll_one(link.active.request_evd);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
  link.disconnect();
}
BENCHMARK(rdma_read)->Name("rdma_read/one")->RangeMultiplier(16)->Range(8, 1 << 20)->UseRealTime();

}  // namespace
