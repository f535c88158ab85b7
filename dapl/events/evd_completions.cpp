// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completions of an EVD on their way from its CQ to the dequeue: the stash of polled completions,
// those held because they arrived before their EP was connected, and those moved to the ring.
#include "common/tracing/cause.h"
#include "dapl/events/evd.h"
#include "dapl/posted/completion.h"

#include <algorithm>

namespace udapl::dapl {

std::size_t Evd::stashed_events() const noexcept {
  return static_cast<std::size_t>(std::count_if(stash_.begin(), stash_.end(), makes_event));
}

void Evd::reserve_early(std::size_t qlen) {
  const ScopedLock lock(cq_->lock);
  held_.reserve(qlen + CompletionStash::kSize);
}

bool Evd::awaits_established(const transport::Completion& completion) const noexcept {
  const void* const ep = ep_of(completion);
  return ep != nullptr && static_cast<const EpQueues*>(ep)->awaits_established_on(*this);
}

void Evd::hold_until_established() noexcept {
  if (!held_.empty()) {
    const auto to_ring = [&](const transport::Completion& completion)
                             UDAPL_REQUIRES(cq_->lock, ring_lock_) {
                               if (ring_.full() || awaits_established(completion)) return false;
                               move_to_ring(completion);
                               return true;
                             };
    const ScopedLock lock(ring_lock_);
    held_.release(to_ring);
  }
  stash_.remove_if([&](const transport::Completion& completion) UDAPL_REQUIRES(cq_->lock) {
    const bool early = awaits_established(completion) || held_.has_any_of(ep_of(completion));
    if (!early || held_.full()) return false;
    held_.hold(completion);
    return true;
  });
}

bool Evd::stash_more() noexcept {
  stash_.set_batch(cq_->poll(stash_.room(), CompletionStash::kSize));
  return !stash_.empty();
}

bool Evd::convert(const transport::Completion& completion, DAT_EVENT* event) noexcept {
  return to_event(completion, this, event);
}

bool Evd::dequeue_stashed(DAT_EVENT* event) noexcept {
  while (!stash_.empty())
    if (convert(stash_.take_front(), event)) return true;
  return false;
}

// Completions in the ring are older than those in the stash. If the EVD is being freed, only the
// lock of its CQ may still exist.
bool Evd::dequeue_oldest(DAT_EVENT* event) noexcept {
  if (is_shut()) return false;
  if (merged_) return dequeue_merged(event);
  if ((!ring_empty() && dequeue_from_ring(event)) || dequeue_stashed(event)) return true;
  while (stash_more())
    if (dequeue_stashed(event)) return true;
  return false;
}

// A completion that hold_until_established() has not held may be returned after the ring was read:
// the ESTABLISHED event of its EP was in the ring or has been dequeued. A consumer may post a new
// software event for each one that it dequeues, and the ring is read first: so each dequeued
// software event is followed in the ring by a completion, which is thus returned at some time.
bool Evd::dequeue_merged(DAT_EVENT* event) noexcept {
  for (;;) {
    hold_until_established();
    if (dequeue_from_ring(event)) {
      if (event->event_number == DAT_SOFTWARE_EVENT) move_to_ring(ring_.size() + 1);
      return true;
    }
    if (dequeue_stashed(event)) return true;
    if (!stash_more()) return false;
  }
}

// On return the stash is empty only if no completion that makes an event is available.
void Evd::refill_stash() noexcept {
  for (;;) {
    if (merged_) hold_until_established();
    while (!stash_.empty() && !makes_event(stash_.front())) retire(stash_.take_front());
    if (!stash_.empty() || !stash_more()) return;
  }
}

void Evd::move_to_ring(const transport::Completion& completion) noexcept {
  if (convert(completion, &ring_.next())) commit_event();
}

void Evd::move_to_ring(std::size_t count) noexcept {
  for (;;) {
    refill_stash();
    if (stash_.empty()) return;
    const ScopedLock lock(ring_lock_);
    while (!stash_.empty() && !ring_.full() && ring_.size() < count)
      move_to_ring(stash_.take_front());
    if (!stash_.empty() || ring_.full() || ring_.size() >= count) return;
  }
}

std::size_t Evd::count_events(std::size_t enough) noexcept {
  if (cq_ == nullptr) return ring_.size();
  const ScopedLock lock(cq_->lock);
  return count_locked(enough);
}

std::size_t Evd::count_locked(std::size_t enough) noexcept {
  refill_stash();
  const std::size_t count = ring_.size() + stashed_events();
  if (count >= enough || stash_.empty()) return count;
  // If the stash was filled, the size of the CQ is not queried, because it may have to drain the
  // hardware queue in order to count.
  if (!stash_.was_filled() && cq_->size() == 0) return count;
  move_to_ring(enough);
  return ring_.size() + stashed_events();
}

bool Evd::dequeue_any(DAT_EVENT* event) noexcept {
  if (cq_ == nullptr) return dequeue_from_ring(event);
  const ScopedLock lock(cq_->lock);
  return dequeue_oldest(event);
}

bool Evd::dequeue_and_count(DAT_EVENT* event, std::size_t* rest) noexcept {
  if (cq_ == nullptr) {
    if (!dequeue_from_ring(event)) return false;
    *rest = ring_.size();
    return true;
  }
  const ScopedLock lock(cq_->lock);
  if (!dequeue_oldest(event)) return false;
  *rest = count_locked(kAll);
  return true;
}

void Evd::explain_broken(const DAT_EVENT& event) noexcept {
  const DAT_EP_HANDLE handle = event.event_data.connect_event_data.ep_handle;
  const EpQueues* const ep = handle_cast<EpQueues>(handle);
  if (ep == nullptr || *ep->break_reason() == '\0') return;
  cause::note(static_cast<DAT_RETURN>(event.event_number), "ep %p: connection broken: %s%s%s",
              handle, ep->break_reason(), *ep->break_detail() != '\0' ? ": " : "",
              ep->break_detail());
}

bool Evd::dequeue_from_ring(DAT_EVENT* event) noexcept {
  bool popped = false;
  {
    const ScopedLock lock(ring_lock_);
    popped = ring_.pop(event);
    if (ring_.size() == 0) dequeue_gate.fetch_and(~kInRing, std::memory_order_release);
  }
  if (popped && event->event_number == DAT_CONNECTION_EVENT_BROKEN) [[unlikely]]
    explain_broken(*event);
  return popped;
}

bool Evd::reap() noexcept {
  if (cq_ != nullptr) {
    const ScopedLock lock(cq_->lock);
    move_to_ring(kAll);
  }
  const ScopedLock lock(ring_lock_);
  return !ring_.full();
}

void Evd::forget(const EpQueues& ep) noexcept {
  const ScopedLock lock(cq_->lock);
  const auto drop = [&ep](const transport::Completion& completion) {
    if (ep_of(completion) != static_cast<const void*>(&ep)) return false;
    if (cookie_of(completion).ep == nullptr) retire(completion);  // its cookie belongs to the SRQ
    return true;
  };
  stash_.remove_if(drop);
  held_.remove_if(drop);
}

std::size_t Evd::count_all() noexcept {
  if (cq_ == nullptr) return ring_.size();
  const ScopedLock lock(cq_->lock);
  refill_stash();
  return ring_.size() + held_.size() + stashed_events() + static_cast<std::size_t>(cq_->size());
}

}  // namespace udapl::dapl
