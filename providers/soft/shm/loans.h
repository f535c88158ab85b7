// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/shm/byte_ring.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

// Bytes of a stream that do not go through its ring. The writer of the ring lends them: says in a
// slot before which byte of the ring they belong, and where they lie in its memory. The reader
// borrows: copies them from there by the kernel's means (peer_memory.h) to where they are wanted,
// once instead of twice, and returns the slot. A lender that does not want to wait, or a borrower
// who cannot get at the bytes, has them copied into memory that both share, as through the ring.
// docs/adr/0036.
//
// Neither side trusts the other: what the other publishes is read once and checked; a peer that
// lies breaks the stream.
namespace udapl::soft::shm {

struct LoanSlot {
  // Written by the lender, before `lent` counts it.
  std::atomic<std::uint64_t> position;  // of the ring: the bytes come before the one there
  std::atomic<std::uint64_t> address;   // in the lender's process
  std::atomic<std::uint32_t> length;    // bytes, 1 to kMostLent
  // Later, or never: in which place of the spare memory they lie as well, from 1 on. The lender's
  // own memory may be something else then.
  std::atomic<std::uint32_t> copied_to;
};

inline constexpr std::size_t kLoanSlots = 32;
inline constexpr std::size_t kMostLent = 64 * 1024;  // in one slot

struct LoanControl {
  // Written by the lender.
  alignas(kLineSize) std::atomic<std::uint32_t> lent;  // slots, ever
  std::array<LoanSlot, kLoanSlots> slots;
  // Written by the borrower.
  alignas(kLineSize) std::atomic<std::uint32_t> returned;  // slots, ever
  std::atomic<std::uint32_t> welcome;  // as many bytes or more are to be lent; 0: none
  std::atomic<std::uint32_t> refused;  // 1: it cannot get at them after all
  std::atomic<std::uint32_t> reads;    // 1: it is just copying
};
static_assert(sizeof(LoanControl) == 8 * kLineSize, "the layout of shared pages");

// For copies: a place for each slot. Pages are only taken when used.
inline constexpr std::size_t kSpareSize = kLoanSlots * kMostLent;

// For one thread at a time.
class Lender {
 public:
  // Fewer bytes are never lent.
  static constexpr std::size_t kLeastLent = 2048;

  Lender(LoanControl& control, std::span<std::byte> spare) noexcept
      : control_(control), spare_(spare) {}

  // Is the peer one that borrows, and will it in all likelihood before we call the loan in? After
  // each that had to be called in the answer is no for some bytes.
  [[nodiscard]] bool pays() const noexcept {
    return held_back_ == 0 && control_.welcome.load(std::memory_order_relaxed) != 0;
  }
  // Asked for each piece of payload that is to go through the ring otherwise.
  [[nodiscard]] bool may_lend(std::size_t bytes) noexcept {
    return bytes >= kLeastLent && may_lend_large(bytes);
  }
  // Lends `bytes`, which come at `position` of the ring and begin at `from` of the stream. Seen
  // with what is published in the ring next. REQUIRES: may_lend(bytes.size()).
  void lend(std::uint64_t position, std::uint64_t from, std::span<const std::byte> bytes) noexcept;

  // Is any memory lent?
  [[nodiscard]] bool any() const noexcept { return lent_ != ours_; }
  // Where the oldest loan begins in the stream. REQUIRES: any().
  [[nodiscard]] std::uint64_t oldest() const noexcept { return loan(ours_).from; }

  // There is something for collect() to do. Asked often and in vain, it calls the loans in.
  [[nodiscard]] bool has_news() noexcept { return any() && look(); }
  // Does not want to wait any more, unless the borrower is just copying: has_news() from now on.
  void call_in() noexcept;
  // Takes back what was returned; copies the rest if it was called in or refused. REQUIRES: the
  // bytes that are lent can still be read. True: the reader of the ring is to be told.
  [[nodiscard]] bool collect() noexcept;
  // Takes back what was returned, no more.
  void take_back() noexcept;
  // All were, also those that were copied.
  [[nodiscard]] bool has_all_back() const noexcept { return back_ == lent_; }
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  static constexpr int kPatientLooks = 4096;  // without any news; some 1 ms of a thread that polls
  static constexpr int kPatientCalls = 64;    // for a borrower that is just copying
  static constexpr std::size_t kLeastHeldBack = 1024 * 1024;
  static constexpr std::size_t kMostHeldBack = 64 * 1024 * 1024;
  static constexpr std::size_t kForgets = 64;  // loans that came back, to forget one that did not

  struct Loan {
    std::span<const std::byte> bytes;
    std::uint64_t from = 0;
    std::uint32_t place = 0;  // a bit of places_; 0: it was not copied
  };
  [[nodiscard]] Loan& loan(std::uint32_t number) const noexcept {
    return (*loans_)[number % kLoanSlots];
  }
  [[nodiscard]] bool may_lend_large(std::size_t bytes) noexcept;
  [[nodiscard]] bool look() noexcept;
  void copy(std::uint32_t number) noexcept;

  LoanControl& control_;
  std::span<std::byte> spare_;
  std::unique_ptr<std::array<Loan, kLoanSlots>> loans_;  // from the first on
  // Slots: back_ <= ours_ <= lent_. Those before ours_ were returned or copied.
  std::uint32_t lent_ = 0;
  std::uint32_t ours_ = 0;
  std::uint32_t back_ = 0;
  std::uint32_t places_ = 0;   // in use
  std::size_t held_back_ = 0;  // bytes that go through the ring before anything is lent
  std::size_t next_held_back_ = kLeastHeldBack;
  int looks_ = 0;
  int calls_ = 0;
  bool called_in_ = false;
  bool broken_ = false;
};

// For one thread at a time.
class Borrower {
 public:
  Borrower(LoanControl& control, std::span<const std::byte> spare) noexcept
      : control_(control), spare_(spare) {}

  // Asks for loans of so many bytes or more.
  void welcome(std::size_t bytes) noexcept;

  // Bytes of the ring before the next loan, for a reader at `position`, who has seen the ring's
  // head before; many if there is none.
  [[nodiscard]] std::uint64_t before_next(std::uint64_t position) noexcept {
    if (!found_ && !find(position)) [[likely]]
      return std::numeric_limits<std::uint64_t>::max();
    return broken_ ? 0 : position_ - position;
  }
  // What comes next is lent.
  [[nodiscard]] bool is_next(std::uint64_t position) noexcept { return before_next(position) == 0; }
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  // ---- of the next loan; REQUIRES: is_next(), !broken() -----------------------------------------
  [[nodiscard]] std::size_t left() const noexcept { return length_ - taken_; }
  // What is left is copied by fetch(address), which tells whether it could, or by put(bytes). True:
  // so much was taken. False: it is not there yet; look again when the ring's reader is told, or
  // the peer lies.
  template <class Fetch, class Put>
  [[nodiscard]] bool take(std::size_t bytes, Fetch fetch, Put put) noexcept {
    std::span<const std::byte> copy = copied();
    if (copy.empty() && !broken_ && !refused_) {
      begin_reading();
      const bool fetched = fetch(address_ + taken_);
      end_reading();
      if (!fetched) refuse();
      copy = copied();  // was it ours to read all the time?
      if (copy.empty() && (!fetched || broken_)) return false;
    }
    if (broken_ || (copy.empty() && refused_)) return false;
    if (!copy.empty()) put(copy.first(bytes));
    taken(bytes);
    return true;
  }
  // Would take() do something?
  [[nodiscard]] bool ready() noexcept { return broken_ || !refused_ || !copied().empty(); }

 private:
  [[nodiscard]] bool find(std::uint64_t position) noexcept {
    const std::uint32_t lent = control_.lent.load(std::memory_order_acquire);
    return (lent != returned_ || broken_) && read_slot(lent, position);
  }
  [[nodiscard]] bool read_slot(std::uint32_t lent, std::uint64_t position) noexcept;
  [[nodiscard]] std::span<const std::byte> copied() noexcept;
  void begin_reading() noexcept { control_.reads.store(1, std::memory_order_relaxed); }
  void end_reading() noexcept { control_.reads.exchange(0, std::memory_order_seq_cst); }
  void taken(std::size_t bytes) noexcept;
  void refuse() noexcept;

  LoanControl& control_;
  std::span<const std::byte> spare_;
  std::uint32_t returned_ = 0;
  bool found_ = false;  // the next loan is known
  bool refused_ = false;
  bool broken_ = false;
  std::uint32_t length_ = 0;
  std::uint32_t taken_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t address_ = 0;
};

}  // namespace udapl::soft::shm
