// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_cost --ia=NAME [--threadsafe] operations | connections [--abrupt] [--count=N]
//
// The cost of the layer between an application and verbs. `operations` makes kCalls calls of each
// hot function, and of the calls that create objects, each in a function measure_<operation> whose
// instructions callgrind counts. `connections` prints the CPU time of a connection from
// dat_ep_connect until its end, without the resets. Runs on any DAT library; operations that the
// library does not support are skipped.
#include "loopback.h"

#include <dat/dat_ib_extensions.h>

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
constexpr std::size_t kMemory = 4096;
constexpr DAT_TIMEOUT kPatience = 10'000'000;  // us: never needed

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

// The functions whose names are passed to callgrind, which counts while they run. They return the
// number of calls with an unexpected result.
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

// Typical sequences of these calls; a pair of calls counts as one.
MEASURED int measure_suppressed_write(DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd, DAT_LMR_TRIPLET* local,
                                      DAT_RMR_TRIPLET* remote) {
  int failed = 0;
  DAT_EVENT event;
  for (int i = 0; i < kCalls; ++i) {
    const bool last = i % 16 == 15;
    failed += dat_ep_post_rdma_write(
                  ep, 1, local, DAT_DTO_COOKIE{}, remote,
                  last ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG) != DAT_SUCCESS;
    if (last) failed += dat_evd_dequeue(evd, &event) != DAT_SUCCESS;
  }
  return failed;
}

MEASURED int measure_send_and_dequeue(DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd,
                                      DAT_LMR_TRIPLET* local) {
  int failed = 0;
  DAT_EVENT event;
  for (int i = 0; i < kCalls; ++i) {
    failed += dat_ep_post_send(ep, 1, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG) !=
              DAT_SUCCESS;
    failed += dat_evd_dequeue(evd, &event) != DAT_SUCCESS;
  }
  return failed;
}

MEASURED int measure_read_and_dequeue(DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd, DAT_LMR_TRIPLET* local,
                                      DAT_RMR_TRIPLET* remote) {
  int failed = 0;
  DAT_EVENT event;
  for (int i = 0; i < kCalls; ++i) {
    failed += dat_ep_post_rdma_read(ep, 1, local, DAT_DTO_COOKIE{}, remote,
                                    DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS;
    failed += dat_evd_dequeue(evd, &event) != DAT_SUCCESS;
  }
  return failed;
}

MEASURED int measure_two_segments(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ep_post_send(ep, 2, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG) !=
              DAT_SUCCESS;
  return failed;
}

MEASURED int measure_four_segments(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ep_post_send(ep, 4, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG) !=
              DAT_SUCCESS;
  return failed;
}

MEASURED int measure_recv_two_segments(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ep_post_recv(ep, 2, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG) !=
              DAT_SUCCESS;
  return failed;
}

MEASURED int measure_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_LMR_TRIPLET* local) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_srq_post_recv(srq, 1, local, DAT_DTO_COOKIE{}) != DAT_SUCCESS;
  return failed;
}

MEASURED int measure_write_immediate(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local,
                                     DAT_RMR_TRIPLET* remote) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ib_post_rdma_write_immed(ep, 1, local, DAT_DTO_COOKIE{}, remote, DAT_UINT32{7},
                                           DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS;
  return failed;
}

MEASURED int measure_fetch_and_add(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET* local,
                                   DAT_RMR_TRIPLET* remote) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_ib_post_fetch_and_add(ep, DAT_UINT64{1}, local, DAT_DTO_COOKIE{}, remote,
                                        DAT_COMPLETION_DEFAULT_FLAG) != DAT_SUCCESS;
  return failed;
}

// The event has arrived before the wait.
MEASURED int measure_send_and_wait(DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd, DAT_LMR_TRIPLET* local) {
  int failed = 0;
  DAT_EVENT event;
  DAT_COUNT more = 0;
  for (int i = 0; i < kCalls; ++i) {
    failed += dat_ep_post_send(ep, 1, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG) !=
              DAT_SUCCESS;
    failed += dat_evd_wait(evd, kPatience, 1, &event, &more) != DAT_SUCCESS || more != 0;
  }
  return failed;
}

// All events have arrived before the first wait.
MEASURED int measure_wait_of_many(DAT_EVD_HANDLE evd) {
  int failed = 0;
  DAT_EVENT event;
  DAT_COUNT more = 0;
  for (int i = 0; i < kCalls; ++i)
    failed += dat_evd_wait(evd, kPatience, 1, &event, &more) != DAT_SUCCESS;
  return failed;
}

// Creation and destruction of objects.
MEASURED int measure_pz_create_and_free(DAT_IA_HANDLE ia) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i) {
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    failed += dat_pz_create(ia, &pz) != DAT_SUCCESS;
    failed += dat_pz_free(pz) != DAT_SUCCESS;
  }
  return failed;
}

MEASURED int measure_lmr_create_and_free(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, void* memory) {
  int failed = 0;
  DAT_REGION_DESCRIPTION region{};
  region.for_va = memory;
  for (int i = 0; i < kCalls; ++i) {
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;
    failed += dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, kMemory, pz, DAT_MEM_PRIV_ALL_FLAG,
                             DAT_VA_TYPE_VA, &lmr, &lmr_context, &rmr_context, &length,
                             &address) != DAT_SUCCESS;
    failed += dat_lmr_free(lmr) != DAT_SUCCESS;
  }
  return failed;
}

MEASURED int measure_ep_create_and_free(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, const bench::End& end) {
  int failed = 0;
  for (int i = 0; i < kCalls; ++i) {
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    failed += dat_ep_create(ia, pz, end.recv_evd, end.request_evd, end.connect_evd, nullptr, &ep) !=
              DAT_SUCCESS;
    failed += dat_ep_free(ep) != DAT_SUCCESS;
  }
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

// Operations that not every library supports. Each is first tried once, unmeasured, and skipped if
// that fails.
void extension_posts(const bench::End& end, DAT_LMR_TRIPLET* local, DAT_RMR_TRIPLET* remote) {
  DAT_EVENT event;
  const auto take = [&](int count) {
    for (int i = 0; i < count; ++i)
      bench::check(dat_evd_dequeue(end.request_evd, &event), "dat_evd_dequeue");
  };
  if (dat_ib_post_rdma_write_immed(end.ep, 1, local, DAT_DTO_COOKIE{}, remote, DAT_UINT32{7},
                                   DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS) {
    take(1);
    expect_none(measure_write_immediate(end.ep, local, remote), "write_immediate");
    take(kCalls);
  }
  if (dat_ib_post_fetch_and_add(end.ep, DAT_UINT64{1}, local, DAT_DTO_COOKIE{}, remote,
                                DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS) {
    take(1);
    expect_none(measure_fetch_and_add(end.ep, local, remote), "fetch_and_add");
    take(kCalls);
  }
}

void srq_posts(const bench::Adapter& adapter, DAT_LMR_TRIPLET* local) {
  DAT_SRQ_ATTR attr{};
  attr.max_recv_dtos = 2 * kCalls;
  attr.max_recv_iov = 1;
  attr.low_watermark = DAT_SRQ_LW_DEFAULT;
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
  if (dat_srq_create(adapter.ia, adapter.pz, &attr, &srq) != DAT_SUCCESS) return;
  bench::check(dat_srq_post_recv(srq, 1, local, DAT_DTO_COOKIE{}), "dat_srq_post_recv");
  expect_none(measure_srq_post_recv(srq, local), "srq_post_recv");
  bench::check(dat_srq_free(srq), "dat_srq_free");
}

void objects(const bench::Adapter& adapter, const bench::End& end, bench::Buffer& buffer) {
  expect_none(measure_pz_create_and_free(adapter.ia), "pz_create_and_free");
  expect_none(measure_lmr_create_and_free(adapter.ia, adapter.pz, buffer.bytes.data()),
              "lmr_create_and_free");
  expect_none(measure_ep_create_and_free(adapter.ia, adapter.pz, end), "ep_create_and_free");
}

int operations() {
  bench::Loopback link(2 * kCalls);
  link.connect();
  {
    bench::Buffer buffer(link.adapter, kMemory);
    DAT_LMR_TRIPLET local = buffer.local(kLength);
    DAT_RMR_TRIPLET remote = buffer.remote(kLength);
    const bench::End& end = link.active;
    // Binds symbols and touches memory.
    end.post_send(buffer, kLength);
    drain(end.request_evd, 1);

    expect_none(measure_post_send(end.ep, &local), "post_send");
    expect_none(measure_dequeue(end.request_evd), "dequeue");
    expect_none(measure_rdma_write(end.ep, &local, &remote), "rdma_write");
    drain(end.request_evd, kCalls);
    expect_none(measure_post_recv(end.ep, &local), "post_recv");
    drain(end.recv_evd, kCalls);
    expect_none(measure_empty_dequeue(end.request_evd), "empty_dequeue");
    expect_none(measure_suppressed_write(end.ep, end.request_evd, &local, &remote),
                "suppressed_write");
    expect_none(measure_send_and_dequeue(end.ep, end.request_evd, &local), "send_and_dequeue");
    expect_none(measure_read_and_dequeue(end.ep, end.request_evd, &local, &remote),
                "read_and_dequeue");
    DAT_LMR_TRIPLET several[] = {local, local, local, local};
    expect_none(measure_two_segments(end.ep, several), "two_segments");
    drain(end.request_evd, kCalls);
    expect_none(measure_four_segments(end.ep, several), "four_segments");
    drain(end.request_evd, kCalls);
    expect_none(measure_recv_two_segments(end.ep, several), "recv_two_segments");
    drain(end.recv_evd, kCalls);
    srq_posts(link.adapter, &local);
    extension_posts(end, &local, &remote);

    expect_none(measure_send_and_wait(end.ep, end.request_evd, &local), "send_and_wait");
    for (int i = 0; i < kCalls; ++i) end.post_send(buffer, kLength);
    expect_none(measure_wait_of_many(end.request_evd), "wait_of_many");
    objects(link.adapter, end, buffer);
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
    if (i != 0) {  // the first cycle is a warm-up
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
