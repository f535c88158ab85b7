// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "two_processes.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace peers {

namespace {

constexpr int kWarm = 1000;

void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

}  // namespace

void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

double measure(const std::function<void()>& other, const std::function<void()>& round,
               std::chrono::steady_clock::duration duration) {
  using Clock = std::chrono::steady_clock;
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(0);
    while (true) other();
  }
  pin(1);
  const auto begin = Clock::now();
  for (int warm = 0; warm < kWarm && Clock::now() < begin + duration; ++warm) round();
  std::vector<double> samples;
  for (const auto end = Clock::now() + duration; Clock::now() < end;) {
    const auto before = Clock::now();
    round();
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::ranges::nth_element(samples, samples.begin() + static_cast<long>(samples.size() / 2));
  return samples[samples.size() / 2];
}

}  // namespace peers
