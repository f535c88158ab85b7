// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_cost --ia=NAME [--threadsafe] operations | connections [--abrupt] [--count=N]
//
// What the layer between an application and verbs costs. `operations` makes kCalls calls of each
// hot function in a function of its own, measure_<operation>, for callgrind to count; `connections`
// prints the CPU time of a connection from dat_ep_connect until it has ended, the resets left out.
// Runs on any DAT library.
#include "loopback.h"

#include <sys/resource.h>
#include <time.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace {

constexpr int kCalls = 512;
constexpr std::size_t kLength = 8;

int usage() {
  std::fprintf(stderr,
               "usage: dat_cost --ia=NAME [--threadsafe] operations\n"
               "       dat_cost --ia=NAME [--threadsafe] connections [--abrupt] [--count=N]\n");
  return 2;
}

[[nodiscard]] double cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

[[nodiscard]] double wall_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

}  // namespace

// Names that callgrind is told: the collecting starts and ends with these functions. They return
// how many calls did not end as they should have.
#define MEASURED extern "C" [[gnu::noinline, gnu::used]] __attribute__((visibility("default")))

MEASURED int measure_post_send(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ep_post_send(ep, 1, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG) !=
              DAT_SUCCESS;
  return failed;
}

MEASURED int measure_post_recv(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ep_post_recv(ep, 1, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG) !=
              DAT_SUCCESS;
  return failed;
}

MEASURED int measure_rdma_write(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local, DAT_RMR_TRIPLET* remote) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ep_post_rdma_write(ep, 1, local, DAT_DTO_COOKIE{}, remote,
                                     DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS;
  return failed;
}

MEASURED int measure_dequeue(DAT_EVD_HANDLE evd) {
  int failed = 0;
  DAT_EVENT event;
  for (int i = 0; i < kCalls; ++i) failed += dat_evd_dequeue(evd, &event) != DAT_SUCCESS;
  return failed;
}

MEASURED int measure_empty_dequeue(DAT_EVD_HANDLE evd) {
  int failed = 0;
  DAT_EVENT event;
  for (int i = 0; i < kCalls; ++i)
    failed += DAT_GET_TYPE(dat_evd_dequeue(evd, &event)) != DAT_QUEUE_EMPTY;
  return failed;
}

namespace {

void expect_none(int failed, const char* what) {
  if (failed == 0) return;
  std::fprintf(stderr, "dat_cost: %d of %d calls of %s failed\n", failed, kCalls, what);
  std::exit(1);
}

void drain(DAT_EVD_HANDLE evd, int count) {
  for (int i = 0; i < count; ++i) bench::poll_one(evd);
}

int operations() {
  bench::Loopback link(2 * kCalls);
  link.connect();
  {
    const bench::Buffer buffer(link.adapter, 4096);
    DAT_LMR_TRIPLET local = buffer.local(kLength);
    DAT_RMR_TRIPLET remote = buffer.remote(kLength);
    const bench::End& end = link.active;
    // Once to bind symbols and touch memory.
    end.post_send(buffer, kLength);
    drain(end.request_evd, 1);

    expect_none(measure_post_send(end.ep, &local), "post_send");
    expect_none(measure_dequeue(end.request_evd), "dequeue");
    expect_none(measure_rdma_write(end.ep, &local, &remote), "rdma_write");
    drain(end.request_evd, kCalls);
    expect_none(measure_post_recv(end.ep, &local), "post_recv");
    drain(end.recv_evd, kCalls);
    expect_none(measure_empty_dequeue(end.request_evd), "empty_dequeue");
  }
  link.disconnect();
  return 0;
}

int connections(int count, DAT_CLOSE_FLAGS how) {
  bench::Loopback link(16);
  double cpu = 0;
  double wall = 0;
  for (int i = 0; i <= count; ++i) {
    const double cpu_before = cpu_us();
    const double wall_before = wall_us();
    link.connect();
    link.disconnect(how);
    if (i != 0) {  // the first one warms up
      cpu += cpu_us() - cpu_before;
      wall += wall_us() - wall_before;
    }
    link.reset();
  }
  std::printf("cpu_us=%.2f wall_us=%.2f\n", cpu / count, wall / count);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace std::literals;
  std::string_view what;
  int count = 1000;
  DAT_CLOSE_FLAGS how = DAT_CLOSE_GRACEFUL_FLAG;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument.starts_with("--ia="sv)) {
      bench::set_ia_name(std::string(argument.substr("--ia="sv.size())));
    } else if (argument.starts_with("--count="sv)) {
      const std::string_view number = argument.substr("--count="sv.size());
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), count);
      if (error != std::errc() || end != number.data() + number.size() || count < 1) return usage();
    } else if (argument == "--threadsafe"sv) {
      bench::set_thread_safe(true);
    } else if (argument == "--abrupt"sv) {
      how = DAT_CLOSE_ABRUPT_FLAG;
    } else if (what.empty() && (argument == "operations"sv || argument == "connections"sv)) {
      what = argument;
    } else {
      return usage();
    }
  }
  if (what.empty()) return usage();
  return what == "operations"sv ? operations() : connections(count, how);
}
