// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_pair [--ia=NAME] read|write|placed BYTES
// dat_pair [--ia=NAME] turns|scattered|few|fresh|resident|proportional CONNECTIONS
//
// Measures between two processes, each on a processor of its own. Prints one number:
//   read BYTES    an RDMA Read from a process that sleeps in pause(2) and makes no DAT call, from
//                 the post until the completion, for which the initiator polls; microseconds
//   write BYTES   the same with an RDMA Write
//   placed BYTES  the same, until the bytes are also in the target's memory
//   turns N         a message of 8 bytes in each direction on one of N connections after the other;
//                   both sides poll; microseconds one way
//   scattered N     the same, in an order that looks random
//   few N           the same, with 16 of the connections; the others have never been used
//   fresh N         memory that one of N connections adds to its process before anything was sent
//                   on it, in KiB (VmRSS), in the process where that is larger
//   resident N      the same, after a message each way
//   proportional N  the same, with memory that both processes share counted half for each (Pss)
// Exit status 77: it cannot be measured here; the output is the reason.
#include "pair.h"
#include "pair_many.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kDuration = std::chrono::milliseconds(200);
constexpr int kWarm = 200;

double median_time(const auto& operation) {
  for (int i = 0; i < kWarm; ++i) operation();
  std::vector<double> times;
  for (const auto end = Clock::now() + kDuration; Clock::now() < end;) {
    const auto before = Clock::now();
    operation();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  std::ranges::nth_element(times, times.begin() + static_cast<long>(times.size() / 2));
  return times[times.size() / 2];
}

// The target memory, at the same address in both processes.
class Target {
 public:
  Target(std::size_t size, bool seen_by_both)
      : size_(std::max(size, sizeof(std::uint64_t))),
        memory_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                       MAP_ANONYMOUS | (seen_by_both ? MAP_SHARED : MAP_PRIVATE), -1, 0)) {
    if (memory_ == MAP_FAILED) std::exit(1);
  }

  // For the passive process: publishes the memory and sleeps.
  void serve(bench::Meeting& meeting) const {
    std::memset(memory_, 1, size_);
    bench::PairMember member(bench::PairMember::kPassive, meeting, 1);
    DAT_REGION_DESCRIPTION region{};
    region.for_va = memory_;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT local = 0;
    DAT_RMR_CONTEXT context = 0;
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;
    bench::check(dat_lmr_create(member.adapter.ia, DAT_MEM_TYPE_VIRTUAL, region, size_,
                                member.adapter.pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr,
                                &local, &context, &length, &address),
                 "dat_lmr_create");
    meeting.address = reinterpret_cast<DAT_VADDR>(memory_);
    meeting.context = context;
    member.connect();
    member.meet();
    while (true) ::pause();
  }

  [[nodiscard]] volatile std::uint64_t& last_word() const {
    return *reinterpret_cast<volatile std::uint64_t*>(static_cast<char*>(memory_) + size_ -
                                                      sizeof(std::uint64_t));
  }

 private:
  std::size_t size_;
  void* memory_;
};

void access_sleeper(std::string_view what, std::size_t size, const Target& target,
                    bench::Meeting& meeting) {
  bench::PairMember member(bench::PairMember::kActive, meeting, 1);
  const bench::Buffer buffer(member.adapter, size);
  member.connect();
  member.meet();
  const bench::End& end = member.ends.front();
  DAT_RMR_TRIPLET remote = buffer.remote(size);
  remote.virtual_address = meeting.address;
  remote.rmr_context = meeting.context;
  DAT_LMR_TRIPLET local = buffer.local(size);
  const auto post = what == "read" ? dat_ep_post_rdma_read : dat_ep_post_rdma_write;
  const auto complete = [&] {
    bench::check(post(end.ep, 1, &local, DAT_DTO_COOKIE{}, &remote, DAT_COMPLETION_DEFAULT_FLAG),
                 "post");
    bench::poll_one(end.request_evd);
  };
  if (what != "placed") bench::report(median_time(complete));
  auto* const source = const_cast<std::byte*>(buffer.bytes.data()) + size - sizeof(std::uint64_t);
  std::uint64_t count = 0;
  bench::report(median_time([&] {
    ++count;
    std::memcpy(source, &count, sizeof count);
    complete();
    while (target.last_word() != count) {
    }
  }));
}

void measure_access(std::string_view what, int number) {
  const auto size = static_cast<std::size_t>(number);
  const Target target(size, what == "placed");
  bench::run_pair([&](bench::Meeting& meeting) { target.serve(meeting); },
                  [&](bench::Meeting& meeting) { access_sleeper(what, size, target, meeting); });
}

bool measure(std::string_view what, int number) {
  if (what == "turns")
    bench::take_turns(number, bench::Order::kTurns);
  else if (what == "scattered")
    bench::take_turns(number, bench::Order::kScattered);
  else if (what == "few")
    bench::take_turns(number, bench::Order::kFew);
  else if (what == "fresh" || what == "resident" || what == "proportional")
    bench::hold_idle(what, number);
  else if (what == "read" || what == "write" || (what == "placed" && number >= 8))
    measure_access(what, number);
  else
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view kIaOption = "--ia=";
  int next = 1;
  if (argc > 1 && std::string_view(argv[1]).starts_with(kIaOption))
    bench::set_ia_name(argv[next++] + kIaOption.size());
  int number = 0;
  if (argc == next + 2) {
    const std::string_view text = argv[next + 1];
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  if (number > 0 && measure(argv[next], number)) return 0;
  std::fputs(
      "dat_pair [--ia=NAME] read|write|placed BYTES\n"
      "dat_pair [--ia=NAME] turns|scattered|few|fresh|resident|proportional CONNECTIONS\n",
      stderr);
  return 2;
}
