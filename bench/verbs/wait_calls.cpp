// SPDX-License-Identifier: MIT OR GPL-2.0-only
// verbs_wait_calls [--print] [--cno|--fd] [--timed] [--one-ia] [--srq]
//                  [--threshold=N|--polls=N] [--pause=US] IA[/threadsafe]
//
// Counts the system calls per message between two threads that sleep in dat_evd_wait, with --cno in
// dat_cno_wait, or with --fd in poll, on the descriptor of a CNO, each with its own IA, or with
// --one-ia both with the same one. Of many batches, the one with the fewest calls too many counts:
// on a busy machine a thread may be late for the next message. Exit status 1: more than about one
// poll, one read and a few other calls per message.
//
// --timed: the waits have a timeout, which does not expire. --srq: the receives are of an SRQ.
// --threshold=N: each thread sends N messages at once, and waits for N events. --polls=N: before it
// waits, it tries to dequeue N times. --pause=US: each thread sleeps before it sends, so that the
// other one waits for long.
#include "counted_calls.h"
#include "loopback.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace {

using bench::kKinds;

// Limits per message in the best batch. The packaged provider makes one poll and 1.3 reads. With a
// descriptor, both completions of a message may each end a poll. A trigger of a CNO that is
// consumed arms the CQ again, and so reads its event first.
using Calls = std::array<double, kKinds>;
constexpr Calls kMaxRatios{1.1, 1.3, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 1.1, 3.3};
constexpr Calls kMaxRatiosOfCno{1.1, 1.3, 0.05, 0.05, 0.05, 0.05, 0.05, 1.1, 2.2, 3.3};
constexpr Calls kMaxRatiosOfDescriptor{2.1, 2.1, 0.05, 0.05, 0.05, 0.05, 0.05, 4.2, 2.2, 3.3};

constexpr std::size_t kBytes = 8;
constexpr int kDepth = 16;
constexpr DAT_TIMEOUT kPatience = 10'000'000;  // us

struct Options {
  bool print = false;  // only
  bool cno = false;
  bool descriptor = false;
  bool timed = false;
  bool one_ia = false;
  bool srq = false;
  int messages = 1;  // in each direction, which one wait takes
  int polls = 0;
  std::chrono::microseconds pause{0};
  std::string_view ia;

  // With pauses, some batches are shorter than the interval of the timers that scan idle CQs.
  [[nodiscard]] int batches() const { return pause.count() == 0 ? 60 : 40; }
  [[nodiscard]] int rounds() const { return pause.count() == 0 ? 100 : 10; }
};

struct Side {
  Side(const Options& with, std::shared_ptr<bench::Adapter> of)
      : options(with), adapter(std::move(of)) {
    if (options.cno)
      bench::check(dat_cno_create(adapter->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno),
                   "dat_cno_create");
    else if (options.descriptor)
      bench::check(dat_cno_fd_create(adapter->ia, &descriptor, &cno), "dat_cno_fd_create");
    bench::check(dat_evd_create(adapter->ia, kDepth, cno, DAT_EVD_DTO_FLAG, &end.recv_evd),
                 "dat_evd_create");
    // With a descriptor the consumer sleeps nowhere else.
    bench::check(dat_evd_create(adapter->ia, kDepth, options.descriptor ? cno : DAT_HANDLE_NULL,
                                DAT_EVD_DTO_FLAG, &end.request_evd),
                 "dat_evd_create");
    bench::create_evd(*adapter, 8, DAT_EVD_CONNECTION_FLAG, &end.connect_evd);
    if (options.srq) end.create_srq(*adapter, kDepth);
    end.create_ep(*adapter, kDepth);
    for (int i = 0; i < options.messages; ++i) end.post_recv(buffer, kBytes);
  }
  ~Side() {
    end.destroy();
    if (cno != DAT_HANDLE_NULL) bench::check(dat_cno_free(cno), "dat_cno_free");
  }
  void send() {
    if (options.pause.count() != 0) std::this_thread::sleep_for(options.pause);
    for (int i = 0; i < options.messages; ++i) end.post_send(buffer, kBytes);
  }
  void receive() {
    take(end.recv_evd, cno != DAT_HANDLE_NULL);
    for (int i = 0; i < options.messages; ++i) end.post_recv(buffer, kBytes);
  }
  void take_send() { take(end.request_evd, options.descriptor); }

  const Options& options;
  const std::shared_ptr<bench::Adapter> adapter;
  bench::End end;
  bench::Buffer buffer{*adapter, kBytes};
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  DAT_FD descriptor = -1;

 private:
  void take(DAT_EVD_HANDLE evd, bool by_cno) const {
    if (by_cno)
      for (int i = 0; i < options.messages; ++i) wait_for_cno(evd);
    else if (!finds(evd))
      wait(evd);
    bench::has_returned();
  }
  // Whether one of the dequeues that are tried before a wait takes an event.
  [[nodiscard]] bool finds(DAT_EVD_HANDLE evd) const {
    DAT_EVENT event;
    for (int i = 0; i < options.polls; ++i)
      if (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) return true;
    return false;
  }
  void wait_for_cno(DAT_EVD_HANDLE awaited) const {
    DAT_EVENT event;
    while (DAT_GET_TYPE(dat_evd_dequeue(awaited, &event)) == DAT_QUEUE_EMPTY) {
      DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
      if (!options.descriptor) {
        bench::check(dat_cno_wait(cno, timeout(), &evd), "dat_cno_wait");
        continue;
      }
      pollfd readable{descriptor, POLLIN, 0};
      if (::poll(&readable, 1, -1) == 1)
        bench::check(dat_cno_trigger(cno, &evd), "dat_cno_trigger");
    }
  }
  void wait(DAT_EVD_HANDLE evd) const {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    bench::check(dat_evd_wait(evd, timeout(), options.messages, &event, &more), "dat_evd_wait");
    for (int i = 1; i < options.messages; ++i)
      bench::check(dat_evd_dequeue(evd, &event), "dat_evd_dequeue");
  }
  // Unless it is wanted there is none, so that no clock is read.
  [[nodiscard]] DAT_TIMEOUT timeout() const {
    return options.timed ? kPatience : DAT_TIMEOUT_INFINITE;
  }
};

void connect(Side& active, Side& passive) {
  DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  bench::check(dat_evd_create(passive.adapter->ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests),
               "dat_evd_create");
  const DAT_CONN_QUAL conn_qual = bench::listen(passive.adapter->ia, requests, &psp);
  bench::check(dat_ep_connect(active.end.ep, passive.adapter->attr.ia_address_ptr, conn_qual,
                              kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
               "dat_ep_connect");
  DAT_EVENT event;
  DAT_COUNT more = 0;
  bench::check(dat_evd_wait(requests, kPatience, 1, &event, &more), "dat_evd_wait");
  bench::check(
      dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, passive.end.ep, 0, nullptr),
      "dat_cr_accept");
  for (Side* side : {&active, &passive})
    bench::wait_connection(side->end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  bench::check(dat_psp_free(psp), "dat_psp_free");
  bench::check(dat_evd_free(requests), "dat_evd_free");
}

Calls calls_of_a_message(Side& side, int rounds) {
  for (auto& count : bench::call_counts) count = 0;
  for (int i = 0; i < rounds; ++i) {
    side.send();
    side.take_send();
    side.receive();
  }
  Calls calls{};
  for (int kind = 0; kind < kKinds; ++kind)
    calls[kind] =
        static_cast<double>(bench::call_counts[kind].load()) / (2 * rounds * side.options.messages);
  return calls;
}

// Sets `value` if the argument is `name` and a number.
bool parse_number(std::string_view argument, std::string_view name, int& value) {
  if (!argument.starts_with(name)) return false;
  value = std::atoi(argument.data() + name.size());
  return true;
}

// Limits per message in the best batch.
Calls most_calls(const Options& options) {
  Calls most = options.descriptor ? kMaxRatiosOfDescriptor
               : options.cno      ? kMaxRatiosOfCno
                                  : kMaxRatios;
  if (options.timed) most[bench::kClock] += options.cno ? 2.2 : 1.1;
  if (options.polls != 0) most[bench::kEmpty] = 2.2 * (options.polls + 3);
  return most;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    bool* flag = nullptr;
    int pause = 0;
    if (argument == "--print") flag = &options.print;
    if (argument == "--cno") flag = &options.cno;
    if (argument == "--fd") flag = &options.descriptor;
    if (argument == "--timed") flag = &options.timed;
    if (argument == "--one-ia") flag = &options.one_ia;
    if (argument == "--srq") flag = &options.srq;
    if (flag != nullptr)
      *flag = true;
    else if (parse_number(argument, "--pause=", pause))
      options.pause = std::chrono::microseconds(pause);
    else if (parse_number(argument, "--threshold=", options.messages) ||
             parse_number(argument, "--polls=", options.polls))
      continue;
    else if (options.ia.empty() && !argument.starts_with("-"))
      options.ia = argument;
    else
      return std::nullopt;
  }
  if (options.ia.empty() || options.messages < 1 || options.messages > kDepth) return std::nullopt;
  if (options.messages > 1 && options.polls > 0) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: verbs_wait_calls [--print] [--cno|--fd] [--timed] [--one-ia] [--srq]\n"
                 "           [--threshold=N|--polls=N] [--pause=US] IA[/threadsafe]\n");
    return 2;
  }
  const std::string_view name = options->ia;
  const std::size_t slash = name.find('/');
  bench::set_ia_name(std::string(name.substr(0, slash)));
  bench::set_thread_safe(slash != std::string_view::npos);
  auto adapter = std::make_shared<bench::Adapter>();
  Side here(*options, adapter);
  Side there(*options, options->one_ia ? adapter : std::make_shared<bench::Adapter>());
  adapter.reset();
  connect(here, there);
  std::thread echo([&] {
    for (int i = 0; i < options->batches() * options->rounds(); ++i) {
      there.receive();
      there.send();
      there.take_send();
    }
  });
  const Calls most = most_calls(*options);
  Calls least{};
  Calls sum{};
  auto fewest = std::pair(1e9, 1e9);  // calls: more than allowed, and all
  for (int i = 0; i < options->batches(); ++i) {
    const Calls calls = calls_of_a_message(here, options->rounds());
    auto all = std::pair(0.0, 0.0);
    for (int kind = 0; kind < kKinds; ++kind) {
      if (!options->print) all.first += std::max(0.0, calls[kind] - most[kind]);
      all.second += calls[kind];
      sum[kind] += calls[kind];
    }
    const bool slept = options->print || calls[bench::kPoll] > 0;
    if (!slept || all >= fewest) continue;
    fewest = all;
    least = calls;
  }
  echo.join();
  bool good =
      options->print || least[bench::kPoll] > 0;  // 0: they did not sleep, or nothing was counted
  for (int kind = 0; kind < kKinds; ++kind) {
    std::printf("%-6s %.2f (at most %.2f), in all batches %.2f\n", bench::kKindNames[kind],
                least[kind], most[kind], sum[kind] / options->batches());
    good = good && (options->print || least[kind] <= most[kind]);
  }
  bench::check(dat_ep_disconnect(here.end.ep, DAT_CLOSE_ABRUPT_FLAG), "dat_ep_disconnect");
  for (Side* side : {&here, &there})
    bench::wait_connection(side->end.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
  return good ? 0 : 1;
}
