// SPDX-License-Identifier: MIT OR GPL-2.0-only
// cpp_cost
//
// The same calls through <dat/dat.hpp> and in C, over DAT functions that do nothing
// (cpp_cost_calls.cpp). Each operation has two functions whose instructions callgrind counts:
// measure_<operation>_c and measure_<operation>_cpp. Both check what each call returns.
#include <dat/dat.hpp>

#include <cstdlib>

namespace {

constexpr int kCalls = 512;  // as in run.py

}  // namespace

#define MEASURED extern "C" [[gnu::noinline, gnu::used]] __attribute__((visibility("default")))

struct CEnd {
  DAT_EP_HANDLE ep;
  DAT_EVD_HANDLE evd;
};

[[noreturn]] [[gnu::cold]] static void give_up() { std::abort(); }
static void must(DAT_RETURN status) {
  if (__builtin_expect(status != DAT_SUCCESS, 0)) give_up();
}

MEASURED void measure_send_c(const CEnd& end, DAT_LMR_TRIPLET* local) {
  for (int i = 0; i < kCalls; ++i)
    must(dat_ep_post_send(end.ep, 1, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG));
}
MEASURED void measure_send_cpp(const dat::Endpoint& endpoint, const DAT_LMR_TRIPLET& local) {
  for (int i = 0; i < kCalls; ++i) endpoint.post_send(local);
}

MEASURED void measure_recv_c(const CEnd& end, DAT_LMR_TRIPLET* local) {
  for (int i = 0; i < kCalls; ++i)
    must(dat_ep_post_recv(end.ep, 1, local, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG));
}
MEASURED void measure_recv_cpp(const dat::Endpoint& endpoint, const DAT_LMR_TRIPLET& local) {
  for (int i = 0; i < kCalls; ++i) endpoint.post_recv(local);
}

MEASURED void measure_write_c(const CEnd& end, DAT_LMR_TRIPLET* local,
                              const DAT_RMR_TRIPLET* remote) {
  for (int i = 0; i < kCalls; ++i)
    must(dat_ep_post_rdma_write(end.ep, 1, local, DAT_DTO_COOKIE{}, remote,
                                DAT_COMPLETION_DEFAULT_FLAG));
}
MEASURED void measure_write_cpp(const dat::Endpoint& endpoint, const DAT_LMR_TRIPLET& local,
                                const DAT_RMR_TRIPLET& remote) {
  for (int i = 0; i < kCalls; ++i) endpoint.post_write(dat::Segments(&local, 1), remote);
}

MEASURED void measure_dequeue_c(const CEnd& end, DAT_EVENT* event) {
  for (int i = 0; i < kCalls; ++i) {
    const DAT_RETURN status = dat_evd_dequeue(end.evd, event);
    if (status == DAT_SUCCESS) continue;
    if (DAT_GET_TYPE(status) != DAT_QUEUE_EMPTY) give_up();
    return;
  }
}
MEASURED void measure_dequeue_cpp(const dat::Queue& queue, DAT_EVENT& event) {
  for (int i = 0; i < kCalls; ++i)
    if (!queue.poll(event)) return;
}

int main() {
  int objects[2] = {};
  const CEnd end{&objects[0], &objects[1]};
  const dat::Endpoint endpoint = dat::Endpoint::adopt(&objects[0]);
  const dat::Queue queue = dat::Queue::adopt(&objects[1]);
  DAT_LMR_TRIPLET local{};
  const DAT_RMR_TRIPLET remote{};
  DAT_EVENT event{};
  endpoint.post_send(local);  // binds symbols
  measure_send_c(end, &local);
  measure_send_cpp(endpoint, local);
  measure_recv_c(end, &local);
  measure_recv_cpp(endpoint, local);
  measure_write_c(end, &local, &remote);
  measure_write_cpp(endpoint, local, remote);
  measure_dequeue_c(end, &event);
  measure_dequeue_cpp(queue, event);
  return 0;
}
