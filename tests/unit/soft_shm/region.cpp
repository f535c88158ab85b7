// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Region: creation, and which descriptors of a peer are refused.
#include "providers/soft/shm/region.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace udapl::soft::shm::test {
namespace {

constexpr std::size_t kSize = 65536;
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Fd memfd(std::size_t size, int seals) {
  Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  BOOST_REQUIRE(fd.valid());
  BOOST_REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
  if (seals != 0) BOOST_REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

rlim_t size_of_process() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void refused(Fd fd) {
  errno = 0;
  const Region region = Region::adopt(std::move(fd), kSize);
  BOOST_TEST(!region.valid());
  BOOST_TEST(errno == EPERM);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(region)

BOOST_AUTO_TEST_CASE(both_sides_see_the_same_bytes) {
  Region ours = Region::make(kSize);
  BOOST_REQUIRE(ours.valid());
  BOOST_TEST(ours.fd() > STDERR_FILENO);
  BOOST_TEST((::fcntl(ours.fd(), F_GETFD) & FD_CLOEXEC) != 0);
  BOOST_TEST((::fcntl(ours.fd(), F_GET_SEALS) & kAllSeals) == kAllSeals);
  BOOST_TEST(::ftruncate(ours.fd(), 0) == -1);
  const Region theirs = Region::adopt(Fd(::dup(ours.fd())), kSize);
  BOOST_REQUIRE(theirs.valid());
  ours.close_fd();
  ours.bytes()[kSize - 1] = std::byte{7};
  BOOST_TEST((theirs.bytes()[kSize - 1] == std::byte{7}));
  const Region moved = std::move(ours);
  BOOST_TEST((moved.bytes()[kSize - 1] == std::byte{7}));
}

// Databases lock all memory. Needs a sufficient limit for locked memory.
BOOST_AUTO_TEST_CASE(locked_memory_is_not_taken_before_it_is_used) {
  if (::mlockall(MCL_FUTURE) != 0) return;
  constexpr std::size_t kPages = 1024;
  constexpr std::size_t kPage = 4096;
  const Region region = Region::make(kPages * kPage);
  ::munlockall();
  if (!region.valid()) return;  // beyond the limit of locked memory
  std::array<unsigned char, kPages> resident{};
  BOOST_REQUIRE(::mincore(region.bytes().data(), kPages * kPage, resident.data()) == 0);
  for (const unsigned char page : resident) BOOST_REQUIRE((page & 1) == 0);
  region.bytes()[5 * kPage] = std::byte{1};
}

BOOST_AUTO_TEST_CASE(limit_of_file_sizes_is_kept) {
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{kSize - 1, before.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Region none = Region::make(kSize);
  const int error = errno;
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  BOOST_TEST(!none.valid());
  BOOST_TEST(error == EFBIG);
}

// Batch systems limit it (ulimit -v), and the program needs it for its own memory.
BOOST_AUTO_TEST_CASE(at_most_a_quarter_of_a_limited_address_space_is_taken) {
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  const rlimit limit{2 * size_of_process() + (1U << 30), before.rlim_max};
  if (limit.rlim_cur > before.rlim_max) {
    BOOST_TEST_MESSAGE("skipped: the address space is limited already");
    return;
  }
  const std::size_t size = limit.rlim_cur / 8 / kSize * kSize + kSize;
  Fd offered = memfd(size, kAllSeals);
  BOOST_REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  const bool one = Region::make(size).valid();
  Region first = Region::make(size);
  const Region second = Region::make(size);
  const int error = errno;
  const Region adopted = Region::adopt(std::move(offered), size);
  const bool two = second.valid() || adopted.valid();
  first = {};
  const bool again = Region::make(size).valid();
  BOOST_REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  if (!one) {
    BOOST_TEST_MESSAGE("skipped: a sanitizer leaves no room for a region of this size");
    return;
  }
  BOOST_TEST(again);
  BOOST_TEST(!two);
  BOOST_TEST(error == ENOMEM);
}

// The kernel would allocate all of its pages, and write 20 MiB for each connection.
BOOST_AUTO_TEST_CASE(core_dumps_leave_it_out) {
  const Region region = Region::make(kSize);
  BOOST_REQUIRE(region.valid());
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(region.bytes().data()) << '-';
  std::ifstream mappings("/proc/self/smaps");
  std::string line;
  while (std::getline(mappings, line) && line.find(start.str()) != 0) continue;
  while (std::getline(mappings, line) && line.find("VmFlags:") != 0) continue;
  BOOST_REQUIRE(!line.empty());
  BOOST_TEST(line.find(" dd") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(each_seal_is_needed) {
  for (const int seal : std::array{F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL})
    refused(memfd(kSize, kAllSeals & ~seal));
  refused(memfd(kSize, 0));
}

BOOST_AUTO_TEST_CASE(other_sizes_are_refused) {
  for (const std::size_t size : std::array<std::size_t, 4>{0, 1, kSize - 1, 2 * kSize})
    refused(memfd(size, kAllSeals));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_refused) {
  const Region region = Region::adopt(memfd(kSize, kAllSeals | F_SEAL_WRITE), kSize);
  BOOST_TEST(!region.valid());
}

BOOST_AUTO_TEST_CASE(other_descriptors_are_refused) {
  refused(Fd());
  refused(Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)));
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  refused(Fd(ends[0]));
  refused(Fd(ends[1]));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::shm::test
