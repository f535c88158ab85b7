// SPDX-License-Identifier: MIT OR GPL-2.0-only
// soft_cost [--ia=NAME] [--bytes=N] [--full] CONNECTIONS MESSAGES [turns|scattered]
//
// Sends messages, of eight bytes unless told otherwise, one at a time, over many connections of one
// adapter to itself: each one from the post to both completions, with a new receive posted. Which
// connection is used: each in turn, or any. One thread does everything, so that under callgrind the
// number of instructions hardly changes from run to run. --full: the receive queues are kept full.
//
// Prints how many polls find nothing per message, in the best of ten parts of the run: other
// threads disturb some. A message has arrived before it is looked for. Exit status 1: so many that
// connections are served in a wrong order.
#include "loopback.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::size_t message_size = 8;
int first_receives = 1;  // posted before the first message
constexpr DAT_COUNT kDepth = 4;
constexpr long kParts = 10;
constexpr double kMostEmpty = 0.05;
constexpr DAT_TIMEOUT kPatience = 60'000'000;  // us

// One end of all connections, which share its EVDs.
struct Side {
  Side(const bench::Adapter& adapter, int connections)
      : buffer(adapter, message_size), ends(static_cast<std::size_t>(connections)) {
    const DAT_COUNT events = std::min(connections * kDepth, adapter.attr.max_evd_qlen);
    bench::create_evd(adapter, events, DAT_EVD_DTO_FLAG, &shared.recv_evd);
    bench::create_evd(adapter, events, DAT_EVD_DTO_FLAG, &shared.request_evd);
    bench::create_evd(adapter, std::max(8, connections), DAT_EVD_CONNECTION_FLAG,
                      &shared.connect_evd);
    for (bench::End& end : ends) {
      end = shared;
      end.create_ep(adapter, kDepth);
    }
  }

  bench::Buffer buffer;
  bench::End shared;
  std::vector<bench::End> ends;
};

class Talk {
 public:
  explicit Talk(int connections) : from_(adapter_, connections), to_(adapter_, connections) {
    DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
    bench::create_evd(adapter_, 8, DAT_EVD_CR_FLAG, &requests);
    DAT_CONN_QUAL conn_qual = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    bench::check(dat_psp_create_any(adapter_.ia, &conn_qual, requests, DAT_PSP_CONSUMER_FLAG, &psp),
                 "dat_psp_create_any");
    for (std::size_t i = 0; i < from_.ends.size(); ++i) connect(i, conn_qual, requests);
  }

  void send(std::size_t which) {
    from_.ends[which].post_send(from_.buffer, message_size);
    take(to_.shared.recv_evd);
    to_.ends[which].post_recv(to_.buffer, message_size);
    take(from_.shared.request_evd);
  }
  [[nodiscard]] std::size_t connections() const { return from_.ends.size(); }
  [[nodiscard]] long empty() const { return empty_; }

 private:
  void connect(std::size_t i, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE requests) {
    for (int n = 0; n != first_receives; ++n) to_.ends[i].post_recv(to_.buffer, message_size);
    bench::check(
        dat_ep_connect(from_.ends[i].ep, adapter_.attr.ia_address_ptr, conn_qual, kPatience, 0,
                       nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
        "dat_ep_connect");
    DAT_EVENT event;
    DAT_COUNT more = 0;
    bench::check(dat_evd_wait(requests, kPatience, 1, &event, &more), "dat_evd_wait");
    bench::check(
        dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, to_.ends[i].ep, 0, nullptr),
        "dat_cr_accept");
    bench::wait_connection(from_.shared.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    bench::wait_connection(to_.shared.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }

  void take(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    DAT_RETURN rc = dat_evd_dequeue(evd, &event);
    for (; DAT_GET_TYPE(rc) == DAT_QUEUE_EMPTY; rc = dat_evd_dequeue(evd, &event)) ++empty_;
    bench::check(rc, "dat_evd_dequeue");
    if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) std::exit(1);
  }

  bench::Adapter adapter_;
  Side from_;
  Side to_;
  long empty_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view kIaOption = "--ia=";
  constexpr std::string_view kBytesOption = "--bytes=";
  int next = 1;
  if (argc > next && std::string_view(argv[next]).starts_with(kIaOption))
    bench::set_ia_name(argv[next++] + kIaOption.size());
  if (argc > next && std::string_view(argv[next]).starts_with(kBytesOption))
    message_size = std::strtoul(argv[next++] + kBytesOption.size(), nullptr, 10);
  if (argc > next && std::string_view(argv[next]) == "--full") {
    first_receives = kDepth;
    ++next;
  }
  if (argc < next + 2) return 2;
  const int connections = std::atoi(argv[next]);
  const long messages = std::atol(argv[next + 1]);
  const bool scattered = argc > next + 2 && std::string_view(argv[next + 2]) == "scattered";
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  Talk talk(connections);
  for (std::size_t i = 0; i < talk.connections(); ++i) talk.send(i);
  double best = HUGE_VAL;
  std::minstd_rand random;
  for (long i = 0, part = 0; part < kParts; ++part) {
    const long before = talk.empty();
    for (; i < messages * (part + 1) / kParts; ++i)
      talk.send((scattered ? random() : static_cast<std::size_t>(i)) % talk.connections());
    best = std::min(best, static_cast<double>(talk.empty() - before));
  }
  best /= static_cast<double>(messages) / kParts;
  std::printf("%.3f empty polls per message (at most %.3f)\n", best, kMostEmpty);
  std::fflush(stdout);
  std::_Exit(best <= kMostEmpty ? 0 : 1);
}
