// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/visits.h"

#include "common/thread_end.h"
#include "common/wait_word.h"

#include <array>
#include <cstddef>
#include <optional>

namespace udapl::dapl {

namespace {

// Signalled when a visitor leaves an Ia that is being closed. One word for all, because an Ia may
// be destroyed before its last visitor has woken the thread that closes it.
WaitWord visitor_left;

}  // namespace

// The visits of the calling thread in one Ia. Not on the stack, because longjmp abandons that.
struct WaitVisit::Own {
  static constexpr std::size_t kMost = 4;  // Ias at a time; visits of further ones are not recorded
  static std::array<Own, kMost>& of_thread() noexcept {
    static constinit thread_local std::array<Own, kMost> all{};
    return all;
  }

  void end_all() noexcept;
  // Called when the thread ends.
  static void end_those_of_thread() noexcept {
    for (Own& own : of_thread()) own.end_all();
  }

  Visits* visits = nullptr;
  std::uint32_t inside = 0;  // 0: the record is free
  std::uint32_t ended = 0;   // how often all visits of the record were ended at once
};

// The last call of leave() may let the Ia be destroyed.
void WaitVisit::Own::end_all() noexcept {
  if (inside == 0) return;
  ++ended;
  while (inside != 0) {
    --inside;
    visits->leave();
  }
}

void WaitVisit::begin(Visits& visits) noexcept {
  at_thread_end(ThreadEnd::kVisit, &Own::end_those_of_thread);
  visits.enter();
  visits_ = &visits;
  own_ = nullptr;
  for (Own& own : Own::of_thread())
    if (own.inside != 0 ? own.visits == &visits : own_ == nullptr) own_ = &own;
  if (own_ == nullptr) return;
  own_->visits = &visits;
  ++own_->inside;
  number_ = own_->ended;
}

bool WaitVisit::left() const noexcept { return own_ != nullptr && own_->ended != number_; }

void WaitVisit::end() noexcept {
  if (left()) return;
  if (own_ != nullptr) --own_->inside;
  visits_->leave();
}

void Visits::wake_closer() noexcept { visitor_left.signal(); }

// A visitor signals after it has left. So if it leaves after inside_ was read, visitor_left changes
// after `seen` was read, which ends the wait.
void Visits::wait_until_empty() noexcept {
  for (WaitVisit::Own& own : WaitVisit::Own::of_thread()) {
    if (own.visits == this) own.end_all();
  }
  inside_.fetch_or(kCloserWaits, std::memory_order_seq_cst);
  for (;;) {
    const std::uint32_t seen = visitor_left.value();
    if (inside_.load(std::memory_order_seq_cst) == kCloserWaits) return;
    visitor_left.wait(seen, std::nullopt);
  }
}

bool Closing::is_blocked_by(const Waiting& other) const noexcept { return other.is_inside(&ia_); }

}  // namespace udapl::dapl
