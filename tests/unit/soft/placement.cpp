// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The order in which placed bytes become visible.
#include "common/placement.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <memory>
#include <random>

#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

sigjmp_buf after_fault;

void on_fault(int) { siglongjmp(after_fault, 1); }

// Two pages, the second of which is read-only: a copy that reaches it stops at that store.
struct Pages {
  Pages() {
    struct sigaction action {};
    action.sa_handler = on_fault;
    ::sigaction(SIGSEGV, &action, &old_);
    memory = static_cast<std::byte*>(
        ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    BOOST_REQUIRE(memory != MAP_FAILED);
    BOOST_REQUIRE(::mprotect(memory + page, page, PROT_READ) == 0);
  }
  ~Pages() {
    ::sigaction(SIGSEGV, &old_, nullptr);
    ::munmap(memory, 2 * page);
  }
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* memory = nullptr;

 private:
  struct sigaction old_ {};
};

BOOST_AUTO_TEST_SUITE(placement)

BOOST_AUTO_TEST_CASE(every_size_and_alignment_is_copied) {
  const auto from = pattern(300);
  for (std::size_t offset = 0; offset < 9; ++offset)
    for (std::size_t size = 0; size < 290; ++size) {
      std::vector<std::byte> to(310, std::byte{0xEE});
      place_bytes(to.data() + offset, std::span(from).first(size));
      BOOST_REQUIRE(std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(size),
                               to.begin() + static_cast<std::ptrdiff_t>(offset)));
      for (std::size_t i = 0; i < offset; ++i) BOOST_REQUIRE((to[i] == std::byte{0xEE}));
      for (std::size_t i = offset + size; i < to.size(); ++i)
        BOOST_REQUIRE((to[i] == std::byte{0xEE}));
    }
}

BOOST_AUTO_TEST_CASE(every_distance_is_copied) {
  const auto from = pattern(20'000);
  std::vector<std::byte> to(30'000);
  for (std::size_t distance = 0; distance < 4096; distance += distance < 40 ? 1 : 64)
    for (const std::size_t size : {2047U, 2048U, 2049U, 4096U, 6145U, 20'000U}) {
      const std::uintptr_t lack = reinterpret_cast<std::uintptr_t>(from.data()) + distance -
                                  reinterpret_cast<std::uintptr_t>(to.data());
      std::byte* const start = to.data() + lack % 4096;
      BOOST_REQUIRE(slow_distance(start, from.data()) == (distance > 0 && distance < 32));
      std::fill(to.begin(), to.end(), std::byte{0xEE});
      copy_bytes(start, from.data(), size);
      BOOST_REQUIRE(std::equal(start, start + size, from.begin()));
      BOOST_REQUIRE((start[size] == std::byte{0xEE}));
    }
}

#ifndef __SANITIZE_THREAD__  // TSan has its own copy function; the second case races on purpose

// The last bytes are on the read-only page. When the store to them faults, all others have been
// written.
BOOST_FIXTURE_TEST_CASE(the_end_is_stored_last, Pages) {
  std::size_t faults = 0;
  for (std::size_t last = 1; last <= kPlacedLast; ++last) {
    for (const std::size_t size :
         {1U,  2U,   7U,   8U,   9U,   15U,  16U,  17U,   31U,   33U,   63U,  64U,
          65U, 100U, 127U, 129U, 255U, 257U, 511U, 1000U, 1023U, 2048U, 4000U}) {
      if (size < last) continue;
      const std::vector<std::byte> from(size, std::byte{1});
      std::byte* const to = memory + page + last - size;
      std::fill(memory, memory + page, std::byte{0});
      if (sigsetjmp(after_fault, 1) == 0) {
        place_bytes(to, from);
        BOOST_TEST(false, "no fault");
      }
      ++faults;
      const std::size_t stored =
          static_cast<std::size_t>(std::count(to, memory + page, std::byte{1}));
      BOOST_TEST(stored == size - last, "size " << size << ", last " << last);
    }
  }
  BOOST_TEST(faults > 100U);
}

// A thread that polls continuously never sees the end of a copy before the rest of it, and never a
// torn word.
BOOST_AUTO_TEST_CASE(a_poller_sees_the_end_last) {
  constexpr std::size_t kMax = 4096;
  constexpr int kBurst = 40;  // copies per look of the poller: few, as stamps count modulo 256
  alignas(64) static std::byte memory[kMax + 64];
  std::vector<std::byte> from(kMax);
  std::atomic<std::uint64_t> where{0};  // offset, size
  std::atomic<std::uint64_t> looks{0};
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> stale{0};
  const auto byte_at = [](std::size_t i) {
    return std::atomic_ref<std::uint8_t>(reinterpret_cast<std::uint8_t&>(memory[i]))
        .load(std::memory_order_acquire);
  };
  std::thread poller([&] {
    while (!over.load()) {
      const std::uint64_t now = where.load();
      const std::size_t offset = now >> 32;
      const std::size_t size = static_cast<std::uint32_t>(now);
      if (size != 0) {
        const std::uint8_t last = byte_at(offset + size - 1);
        bool bad = false;
        for (std::size_t i = 0; i + 1 < size; ++i)
          bad = bad || static_cast<std::int8_t>(byte_at(offset + i) - last) < 0;
        if (bad && where.load() == now) ++stale;
      }
      ++looks;
    }
  });
  std::minstd_rand random(3);
  std::uint8_t stamp = 0;
  const auto looked = [&](std::uint64_t times) {
    const std::uint64_t until = looks.load() + times;
    while (looks.load() < until) std::this_thread::yield();
  };
  const auto end = Clock::now() + 3s;
  std::uint64_t copies = 0;
  while (Clock::now() < end) {
    const std::size_t offset = random() % 64;
    const std::size_t size = 1 + (random() % 2 == 0 ? random() % 200 : random() % kMax);
    where.store(0);
    looked(2);
    std::fill(std::begin(memory), std::end(memory), static_cast<std::byte>(stamp));
    where.store(std::uint64_t{offset} << 32 | size);
    for (int burst = 0; burst < 20; ++burst) {
      for (int i = 0; i < kBurst; ++i, ++copies) {
        std::fill_n(from.begin(), size, static_cast<std::byte>(++stamp));
        place_bytes(memory + offset, std::span(from).first(size));
      }
      looked(2);
    }
  }
  over.store(true);
  poller.join();
  BOOST_TEST_MESSAGE(copies << " copies, " << looks.load() << " looks");
  BOOST_TEST(stale.load() == 0U);
}

#endif

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
