// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Ping-pong of messages between two threads that poll or that sleep in dat_evd_wait. The time is
// that of one round trip.
#include "loopback.h"

#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>

namespace {

enum class Reap { kPoll, kWait };

void take(DAT_EVD_HANDLE evd, Reap how) {
  if (how == Reap::kPoll)
    bench::poll_one(evd);
  else
    bench::wait_one(evd);
}

constexpr std::size_t kStopSize =
    1;  // a ping of this size ends the echo; measured sizes are larger

void echo(const bench::End& end, const bench::Buffer& in, const bench::Buffer& out,
          std::size_t size, Reap how, const std::atomic<bool>& stop) {
  while (true) {
    take(end.recv_evd, how);
    if (stop.load(std::memory_order_acquire)) return;
    end.post_recv(in, size);
    end.post_send(out, size);
    take(end.request_evd, how);
  }
}

void ping_pong(benchmark::State& state, Reap how) {
  const auto size = static_cast<std::size_t>(state.range(0));
  bench::Loopback link;
  bench::Buffer here(link.adapter, size);
  bench::Buffer there(link.adapter, size);
  link.passive.post_recv(there, size);
  link.connect();
  std::atomic<bool> stop{false};
  std::thread peer([&] { echo(link.passive, there, there, size, how, stop); });
  for (auto _ : state) {
    link.active.post_recv(here, size);
    link.active.post_send(here, size);
    take(link.active.request_evd, how);
    take(link.active.recv_evd, how);
  }
  stop.store(true, std::memory_order_release);
  link.active.post_send(here, kStopSize);
  take(link.active.request_evd, how);
  peer.join();
  link.disconnect();
}
BENCHMARK_CAPTURE(ping_pong, polling, Reap::kPoll)->Arg(8)->Arg(4096)->Arg(1 << 20)->UseRealTime();
BENCHMARK_CAPTURE(ping_pong, waiting, Reap::kWait)->Arg(8)->Arg(4096)->Arg(1 << 20)->UseRealTime();

}  // namespace
