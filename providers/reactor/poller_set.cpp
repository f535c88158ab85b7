// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/reactor/poller_set.h"

#include <utility>

namespace udapl {

Sign& PollerSet::add(std::uint32_t slot) {
  const std::size_t block = slot / std::tuple_size_v<Block>;
  if (block >= members_.size()) members_.resize(block + 1);
  awake_.reserve(members_.capacity() * std::tuple_size_v<Block>);
  when_polled_.reserve(members_.capacity() * std::tuple_size_v<Block>);
  if (members_[block] == nullptr) members_[block] = std::make_unique<Block>();
  Member& member = at(slot);
  member.sign.clear();
  member.slot = slot;
  member.follower = nullptr;
  member.poller = true;
  ++pollers_;
  count();
  return member.sign;
}

void PollerSet::remove(std::uint32_t slot) noexcept {
  if (!has(slot)) return;
  let_rest(slot);
  at(slot).poller = false;
  if (last_ == &at(slot)) last_ = nullptr;
  --pollers_;
  count();
}

void PollerSet::count() noexcept {
  counts_.awake.store(static_cast<std::uint32_t>(awake_.size()), std::memory_order_seq_cst);
  counts_.some_rest.store(awake_.size() != pollers_, std::memory_order_relaxed);
  if (order_known())
    crowded_ = 0;
  else if (awake_.size() > tuning::kManyPollers)
    crowded_ = tuning::kCrowdedFor;
  const bool searchable = crowded_ == 0 || awake_.size() <= tuning::kGlanced;
  rest_after_ = pollers_ <= tuning::kFewPollers ? UINT32_MAX : searchable ? tuning::kRestAfter : 1;
}

void PollerSet::wake(std::uint32_t slot) noexcept {
  Member& member = at(slot);
  member.misses = 0;
  if (member.place != kRests) return;
  member.place = static_cast<std::uint32_t>(awake_.size());
  awake_.push_back(&member);
  count();
}

void PollerSet::wake_for_input(std::uint32_t slot) noexcept {
  wake(slot);
  note_served(at(slot));
}

// The last poller of awake_ moves to its place.
void PollerSet::let_rest(std::uint32_t slot) noexcept {
  Member& member = at(slot);
  if (member.place == kRests) return;
  awake_.back()->place = member.place;
  awake_[member.place] = awake_.back();
  awake_.pop_back();
  member.place = kRests;
  count();
}

void PollerSet::wake_few() noexcept {
  if (pollers_ > tuning::kFewPollers || awake_.size() == pollers_) return;
  for (const std::unique_ptr<Block>& block : members_) {
    if (block == nullptr) continue;
    for (const Member& member : *block)
      if (member.poller) wake(member.slot);
  }
}

void PollerSet::wake_when_polled(std::uint32_t slot) noexcept {
  if (std::exchange(at(slot).when_polled, true)) return;
  when_polled_.push_back(slot);
  counts_.some_when_polled.store(true, std::memory_order_relaxed);
}

// A poller may have been removed meanwhile, and its slot may have another one.
void PollerSet::wake_for_poll() noexcept {
  for (const std::uint32_t slot : when_polled_) {
    at(slot).when_polled = false;
    if (at(slot).poller) wake(slot);
  }
  forget_when_polled();
}

void PollerSet::forget_when_polled() noexcept {
  when_polled_.clear();
  counts_.some_when_polled.store(false, std::memory_order_relaxed);
}

PollerSet::Member* PollerSet::next_to_ask(std::size_t& place, std::size_t end,
                                          std::size_t quiet) noexcept {
  // A short loop, because a turn does this for many pollers.
  Member* const* const first = awake_.data();
  Member* const* const last = first + std::min(end, awake_.size());
  const Member* const called = quiet < awake_.size() ? first[quiet] : nullptr;
  for (Member* const* at = first + place; at < last; ++at) {
    Member& member = **at;
    if (!member.sign.quiet() || member.misses + 1 >= rest_after_ || &member == called ||
        quiet == kAll) {
      place = static_cast<std::size_t>(at - first);
      return &member;
    }
    ++member.misses;
  }
  place = std::max(place, static_cast<std::size_t>(last - first));
  return nullptr;
}

bool PollerSet::asked(std::size_t place, std::uint32_t slot, bool found) noexcept {
  if (place >= awake_.size() || awake_[place]->slot != slot) return false;
  Member& member = *awake_[place];
  member.misses = found ? 0 : member.misses + 1;
  if (found) note_served(member);
  return member.misses >= rest_after_;
}

}  // namespace udapl
