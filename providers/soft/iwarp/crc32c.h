// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// CRC32C (Castagnoli) as MPA and iSCSI use it: RFC 5044 §4.4.
// Stateless; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace udapl::iwarp {

// A running CRC starts as kCrcInit, is updated piece by piece by crc32c_update(), and is turned
// into the value of the CRC field by crc32c_finish().
inline constexpr std::uint32_t kCrcInit = 0xFFFFFFFF;
std::uint32_t crc32c_update(std::uint32_t crc, const void* data, std::size_t bytes) noexcept;
constexpr std::uint32_t crc32c_finish(std::uint32_t crc) noexcept { return ~crc; }

inline std::uint32_t crc32c(const void* data, std::size_t bytes) noexcept {
  return crc32c_finish(crc32c_update(kCrcInit, data, bytes));
}

// The implementations behind crc32c_update(), for tests and for machines without the instruction.
std::uint32_t crc32c_update_table(std::uint32_t crc, const void* data, std::size_t bytes) noexcept;
// ISA-L's, or the table in a build without it.
std::uint32_t crc32c_update_long(std::uint32_t crc, const void* data, std::size_t bytes) noexcept;

}  // namespace udapl::iwarp
