// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace udapl::soft::shm {

// One direction of a byte stream in memory that two processes share: one process writes, the other
// reads.
//
// Neither side trusts the other. Each side works with a private copy of its own index, which it
// publishes but never reads back. It reads the peer's index once, checks it against the possible
// range, and then uses it. An impossible index breaks the stream (kBroken) and nothing else. Bytes
// are copied out before they are interpreted.
//
// Indexes count the bytes since the beginning and never wrap. The writer uses only a window of the
// memory. The window starts small, so that few pages and cache lines are touched. It doubles after
// the writer has found it full for a while, or has gone to sleep because it was full. Its beginning
// (`base`) and size change only when all bytes have been read. The byte with index i is stored at
// (i - base) modulo the window's size. The very first bytes are stored in a separate porch, so that
// a connection with little traffic touches no page of the ring.
//
// If only a few bytes are published at once, the writer also stores them beside the index
// (`latest`), so that a waiting reader gets both with one cache line.
inline constexpr std::size_t kLineSize = 128;  // processors fetch cache lines in pairs
inline constexpr std::size_t kLatestWords = 5;
inline constexpr std::size_t kMaxLatest = kLatestWords * sizeof(std::uint64_t);

// How a stream ends, after its last byte.
enum class RingEnd : std::uint32_t {
  kNone,
  kFinished,  // the writer has left; the reader discards a frame that is incomplete at the end
  kReset      // the writer gave up; the reader takes any other value for a reset, too
};

struct RingControl {
  // Written by the writer, with every message.
  alignas(kLineSize) std::atomic<std::uint64_t> head;  // bytes written
  // If `latest` holds all bytes from some index up to `head`: that index. Otherwise an impossible
  // index.
  std::atomic<std::uint64_t> latest_from;
  std::array<std::atomic<std::uint64_t>, kLatestWords> latest;
  // What `delivered` of the other direction was when this side stored `head`.
  std::atomic<std::uint64_t> acknowledged;
  // Written by the writer, rarely.
  alignas(kLineSize / 2) std::atomic<std::uint64_t> base;  // the index at the window's beginning
  std::atomic<std::uint32_t> window;                       // its size, a power of two
  std::atomic<std::uint32_t> end;                          // a RingEnd: nothing follows `head`
  // Written by the reader.
  alignas(kLineSize) std::atomic<std::uint64_t> tail;  // bytes read
  // Bytes of the stream that the reader has processed, including lent bytes, which do not pass
  // through the ring.
  std::atomic<std::uint64_t> delivered;
  // A side sets its word before it sleeps. The other side clears the word when it rings the bell,
  // or the sleeper does when it is awake. Both words are read with every message and rarely
  // written. The writer's word: 1: ring its bell when there is room; 2: when `delivered` reaches
  // `awaited`; 3: in either case.
  alignas(kLineSize) std::atomic<std::uint32_t> writer_sleeps;
  std::atomic<std::uint32_t> reader_sleeps;  // 1: ring the reader's bell when there is input
  std::atomic<std::uint64_t> awaited;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock would be in one process only");
static_assert(sizeof(RingControl) == 3 * kLineSize && offsetof(RingControl, base) == kLineSize / 2,
              "the layout of shared pages");

struct RingMoved {
  enum Kind : std::uint8_t {
    kDone,     // `bytes` > 0 were moved, perhaps fewer than requested
    kBlocked,  // the ring is full or empty
    kEnd,      // reader only: finished, and everything was read
    kReset,    // reader only: the writer gave up, and everything was read
    kBroken    // the peer's index is impossible; permanent
  };
  Kind kind = kBlocked;
  bool wake = false;  // the other side slept: ring its bell. Set once for each sleep.
  std::size_t bytes = 0;
};

// The memory of a ring's bytes.
template <class Byte>
struct RingMemory {
  std::span<Byte> porch;  // any size
  std::span<Byte> data;   // a power of two
};

// Writer and reader may each be used by one thread at a time, with the same memory on both sides.
// Control and memory must be zero at the beginning.
class RingWriter {
 public:
  // `window`: its initial size in bytes, a power of two.
  RingWriter(RingControl& control, RingMemory<std::byte> memory, std::size_t window) noexcept
      : control_(control), porch_(memory.porch), data_(memory.data), window_(window) {}

  // Copies as many bytes as fit and returns their number. The reader does not see them before
  // publish(), which returns whether to ring the reader's bell.
  [[nodiscard]] std::size_t append(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] bool publish() noexcept;
  // Fast path of append() and publish() for at most kMaxLatest bytes. room_in_place() returns
  // contiguous room in the ring, where the caller writes the bytes, or null if append() is needed.
  // publish_in_place() then publishes them.
  [[nodiscard]] std::byte* room_in_place(std::size_t bytes) noexcept;
  [[nodiscard]] bool publish_in_place(std::size_t bytes) noexcept;
  // Whether this many bytes fit now.
  [[nodiscard]] bool has_room_for(std::size_t bytes) noexcept {
    return !broken_ && (room() >= bytes || (look() && room() >= bytes));
  }
  // The next publish() also tells the peer that this side has processed the other direction up to
  // this position.
  void acknowledge(std::uint64_t delivered) noexcept { acknowledged_ = delivered; }
  // Bytes that have been appended and not published.
  [[nodiscard]] std::size_t hidden() const noexcept { return head_ - shown_; }
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  // append() and publish(). Returns kBlocked if `bytes` is empty.
  [[nodiscard]] RingMoved write(std::span<const std::byte> bytes) noexcept;
  // Ends the stream. Returns whether to ring the reader's bell. Nothing may be written afterwards.
  [[nodiscard]] bool finish(RingEnd how = RingEnd::kFinished) noexcept;
  [[nodiscard]] bool has_room() noexcept;  // or is broken
  // Declares that the writer sleeps until there is room. Returns false if there is room already.
  [[nodiscard]] bool may_sleep() noexcept;
  void stay_awake() noexcept;  // reverts may_sleep() and may_sleep_until()
  // The index of the next byte.
  [[nodiscard]] std::uint64_t position() const noexcept { return head_; }
  // Bytes that the reader has not read, by the index that it has published.
  [[nodiscard]] std::size_t unread() noexcept;
  // The position in the stream up to which the reader claims to have processed everything.
  [[nodiscard]] std::uint64_t delivered() const noexcept {
    return control_.delivered.load(std::memory_order_acquire);
  }
  // Declares that the writer sleeps until delivered() has reached `position`, which is not 0.
  // Returns false if it has already. May be combined with may_sleep().
  [[nodiscard]] bool may_sleep_until(std::uint64_t position) noexcept;
  [[nodiscard]] const std::atomic<std::uint64_t>& delivered_word() const noexcept {
    return control_.delivered;
  }
  [[nodiscard]] bool reader_sleeps() const noexcept {
    return control_.reader_sleeps.load(std::memory_order_relaxed) != 0;
  }
  void prepare() const noexcept;  // prefetches what a short write needs
  // Where the next `bytes` bytes will probably be written, or the first part of them.
  [[nodiscard]] std::span<const std::byte> next(std::size_t bytes) const noexcept;

 private:
  bool look() noexcept;
  void begin_lap() noexcept;
  void request_larger_window() noexcept;
  [[nodiscard]] std::size_t room() const noexcept { return window_ - (head_ - tail_); }

  [[nodiscard]] std::size_t put_in_porch(std::span<const std::byte> bytes) noexcept;
  void show_latest(RingControl& control) noexcept;

  RingControl& control_;
  std::span<std::byte> porch_;
  std::span<std::byte> data_;
  std::size_t window_;
  std::uint64_t base_ = 0;
  std::uint64_t head_ = 0;   // ours
  std::uint64_t shown_ = 0;  // what was last published
  std::uint64_t acknowledged_ = 0;
  const std::byte* latest_ = nullptr;  // what was appended since the last publication, or null
  std::uint64_t tail_ = 0;             // the reader's index when it was last read
  std::uint64_t look_at_ = 0;      // once head_ is here, append() reads the reader's index again
  int full_looks_ = 0;             // consecutive looks for room that found none
  bool keeps_up_ = true;           // whether the reader had read nearly everything at the last look
  bool window_too_small_ = false;  // the window was full for too long: it will be doubled
  bool broken_ = false;
};

class RingReader {
 public:
  RingReader(RingControl& control, RingMemory<const std::byte> memory) noexcept
      : control_(control), porch_(memory.porch), data_(memory.data) {}

  [[nodiscard]] RingMoved read(std::span<std::byte> room) noexcept;
  // The readable bytes that are contiguous; valid until the next call. A hostile writer may change
  // them at any time. If empty, read() returns the reason.
  [[nodiscard]] std::span<const std::byte> input() noexcept;
  // Marks the first `bytes` of input() as read, and everything up to `delivered` of the stream as
  // processed. Returns whether to ring the writer's bell.
  [[nodiscard]] bool drop(std::size_t bytes, std::uint64_t delivered) noexcept;
  // Whether input() cannot grow before some of it is read: it ends with the window, the writer has
  // no room, or the stream has ended.
  [[nodiscard]] bool cut() const noexcept;
  // Publishes that everything up to `position` of the stream has been processed. Returns whether to
  // ring the writer's bell.
  [[nodiscard]] bool delivered(std::uint64_t position) noexcept {
    return position != delivered_ && publish_delivered(position);
  }
  // The number of readable bytes that this side knows of. Reads the writer's index only if it knows
  // of none.
  [[nodiscard]] std::size_t seen() noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  // The index up to which everything was read.
  [[nodiscard]] std::uint64_t position() const noexcept { return tail_; }
  // The position in the other direction that the writer has acknowledged, at least with the input
  // that was seen.
  [[nodiscard]] std::uint64_t acknowledged() const noexcept {
    return control_.acknowledged.load(std::memory_order_acquire);
  }
  // The place where the writer will probably store the next input; null if it is not known.
  [[nodiscard]] const void* next() const noexcept { return next_; }
  // The word in which the writer publishes its index.
  [[nodiscard]] const std::atomic<std::uint64_t>& written() const noexcept { return control_.head; }
  [[nodiscard]] bool has_input() noexcept;  // true also at the end, or if broken
  [[nodiscard]] RingEnd end() const noexcept;
  // Declares that the reader sleeps until there is input. Returns false if there is input already.
  [[nodiscard]] bool may_sleep() noexcept;
  // The same for a reader that waits only for the end, and not for input.
  [[nodiscard]] bool may_sleep_until_end() noexcept;
  void stay_awake() noexcept;
  void prepare() const noexcept;  // prefetches what a short read needs

 private:
  bool look() noexcept;
  bool copy_latest() noexcept;
  bool find(std::span<const std::byte>& window, std::size_t& at) noexcept;
  [[nodiscard]] std::size_t take_from_porch(std::span<std::byte> room) noexcept;
  [[nodiscard]] bool take_from_window(std::span<std::byte> room) noexcept;
  [[nodiscard]] bool publish_delivered(std::uint64_t position) noexcept;
  [[nodiscard]] bool wakes_writer() noexcept;
  RingMoved nothing() noexcept;

  RingControl& control_;
  std::span<const std::byte> porch_;
  std::span<const std::byte> data_;
  std::uint64_t tail_ = 0;  // ours
  std::uint64_t head_ = 0;  // the writer's index when it was last read
  std::uint64_t delivered_ = 0;
  std::size_t piece_ = 0;  // size of input()
  const std::byte* next_ = nullptr;
  std::array<std::uint64_t, kLatestWords> latest_;  // a copy
  bool broken_ = false;
};

}  // namespace udapl::soft::shm
