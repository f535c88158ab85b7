// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Cq: arms the verbs CQ, handles its events, and notifies the sink.
#include "providers/verbs/cq.h"

#include <algorithm>

#include "common/errno_text.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/cq_channel.h"
#include "providers/verbs/queue.h"

namespace udapl::verbs {

namespace {

// How many events are acknowledged to the kernel at once.
constexpr unsigned kEventsPerAck = 64;

}  // namespace

// If the CQ is armed already, its event is still outstanding and covers every completion that
// arrives before the event is read.
void Cq::request_notification() noexcept {
  channel_->read_left_event();
  std::uint32_t arms = arms_.load(std::memory_order_acquire);
  if (is_armed(arms)) return;
  channel_->begin_armed(*this);
  const int error = ibv_req_notify_cq(cq_, solicited_.load(std::memory_order_acquire) ? 1 : 0);
  // If the event has arrived already, the CQ stays unarmed.
  if (error == 0 && arms_.compare_exchange_strong(arms, arms + 1, std::memory_order_acq_rel))
    return;
  channel_->end_armed();
  if (error != 0 && !adapter_.dead())
    UDAPL_TRACE(kError, "ibv_req_notify_cq: %s", ErrnoText(error).c_str());
}

void Cq::end_arming() noexcept {
  if (for_anyone_.load(std::memory_order_relaxed) &&
      for_anyone_.exchange(false, std::memory_order_relaxed))
    channel_->end_prompt();
  std::uint32_t arms = arms_.load(std::memory_order_relaxed);
  while (!arms_.compare_exchange_weak(arms, (arms | 1) + 1, std::memory_order_acq_rel)) {
  }
  if (is_armed(arms)) channel_->end_armed();
}

// *this exists until the event is acknowledged, because ibv_destroy_cq waits for that.
void Cq::on_event() noexcept {
  Adapter& adapter = adapter_;
  note_event();
  adapter.idle_cqs().on_completion();
}

void Cq::note_event() noexcept {
  end_arming();
  acknowledge_event(notifies());
}

// Returns false while another thread is arming the CQ: the event then has to be read, so that
// end_arming() leaves the CQ unarmed.
bool Cq::leave_event(WaitWord& word) noexcept {
  std::uint32_t arms = arms_.load(std::memory_order_acquire);
  if (!is_armed(arms) || filters_.load(std::memory_order_relaxed) ||
      for_anyone_.load(std::memory_order_relaxed) ||
      !arms_.compare_exchange_strong(arms, arms + 1, std::memory_order_acq_rel))
    return false;
  const ScopedLock events_guard(events_lock_);
  if (!closing_ && !sink_.notify_waiter(word)) gate_.post(kNotify);
  return true;
}

void Cq::note_event_of_waiter(WaitWord& word) noexcept {
  end_arming();
  acknowledge_event(notifies(), &word);
}

// *this may have been destroyed when it returns.
void Cq::acknowledge_event(bool notification, WaitWord* word) noexcept {
  unsigned acknowledge = 1;
  {
    const ScopedLock events_guard(events_lock_);
    if (!closing_) {
      if (notification && (word == nullptr || !sink_.notify_waiter(*word))) gate_.post(kNotify);
      acknowledge = ++unacknowledged_ == kEventsPerAck ? kEventsPerAck : 0;
      if (acknowledge != 0) unacknowledged_ = 0;
    }
  }
  if (acknowledge != 0) ibv_ack_cq_events(cq_, acknowledge);
}

// The sink exists until the event is acknowledged, because the destructor waits for that. If the CQ
// is armed for other threads as well, a proxy agent may be called, which may destroy the CQ: then
// the driving thread makes the sink call.
void Cq::on_event_in_call() noexcept {
  if (!shown_.load(std::memory_order_seq_cst)) return on_event();
  end_arming();
  bool closing = false;
  {
    const ScopedLock events_guard(events_lock_);
    closing = closing_;
  }
  if (!closing && notifies()) sink_.on_notify();
  ibv_ack_cq_events(cq_, 1);
}

bool Cq::notifies() noexcept {
  return !filters_.load(std::memory_order_relaxed) || found_notification();
}

// Records whether a batch that a poll returns contains a notification completion.
void Cq::note_notifications(int count) noexcept {
  handed_notification_ =
      handed_notification_ || std::any_of(work_.begin(), work_.begin() + count, is_notification);
}

// Returns whether a notification completion has made the armed CQ fire: it may be held, or a thread
// that does not wait may have polled it already. If only quiet completions have, arms the CQ again.
bool Cq::found_notification() noexcept {
  for (bool armed = false;; armed = true) {
    {
      const ScopedLock guard(lock);
      if (closed_) return false;
      hold_all();
      // If held_ is full, a notification completion may be behind the held ones. A spurious
      // notification is harmless.
      if (handed_notification_ || holds_notification() || held_is_full()) return true;
    }
    if (armed) return false;
    request_notification();
  }
}

// The calling thread checks for completions afterwards. So it does not need a notification for one
// that another thread has polled before.
void Cq::arm_checked() noexcept {
  if (filters_.load(std::memory_order_relaxed)) {
    const ScopedLock guard(lock);
    handed_notification_ = false;
  }
  request_notification();
}

// The calling thread does not sleep in a place: the reactor has to watch the channel of one.
void Cq::arm_to_block() noexcept {
  if (channel_->is_place()) channel_->hide(shown_);
  arm_checked();
}

// The thread in the place sees only the events of the place's channel, and does not drive the
// reactor: so a CQ with another channel is armed for the driving thread.
void Cq::arm_for_place(transport::WaitPlace& place) noexcept {
  if (static_cast<WaitPlace&>(place).channel() == channel_)
    arm_checked();
  else
    arm();
}

// Threads in Adapter::block() sleep in the reactor, so the reactor has to watch an own channel.
void Cq::arm_for_waiters() noexcept {
  if (channel_->is_own()) channel_->hide(shown_);
  arm_to_block();
}

// If the thread cannot sleep on the channel, the reactor watches it from now on.
std::optional<WaitResult> Cq::block(WaitWord& word, std::uint32_t seen,
                                    const Deadline& deadline) noexcept {
  if (!channel_->is_own() || !shown_.load(std::memory_order_seq_cst)) return std::nullopt;
  const auto result = channel_->sleep(word, seen, deadline);
  if (!result) channel_->hide(shown_);
  return result;
}

// Sets for_anyone_ after arming: if it were set before, an event that the driving thread reads in
// between would clear it although the CQ is armed. Now it may be set for one event too many, which
// is harmless.
void Cq::arm() noexcept {
  channel_->hide(shown_);
  arm_to_block();
  if (!for_anyone_.exchange(true, std::memory_order_relaxed)) channel_->begin_prompt();
}

// An event of only quiet completions must not wake the consumer. So if such work is posted, the
// driving thread reads the events.
void Cq::arm_for_descriptor(transport::EventDescriptor& descriptor) noexcept {
  if (static_cast<EventDescriptor&>(descriptor).channel() != channel_ || !channel_->show(shown_) ||
      filters_.load(std::memory_order_seq_cst))
    arm();
  else
    request_notification();
}

// Called before quiet work is posted for the first time. A CQ that is armed for a descriptor is
// armed for the driving thread instead; a thread in block() filters events itself. seq_cst: either
// this thread sees that the CQ is shown, or the thread that arms it for the descriptor sees
// filters_.
void Cq::begin_filtering() noexcept {
  filters_.store(true, std::memory_order_seq_cst);
  if (!channel_->is_own() && shown_.load(std::memory_order_seq_cst)) arm();
}

void Cq::on_error() noexcept {
  if (overflowed_.exchange(true)) return;
  const ScopedLock events_guard(events_lock_);
  if (!closing_) gate_.post(kOverflow);
}

void Cq::deliver(unsigned call) noexcept {
  if (call == kNotify) {
    sink_.on_notify();
    return;
  }
  UDAPL_TRACE(kError, "CQ %p of %d completions overflowed: its connections break",
              static_cast<void*>(this), depth());
  {
    const ScopedLock guard(lock);
    qps_.for_each([](Queue& queue) { queue.on_failed_work(kMarker, IBV_WC_FATAL_ERR); });
  }
  sink_.on_overflow();
}

}  // namespace udapl::verbs
