// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "pair_many.h"

#include "pair.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSize = 8;
constexpr auto kDuration = std::chrono::milliseconds(300);
constexpr int kPart = 256;  // round trips that are timed together
constexpr std::size_t kFew = 16;
constexpr unsigned kSettle =
    1'500'000;  // us, after which an idle connection has released what it can

// Sends and receives on one connection after the other, with one message in flight. Any other order
// begins when each connection has been used once.
class Turns {
 public:
  explicit Turns(PairMember& member, Order order = Order::kTurns)
      : member_(member),
        used_(order == Order::kFew ? std::min(member.ends.size(), kFew) : member.ends.size()),
        scattered_(order != Order::kTurns),
        in_(member.adapter, kSize),
        out_(member.adapter, kSize) {
    for (const End& end : member.ends) end.post_recv(in_, kSize);
    member.meet();
  }

  void ask() {
    const End& end = next();
    send(end);
    receive(end);
  }
  void answer() {
    const End& end = next();
    receive(end);
    send(end);
  }

 private:
  const End& next() {
    if (started_ != used_) return member_.ends[started_++];
    at_ = scattered_ ? random_() : at_ + 1;
    return member_.ends[at_ % used_];
  }
  void send(const End& end) const {
    end.post_send(out_, kSize);
    poll_one(end.request_evd);
  }
  void receive(const End& end) const {
    poll_one(end.recv_evd);
    end.post_recv(in_, kSize);
  }

  PairMember& member_;
  const std::size_t used_;
  const bool scattered_;
  std::minstd_rand random_;  // the same in both processes
  Buffer in_;
  Buffer out_;
  std::size_t started_ = 0;
  std::size_t at_ = 0;
};

// The value of line `name` in a file of /proc, in KiB.
double memory(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    double value = 0;
    if (word == name && lines >> value) return value;
  }
  std::fprintf(stderr, "dat_pair: no %s in %s\n", name.c_str(), file);
  std::exit(1);
}

double memory(std::string_view what) {
  return what == "proportional" ? memory("/proc/self/smaps_rollup", "Pss:")
                                : memory("/proc/self/status", "VmRSS:");
}

// The memory that each connection after the first few adds, in KiB. Both processes must call it.
double added_memory(std::string_view what, PairMember& member, void (Turns::*turn)()) {
  const std::size_t count = member.ends.size();
  member.connect(kTrial);
  member.meet();
  const double before = memory(what);
  member.connect();
  if (what != "fresh") {
    Turns turns(member);
    for (std::size_t i = 0; i < count; ++i) (turns.*turn)();
  }
  member.meet();
  ::usleep(kSettle);
  const double after = memory(what);
  return (after - before) / static_cast<double>(count - kTrial);
}

}  // namespace

void take_turns(int connections, Order order) {
  run_pair(
      [&](Meeting& meeting) {
        PairMember member(PairMember::kPassive, meeting, connections);
        member.connect();
        Turns turns(member, order);
        while (true) turns.answer();
      },
      [&](Meeting& meeting) {
        PairMember member(PairMember::kActive, meeting, connections);
        member.connect();
        Turns turns(member, order);
        for (int i = 0; i < std::max(connections, kPart); ++i) turns.ask();
        std::vector<double> parts;
        for (const auto end = Clock::now() + kDuration; Clock::now() < end;) {
          const auto before = Clock::now();
          for (int i = 0; i < kPart; ++i) turns.ask();
          const std::chrono::duration<double, std::micro> time = Clock::now() - before;
          parts.push_back(time.count() / kPart / 2);
        }
        std::ranges::nth_element(parts, parts.begin() + static_cast<long>(parts.size() / 2));
        report(parts[parts.size() / 2]);
      });
}

void hold_idle(std::string_view what, int connections) {
  const int count = std::max(connections, 2 * kTrial);
  run_pair(
      [&](Meeting& meeting) {
        PairMember member(PairMember::kPassive, meeting, count);
        meeting.passive_result = added_memory(what, member, &Turns::answer);
        member.meet();
        while (true) ::pause();
      },
      [&](Meeting& meeting) {
        PairMember member(PairMember::kActive, meeting, count);
        const double mine = added_memory(what, member, &Turns::ask);
        member.meet();
        report(std::max(mine, meeting.passive_result.load()));
      });
}

}  // namespace bench
