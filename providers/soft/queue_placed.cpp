// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Queue: asking the peer what it has placed, and telling it what was placed here (docs/adr/0084).
#include "providers/soft/queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace udapl::soft {

namespace {

// How long a confirmation that was put off waits for a post, unless a poll that finds no input
// comes first.
constexpr auto kLateAnswer = std::chrono::microseconds(3);

}  // namespace

// Builds the Read behind the requests that are built, so that it leaves together with them.
void Queue::ask_for_placement() noexcept {
  controls_ |= kPlacementRead;
  begin_control();
  if (shared_.link->build(kPassBudget)) end_message(shared_.link->built());
}

void Queue::settle_for_delivered() noexcept {
  const std::uint64_t sent = shared_.link->sent();
  requests_.settle_for(sent - std::min<std::uint64_t>(sent, shared_.link->undelivered()));
}

// ---- confirmations for the peer -----------------------------------------------------------------

void Queue::transmit_after_input() noexcept {
  if (!only_confirms()) return transmit(kPassBudget);
  if (!posts_follow_ || !reactor_.polled_here()) return answer_alone();
  put_off_answers();
}

void Queue::put_off_answers() noexcept {
  answers_put_off_ = true;
  answered_at_ = reactor_.turns();
  if (!std::exchange(late_call_pending_, true)) late_answers_.start_for_poll(kLateAnswer);
}

// The timer may have been started for an earlier answer. If the last answer was put off in this
// very turn, it waits once more.
void Queue::answer_late() noexcept {
  late_call_pending_ = false;
  if (answers_put_off_ && reactor_.polled_here() && reactor_.turns() == answered_at_)
    return put_off_answers();
  send_put_off();
}

// Whether nothing but confirmations is to be sent.
bool Queue::only_confirms() noexcept {
  return posts_ && transmits_ && responder_.only_confirms() && requests_.unbuilt() == 0 &&
         controls_ == 0 && current_ == Current::kNone && !blocked_ && !requests_.placement_due() &&
         shared_.link->all_sent();
}

void Queue::answer_alone() noexcept {
  if (std::exchange(answers_put_off_, false)) posts_follow_ = false;
  answered_alone_ = true;
  answered_at_ = reactor_.turns();
  transmit(kPassBudget);
}

// Reactor::turns() counts the turn in which the input came when that turn ends. So a difference of
// 1 means that there was no poll between.
void Queue::note_post() noexcept {
  if (std::exchange(answers_put_off_, false)) {
    posts_follow_ = true;
    // A timer that is running would keep the service thread from parking.
    if (std::exchange(late_call_pending_, false)) late_answers_.stop();
  }
  if (std::exchange(answered_alone_, false) && reactor_.turns() - answered_at_ <= 1)
    posts_follow_ = true;
}

// Builds the answers that we owe if all of them only confirm. Returns whether they do.
bool Queue::build_confirmations() noexcept {
  if (!responder_.only_confirms()) return false;
  while (responder_.owes() && responder_.begin(out_)) {
    current_ = Current::kResponse;
    if (!shared_.link->build(kPassBudget)) break;
    end_message(shared_.link->built());
  }
  return true;
}

}  // namespace udapl::soft
