// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>
#include <sys/uio.h>

// Copies between processes by process_vm_readv and process_vm_writev, which find the process by its
// pid. The pid names other memory once the process has called exec, or once another process has the
// pid. So a call can also copy a mark, which only the right memory has (docs/adr/0044).
namespace udapl::soft::shm {

// What process_vm_readv costs on this machine compared with memcpy. Measured at the first call,
// which takes some 200 us. Thread-safe.
struct CopyCosts {
  double call_us = 0;        // a call for eight bytes
  double per_64k_us = 0;     // a call for 64 KiB
  double memcpy_64k_us = 0;  // 64 KiB by memcpy, in the caches
  double slow_64k_us = 0;    // a call for 64 KiB at a slow distance (common/copy_bytes.h)

  // Whether a copy at a slow distance takes less time if it goes through memory at another
  // distance.
  [[nodiscard]] bool detours_pay() const noexcept {
    return slow_64k_us > per_64k_us + 3 * (call_us + memcpy_64k_us);
  }
};
[[nodiscard]] const CopyCosts& copy_costs() noexcept;
// For tests: sets the costs. Must precede the first call of copy_costs().
void assume_copy_costs(const CopyCosts& costs) noexcept;

// The other process.
struct Remote {
  using Mark = std::array<std::uint64_t, 2>;
  pid_t pid = 0;
  std::uint64_t mark_at = 0;  // the address of its mark, in writable memory; 0: it has none
  Mark mark{};
};

inline constexpr std::size_t kMaxLocalPieces = 65;

// Copies from `address` of a process into all of `local`, in any order. Returns false if not
// everything could be copied; some bytes may have been copied. Then errno is the reason, or 0 if
// the kernel gave none; ESRCH also means that the mark is missing, so the pid names other memory.
[[nodiscard]] bool read_process(const Remote& remote, std::uint64_t address,
                                std::span<const iovec> local) noexcept;
// The same in the other direction. The last `last` bytes become visible after all others.
[[nodiscard]] bool write_process(const Remote& remote, std::uint64_t address,
                                 std::span<const iovec> local, std::size_t last) noexcept;

// The same by way of memory of this process. read_process() and write_process() call these if
// CopyCosts::detours_pay().
[[nodiscard]] bool read_by_detour(const Remote& remote, std::uint64_t address,
                                  std::span<const iovec> local) noexcept;
[[nodiscard]] bool write_by_detour(const Remote& remote, std::uint64_t address,
                                   std::span<const iovec> local, std::size_t last) noexcept;

}  // namespace udapl::soft::shm
