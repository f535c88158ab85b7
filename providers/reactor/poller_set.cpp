// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/poller_set.h"

#include <utility>

namespace udapl {

Sign& PollerSet::add(std::uint32_t slot) {
  if (slot >= members_.size()) members_.resize(std::size_t{slot} + 1);
  awake_.reserve(members_.capacity());
  when_polled_.reserve(members_.capacity());
  const std::size_t block = slot / std::tuple_size_v<Signs>;
  if (block >= signs_.size()) signs_.resize(block + 1);
  if (signs_[block] == nullptr) signs_[block] = std::make_unique<Signs>();
  members_[slot].poller = true;
  ++pollers_;
  count();
  Sign& sign = sign_of(slot);
  sign.clear();
  return sign;
}

void PollerSet::remove(std::uint32_t slot) noexcept {
  if (slot >= members_.size() || !members_[slot].poller) return;
  let_rest(slot);
  members_[slot].poller = false;
  --pollers_;
  count();
}

void PollerSet::count() noexcept {
  counts_.awake.store(static_cast<std::uint32_t>(awake_.size()), std::memory_order_seq_cst);
  counts_.some_rest.store(awake_.size() != pollers_, std::memory_order_relaxed);
  rest_after_ = pollers_ <= tuning::kFewPollers    ? UINT32_MAX
                : pollers_ <= tuning::kManyPollers ? tuning::kRestAfter
                                                   : 1;
}

void PollerSet::wake(std::uint32_t slot) noexcept {
  if (members_[slot].awake) {
    std::ranges::find(awake_, slot, &Awake::slot)->misses = 0;
    return;
  }
  members_[slot].awake = true;
  awake_.push_back({&sign_of(slot), slot, 0, 0});
  count();
}

void PollerSet::let_rest(std::uint32_t slot) noexcept {
  if (!members_[slot].awake) return;
  members_[slot].awake = false;
  awake_.erase(std::ranges::find(awake_, slot, &Awake::slot));
  count();
}

void PollerSet::wake_few() noexcept {
  if (pollers_ > tuning::kFewPollers || awake_.size() == pollers_) return;
  for (std::uint32_t slot = 0; slot != members_.size(); ++slot) {
    if (members_[slot].poller) wake(slot);
  }
}

void PollerSet::wake_when_polled(std::uint32_t slot) noexcept {
  if (std::exchange(members_[slot].when_polled, true)) return;
  when_polled_.push_back(slot);
  counts_.some_when_polled.store(true, std::memory_order_relaxed);
}

// A poller may be gone by now, and another one have its slot.
void PollerSet::wake_for_poll() noexcept {
  for (const std::uint32_t slot : when_polled_) {
    members_[slot].when_polled = false;
    if (members_[slot].poller) wake(slot);
  }
  forget_when_polled();
}

void PollerSet::forget_when_polled() noexcept {
  when_polled_.clear();
  counts_.some_when_polled.store(false, std::memory_order_relaxed);
}

PollerSet::Awake* PollerSet::next_to_ask(std::size_t& place, std::size_t end,
                                         std::size_t quiet) noexcept {
  // Short: a turn does this for many pollers.
  Awake* const first = awake_.data();
  Awake* const last = first + std::min(end, awake_.size());
  const Awake* const called = quiet < awake_.size() ? first + quiet : nullptr;
  for (Awake* awake = first + place; awake < last; ++awake) {
    if (!awake->sign->quiet() || awake->misses + 1 >= rest_after_ || awake == called ||
        quiet == kAll) {
      place = static_cast<std::size_t>(awake - first);
      return awake;
    }
    ++awake->misses;
  }
  place = std::max(place, static_cast<std::size_t>(last - first));
  return nullptr;
}

bool PollerSet::asked(std::size_t place, std::uint32_t slot, bool found) noexcept {
  if (place >= awake_.size() || awake_[place].slot != slot) return false;
  Awake& awake = awake_[place];
  awake.misses = found ? 0 : awake.misses + 1;
  if (found) note_served(place);
  return awake.misses >= rest_after_;
}

}  // namespace udapl
