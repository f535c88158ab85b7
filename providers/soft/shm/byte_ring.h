// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace udapl::soft::shm {

// One direction of a byte stream in memory that two processes share: one writes, one reads.
//
// Neither trusts the other. Each keeps its own index to itself and only publishes it; what the
// other publishes is read once, checked against what it may be, and then used. A peer that lies
// breaks the stream (kBroken) and nothing else. Bytes are copied out before anybody looks at them.
//
// Indexes count the bytes since the beginning and never wrap. Of the memory the writer uses a
// window, which begins small, so that few pages and cache lines are touched, and doubles when it
// has been full while the reader did not read. It changes only when everything has been taken; the
// place of a byte is its index since then modulo the window's size. But the first bytes of all lie
// in a porch, so that a connection on which little is ever said touches no page of the ring.
//
// A few bytes that were published together lie beside the index as well: a reader who was waiting
// for them has them with one cache line.
inline constexpr std::size_t kLineSize = 128;  // processors fetch cache lines in pairs
inline constexpr std::size_t kLatestWords = 6;

// What comes behind the bytes, once nothing else does.
enum class RingEnd : std::uint32_t {
  kNone,
  kFinished,  // the end
  kReset      // the writer gave up; any other value a peer may have put there is one, too
};

struct RingControl {
  // Written by the writer, with every message.
  alignas(kLineSize) std::atomic<std::uint64_t> head;  // bytes written
  // The bytes from `latest_from` up to `head`, if all of them lie here; otherwise no index at all.
  std::atomic<std::uint64_t> latest_from;
  std::array<std::atomic<std::uint64_t>, kLatestWords> latest;
  // ... and seldom.
  alignas(kLineSize / 2) std::atomic<std::uint64_t> base;  // the index at the window's beginning
  std::atomic<std::uint32_t> window;                       // its size, a power of two
  std::atomic<std::uint32_t> end;                          // a RingEnd: nothing comes behind `head`
  // Written by the reader.
  alignas(kLineSize) std::atomic<std::uint64_t> tail;  // bytes read
  std::atomic<std::uint64_t> delivered;                // ... and what they said was done
  // Set by who lies down, taken back by the other. Looked at with every message, seldom written.
  alignas(kLineSize) std::atomic<std::uint32_t> writer_sleeps;  // 1: ring its bell if there is room
  std::atomic<std::uint32_t> reader_sleeps;                     // 1: ... if there is input
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock would be in one process only");
static_assert(sizeof(RingControl) == 3 * kLineSize && offsetof(RingControl, base) == kLineSize / 2,
              "the layout of shared pages");

struct RingMoved {
  enum Kind : std::uint8_t {
    kDone,     // `bytes` > 0 were moved, perhaps fewer than asked
    kBlocked,  // the ring is full or empty
    kEnd,      // reader only: finished, and everything was read
    kReset,    // reader only: the writer gave up, and everything was read
    kBroken    // the peer's index cannot be true; for good
  };
  Kind kind = kBlocked;
  bool wake = false;  // the other side sleeps: ring its bell. Said once each time it lies down.
  std::size_t bytes = 0;
};

// Where the bytes lie.
template <class Byte>
struct RingMemory {
  std::span<Byte> porch;  // any size
  std::span<Byte> data;   // a power of two
};

// Both are for one thread at a time, with the same memory at both sides; control and memory are
// zeros at the beginning.
class RingWriter {
 public:
  // `window`: at first, a power of two of bytes.
  RingWriter(RingControl& control, RingMemory<std::byte> memory, std::size_t window) noexcept
      : control_(control), porch_(memory.porch), data_(memory.data), window_(window) {}

  // Copies what there is room for; the reader does not see it before publish(), which tells
  // whether to ring the reader's bell.
  [[nodiscard]] std::size_t append(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] bool publish() noexcept;
  // Is there room for so many bytes at once?
  [[nodiscard]] bool has_room_for(std::size_t bytes) noexcept {
    return !broken_ && (room() >= bytes || (look() && room() >= bytes));
  }
  // Bytes that publish() would show.
  [[nodiscard]] std::size_t hidden() const noexcept { return head_ - shown_; }
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  // Both in one. Nothing to write: kBlocked.
  [[nodiscard]] RingMoved write(std::span<const std::byte> bytes) noexcept;
  // Tells the reader that nothing follows; true: ring its bell. Nothing may be written afterwards.
  [[nodiscard]] bool finish(RingEnd how = RingEnd::kFinished) noexcept;
  [[nodiscard]] bool has_room() noexcept;  // or is broken
  // Declares that the writer sleeps until there is room. False: do not sleep, look again.
  [[nodiscard]] bool may_sleep() noexcept;
  void stay_awake() noexcept;  // the bell need not ring any more
  // The index of the next byte.
  [[nodiscard]] std::uint64_t position() const noexcept { return head_; }
  // Bytes that the reader has not taken, as far as known.
  [[nodiscard]] std::size_t unread() noexcept;
  // Bytes that it has taken, ever.
  [[nodiscard]] std::uint64_t taken() noexcept;
  // Everything has been taken, and delivered.
  [[nodiscard]] bool all_delivered() const noexcept {
    return control_.delivered.load(std::memory_order_acquire) == head_;
  }
  [[nodiscard]] bool reader_sleeps() const noexcept {
    return control_.reader_sleeps.load(std::memory_order_relaxed) != 0;
  }

 private:
  bool look() noexcept;
  void begin_lap() noexcept;
  void want_more() noexcept;
  [[nodiscard]] std::size_t room() const noexcept { return window_ - (head_ - tail_); }

  [[nodiscard]] std::size_t put_in_porch(std::span<const std::byte> bytes) noexcept;
  void show_latest() noexcept;

  RingControl& control_;
  std::span<std::byte> porch_;
  std::span<std::byte> data_;
  std::size_t window_;
  std::uint64_t base_ = 0;
  std::uint64_t head_ = 0;             // ours
  std::uint64_t shown_ = 0;            // ... when it was last published
  const std::byte* latest_ = nullptr;  // what was appended since then, if it lies in one piece
  std::uint64_t tail_ = 0;             // the reader's, when we last looked
  std::uint64_t look_at_ = 0;          // the index at which the reader's is asked for
  int full_looks_ = 0;                 // in vain, one after the other
  bool keeps_up_ = true;  // the reader, when we last looked: it waits for the next bytes
  bool cramped_ = false;  // there was too little room for too long: the window is to grow
  bool broken_ = false;
};

class RingReader {
 public:
  RingReader(RingControl& control, RingMemory<const std::byte> memory) noexcept
      : control_(control), porch_(memory.porch), data_(memory.data) {}

  [[nodiscard]] RingMoved read(std::span<std::byte> room) noexcept;
  // The bytes that can be read and lie in one piece; valid until the next call. The writer may
  // change them at any time if it wants to. Empty: read() says why.
  [[nodiscard]] std::span<const std::byte> input() noexcept;
  // The first `bytes` of input() are read. True: ring the writer's bell.
  [[nodiscard]] bool drop(std::size_t bytes) noexcept;
  // input() does not grow while it lies there: it ends with the window, the writer has no room, or
  // has ended.
  [[nodiscard]] bool cut() const noexcept;
  // All that was read has been delivered.
  void delivered() noexcept { control_.delivered.store(tail_, std::memory_order_release); }
  // Bytes that are there, as far as known; looks, if none are.
  [[nodiscard]] std::size_t seen() noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  // The index up to which everything was read, and where the writer shows its own.
  [[nodiscard]] std::uint64_t position() const noexcept { return tail_; }
  // Behind the input that was there last, if the window has not ended there.
  [[nodiscard]] const void* next() const noexcept { return next_; }
  [[nodiscard]] const std::atomic<std::uint64_t>& written() const noexcept { return control_.head; }
  [[nodiscard]] bool has_input() noexcept;  // or an end, or is broken
  [[nodiscard]] RingEnd end() const noexcept;
  // Declares that the reader sleeps until there is input. False: do not sleep, look again.
  [[nodiscard]] bool may_sleep() noexcept;
  // The same, and it does not want the input that is there, only the end.
  [[nodiscard]] bool may_sleep_until_end() noexcept;
  void stay_awake() noexcept;

 private:
  bool look() noexcept;
  bool copy_latest() noexcept;
  bool find(std::span<const std::byte>& window, std::size_t& at) noexcept;
  [[nodiscard]] std::size_t take_from_porch(std::span<std::byte> room) noexcept;
  [[nodiscard]] bool take_from_window(std::span<std::byte> room) noexcept;
  RingMoved nothing() noexcept;

  RingControl& control_;
  std::span<const std::byte> porch_;
  std::span<const std::byte> data_;
  std::uint64_t tail_ = 0;  // ours
  std::uint64_t head_ = 0;  // the writer's, when we last looked
  std::size_t piece_ = 0;   // size of input()
  const std::byte* next_ = nullptr;
  std::array<std::uint64_t, kLatestWords> latest_;  // a copy
  bool broken_ = false;
};

}  // namespace udapl::soft::shm
