// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(UDAPL_WITH_ISAL)
#include <isa-l/crc.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace udapl::iwarp {
namespace {

// From this size on the folding implementation of ISA-L is faster, in spite of the call.
#if defined(UDAPL_WITH_ISAL)
constexpr std::size_t kLongFrom = 64;
#else
constexpr std::size_t kLongFrom = SIZE_MAX;
#endif

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78U : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

#if defined(__x86_64__) || defined(__i386__)

bool has_instruction() noexcept { return __builtin_cpu_supports("sse4.2"); }

__attribute__((target("sse4.2"))) std::uint32_t update_instruction(std::uint32_t crc,
                                                                   const std::uint8_t* p,
                                                                   std::size_t bytes) noexcept {
#if defined(__x86_64__)
  std::uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    std::uint64_t v;
    std::memcpy(&v, p, sizeof v);
    wide = _mm_crc32_u64(wide, v);
  }
  crc = static_cast<std::uint32_t>(wide);
#endif
  for (; bytes >= 4; bytes -= 4, p += 4) {
    std::uint32_t v;
    std::memcpy(&v, p, sizeof v);
    crc = _mm_crc32_u32(crc, v);
  }
  for (; bytes != 0; --bytes, ++p) crc = _mm_crc32_u8(crc, *p);
  return crc;
}

#elif defined(__ARM_FEATURE_CRC32)

bool has_instruction() noexcept { return true; }

std::uint32_t update_instruction(std::uint32_t crc, const std::uint8_t* p,
                                 std::size_t bytes) noexcept {
  for (; bytes >= 8; bytes -= 8, p += 8) {
    std::uint64_t v;
    std::memcpy(&v, p, sizeof v);
    crc = __crc32cd(crc, v);
  }
  for (; bytes != 0; --bytes, ++p) crc = __crc32cb(crc, *p);
  return crc;
}

#else

bool has_instruction() noexcept { return false; }

std::uint32_t update_instruction(std::uint32_t crc, const std::uint8_t* p,
                                 std::size_t bytes) noexcept {
  return crc32c_update_table(crc, p, bytes);
}

#endif

}  // namespace

std::uint32_t crc32c_update_table(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
  const auto* p = static_cast<const std::uint8_t*>(data);
  for (; bytes != 0; --bytes, ++p) crc = crc >> 8 ^ kTable[(crc ^ *p) & 0xFF];
  return crc;
}

std::uint32_t crc32c_update_long(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
#if defined(UDAPL_WITH_ISAL)
  constexpr std::size_t kMaxCall = std::size_t{1} << 30;  // the length parameter is an int
  // ISA-L only reads; its prototype lacks the const.
  auto* p = static_cast<unsigned char*>(const_cast<void*>(data));
  while (bytes != 0) {
    const std::size_t n = std::min(bytes, kMaxCall);
    crc = crc32_iscsi(p, static_cast<int>(n), crc);
    p += n;
    bytes -= n;
  }
  return crc;
#else
  return crc32c_update_table(crc, data, bytes);
#endif
}

std::uint32_t crc32c_update(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
  if (bytes < kLongFrom && has_instruction()) {
    return update_instruction(crc, static_cast<const std::uint8_t*>(data), bytes);
  }
  return crc32c_update_long(crc, data, bytes);
}

}  // namespace udapl::iwarp
