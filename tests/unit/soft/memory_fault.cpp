// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/memory_fault.h"
#include "common/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>

namespace udapl::soft {
namespace {

const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

class Mapping {
 public:
  Mapping(std::size_t pages, int rights, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
      : size_(pages * kPage),
        start_(static_cast<std::byte*>(::mmap(nullptr, size_, rights, flags, fd, 0))) {
    BOOST_REQUIRE(start_ != MAP_FAILED);
  }
  ~Mapping() { ::munmap(start_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void protect(std::size_t page, int rights) const {
    BOOST_REQUIRE_EQUAL(::mprotect(start_ + page * kPage, kPage, rights), 0);
  }
  void unmap(std::size_t page) const {
    BOOST_REQUIRE_EQUAL(::munmap(start_ + page * kPage, kPage), 0);
  }
  [[nodiscard]] std::string reading(std::size_t from, std::size_t length) const {
    return text(memory_fault(address(from), length, false));
  }
  [[nodiscard]] std::string writing(std::size_t from, std::size_t length) const {
    return text(memory_fault(address(from), length, true));
  }

 private:
  static std::string text(const char* fault) { return fault == nullptr ? "" : fault; }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(start_ + offset);
  }
  const std::size_t size_;
  std::byte* const start_;
};

constexpr const char* kUnmapped = "it is not mapped";
constexpr const char* kReadOnly = "it is not writable";

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_faults)

BOOST_AUTO_TEST_CASE(usable_memory_has_none) {
  const Mapping memory(8, PROT_READ | PROT_WRITE);
  const Mapping shared(8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  for (const std::size_t length : {std::size_t{1}, kPage, kPage + 1, 3 * kPage, 7 * kPage}) {
    BOOST_TEST(memory.writing(kPage - 1, length).empty());
    BOOST_TEST(shared.writing(kPage - 1, length).empty());
  }
}

BOOST_AUTO_TEST_CASE(holes_are_found) {
  const Mapping memory(8, PROT_READ | PROT_WRITE);
  memory.unmap(5);
  BOOST_TEST(memory.writing(0, 5 * kPage).empty());
  BOOST_TEST(memory.writing(0, 5 * kPage + 1) == kUnmapped);
  BOOST_TEST(memory.reading(0, 8 * kPage) == kUnmapped);
  BOOST_TEST(memory.reading(5 * kPage, 1) == kUnmapped);
  BOOST_TEST(memory.reading(4 * kPage, 2 * kPage) == kUnmapped);
  BOOST_TEST(memory.reading(6 * kPage - 1, 2 * kPage) == kUnmapped);
  for (const std::uint64_t address : {std::uint64_t{1} << 63U, ~std::uint64_t{kPage - 1}})
    BOOST_TEST(memory_fault(address, kPage, false) != nullptr);
}

BOOST_AUTO_TEST_CASE(missing_rights_are_found) {
  const Mapping memory(8, PROT_READ);
  BOOST_TEST(memory.reading(0, 8 * kPage).empty());
  BOOST_TEST(memory.writing(0, 8 * kPage) == kReadOnly);
  memory.protect(0, PROT_READ | PROT_WRITE);
  BOOST_TEST(memory.writing(0, 8 * kPage) == kReadOnly);
  BOOST_TEST(memory.writing(0, 2 * kPage) == kReadOnly);
  BOOST_TEST(memory.writing(kPage - 1, 1).empty());
  memory.protect(7, PROT_NONE);
  BOOST_TEST(memory.reading(0, 8 * kPage) == "it is not readable");
}

BOOST_AUTO_TEST_CASE(the_end_of_a_file_is_found) {
  const Fd file(::memfd_create("memory_fault", MFD_CLOEXEC));
  BOOST_REQUIRE_EQUAL(::ftruncate(file.get(), static_cast<off_t>(2 * kPage)), 0);
  const Mapping memory(8, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
  BOOST_TEST(memory.writing(0, 2 * kPage).empty());
  BOOST_TEST(memory.writing(0, 3 * kPage).find("SIGBUS") != std::string::npos);
  BOOST_TEST(memory.reading(0, 8 * kPage).find("SIGBUS") != std::string::npos);
}

// The kernel faults in nothing of it, as nothing of the memory of a device.
BOOST_AUTO_TEST_CASE(special_memory_is_accepted) {
#if defined(SYS_memfd_secret)
  const Fd file(static_cast<int>(::syscall(SYS_memfd_secret, O_CLOEXEC)));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(4 * kPage)) != 0) return;
  const Mapping memory(4, PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
  BOOST_TEST(memory.writing(0, 4 * kPage).empty());
  BOOST_TEST(memory.reading(kPage, 1).empty());
#endif
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft
