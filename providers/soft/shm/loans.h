// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/prefetch.h"
#include "providers/soft/shm/loan_slots.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

namespace udapl::soft::shm {

// May be used by one thread at a time.
class Lender {
 public:
  // Fewer bytes are never lent.
  static constexpr std::size_t kMinLent = 2048;

  Lender(LoanControl& control, LoanEnds& ends, std::span<std::byte> spare) noexcept
      : control_(control), ends_(ends), spare_(spare) {}

  // Whether the peer borrows, and will probably return a loan before this side calls it in. Returns
  // false for the next bytes (held_back_) after loans were called in.
  [[nodiscard]] bool worthwhile() const noexcept {
    return held_back_ == 0 && control_.welcome.load(std::memory_order_relaxed) != 0;
  }
  // Called for bytes that are sent in another way.
  void passed(std::size_t bytes) noexcept { held_back_ -= std::min(held_back_, bytes); }
  // Must be called for each piece of payload; pieces that may not be lent go through the ring.
  [[nodiscard]] bool may_lend(std::size_t bytes) noexcept {
    return bytes >= kMinLent && may_lend_large(bytes);
  }
  // Lends `bytes`, which belong at `position` of the ring and begin at `from` of the stream. The
  // peer sees the loan with the next bytes that are published in the ring. REQUIRES:
  // may_lend(bytes.size()). `claimed`: assist(), which must follow, writes these bytes; the
  // borrower copies them only if assist() fails. Consecutive claimed loans are contiguous in
  // memory.
  void lend(std::uint64_t position, std::uint64_t from, std::span<const std::byte> bytes,
            bool claimed = false) noexcept;

  // Part of the stream.
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  // Writes loans of this part to their destination, the last ones first, until the borrower has
  // taken all others. `write` is called with contiguous bytes of loans, copies them, and returns
  // false if that is not possible; it may leave out the last eight, which the borrower places.
  // Returns whether the state of any loan has changed: then the ring's reader must be notified.
  template <class Write>
  [[nodiscard]] bool assist(const Part& part, Write write) noexcept {
    Run run = first_run(part);
    bool any = false;
    while (run.begin != run.end || claim(part, run)) {
      const bool written = write(run.bytes);
      settle(run, written);
      any = true;
      if (!written) break;
      run.end = run.begin;
    }
    return any;
  }

  // The number of pieces that can be lent now.
  [[nodiscard]] std::size_t room() const noexcept { return kLoanSlots - (lent_ - reclaimed_); }
  // The number that can be lent after the next reclaim().
  [[nodiscard]] std::size_t room_next() const noexcept {
    const std::uint32_t returned = control_.returned.load(std::memory_order_relaxed);
    return room() + std::min(returned - reclaimed_, lent_ - reclaimed_);
  }
  // Whether any memory is lent.
  [[nodiscard]] bool any() const noexcept { return lent_ != ours_; }
  // The position in the stream at which the oldest loan begins. REQUIRES: any().
  [[nodiscard]] std::uint64_t oldest() const noexcept { return loan(ours_).from; }

  // Whether collect() has something to do. If the peer has returned nothing for kPatientLooks
  // calls, calls the loans in.
  [[nodiscard]] bool needs_collect() noexcept { return any() && look(); }
  // Calls the loans in, that is, stops waiting for the borrower: needs_collect() returns true from
  // then on. Does nothing while the borrower is copying, but at most kPatientCalls times.
  void call_in() noexcept;
  // Takes back returned loans. If loans were called in or refused, copies the remaining ones into
  // the spare memory. Returns whether the ring's reader must be notified. REQUIRES: the lent bytes
  // can still be read.
  [[nodiscard]] bool collect() noexcept;
  // Only takes back returned loans. The caller must then count their bytes as sent: after the last
  // loan was taken back, needs_collect() no longer reports anything.
  void reclaim() noexcept;
  // Whether all loans were returned, including those that were copied.
  [[nodiscard]] bool all_returned() const noexcept { return reclaimed_ == lent_; }
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  static constexpr int kPatientLooks = 4096;  // looks without news; about 1 ms of polling
  static constexpr int kPatientCalls = 64;    // calls of call_in() while the borrower is copying
  static constexpr std::size_t kMinHeldBack = 1024 * 1024;
  static constexpr std::size_t kMaxHeldBack = 64 * 1024 * 1024;
  // With each returned loan, next_held_back_ shrinks by this part.
  static constexpr std::size_t kForgets = 64;

  struct Loan {
    std::span<const std::byte> bytes;
    std::uint64_t from = 0;
    std::uint32_t place = 0;  // a bit of places_; 0: the loan was not copied
  };
  // Consecutive loans of contiguous bytes.
  struct Run {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] Loan& loan(std::uint32_t number) const noexcept {
    return (*loans_)[number % kLoanSlots];
  }
  [[nodiscard]] std::atomic<std::uint32_t>& state(std::uint32_t number) const noexcept {
    return control_.slots[number % kLoanSlots].copied_to;
  }
  [[nodiscard]] Run first_run(const Part& part) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes_of(const Run& run) const noexcept;
  [[nodiscard]] bool claim(const Part& part, Run& run) noexcept;
  void settle(const Run& run, bool written) noexcept;
  [[nodiscard]] bool may_lend_large(std::size_t bytes) noexcept;
  [[nodiscard]] bool look() noexcept;
  void copy(std::uint32_t number) noexcept;

  LoanControl& control_;
  LoanEnds& ends_;
  std::span<std::byte> spare_;
  std::unique_ptr<std::array<Loan, kLoanSlots>> loans_;  // allocated with the first loan
  // Numbers of loans: reclaimed_ <= ours_ <= lent_. The loans before reclaimed_ were returned;
  // those before ours_ were returned or copied, so their memory belongs to this side again.
  std::uint32_t lent_ = 0;
  std::uint32_t ours_ = 0;
  std::uint32_t reclaimed_ = 0;
  // The loans from claimed_ to claimed_end_ were lent as claimed, and are not settled.
  std::uint32_t claimed_ = 0;
  std::uint32_t claimed_end_ = 0;
  std::uint32_t places_ = 0;   // bits: the places of the spare memory that are in use
  std::size_t held_back_ = 0;  // bytes to send through the ring before anything is lent again
  std::size_t next_held_back_ = kMinHeldBack;
  int looks_ = 0;
  int calls_ = 0;
  bool called_in_ = false;
  bool broken_ = false;
};

// May be used by one thread at a time.
class Borrower {
 public:
  Borrower(LoanControl& control, const LoanEnds& ends, std::span<const std::byte> spare) noexcept
      : control_(control), ends_(ends), spare_(spare) {}

  // Asks the peer to lend pieces of at least this many bytes.
  void welcome(std::size_t bytes) noexcept;

  // The number of bytes of the ring before the next loan, for a reader at `position`; the largest
  // value if there is no loan. The reader must have read the ring's head before.
  [[nodiscard]] std::uint64_t before_next(std::uint64_t position) noexcept {
    if (!found_ && !find(position)) [[likely]]
      return std::numeric_limits<std::uint64_t>::max();
    return broken_ ? 0 : position_ - position;
  }
  void prepare() const noexcept { prefetch_for_read(&control_.lent); }
  // Whether the next bytes of the stream are lent.
  [[nodiscard]] bool is_next(std::uint64_t position) noexcept { return before_next(position) == 0; }
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  // ---- the next loan; REQUIRES: is_next(), !broken() --------------------------------------------
  [[nodiscard]] std::size_t left() const noexcept { return length_ - taken_; }
  // Consumes the next `bytes` bytes of the loan. Calls fetch(address), which reads them from the
  // lender's memory and returns whether it could, or put(bytes) if the lender has copied them into
  // the spare memory. Returns false if the bytes are not available yet (the caller tries again when
  // the ring's reader is notified), or if the stream is broken.
  template <class Fetch, class Put>
  [[nodiscard]] bool take(std::size_t bytes, Fetch fetch, Put put) noexcept {
    if (claim() == kWriting) return false;
    std::span<const std::byte> copy = copied();
    if (copy.empty() && !broken_ && !refused_) {
      begin_reading();
      const bool fetched = fetch(address_ + taken_);
      end_reading();
      if (!fetched) refuse();
      copy = copied();  // empty: the lender still had to keep the bytes that were fetched
      if (copy.empty() && (!fetched || broken_)) return false;
    }
    if (broken_ || (copy.empty() && refused_)) return false;
    if (!copy.empty()) put(copy.first(bytes));
    taken(bytes);
    return true;
  }
  // Whether the lender has written the bytes of the loan to their destination.
  [[nodiscard]] bool written() const noexcept { return state().load() == kWritten; }
  // Consumes the rest of a loan that is written(), and copies its last bytes, up to eight, into
  // `end`.
  void take_written(std::span<std::byte> end) noexcept;
  // Whether the next loan can be consumed, or the stream is broken.
  [[nodiscard]] bool ready() noexcept {
    return broken_ || (state().load() != kWriting && (!refused_ || written() || !copied().empty()));
  }

 private:
  [[nodiscard]] bool find(std::uint64_t position) noexcept {
    const std::uint32_t lent = control_.lent.load(std::memory_order_acquire);
    return (lent != returned_ || broken_) && read_slot(lent, position);
  }
  [[nodiscard]] bool read_slot(std::uint32_t lent, std::uint64_t position) noexcept;
  [[nodiscard]] std::atomic<std::uint32_t>& state() const noexcept {
    return control_.slots[returned_ % kLoanSlots].copied_to;
  }
  // Takes the loan if its state is undecided. Returns the state afterwards.
  std::uint32_t claim() noexcept {
    std::uint32_t found = state().load(std::memory_order_relaxed);
    if (found == 0 && state().compare_exchange_strong(found, kTaken)) return kTaken;
    return found;
  }
  [[nodiscard]] std::span<const std::byte> copied() noexcept;
  void begin_reading() noexcept { control_.reads.store(1, std::memory_order_relaxed); }
  void end_reading() noexcept { control_.reads.exchange(0, std::memory_order_seq_cst); }
  void taken(std::size_t bytes) noexcept;
  void refuse() noexcept;

  LoanControl& control_;
  const LoanEnds& ends_;
  std::span<const std::byte> spare_;
  std::uint32_t returned_ = 0;
  bool found_ = false;  // whether the fields below describe the next loan
  bool refused_ = false;
  bool broken_ = false;
  std::uint32_t length_ = 0;
  std::uint32_t taken_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t address_ = 0;
};

}  // namespace udapl::soft::shm
