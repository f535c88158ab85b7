// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "providers/soft/iwarp/held_segments.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include <sys/mman.h>

namespace udapl::soft {

// The memory of an adapter for input: pieces for the buffers between recv and the FPDU parser. Also
// counts the memory of messages that wait for a receive. A connection holds a piece only while it
// is being read, is in the middle of an FPDU or waits for receives. One free piece of each size is
// kept for reuse. Thread-safe, leaf lock. Owned by the Adapter; outlives its QPs.
class StagingPool final : public iwarp::HeldSegments::Budget {
 public:
  // Pages of their own, which the destructor returns to the system. Heap memory might stay in the
  // process after it was freed.
  class Piece {
   public:
    Piece() noexcept = default;
    explicit Piece(std::size_t size) noexcept {
      void* const pages =
          ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages == MAP_FAILED) return;
      bytes_ = static_cast<std::byte*>(pages);
      size_ = size;
    }
    Piece(Piece&& other) noexcept { swap(other); }
    Piece& operator=(Piece&& other) noexcept {
      swap(other);
      return *this;
    }
    ~Piece() {
      if (bytes_ != nullptr) ::munmap(bytes_, size_);
    }
    [[nodiscard]] std::byte* get() const noexcept { return bytes_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

   private:
    void swap(Piece& other) noexcept {
      std::swap(bytes_, other.bytes_);
      std::swap(size_, other.size_);
    }
    std::byte* bytes_ = nullptr;
    std::size_t size_ = 0;
  };
  static constexpr std::size_t kMin = 64 * 1024;
  static constexpr std::size_t kMax = 512 * 1024;
  static constexpr std::size_t kTotal = std::size_t{128} << 20;  // by default

  explicit StagingPool(std::size_t total = kTotal) noexcept : total_(total) {}

  // `size`: kMin times a power of two, at most kMax. Returns an empty piece if out of memory.
  [[nodiscard]] Piece take(std::size_t size) noexcept UDAPL_EXCLUDES(lock_) {
    Piece piece;
    {
      const ScopedLock guard(lock_);
      piece = std::move(spare_of(size));
      if (piece.get() != nullptr) taken_ += size;
      note_spare();
    }
    if (piece.get() != nullptr) return piece;
    Piece fresh(size);
    const ScopedLock guard(lock_);
    taken_ += fresh.size();
    return fresh;
  }
  // REQUIRES: `piece` is not empty.
  void release(Piece piece) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock guard(lock_);
    taken_ -= piece.size();
    Piece& spare = spare_of(piece.size());
    if (spare.get() == nullptr) spare = std::move(piece);
    note_spare();
  }
  // Whether take(kMin) would return a spare piece.
  [[nodiscard]] bool has_spare() const noexcept {
    return has_spare_.load(std::memory_order_relaxed);
  }

  // Whether the total is used up. If so, buffers do not grow beyond what they need, and fewer
  // messages may wait for receives.
  [[nodiscard]] bool crowded() const noexcept override UDAPL_EXCLUDES(lock_) {
    const ScopedLock guard(lock_);
    return taken_ + waiting_ + held_ >= total_;
  }
  // Whether buffers of connections that are being read use up the total. If so, the connection of a
  // peer that does not continue its FPDU in a large buffer breaks sooner.
  [[nodiscard]] bool crowded_by_readers() const noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock guard(lock_);
    return taken_ >= total_;
  }
  // Called when the connection that holds a piece of this size is no longer read, because it waits
  // for receives: its peer then cannot cause the return of the piece, and must not be blamed for
  // it. end_wait() must be called before release().
  void begin_wait(std::size_t size) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock guard(lock_);
    taken_ -= size;
    waiting_ += size;
  }
  void end_wait(std::size_t size) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock guard(lock_);
    waiting_ -= size;
    taken_ += size;
  }

  // ---- iwarp::HeldSegments::Budget --------------------------------------------------------------
  void hold(std::size_t bytes) noexcept override UDAPL_EXCLUDES(lock_) {
    const ScopedLock guard(lock_);
    held_ += bytes;
  }
  void give_back(std::size_t bytes) noexcept override UDAPL_EXCLUDES(lock_) {
    const ScopedLock guard(lock_);
    held_ -= bytes;
  }

 private:
  [[nodiscard]] Piece& spare_of(std::size_t size) noexcept UDAPL_REQUIRES(lock_) {
    std::size_t index = 0;
    while (kMin << index < size) ++index;
    return spares_.at(index);
  }

  void note_spare() noexcept UDAPL_REQUIRES(lock_) {
    has_spare_.store(spares_.front().get() != nullptr, std::memory_order_relaxed);
  }

  const std::size_t total_;
  std::atomic<bool> has_spare_{false};
  mutable SpinLock lock_;
  // Bytes: of pieces of connections that are being read, of pieces of connections that wait for
  // receives, and of messages that wait for receives.
  std::size_t taken_ UDAPL_GUARDED_BY(lock_) = 0;
  std::size_t waiting_ UDAPL_GUARDED_BY(lock_) = 0;
  std::size_t held_ UDAPL_GUARDED_BY(lock_) = 0;
  std::array<Piece, 4> spares_ UDAPL_GUARDED_BY(lock_);
  static_assert(kMin << 3 == kMax);
};

}  // namespace udapl::soft
