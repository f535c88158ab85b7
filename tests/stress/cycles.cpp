// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

// 10,000 connections one after the other leave nothing behind.
namespace conformance {

namespace {

constexpr int kWarmUp = 500;
constexpr int kCycles = 10000;
constexpr long kAllowedGrowth =
    1L << 20;  // bytes: allocator slack; a tenth of what one leaked kilobyte per cycle would be

struct Usage {
  long resident = 0;  // bytes
  long threads = 0;
  long descriptors = 0;
};

Usage usage_now() {
  Usage usage;
  long total_pages = 0;
  long resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  usage.resident = resident_pages * ::sysconf(_SC_PAGESIZE);
  const auto entries = [](const char* folder) {
    return static_cast<long>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  usage.threads = entries("/proc/self/task");
  usage.descriptors = entries("/proc/self/fd");
  return usage;
}

void cycle(Pair& pair, int number) {
  pair.connect();
  pair.disconnect(number % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
  REQUIRE_OK(dat_ep_reset(pair.active.ep));
  REQUIRE_OK(dat_ep_reset(pair.passive.ep));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cycles)

BOOST_AUTO_TEST_CASE(ten_thousand_connections_leave_nothing) {
  Pair pair;
  for (int i = 0; i < kWarmUp; ++i) cycle(pair, i);
  const Usage before = usage_now();
  for (int i = 0; i < kCycles; ++i) cycle(pair, i);
  const Usage after = usage_now();
  std::printf("resident %ld -> %ld bytes, threads %ld -> %ld, descriptors %ld -> %ld\n",
              before.resident, after.resident, before.threads, after.threads, before.descriptors,
              after.descriptors);
  BOOST_CHECK_EQUAL(after.threads, before.threads);
  // A connection that is just ending may still hold its socket.
  BOOST_CHECK_LE(after.descriptors, before.descriptors + 4);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // their quarantine and shadow grow by design
  BOOST_CHECK_LE(after.resident, before.resident + kAllowedGrowth);
#else
  static_cast<void>(kAllowedGrowth);
#endif
}

BOOST_AUTO_TEST_CASE(objects_come_and_go) {
  Ia ia;
  const auto all_objects = [&] {
    const Pz pz = make_pz(ia);
    Buffer buffer(ia, pz, 4096);
    End end;
    end.create(ia, pz, nullptr);
    REQUIRE_OK(end.post_recv(buffer, 4096, 1));
  };
  for (int i = 0; i < kWarmUp; ++i) all_objects();
  const Usage before = usage_now();
  for (int i = 0; i < kCycles; ++i) all_objects();
  const Usage after = usage_now();
  BOOST_CHECK_EQUAL(after.threads, before.threads);
  BOOST_CHECK_EQUAL(after.descriptors, before.descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  BOOST_CHECK_LE(after.resident, before.resident + kAllowedGrowth);
#endif
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
