// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/visits.h"

#include "common/wait_word.h"

#include <optional>

namespace udapl::dapl {

namespace {

// Signalled when a visitor leaves an Ia that is being closed. One word for all, because an Ia may
// be destroyed before its last visitor has woken the thread that closes it.
WaitWord visitor_left;

}  // namespace

void Visits::wake_closer() noexcept { visitor_left.signal(); }

// A visitor signals after it has left: if it left after inside_ was read, the word differs from
// `seen` by the time it is gone, or will, and the wait ends.
void Visits::wait_until_empty() noexcept {
  inside_.fetch_or(kCloserWaits, std::memory_order_seq_cst);
  for (;;) {
    const std::uint32_t seen = visitor_left.value();
    if (inside_.load(std::memory_order_seq_cst) == kCloserWaits) return;
    visitor_left.wait(seen, std::nullopt);
  }
}

bool Closing::is_blocked_by(const Waiting& other) const noexcept { return other.is_inside(&ia_); }

}  // namespace udapl::dapl
