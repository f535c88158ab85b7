// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "pair.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>

namespace bench {

namespace {

constexpr DAT_COUNT kDepth = 8;
constexpr DAT_TIMEOUT kPatience = 10'000'000;  // us
constexpr int kSpare = 64;                     // descriptors for everything else

template <class Condition>
void await(Condition condition) {
  while (!condition()) ::usleep(200);
}

void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    std::perror("sched_setaffinity");
    std::exit(1);
  }
}

int open_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<int>(std::distance(begin(open), end(open)));
}

int descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
}

}  // namespace

PairMember::PairMember(Role role, Meeting& with, int connections)
    : meeting(with), ends(static_cast<std::size_t>(connections)), role_(role) {
  const DAT_COUNT events = std::min(connections * kDepth, adapter.attr.max_evd_qlen);
  create_evd(adapter, events, DAT_EVD_DTO_FLAG, &shared_.recv_evd);
  create_evd(adapter, events, DAT_EVD_DTO_FLAG, &shared_.request_evd);
  create_evd(adapter, std::max(8, connections), DAT_EVD_CONNECTION_FLAG, &shared_.connect_evd);
  if (role_ == kPassive) listen();
}

void PairMember::listen() {
  create_evd(adapter, 8, DAT_EVD_CR_FLAG, &requests_);
  DAT_CONN_QUAL conn_qual = 0;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  check(dat_psp_create_any(adapter.ia, &conn_qual, requests_, DAT_PSP_CONSUMER_FLAG, &psp),
        "dat_psp_create_any");
  meeting.conn_qual = conn_qual;
}

void PairMember::connect(int until) {
  await([&] { return meeting.conn_qual != 0; });
  if (made_ == 0) descriptors_ = open_descriptors();
  while (made_ < until) {
    End& end = ends[static_cast<std::size_t>(made_)];
    end = shared_;
    end.create_ep(adapter, kDepth);
    connect_one(end);
    if (++made_ == kTrial) count_descriptors(made_);
  }
}

void PairMember::connect_one(const End& end) {
  if (role_ == kActive) {
    check(dat_ep_connect(end.ep, adapter.attr.ia_address_ptr, meeting.conn_qual, kPatience, 0,
                         nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
          "dat_ep_connect");
  } else {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    check(dat_evd_wait(requests_, kPatience, 1, &event, &more), "dat_evd_wait");
    check(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, end.ep, 0, nullptr),
          "dat_cr_accept");
  }
  wait_connection(end.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void PairMember::count_descriptors(int connections) {
  const int each = (open_descriptors() - descriptors_ + connections - 1) / connections;
  const int limit = descriptor_limit();
  meeting.affordable[role_] = each == 0 ? INT_MAX : (limit - descriptors_ - kSpare) / each;
  meet();
  const int affordable = std::min(meeting.affordable[0].load(), meeting.affordable[1].load());
  if (affordable >= static_cast<int>(ends.size())) return;
  if (role_ == kActive)
    std::printf("RLIMIT_NOFILE is %d: enough for %d connections only\n", limit, affordable);
  std::fflush(stdout);
  ::_exit(kSkipped);
}

void PairMember::meet() {
  ++steps_;
  meeting.steps[role_] = steps_;
  await([&] { return meeting.steps[1 - role_] >= steps_; });
}

void run_pair(const std::function<void(Meeting&)>& passive,
              const std::function<void(Meeting&)>& active) {
  void* const pages =
      ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) std::exit(1);
  auto& meeting = *new (pages) Meeting;
  const pid_t child = ::fork();
  if (child < 0) std::exit(1);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(0);
    passive(meeting);
    ::_exit(0);
  }
  pin(1);
  active(meeting);
}

void report(double result) {
  std::printf("%.4f\n", result);
  std::fflush(stdout);
  ::_exit(0);
}

}  // namespace bench
