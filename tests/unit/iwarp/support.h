// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Shared by the iWARP tests: hex conversion, a reference CRC, and FPDUs and ULPDUs made without the
// code under test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "providers/soft/iwarp/wire.h"

namespace iwarp_test {

using namespace udapl::iwarp;  // NOLINT(google-build-using-namespace): test-only header
using Bytes = std::vector<std::byte>;

inline Bytes hex(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw std::invalid_argument("not a hex digit");
  };
  Bytes out;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') continue;
    if (high < 0) {
      high = digit(c);
    } else {
      out.push_back(static_cast<std::byte>(high << 4 | digit(c)));
      high = -1;
    }
  }
  return out;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Computed bit by bit from the polynomial; shares no code with the implementation under test.
inline std::uint32_t reference_crc(std::span<const std::byte> bytes) {
  static const auto of_byte = [] {
    std::array<std::uint32_t, 256> result{};
    for (std::uint32_t byte = 0; byte < result.size(); ++byte) {
      std::uint32_t& crc = result[byte] = byte;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78U : 0U);
    }
    return result;
  }();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::byte b : bytes)
    crc = (crc >> 8) ^ of_byte[(crc ^ std::to_integer<std::uint32_t>(b)) & 0xFF];
  return ~crc;
}

// Not inlined: GCC 12 warns about a reallocation of a vector whose size it thinks it knows.
[[gnu::noinline]] inline void append(Bytes& to, std::span<const std::byte> from) {
  to.insert(to.end(), from.begin(), from.end());
}
[[gnu::noinline]] inline void append_be(Bytes& to, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

// An FPDU around any ULPDU, valid or not, made without the code under test.
inline Bytes make_fpdu(std::span<const std::byte> ulpdu) {
  Bytes out;
  append_be(out, ulpdu.size(), 2);
  append(out, ulpdu);
  while (out.size() % 4 != 0) out.push_back(std::byte{0});
  const std::uint32_t crc = reference_crc(out);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
  return out;
}
inline Bytes tagged_ulpdu(unsigned opcode, bool last, std::uint32_t stag, std::uint64_t to,
                          std::span<const std::byte> payload = {}) {
  Bytes out;
  append_be(out, last ? 0xC1 : 0x81, 1);
  append_be(out, 0x40 | opcode, 1);
  append_be(out, stag, 4);
  append_be(out, to, 8);
  append(out, payload);
  return out;
}
inline Bytes untagged_ulpdu(unsigned opcode, bool last, std::uint32_t qn, std::uint32_t msn,
                            std::uint32_t mo, std::span<const std::byte> payload = {},
                            std::uint32_t stag = 0) {
  Bytes out;
  append_be(out, last ? 0x41 : 0x01, 1);
  append_be(out, 0x40 | opcode, 1);
  append_be(out, stag, 4);
  append_be(out, qn, 4);
  append_be(out, msn, 4);
  append_be(out, mo, 4);
  append(out, payload);
  return out;
}

inline Bytes pattern(std::size_t size, unsigned seed = 1) {
  Bytes out(size);
  std::minstd_rand random(seed);
  for (auto& b : out) b = static_cast<std::byte>(random() >> 8);
  return out;
}

}  // namespace iwarp_test
