// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/held_segments.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace udapl::iwarp {
namespace {

constexpr std::size_t kMinChunk = 4096;
constexpr std::size_t kUsualChunk = 65536;

// Precedes each ULPDU in a chunk.
struct Record {
  std::uint64_t position;
  std::uint16_t length;
  bool first;
};

}  // namespace

// Chunks are small at first, since a connection usually holds one or two short messages.
std::size_t HeldSegments::chunk_size(std::size_t record) const noexcept {
  return std::max(record, std::clamp(allocated_, kMinChunk, kUsualChunk));
}

bool HeldSegments::has_room(std::uint16_t length) const noexcept {
  const std::size_t record = sizeof(Record) + length;
  if (fits_newest(record)) return true;
  const bool crowded = budget_ != nullptr && budget_->crowded();
  return allocated_ + chunk_size(record) <= (crowded ? kLimitWhenCrowded : kLimit);
}

bool HeldSegments::add_chunk(std::size_t size) noexcept {
  std::unique_ptr<Chunk> chunk(new (std::nothrow) Chunk);
  if (chunk == nullptr) return false;
  chunk->bytes.reset(new (std::nothrow) std::byte[size]);
  if (chunk->bytes == nullptr) return false;
  chunk->size = size;
  allocated_ += size;
  if (budget_ != nullptr) budget_->hold(size);
  Chunk* const added = chunk.get();
  (newest_ == nullptr ? oldest_ : newest_->next) = std::move(chunk);
  newest_ = added;
  return true;
}

bool HeldSegments::push(std::span<const std::byte> front, std::span<const std::byte> rest,
                        bool first, std::uint64_t position) noexcept {
  const Record record{position, static_cast<std::uint16_t>(front.size() + rest.size()), first};
  const std::size_t size = sizeof record + record.length;
  if (!fits_newest(size) && !add_chunk(chunk_size(size))) return false;
  std::byte* const to = newest_->bytes.get() + newest_->end;
  std::memcpy(to, &record, sizeof record);
  std::byte* const behind = std::ranges::copy(front, to + sizeof record).out;
  std::ranges::copy(rest, behind);
  newest_->end += size;
  return true;
}

HeldSegments::Held HeldSegments::front() const noexcept {
  const std::byte* const from = oldest_->bytes.get() + oldest_->begin;
  Record record;
  std::memcpy(&record, from, sizeof record);
  return {from + sizeof record, record.length, record.first, record.position};
}

void HeldSegments::pop() noexcept {
  oldest_->begin += sizeof(Record) + front().length;
  if (oldest_->begin == oldest_->end) drop_oldest();
}

void HeldSegments::drop_oldest() noexcept {
  allocated_ -= oldest_->size;
  if (budget_ != nullptr) budget_->give_back(oldest_->size);
  oldest_ = std::move(oldest_->next);
  if (oldest_ == nullptr) newest_ = nullptr;
}

void HeldSegments::clear() noexcept {
  while (oldest_ != nullptr) drop_oldest();
}

}  // namespace udapl::iwarp
