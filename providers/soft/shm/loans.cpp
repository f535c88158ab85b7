// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/shm/loans.h"

#include "common/copy_bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

// After the lender has copied a loan into the spare memory, it first publishes that, and then its
// own memory may be overwritten. The borrower first reads the lender's memory, and then checks
// whether a copy was published. Both are sequentially consistent, so a borrower that has read
// overwritten bytes finds the copy.

namespace udapl::soft::shm {

// ---- lender -------------------------------------------------------------------------------------

bool Lender::may_lend_large(std::size_t bytes) noexcept {
  passed(bytes);
  if (held_back_ != 0) return false;
  const std::size_t least = control_.welcome.load(std::memory_order_relaxed);
  if (least == 0 || bytes < least || bytes > kMaxLent || broken_) return false;
  if (loans_ == nullptr) loans_.reset(new (std::nothrow) std::array<Loan, kLoanSlots>);
  return loans_ != nullptr && lent_ - reclaimed_ < kLoanSlots;
}

void Lender::lend(std::uint64_t position, std::uint64_t from, std::span<const std::byte> bytes,
                  bool claimed) noexcept {
  loan(lent_) = {bytes, from, 0};
  LoanSlot& slot = control_.slots[lent_ % kLoanSlots];
  slot.position.store(position, std::memory_order_relaxed);
  slot.address.store(reinterpret_cast<std::uintptr_t>(bytes.data()), std::memory_order_relaxed);
  slot.length.store(static_cast<std::uint32_t>(bytes.size()), std::memory_order_relaxed);
  slot.copied_to.store(claimed ? kWriting : 0, std::memory_order_relaxed);
  if (claimed) {
    if (claimed_ == claimed_end_) claimed_ = lent_;
    claimed_end_ = lent_ + 1;
  }
  control_.lent.store(++lent_, std::memory_order_seq_cst);
  looks_ = calls_ = 0;
}

bool Lender::look() noexcept {
  if (control_.returned.load(std::memory_order_relaxed) != reclaimed_) {
    looks_ = calls_ = 0;
    return true;
  }
  if (++looks_ >= kPatientLooks) called_in_ = true;
  return called_in_ || control_.refused.load(std::memory_order_relaxed) != 0;
}

void Lender::call_in() noexcept {
  if (control_.reads.load(std::memory_order_relaxed) == 0 || ++calls_ >= kPatientCalls)
    called_in_ = true;
}

// The borrower's count only grows, and not beyond ours.
void Lender::reclaim() noexcept {
  const std::uint32_t returned = control_.returned.load(std::memory_order_acquire);
  if (returned - reclaimed_ > lent_ - reclaimed_) broken_ = true;
  if (broken_) return;
  if (returned - reclaimed_ > ours_ - reclaimed_) ours_ = returned;
  for (; reclaimed_ != returned; ++reclaimed_) {
    const std::uint32_t place = loan(reclaimed_).place;
    places_ &= ~place;
    if (place == 0)
      next_held_back_ = std::max(kMinHeldBack, next_held_back_ - next_held_back_ / kForgets);
  }
}

bool Lender::collect() noexcept {
  reclaim();
  if (broken_ || !any()) return false;
  if (!called_in_ && control_.refused.load(std::memory_order_acquire) == 0) [[likely]]
    return false;
  called_in_ = false;
  looks_ = calls_ = 0;
  held_back_ = next_held_back_;
  next_held_back_ = std::min(2 * next_held_back_, kMaxHeldBack);
  while (any()) copy(ours_++);
  return true;
}

// Copies to the first free place, so that few pages and cache lines are used. A place is always
// free, because there are as many places as slots.
void Lender::copy(std::uint32_t number) noexcept {
  Loan& copied = loan(number);
  const int place = std::countr_one(places_);
  copied.place = std::uint32_t{1} << place;
  places_ |= copied.place;
  copy_bytes(spare_.data() + place * kMaxLent, copied.bytes.data(), copied.bytes.size());
  control_.slots[number % kLoanSlots].copied_to.exchange(static_cast<std::uint32_t>(place) + 1,
                                                         std::memory_order_seq_cst);
}

// ---- loans that the lender writes to their destination itself ----------------------------------

// Returns the loans that were lent as claimed. If there are none, returns an empty run behind the
// last loan of the part.
Lender::Run Lender::first_run(const Part& part) noexcept {
  Run run{claimed_, claimed_end_, {}};
  claimed_ = claimed_end_;
  if (lent_ - run.begin > lent_ - ours_) run.begin = ours_;  // earlier ones were copied meanwhile
  if (lent_ - run.begin > lent_ - run.end) {
    run.bytes = bytes_of(run);
    return run;
  }
  std::uint32_t end = lent_;
  while (end != ours_ && loan(end - 1).from >= part.end) --end;
  return {end, end, {}};
}

// Claims the second half of the loans before `run` that are not taken. The borrower takes them one
// by one from the other end, so both sides finish at about the same time.
bool Lender::claim(const Part& part, Run& run) noexcept {
  const std::uint32_t end = run.begin;
  std::uint32_t first = end;
  while (first != ours_ && loan(first - 1).from >= part.begin &&
         (first == end || loan(first - 1).bytes.data() + loan(first - 1).bytes.size() ==
                              loan(first).bytes.data()) &&
         state(first - 1).load(std::memory_order_relaxed) == 0)
    --first;
  run = {end, end, {}};
  for (std::uint32_t wanted = (end - first + 1) / 2; wanted != 0; --wanted) {
    std::uint32_t free = 0;
    if (!state(run.begin - 1).compare_exchange_strong(free, kWriting)) break;
    --run.begin;
  }
  if (run.begin == end) return false;
  run.bytes = bytes_of(run);
  return true;
}

std::span<const std::byte> Lender::bytes_of(const Run& run) const noexcept {
  const std::span<const std::byte> last = loan(run.end - 1).bytes;
  return {loan(run.begin).bytes.data(), last.data() + last.size()};
}

void Lender::settle(const Run& run, bool written) noexcept {
  for (std::uint32_t i = run.begin; i != run.end; ++i) {
    const std::span<const std::byte> bytes = loan(i).bytes;
    std::uint64_t last = 0;
    static_assert(sizeof last == kLoanEnd);
    std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
    ends_[i % kLoanSlots].store(last, std::memory_order_relaxed);
    state(i).exchange(written ? kWritten : 0, std::memory_order_seq_cst);
  }
  looks_ = calls_ = 0;
}

// ---- borrower -----------------------------------------------------------------------------------

void Borrower::welcome(std::size_t bytes) noexcept {
  control_.welcome.store(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed);
}

// A loan before bytes that were already read, or one without bytes or with too many, breaks the
// stream. The address is not checked: if it is invalid, the kernel fails the copy.
bool Borrower::read_slot(std::uint32_t lent, std::uint64_t position) noexcept {
  const LoanSlot& slot = control_.slots[returned_ % kLoanSlots];
  position_ = slot.position.load(std::memory_order_relaxed);
  address_ = slot.address.load(std::memory_order_relaxed);
  length_ = slot.length.load(std::memory_order_relaxed);
  taken_ = 0;
  if (lent - returned_ > kLoanSlots || length_ == 0 || length_ > kMaxLent || position_ < position)
    broken_ = true;
  found_ = !broken_;
  return true;
}

// Returns an empty span if the lender has not copied the bytes.
std::span<const std::byte> Borrower::copied() noexcept {
  const std::uint32_t copied_to =
      control_.slots[returned_ % kLoanSlots].copied_to.load(std::memory_order_seq_cst);
  if (copied_to == 0 || copied_to == kTaken || copied_to == kWriting || copied_to == kWritten)
    return {};
  if (copied_to > kLoanSlots) broken_ = true;
  if (broken_) return {};
  return spare_.subspan((copied_to - 1) * kMaxLent, length_).subspan(taken_);
}

void Borrower::taken(std::size_t bytes) noexcept {
  taken_ += static_cast<std::uint32_t>(bytes);
  if (taken_ != length_) return;
  found_ = false;
  control_.returned.store(++returned_, std::memory_order_seq_cst);
}

void Borrower::take_written(std::span<std::byte> end) noexcept {
  const std::uint64_t last = ends_[returned_ % kLoanSlots].load(std::memory_order_relaxed);
  std::array<std::byte, sizeof last> bytes;
  std::memcpy(bytes.data(), &last, sizeof last);
  std::copy_n(bytes.end() - static_cast<std::ptrdiff_t>(end.size()), end.size(), end.begin());
  taken(left());
}

void Borrower::refuse() noexcept {
  refused_ = true;
  welcome(0);
  control_.refused.store(1, std::memory_order_seq_cst);
}

}  // namespace udapl::soft::shm
