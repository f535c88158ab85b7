// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Copies between processes by the kernel.
#include "providers/soft/shm/kernel_copy.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace udapl::soft::shm::test {
namespace {

BOOST_AUTO_TEST_SUITE(kernel_copy)

BOOST_AUTO_TEST_CASE(copies_by_detour_are_complete) {
  constexpr std::size_t kMax = 100'000;
  std::vector<std::byte> there(kMax + 64);
  std::vector<std::byte> here(kMax + 64);
  std::vector<std::byte> pieces_of(kMax);
  const auto address = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); };
  const auto fill = [](std::span<std::byte> bytes, std::size_t seed) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + seed);
  };
  const Remote self{::getpid()};
  for (const std::size_t size :
       {1UL, 7UL, 8UL, 9UL, 4096UL, 32'768UL, 32'770UL, 32'776UL, 65'536UL, kMax}) {
    for (const std::size_t offset : {0UL, 3UL, 32UL}) {
      const std::size_t first = size / 3;
      const std::array<iovec, 3> pieces{iovec{here.data() + 1, first}, iovec{nullptr, 0},
                                        iovec{pieces_of.data(), size - first}};
      const auto together = [&] {
        std::vector<std::byte> all(here.begin() + 1,
                                   here.begin() + 1 + static_cast<std::ptrdiff_t>(first));
        all.insert(all.end(), pieces_of.begin(),
                   pieces_of.begin() + static_cast<std::ptrdiff_t>(size - first));
        return all;
      };
      const std::span<std::byte> target(there.data() + offset, size);
      fill(target, size);
      BOOST_REQUIRE(read_by_detour(self, address(target.data()), pieces));
      BOOST_TEST(std::ranges::equal(together(), target));

      fill(here, offset);
      fill(pieces_of, offset + 5);
      const std::byte behind = there[offset + size];
      BOOST_REQUIRE(write_by_detour(self, address(target.data()), pieces, std::min(size, 8UL)));
      BOOST_TEST(std::ranges::equal(together(), target));
      BOOST_TEST((there[offset + size] == behind));
    }
  }
  const iovec piece{here.data(), 4096};
  BOOST_TEST(!read_by_detour(self, 4096, {&piece, 1}));
  BOOST_TEST(!write_by_detour(self, 4096, {&piece, 1}, 8));
  BOOST_TEST(errno == EFAULT);
}

// The first page cannot be written. What lies behind it may be, but not the end.
BOOST_AUTO_TEST_CASE(the_end_is_written_last) {
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kLast = 8;
  constexpr std::size_t kSize = 10 * kPage;
  void* const mapped =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(mapped != MAP_FAILED);
  auto* const there = static_cast<std::byte*>(mapped);
  BOOST_REQUIRE(::mprotect(there, kPage, PROT_READ) == 0);
  std::vector<std::byte> here(kSize, std::byte{1});
  const iovec piece{here.data(), kSize};
  const Remote self{::getpid()};
  const auto address = reinterpret_cast<std::uintptr_t>(there);
  for (const auto write : {&write_process, &write_by_detour}) {
    BOOST_TEST(!write(self, address, {&piece, 1}, kLast));
    BOOST_TEST(std::count(there + kSize - kLast, there + kSize, std::byte{0}) == 8);
  }
  ::munmap(mapped, kSize);
}

BOOST_AUTO_TEST_CASE(detours_pay_where_the_distance_matters) {
  BOOST_TEST((copy_costs().call_us > 0 && copy_costs().slow_64k_us > 0));
  CopyCosts costs{1.5, 7, 1.5, 29};
  BOOST_TEST(costs.detours_pay());
  costs.slow_64k_us = 8;
  BOOST_TEST(!costs.detours_pay());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::shm::test
