// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/memory_fault.h"

#include "common/mappings.h"
#include "common/not_cancelled.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace udapl::soft {

namespace {

// MADV_POPULATE_READ and MADV_POPULATE_WRITE of Linux 5.14, as numbers for older headers. They make
// pages present as an access would, but return an error instead of raising a signal.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

constexpr const char* kUnmapped = "it is not mapped";

bool can_populate() noexcept {
  static const bool can = ::madvise(nullptr, 0, kPopulateWrite) == 0;
  return can;
}

// With MS_ASYNC, msync only looks for holes, one mapping after the other.
bool is_mapped(std::uintptr_t first, std::size_t size) noexcept {
  const NotCancelled scope;
  return ::msync(reinterpret_cast<void*>(first), size, MS_ASYNC) == 0 || errno != ENOMEM;
}

const char* fault_in(std::uintptr_t first, std::size_t size, bool writes) noexcept {
  if (::madvise(reinterpret_cast<void*>(first), size, writes ? kPopulateWrite : kPopulateRead) == 0)
    return nullptr;
  switch (errno) {
    case EFAULT:
      return "an access would raise SIGBUS, as beyond the end of a file";
    case EINVAL: {  // the right is missing, or the mapping is special, such as memory of a device
      const MappingTest readable = [](const char* rights) { return rights[0] == 'r'; };
      const MappingTest writable = [](const char* rights) { return rights[1] == 'w'; };
      if (all_mappings(first, size, writes ? writable : readable) != false) return nullptr;
      return writes ? "it is not writable" : "it is not readable";
    }
    case ENOMEM:  // not mapped, or out of memory
      return is_mapped(first, size) ? nullptr : kUnmapped;
    default:
      return nullptr;
  }
}

}  // namespace

const char* memory_fault(std::uint64_t address, std::uint64_t length, bool writes) noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = address & ~(page - 1);
  const std::uintptr_t last = (address + (length - 1)) & ~(page - 1);
  if (!can_populate()) return is_mapped(first, last - first + page) ? nullptr : kUnmapped;
  if (last - first <= page) return fault_in(first, last - first + page, writes);
  if (const char* const fault = fault_in(first, page, writes); fault != nullptr) return fault;
  if (const char* const fault = fault_in(last, page, writes); fault != nullptr) return fault;
  return is_mapped(first + page, last - first - page) ? nullptr : kUnmapped;
}

}  // namespace udapl::soft
