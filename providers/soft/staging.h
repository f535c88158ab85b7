// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/iwarp/wire.h"
#include "providers/soft/staging_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

namespace udapl::soft {

// The buffer between recv and the FPDU parser of a connection. It takes memory from the adapter's
// pool when there are bytes to read, and returns the memory when no bytes are left over. It
// doubles, up to kMax, while reads fill it. Not thread-safe. Owned by an IwarpLink.
class Staging {
 public:
  static constexpr std::size_t kStart = StagingPool::kMin;
  static constexpr std::size_t kMax = StagingPool::kMax;
  static_assert(kMax >= 2 * iwarp::kMaxFpduSize);

  explicit Staging(StagingPool& pool) noexcept : pool_(pool) {}
  ~Staging() { free(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Whether reserve(kStart) needs no memory of the system, unless another thread takes the spare
  // piece.
  [[nodiscard]] bool can_start() const noexcept { return capacity_ != 0 || pool_.has_spare(); }
  // Makes room behind the staged bytes for at least one read, if possible for the rest of an FPDU
  // of `needed` bytes. Returns false if there is no memory and no room.
  [[nodiscard]] bool reserve(std::size_t needed) noexcept {
    end_wait();
    if (begin_ == end_) begin_ = end_ = 0;
    std::size_t wanted = std::max(capacity_, kStart);
    while (wanted < needed) wanted *= 2;
    if (was_filled_ && wanted == capacity_ && wanted < kMax && !pool_.crowded()) wanted *= 2;
    was_filled_ = false;
    if (wanted > capacity_) return move_to(wanted);
    if (begin_ != 0 && capacity_ - end_ < capacity_ / 2) {
      std::memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    return true;
  }
  [[nodiscard]] std::span<std::byte> room() noexcept {
    return {bytes_.get() + end_, capacity_ - end_};
  }
  void filled(std::size_t bytes) noexcept {
    was_filled_ = bytes == capacity_ - end_;
    end_ += bytes;
  }
  // Whether the last read filled all the room, so that there may be more to read.
  [[nodiscard]] bool was_filled() const noexcept { return was_filled_; }

  [[nodiscard]] std::span<const std::byte> staged() const noexcept {
    return {bytes_.get() + begin_, end_ - begin_};
  }
  void drop(std::size_t bytes) noexcept { begin_ += bytes; }
  void clear() noexcept { begin_ = end_ = 0; }
  void free() noexcept {
    clear();
    was_filled_ = false;
    end_wait();
    if (capacity_ == 0) return;
    capacity_ = 0;
    pool_.release(std::move(bytes_));
  }
  // Called at the end of a pass. If no bytes are left over, returns the memory to the pool, for
  // another connection. `needed`: the size of the FPDU that is left over incompletely. `waits`:
  // nothing will be read until a receive is posted.
  void end_pass(std::size_t needed, bool waits) noexcept {
    if (begin_ == end_) return free();
    end_wait();
    if (capacity_ > kStart && (waits || pool_.crowded())) shrink(waits ? 0 : needed);
    if (!waits) return;
    waits_ = true;
    pool_.begin_wait(capacity_);
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  void end_wait() noexcept {
    if (!waits_) return;
    waits_ = false;
    pool_.end_wait(capacity_);
  }
  void shrink(std::size_t needed) noexcept {
    needed = std::max(needed, end_ - begin_);
    std::size_t wanted = kStart;
    while (wanted < needed) wanted *= 2;
    if (wanted < capacity_) move_to(wanted);
  }
  bool move_to(std::size_t wanted) noexcept {
    StagingPool::Piece other = pool_.take(wanted);
    if (other.get() == nullptr) return capacity_ != 0 && end_ != capacity_;
    if (end_ != begin_) std::memcpy(other.get(), bytes_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    std::swap(bytes_, other);
    if (capacity_ != 0) pool_.release(std::move(other));
    capacity_ = wanted;
    return true;
  }

  StagingPool& pool_;
  StagingPool::Piece bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool was_filled_ = false;
  bool waits_ = false;  // counted by the pool as waiting
};

}  // namespace udapl::soft
