// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/byte_ring.h"

#include "common/copy_bytes.h"
#include "common/prefetch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

// No wake-up is lost. A side that publishes stores its index and then reads the other side's sleep
// word. A side that goes to sleep stores its sleep word and then reads the index. All four accesses
// are sequentially consistent, so at least one of the two sides sees the other's store. drop()
// stores `delivered` with release only, before its sequentially consistent store of `tail`. So a
// writer that is going to sleep until `delivered` changes reads `tail` first.

namespace udapl::soft::shm {

namespace {

// A reader that runs makes room before the writer has looked this often. If it has not, the reader
// probably has no processor.
constexpr int kPatientLooks = 256;
// A lap ends after this many bytes: the writer starts again at the beginning of the window as soon
// as the reader has read everything, which it checks every kLooksEvery bytes.
constexpr std::uint64_t kLap = 64 * 1024;
constexpr std::uint64_t kLooksEvery = 4 * 1024;
constexpr std::size_t kWordSize = sizeof(std::uint64_t);
constexpr std::uint64_t kNoLatest = UINT64_MAX;

// Bytes between the write position and the prefetched line.
constexpr std::size_t kPrefetched = 128;

std::uint64_t load_word(const std::byte* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Calls `call` once with the indexes of all words of RingControl::latest. This is not a loop,
// because the compiler could turn it into vector moves, and a vector load would wait for the words
// that were stored last.
template <class Call>
void for_each_latest(Call call) noexcept {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) { call(kIndex...); }
  (std::make_index_sequence<kLatestWords>());
}

// Values of writer_sleeps, may be or-ed.
constexpr std::uint32_t kAwaitsRoom = 1;
constexpr std::uint32_t kAwaitsDelivery = 2;

// Returns whether the other side sleeps, and clears the flag so that it is woken once.
bool clear_sleep_flag(std::atomic<std::uint32_t>& sleeps) noexcept {
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

std::size_t RingWriter::append(std::span<const std::byte> bytes) noexcept {
  if (room() < bytes.size() || head_ >= look_at_) {
    look();
    keeps_up_ = head_ - tail_ <= kMaxLatest;
  }
  if (broken_) return 0;
  if (head_ == tail_) begin_lap();
  if (head_ >= look_at_) look_at_ = head_ + kLooksEvery;
  const std::size_t count = std::min(room(), bytes.size());
  if (count == 0) return 0;
  bytes = bytes.first(count);
  const bool alone = head_ == shown_;
  latest_ = nullptr;
  if (head_ < porch_.size()) [[unlikely]]
    bytes = bytes.subspan(put_in_porch(bytes));
  const std::span<std::byte> window = data_.first(window_);
  const std::size_t at = (head_ - base_) & (window_ - 1);
  const std::size_t first = std::min(bytes.size(), window_ - at);
  if (alone && first == count && window_ - at >= kMaxLatest) latest_ = window.data() + at;
  copy_bytes(window.data() + at, bytes.data(), first);
  if (first < bytes.size()) copy_bytes(window.data(), bytes.data() + first, bytes.size() - first);
  head_ += bytes.size();
  // The reader has used these lines in the previous lap, so its cache holds them.
  prefetch_for_write(window.data() + ((at + bytes.size() + kPrefetched) & (window_ - 1)));
  return count;
}

std::byte* RingWriter::room_in_place(std::size_t bytes) noexcept {
  const std::size_t at = (head_ - base_) & (window_ - 1);
  if (head_ >= look_at_ || head_ < porch_.size() || head_ != shown_ || room() < bytes ||
      window_ - at < kMaxLatest || broken_) [[unlikely]]
    return nullptr;
  return data_.data() + at;
}

bool RingWriter::publish_in_place(std::size_t bytes) noexcept {
  const std::size_t at = (head_ - base_) & (window_ - 1);
  latest_ = data_.data() + at;
  head_ += bytes;
  prefetch_for_write(data_.data() + ((at + bytes + kPrefetched) & (window_ - 1)));
  return publish();
}

std::size_t RingWriter::put_in_porch(std::span<const std::byte> bytes) noexcept {
  const std::span<std::byte> room = porch_.subspan(head_);
  const std::size_t count = std::min(room.size(), bytes.size());
  std::memcpy(room.data(), bytes.data(), count);
  head_ += count;
  return count;
}

// REQUIRES: the reader has read everything. It reads these fields again only after the next head.
void RingWriter::begin_lap() noexcept {
  if (std::exchange(window_too_small_, false)) window_ *= 2;
  base_ = head_;
  look_at_ = base_ + kLap;
  control_.base.store(base_, std::memory_order_relaxed);
  control_.window.store(static_cast<std::uint32_t>(window_), std::memory_order_relaxed);
}

// Stores `latest_from` before the words; publish() stores the head after them. So if a reader finds
// `latest_from` unchanged after it has read the words, none of them is of a later publication. All
// stores follow one another directly, because a waiting reader keeps fetching the cache line. If
// the reader lags behind, it would not use the words, so they are not stored.
void RingWriter::show_latest(RingControl& control) noexcept {
  if (latest_ == nullptr || head_ - shown_ > kMaxLatest || !keeps_up_) {
    control.latest_from.store(kNoLatest, std::memory_order_relaxed);
    return;
  }
  const std::byte* const from = latest_;
  for_each_latest([&](auto... at) {
    const std::array<std::uint64_t, kLatestWords> words{load_word(from + at * kWordSize)...};
    control.latest_from.store(shown_, std::memory_order_relaxed);
    (control.latest[at].store(words[at], std::memory_order_release), ...);
  });
}

bool RingWriter::publish() noexcept {
  RingControl& control = control_;  // a local variable, so that stores to it do not reload it
  show_latest(control);
  control.acknowledged.store(acknowledged_, std::memory_order_release);
  shown_ = head_;
  control.head.store(head_, std::memory_order_seq_cst);
  return clear_sleep_flag(control.reader_sleeps);
}

RingMoved RingWriter::write(std::span<const std::byte> bytes) noexcept {
  const std::size_t count = append(bytes);
  if (broken_) return {RingMoved::kBroken, false, 0};
  if (count == 0) return {};
  return {RingMoved::kDone, publish(), count};
}

bool RingWriter::finish(RingEnd how) noexcept {
  control_.end.store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst);
  return clear_sleep_flag(control_.reader_sleeps);
}

bool RingWriter::may_sleep() noexcept {
  control_.writer_sleeps.fetch_or(kAwaitsRoom, std::memory_order_seq_cst);
  if (look() && room() == 0) {
    request_larger_window();
    return true;
  }
  stay_awake();
  return false;
}

bool RingWriter::may_sleep_until(std::uint64_t position) noexcept {
  control_.awaited.store(position, std::memory_order_relaxed);
  control_.writer_sleeps.fetch_or(kAwaitsDelivery, std::memory_order_seq_cst);
  look();
  if (control_.delivered.load(std::memory_order_seq_cst) < position) return true;
  stay_awake();
  return false;
}

void RingWriter::stay_awake() noexcept {
  control_.writer_sleeps.store(0, std::memory_order_relaxed);
}

void RingWriter::prepare() const noexcept {
  prefetch_for_read(&control_.head);
  prefetch_for_read(&control_.reader_sleeps);
  prefetch_for_write(data_.data() + ((head_ - base_) & (window_ - 1)));
}

// At the end of a lap, the writer starts again at the beginning if the reader keeps up.
std::span<const std::byte> RingWriter::next(std::size_t bytes) const noexcept {
  const std::size_t at = head_ >= look_at_ ? 0 : (head_ - base_) & (window_ - 1);
  return data_.subspan(at, std::min(bytes, window_ - at));
}

bool RingWriter::has_room() noexcept {
  if (room() != 0 || !look() || room() != 0) {
    full_looks_ = 0;
    return true;
  }
  if (++full_looks_ == kPatientLooks) request_larger_window();
  return false;
}

void RingWriter::request_larger_window() noexcept { window_too_small_ = window_ < data_.size(); }

std::size_t RingWriter::unread() noexcept {
  look();
  return head_ - tail_;
}

// ---- reader -------------------------------------------------------------------------------------

// The writer's index only grows, and is at most a ring's size ahead of ours.
bool RingReader::look() noexcept {
  const std::uint64_t head = control_.head.load(std::memory_order_seq_cst);
  if (head - tail_ > data_.size() || head - tail_ < head_ - tail_) broken_ = true;
  if (!broken_) head_ = head;
  return !broken_;
}

// Finds the next byte. The writer changes the window only when everything has been read, and stores
// it before the head; an impossible window breaks the stream.
bool RingReader::find(std::span<const std::byte>& window, std::size_t& at) noexcept {
  if (tail_ < porch_.size()) [[unlikely]] {
    window = porch_.subspan(tail_);
    at = 0;
    return true;
  }
  const std::size_t size = control_.window.load(std::memory_order_relaxed);
  const std::uint64_t base = control_.base.load(std::memory_order_relaxed);
  if (!std::has_single_bit(size) || size > data_.size()) {
    broken_ = true;
    return false;
  }
  window = data_.first(size);
  at = (tail_ - base) & (size - 1);
  return true;
}

// The bytes that were written before the end was set are visible once the end is, so the head is
// read again.
RingMoved RingReader::nothing() noexcept {
  const RingEnd how = end();
  if (how == RingEnd::kNone) return {};
  if (!look()) return {RingMoved::kBroken, false, 0};
  if (head_ != tail_) return {RingMoved::kDone, false, 0};
  return {how == RingEnd::kFinished ? RingMoved::kEnd : RingMoved::kReset, false, 0};
}

RingEnd RingReader::end() const noexcept {
  const std::uint32_t how = control_.end.load(std::memory_order_seq_cst);
  if (how == static_cast<std::uint32_t>(RingEnd::kNone)) return RingEnd::kNone;
  return how == static_cast<std::uint32_t>(RingEnd::kFinished) ? RingEnd::kFinished
                                                               : RingEnd::kReset;
}

std::size_t RingReader::seen() noexcept {
  if (head_ == tail_) look();
  return head_ - tail_;
}

bool RingReader::has_input() noexcept {
  return head_ != tail_ || !look() || head_ != tail_ || end() != RingEnd::kNone;
}

RingMoved RingReader::read(std::span<std::byte> room) noexcept {
  if (head_ - tail_ < room.size()) look();
  if (broken_) return {RingMoved::kBroken, false, 0};
  if (room.empty()) return {};
  if (head_ == tail_) {
    const RingMoved why = nothing();
    if (why.kind != RingMoved::kDone) return why;
  }
  const std::uint64_t before = tail_;
  if (tail_ < porch_.size()) [[unlikely]]
    room = room.subspan(take_from_porch(room));
  if (head_ != tail_ && !take_from_window(room)) return {RingMoved::kBroken, false, 0};
  control_.tail.store(tail_, std::memory_order_seq_cst);
  return {RingMoved::kDone, wakes_writer(), tail_ - before};
}

std::size_t RingReader::take_from_porch(std::span<std::byte> room) noexcept {
  const std::span<const std::byte> porch = porch_.subspan(tail_);
  const std::size_t count = std::min({std::size_t{head_ - tail_}, room.size(), porch.size()});
  std::memcpy(room.data(), porch.data(), count);
  tail_ += count;
  return count;
}

bool RingReader::take_from_window(std::span<std::byte> room) noexcept {
  std::span<const std::byte> window;
  std::size_t at = 0;
  if (!find(window, at)) return false;
  const std::size_t count = std::min({std::size_t{head_ - tail_}, room.size(), window.size()});
  const std::size_t first = std::min(count, window.size() - at);
  copy_bytes(room.data(), window.data() + at, first);
  if (first < count) copy_bytes(room.data() + first, window.data(), count - first);
  tail_ += count;
  return true;
}

// Copies the bytes that the writer stored beside its index, if no others are unread.
bool RingReader::copy_latest() noexcept {
  const RingControl& control = control_;
  const std::uint64_t tail = tail_;
  const std::size_t bytes = head_ - tail;
  if (bytes > kMaxLatest || control.latest_from.load(std::memory_order_acquire) != tail)
    return false;
  for_each_latest([&](auto... at) {
    ((latest_[at] = control.latest[at].load(std::memory_order_acquire)), ...);
  });
  return control.latest_from.load(std::memory_order_relaxed) == tail;
}

std::span<const std::byte> RingReader::input() noexcept {
  piece_ = 0;
  if (!look() || head_ == tail_) return {};
  if (copy_latest()) {
    piece_ = head_ - tail_;
    next_ = nullptr;
    return std::as_bytes(std::span(latest_)).first(piece_);
  }
  std::span<const std::byte> window;
  std::size_t at = 0;
  if (!find(window, at)) return {};
  piece_ = std::min(std::size_t{head_ - tail_}, window.size() - at);
  next_ = window.data() + at + piece_;
  return window.subspan(at, piece_);
}

bool RingReader::drop(std::size_t bytes, std::uint64_t delivered) noexcept {
  tail_ += bytes;
  piece_ -= bytes;
  delivered_ = delivered;
  control_.delivered.store(delivered, std::memory_order_release);
  control_.tail.store(tail_, std::memory_order_seq_cst);
  return wakes_writer();
}

bool RingReader::publish_delivered(std::uint64_t position) noexcept {
  delivered_ = position;
  control_.delivered.store(position, std::memory_order_seq_cst);
  return wakes_writer();
}

bool RingReader::wakes_writer() noexcept {
  const std::uint32_t sleeps = control_.writer_sleeps.load(std::memory_order_seq_cst);
  if (sleeps == 0) [[likely]]
    return false;
  const bool awaits_more =
      sleeps == kAwaitsDelivery && delivered_ < control_.awaited.load(std::memory_order_relaxed);
  return !awaits_more && control_.writer_sleeps.exchange(0, std::memory_order_seq_cst) != 0;
}

void RingReader::prepare() const noexcept {
  prefetch_for_read(&control_.head);
  prefetch_for_read(&control_.writer_sleeps);
  prefetch_for_write(&control_.tail);
}

bool RingReader::cut() const noexcept {
  return piece_ < head_ - tail_ || end() != RingEnd::kNone ||
         control_.writer_sleeps.load(std::memory_order_relaxed) != 0;
}

bool RingReader::may_sleep() noexcept {
  control_.reader_sleeps.store(1, std::memory_order_seq_cst);
  if (look() && head_ == tail_ && end() == RingEnd::kNone) return true;
  stay_awake();
  return false;
}

bool RingReader::may_sleep_until_end() noexcept {
  control_.reader_sleeps.store(1, std::memory_order_seq_cst);
  if (!broken_ && end() == RingEnd::kNone) return true;
  stay_awake();
  return false;
}

void RingReader::stay_awake() noexcept {
  control_.reader_sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace udapl::soft::shm
