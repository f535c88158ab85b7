// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/byte_ring.h"

#include <algorithm>
#include <cstring>

// No wake-up is lost: who publishes stores its index and then reads whether the other sleeps; who
// lies down stores that and then reads the index. All four are sequentially consistent, so at least
// one of the two sees what the other did.

namespace udapl::soft::shm {

namespace {

// Whether the other side sleeps, which is told once.
bool take_back(std::atomic<std::uint32_t>& sleeps) noexcept {
  if (sleeps.load(std::memory_order_seq_cst) == 0) [[likely]]
    return false;
  return sleeps.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace

// ---- writer -------------------------------------------------------------------------------------

// The reader's index only grows, and not beyond ours.
bool RingWriter::look() noexcept {
  const std::uint64_t tail = control_.tail.load(std::memory_order_seq_cst);
  if (tail - tail_ > head_ - tail_) broken_ = true;
  if (!broken_) tail_ = tail;
  return !broken_;
}

RingMoved RingWriter::write(std::span<const std::byte> bytes) noexcept {
  if (room() < bytes.size()) look();
  if (broken_) return {RingMoved::kBroken, false, 0};
  const std::size_t count = std::min(room(), bytes.size());
  if (count == 0) return {};
  const std::size_t at = head_ & (data_.size() - 1);
  const std::size_t first = std::min(count, data_.size() - at);
  std::memcpy(data_.data() + at, bytes.data(), first);
  if (first < count) std::memcpy(data_.data(), bytes.data() + first, count - first);
  head_ += count;
  control_.head.store(head_, std::memory_order_seq_cst);
  return {RingMoved::kDone, take_back(control_.reader_sleeps), count};
}

bool RingWriter::finish() noexcept {
  control_.finished.store(1, std::memory_order_seq_cst);
  return take_back(control_.reader_sleeps);
}

bool RingWriter::may_sleep() noexcept {
  control_.writer_sleeps.store(1, std::memory_order_seq_cst);
  if (look() && room() == 0) return true;
  control_.writer_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

std::size_t RingWriter::unread() noexcept {
  look();
  return head_ - tail_;
}

// ---- reader -------------------------------------------------------------------------------------

// The writer's index only grows, and is never more than a ring before ours.
bool RingReader::look() noexcept {
  const std::uint64_t head = control_.head.load(std::memory_order_seq_cst);
  if (head - tail_ > data_.size() || head - tail_ < head_ - tail_) broken_ = true;
  if (!broken_) head_ = head;
  return !broken_;
}

// What was written before the end was told is seen behind it.
RingMoved RingReader::nothing() noexcept {
  if (control_.finished.load(std::memory_order_seq_cst) == 0) return {};
  if (!look()) return {RingMoved::kBroken, false, 0};
  return {head_ == tail_ ? RingMoved::kEnd : RingMoved::kDone, false, 0};
}

RingMoved RingReader::read(std::span<std::byte> room) noexcept {
  if (head_ - tail_ < room.size()) look();
  if (broken_) return {RingMoved::kBroken, false, 0};
  if (room.empty()) return {};
  if (head_ == tail_) {
    const RingMoved why = nothing();
    if (why.kind != RingMoved::kDone) return why;
  }
  const std::size_t count = std::min<std::size_t>(head_ - tail_, room.size());
  const std::size_t at = tail_ & (data_.size() - 1);
  const std::size_t first = std::min(count, data_.size() - at);
  std::memcpy(room.data(), data_.data() + at, first);
  if (first < count) std::memcpy(room.data() + first, data_.data(), count - first);
  tail_ += count;
  control_.tail.store(tail_, std::memory_order_seq_cst);
  return {RingMoved::kDone, take_back(control_.writer_sleeps), count};
}

bool RingReader::may_sleep() noexcept {
  control_.reader_sleeps.store(1, std::memory_order_seq_cst);
  if (look() && head_ == tail_ && control_.finished.load(std::memory_order_seq_cst) == 0)
    return true;
  control_.reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

}  // namespace udapl::soft::shm
