// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Copies of the segments of one connection that wait for a receive to be posted, oldest first.
//
// Not thread-safe. Owner: a Receiver. Allocates memory in chunks as it fills, at most kLimit bytes
// per connection, or kLimitWhenCrowded while the Budget is used up, and frees the chunks as it
// empties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace udapl::iwarp {

class HeldSegments {
 public:
  static constexpr std::size_t kLimit = 1024 * 1024;
  static constexpr std::size_t kLimitWhenCrowded = 64 * 1024;

  // Counts the memory of all connections of an adapter. Thread-safe.
  class Budget {
   public:
    [[nodiscard]] virtual bool crowded() const noexcept = 0;
    virtual void hold(std::size_t bytes) noexcept = 0;
    virtual void give_back(std::size_t bytes) noexcept = 0;

   protected:
    ~Budget() = default;
  };

  struct Held {
    const std::byte* ulpdu;
    std::uint16_t length;    // of the ULPDU
    bool first;              // it is the first segment of its message
    std::uint64_t position;  // in the stream
  };

  // `budget`: outlives this object; null: none.
  explicit HeldSegments(Budget* budget = nullptr) noexcept : budget_(budget) {}
  ~HeldSegments() { clear(); }
  HeldSegments(const HeldSegments&) = delete;
  HeldSegments& operator=(const HeldSegments&) = delete;

  bool empty() const noexcept { return oldest_ == nullptr; }
  // Whether there is room for a ULPDU of `length` bytes.
  bool has_room(std::uint16_t length) const noexcept;
  // Appends a copy of a ULPDU that is given in two parts. Returns false if out of memory. REQUIRES:
  // has_room() for the sum of both.
  [[nodiscard]] bool push(std::span<const std::byte> front, std::span<const std::byte> rest,
                          bool first, std::uint64_t position) noexcept;
  // Returns the oldest segment, whose bytes remain valid until pop(). REQUIRES: !empty().
  Held front() const noexcept;
  void pop() noexcept;
  void clear() noexcept;

 private:
  struct Chunk {
    std::unique_ptr<Chunk> next;
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  std::size_t chunk_size(std::size_t record) const noexcept;
  bool fits_newest(std::size_t record) const noexcept {
    return newest_ != nullptr && newest_->size - newest_->end >= record;
  }
  bool add_chunk(std::size_t size) noexcept;
  void drop_oldest() noexcept;

  Budget* const budget_;
  std::unique_ptr<Chunk> oldest_;
  Chunk* newest_ = nullptr;
  std::size_t allocated_ = 0;
};

}  // namespace udapl::iwarp
