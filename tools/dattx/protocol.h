// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The protocol of client and server, apart from the data: private data of the connection set-up,
// and commands and answers as Sends. Everything is big-endian on the wire.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace dattx {

inline constexpr std::uint32_t kMagic = 0x64747831;  // "dtx1": protocol version 1

// A message of eight 32-bit words.
class Words {
 public:
  static constexpr std::size_t kSize = 32;

  [[nodiscard]] std::uint32_t get(std::size_t index) const { return words_[index]; }
  [[nodiscard]] std::uint64_t get64(std::size_t index) const {
    return std::uint64_t{words_[index]} << 32 | words_[index + 1];
  }
  void set(std::size_t index, std::uint32_t value) { words_[index] = value; }
  void set64(std::size_t index, std::uint64_t value) {
    words_[index] = static_cast<std::uint32_t>(value >> 32);
    words_[index + 1] = static_cast<std::uint32_t>(value);
  }

  // REQUIRES: to.size() >= kSize.
  void write(std::span<std::byte> to) const {
    for (std::size_t i = 0; i < kSize; ++i) {
      to[i] = static_cast<std::byte>(words_[i / 4] >> (24 - 8 * (i % 4)));
    }
  }
  // Returns nullopt if there are too few bytes or they do not start with the magic number.
  static std::optional<Words> read(std::span<const std::byte> from) {
    if (from.size() < kSize) {
      return std::nullopt;
    }
    Words result;
    for (std::size_t i = 0; i < kSize; ++i) {
      result.words_[i / 4] = result.words_[i / 4] << 8 | std::to_integer<std::uint32_t>(from[i]);
    }
    if (result.words_[0] != kMagic) {
      return std::nullopt;
    }
    return result;
  }

 private:
  std::array<std::uint32_t, kSize / 4> words_{kMagic};
};

// Private data of the connection request: what the server must provide.
struct Hello {
  std::uint32_t window = 0;     // maximum number of messages in flight
  std::uint32_t slot_size = 0;  // bytes of the largest message

  [[nodiscard]] Words encode() const {
    Words words;
    words.set(1, window);
    words.set(2, slot_size);
    return words;
  }
  static Hello decode(const Words& words) { return {words.get(1), words.get(2)}; }
};

// Private data with which the server accepts: its memory for RDMA, slot_size bytes.
struct Invitation {
  std::uint64_t address = 0;
  std::uint32_t rmr_context = 0;

  [[nodiscard]] Words encode() const {
    Words words;
    words.set64(1, address);
    words.set(3, rmr_context);
    return words;
  }
  static Invitation decode(const Words& words) { return {words.get64(1), words.get(3)}; }
};

enum class Command : std::uint32_t {
  kSink = 1,   // `count` messages of `size` bytes follow; each is answered with kDone
  kEcho = 2,   // `count` messages of `size` bytes follow; each is sent back
  kCheck = 3,  // compare the RDMA memory with the pattern, answer kDone, erase it
  kFill = 4,   // put the pattern into the RDMA memory, answer kDone
  kReply = 5,  // answer kDone
  kDone = 6,   // the answer: done, `good` says whether the data were as expected
};

// A command or an answer. `seed` selects the pattern; message number i has seed + i.
struct Message {
  Command command = Command::kDone;
  std::uint32_t size = 0;
  std::uint32_t count = 0;
  std::uint64_t seed = 0;
  bool verify = false;  // kSink: compare every message with its pattern
  bool good = true;     // kDone

  [[nodiscard]] Words encode() const {
    Words words;
    words.set(1, static_cast<std::uint32_t>(command));
    words.set(2, size);
    words.set(3, count);
    words.set64(4, seed);
    words.set(6, (verify ? 1U : 0U) | (good ? 2U : 0U));
    return words;
  }
  static Message decode(const Words& words) {
    return {static_cast<Command>(words.get(1)),
            words.get(2),
            words.get(3),
            words.get64(4),
            (words.get(6) & 1) != 0,
            (words.get(6) & 2) != 0};
  }
};

}  // namespace dattx
