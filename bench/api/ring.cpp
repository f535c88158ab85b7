// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_ring [--ia=NAME] [--processes=N] [--laps=N] [--size=BYTES]
// [--take=poll|memory|spin|wait|cno|fd]
//
// N processes in a ring pass a token of BYTES bytes around; the time is that of one hop, the median
// of ten parts of the run. How a process receives the token:
//   poll    as a message: it calls dat_evd_dequeue until the message arrives
//   memory  as an RDMA Write: it polls its EVD a hundred times, and from then on polls only the
//           memory, without a DAT call
//   spin    the same, but it polls only the memory from the beginning
//   wait    as a message: it sleeps in dat_evd_wait
//   cno     the same, in dat_cno_wait
//   fd      the same, in poll(2) on the descriptor of a CNO
#include "loopback.h"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kMaxProcesses = 64;
constexpr int kParts = 10;
constexpr int kPolls = 100;  // polls of an EVD before a process polls only memory
constexpr DAT_COUNT kDepth = 8;
constexpr DAT_TIMEOUT kPatience = 60'000'000;  // us

struct Options {
  int processes = 2;
  int laps = 10000;
  std::size_t size = 8;
  std::string take = "poll";
};

// Data that the processes exchange before they are connected.
struct Place {
  std::atomic<DAT_CONN_QUAL> conn_qual;
  std::atomic<DAT_VADDR> address;
  std::atomic<DAT_RMR_CONTEXT> context;
  std::atomic<bool> ready;
};

template <class Condition>
void await(Condition condition) {
  while (!condition()) ::usleep(200);
}

// The EVD of incoming messages, and the way to sleep until one arrives.
class Arrivals {
 public:
  Arrivals(const bench::Adapter& adapter, const std::string& take) : take_(take) {
    if (take == "cno") {
      bench::check(dat_cno_create(adapter.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno_),
                   "dat_cno_create");
    } else if (take == "fd") {
      bench::check(dat_cno_fd_create(adapter.ia, &fd_, &cno_), "dat_cno_fd_create");
    }
  }
  void watch(DAT_EVD_HANDLE evd) {
    evd_ = evd;
    if (cno_ != DAT_HANDLE_NULL) bench::check(dat_evd_modify_cno(evd, cno_), "dat_evd_modify_cno");
  }
  void take_one() const {
    if (take_ == "poll") return bench::poll_one(evd_);
    if (take_ == "wait") return bench::wait_one(evd_);
    DAT_EVENT event;
    while (DAT_GET_TYPE(dat_evd_dequeue(evd_, &event)) == DAT_QUEUE_EMPTY) sleep();
  }

 private:
  void sleep() const {
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    if (take_ == "fd") {
      pollfd descriptor{fd_, POLLIN, 0};
      ::poll(&descriptor, 1, -1);
      bench::check(dat_cno_trigger(cno_, &triggered), "dat_cno_trigger");
    } else {
      bench::check(dat_cno_wait(cno_, kPatience, &triggered), "dat_cno_wait");
    }
  }

  const std::string take_;
  DAT_EVD_HANDLE evd_ = DAT_HANDLE_NULL;
  DAT_CNO_HANDLE cno_ = DAT_HANDLE_NULL;
  DAT_FD fd_ = -1;
};

class Member {
 public:
  Member(const Options& options, int index, Place* places)
      : options_(options),
        own_place_(places[index]),
        next_place_(places[(index + 1) % options.processes]),
        first_(index == 0),
        arrivals_(adapter_, options.take),
        in_(adapter_, options.size),
        out_(adapter_, options.size) {
    from_.create(adapter_, kDepth);
    to_.create(adapter_, kDepth);
    if (!by_memory())
      for (int i = 0; i < kDepth / 2; ++i) from_.post_recv(in_, options.size);
    connect();
    arrivals_.watch(from_.recv_evd);
  }

  void run() {
    std::vector<double> hops;
    for (int part = 0; part < kParts; ++part) {
      const auto begin = std::chrono::steady_clock::now();
      for (int lap = 0; lap < options_.laps / kParts; ++lap) {
        if (first_) give();
        take();
        if (!first_) give();
      }
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - begin;
      hops.push_back(time.count() / (options_.laps / kParts) / options_.processes);
    }
    std::sort(hops.begin(), hops.end());
    if (first_)
      std::printf("%d processes, %zu bytes, %s: %.2f us per hop (%.2f to %.2f)\n",
                  options_.processes, options_.size, options_.take.c_str(), hops[kParts / 2],
                  hops.front(), hops.back());
  }

 private:
  [[nodiscard]] bool by_memory() const {
    return options_.take == "memory" || options_.take == "spin";
  }

  void connect() {
    bench::check(dat_evd_create(adapter_.ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests_),
                 "dat_evd_create");
    DAT_CONN_QUAL conn_qual = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    bench::check(
        dat_psp_create_any(adapter_.ia, &conn_qual, requests_, DAT_PSP_CONSUMER_FLAG, &psp),
        "dat_psp_create_any");
    const DAT_RMR_TRIPLET own = in_.remote(options_.size);
    own_place_.address = own.virtual_address;
    own_place_.context = own.rmr_context;
    own_place_.conn_qual = conn_qual;
    await([&] { return next_place_.conn_qual != 0; });
    peer_ = own;
    peer_.virtual_address = next_place_.address;
    peer_.rmr_context = next_place_.context;
    bench::check(
        dat_ep_connect(to_.ep, adapter_.attr.ia_address_ptr, next_place_.conn_qual, kPatience, 0,
                       nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
        "dat_ep_connect");
    DAT_EVENT event;
    DAT_COUNT more = 0;
    bench::check(dat_evd_wait(requests_, kPatience, 1, &event, &more), "dat_evd_wait");
    bench::check(
        dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, from_.ep, 0, nullptr),
        "dat_cr_accept");
    bench::wait_connection(to_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    bench::wait_connection(from_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }

  void give() {
    if (by_memory()) {
      out_.bytes.back() = static_cast<std::byte>(++token_ | 1U);
      DAT_LMR_TRIPLET segment = out_.local(options_.size);
      bench::check(dat_ep_post_rdma_write(to_.ep, 1, &segment, DAT_DTO_COOKIE{}, &peer_,
                                          DAT_COMPLETION_DEFAULT_FLAG),
                   "dat_ep_post_rdma_write");
    } else {
      to_.post_send(out_, options_.size);
    }
    if (options_.take == "wait")
      bench::wait_one(to_.request_evd);
    else
      bench::poll_one(to_.request_evd);
  }

  void take() {
    if (!by_memory()) {
      arrivals_.take_one();
      return from_.post_recv(in_, options_.size);
    }
    auto* const flag = reinterpret_cast<volatile std::byte*>(&in_.bytes.back());
    DAT_EVENT none;
    const int polls = options_.take == "memory" ? kPolls : 0;
    for (int i = 0; i < polls && *flag == std::byte{0}; ++i) dat_evd_dequeue(from_.recv_evd, &none);
    while (*flag == std::byte{0}) {
    }
    *flag = std::byte{0};
  }

  const Options& options_;
  Place& own_place_;
  Place& next_place_;
  const bool first_;
  bench::Adapter adapter_;
  Arrivals arrivals_;
  bench::Buffer in_;
  bench::Buffer out_;
  bench::End from_;
  bench::End to_;
  DAT_EVD_HANDLE requests_ = DAT_HANDLE_NULL;
  DAT_RMR_TRIPLET peer_{};
  unsigned token_ = 0;
};

int usage() {
  std::fputs(
      "dat_ring [--ia=NAME] [--processes=N] [--laps=N] [--size=BYTES] "
      "[--take=poll|memory|spin|wait|cno|fd]\n",
      stderr);
  return 2;
}

bool number(std::string_view text, auto& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && value > 0;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    const std::size_t end = argument.find('=');
    if (end == std::string_view::npos) return false;
    const std::string_view name = argument.substr(0, end);
    const std::string_view value = argument.substr(end + 1);
    bool good = true;
    if (name == "--ia")
      bench::set_ia_name(std::string(value));
    else if (name == "--processes")
      good = number(value, options.processes) && options.processes <= kMaxProcesses;
    else if (name == "--laps")
      good = number(value, options.laps) && options.laps >= kParts;
    else if (name == "--size")
      good = number(value, options.size);
    else if (name == "--take")
      options.take = value;
    else
      good = false;
    if (!good) return false;
  }
  const auto& take = options.take;
  return take == "poll" || take == "memory" || take == "spin" || take == "wait" || take == "cno" ||
         take == "fd";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) return usage();
  void* const shared = ::mmap(nullptr, sizeof(Place) * kMaxProcesses, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto* const places = static_cast<Place*>(shared);
  for (int i = 0; i < options.processes; ++i) new (&places[i]) Place{};
  for (int i = 0; i < options.processes; ++i) {
    const pid_t child = ::fork();
    if (child < 0) return 1;
    if (child != 0) continue;
    Member member(options, i, places);
    places[i].ready = true;
    await([&] {
      return std::all_of(places, places + options.processes,
                         [](const Place& place) { return place.ready.load(); });
    });
    member.run();
    std::fflush(stdout);
    places[i].ready = false;  // no process exits while another may still be sending
    await([&] {
      return std::none_of(places, places + options.processes,
                          [](const Place& place) { return place.ready.load(); });
    });
    ::_exit(0);
  }
  int failures = 0;
  for (int i = 0; i < options.processes; ++i) {
    int status = 0;
    if (::wait(&status) < 0 || status != 0) ++failures;
  }
  return failures == 0 ? 0 : 1;
}
