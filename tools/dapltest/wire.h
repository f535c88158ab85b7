// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The wire protocol of dapltest, byte for byte that of the packaged program (wire version 6),
// worked out by observing it. Control messages have a fixed size and start with the version and the
// byte order of the sender; all numbers have 32 bits.
#pragma once

#include "options.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace dapltest::wire {

inline constexpr std::uint32_t kVersion = 6;
inline constexpr std::size_t kControlSize = 8192;  // bytes of each control message
inline constexpr std::size_t kNameSize = 256;
inline constexpr std::size_t kMemorySize = 12;  // of one MemoryInfo
inline constexpr std::size_t kMemoryListSize = kMaxOperations * kMemorySize;
inline constexpr std::size_t kSyncSize = 64;
// Private data of a transaction's connections, without a terminating null.
inline constexpr char kGreeting[] = "DAPL and RDMA rule! Test 4321.";

using Control = std::span<std::byte, kControlSize>;

// Numbers at offsets in a message. Written as little-endian; read in the byte order that the
// message itself declares.
class Words {
 public:
  explicit Words(std::span<std::byte> bytes, bool little_endian = true)
      : bytes_(bytes), little_(little_endian) {}

  [[nodiscard]] std::uint32_t get(std::size_t at) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto byte = std::to_integer<std::uint32_t>(bytes_[at + i]);
      value |= byte << (8 * (little_ ? i : 3 - i));
    }
    return value;
  }
  [[nodiscard]] std::uint64_t get64(std::size_t at) const {
    const std::uint64_t first = get(at);
    const std::uint64_t second = get(at + 4);
    return little_ ? second << 32 | first : first << 32 | second;
  }
  void set(std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) {
      bytes_[at + i] = static_cast<std::byte>(value >> (8 * (little_ ? i : 3 - i)));
    }
  }
  void set64(std::size_t at, std::uint64_t value) {
    set(at, static_cast<std::uint32_t>(value));
    set(at + 4, static_cast<std::uint32_t>(value >> 32));
  }
  void set_name(std::size_t at, const std::string& name) {
    std::memcpy(&bytes_[at], name.data(), std::min(name.size(), kNameSize - 1));
  }

 private:
  std::span<std::byte> bytes_;
  bool little_;
};

// The header of both ClientInfo and ServerInfo. `third` is the test number in ClientInfo and the
// first reserved conn qual in ServerInfo; `endpoints` is used in ClientInfo only.
struct Info {
  std::uint32_t version = kVersion;
  bool little_endian = true;
  std::uint32_t third = 0;
  std::uint32_t endpoints = 0;
};

void encode(const Info& info, Control to);
[[nodiscard]] Info decode_info(Control from);

// Test numbers in ClientInfo.
inline constexpr std::uint32_t kTransactionTest = 1;
inline constexpr std::uint32_t kPerformanceTest = 2;
inline constexpr std::uint32_t kQuitTest = 4;

// Encode a client's options as its command message, and decode them on the server. Decoded options
// are untrusted input: see check_command().
void encode_transaction(const Options& options, Control to);
void encode_performance(const Options& options, Control to);
void encode_quit(const Options& options, Control to);
[[nodiscard]] Options decode_transaction(Control from, bool little_endian);
[[nodiscard]] Options decode_performance(Control from, bool little_endian);

// Where the peer's memory for one operation is; all 0 if the operation has none.
struct MemoryInfo {
  std::uint32_t rmr_context = 0;
  std::uint64_t address = 0;
};
void encode(const MemoryInfo& info, std::span<std::byte> to);
[[nodiscard]] MemoryInfo decode_memory(std::span<std::byte> from, bool little_endian);

}  // namespace dapltest::wire
