// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/intake.h"

#include "common/tracing/trace.h"
#include "common/tracing/trace_limit.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace udapl::soft {

using transport::BreakReason;

namespace {

// If there is no memory to read into, the connection tries again after this time.
constexpr auto kStarvedFor = std::chrono::milliseconds(10);
// How long the last messages of a peer that has closed may wait for receives. A peer that uses this
// provider waits twice as long for our FIN.
constexpr auto kLastReceives = std::chrono::milliseconds(1000);

}  // namespace

Intake::Intake(QpShared& shared, Queue& queue, Reactor& reactor, StagingPool& pool,
               const Limits& limits, const Calls& calls) noexcept
    : shared_(shared),
      queue_(queue),
      pool_(pool),
      limits_(limits),
      reactor_(reactor),
      continue_pass_(reactor, calls.continue_pass),
      debt_timer_(reactor, calls.debt_due),
      wait_timer_(reactor, calls.wait_over) {}

void Intake::clear() noexcept {
  input_ = Input::kClosed;
  unfinished_ = starved_ = waiting_ = stalled_ = peer_ends_ = peer_closed_ = false;
}

void Intake::stop() noexcept {
  continue_pass_.stop();
  debt_timer_.stop();
  debt_watched_ = false;
  stop_waiting();
}

// ---- passes -------------------------------------------------------------------------------------

// Does nothing while complete FPDUs are staged, because continue_pass() will process them.
Intake::Event Intake::on_ready(unsigned what) noexcept {
  if (unfinished_ || input_ == Input::kClosed) return Event::kNone;
  if ((what & ~(Link::kRoom | Link::kPlaced)) == 0) return Event::kNone;
  if (reads() && !starved_) return receive();
  if ((what & Link::kBroken) != 0) {
    if (peer_closed_) return Event::kPeerReset;
    shared_.fault.raise(BreakReason::kTransportLost);
  } else if ((what & Link::kPeerEnd) != 0 && stalled_ && !peer_ends_) {
    peer_ends_ = true;
    update_wants();
    start_wait_timer();
  }
  return Event::kNone;
}

Link::Quick Intake::receive_short() noexcept {
  if (input_ != Input::kOpen || unfinished_ || starved_ || waiting_ || stalled_ || peer_closed_)
    return Link::Quick::kElse;
  const Link::Quick quick = shared_.link->receive_short(queue_);
  if (quick >= Link::Quick::kDelivered) delivered();
  return quick;
}

void Intake::take_read() noexcept {
  std::size_t work = Queue::kPassBudget;
  deliver_staged(work);
  if (!shared_.fault.raised) end_pass(work);
}

Intake::Event Intake::receive() noexcept {
  Link& link = *shared_.link;
  std::size_t work = Queue::kPassBudget;
  if (unfinished_) deliver_staged(work);
  unfinished_ = false;
  if (starved_) [[unlikely]] {
    starved_ = false;
    update_wants();
  }
  std::size_t large = Queue::kPassBudget;
  bool more = true;
  while (more && work != 0 && !shared_.fault.raised && reads()) {
    const Link::Received received = link.receive(input_ == Input::kFirst ? nullptr : &queue_, work);
    if (large - std::min(work, large) >= Queue::kLongWork) {
      large = work;
      reactor_.works_long();
    }
    switch (received) {
      case Link::Received::kMore:
      case Link::Received::kNothing:
        delivered();
        more = received == Link::Received::kMore;
        break;
      case Link::Received::kFirst:
        return Event::kFirstMessage;
      case Link::Received::kEnd:
        return Event::kEndOfStream;
      case Link::Received::kBroken:
        return Event::kLost;
      case Link::Received::kNoMemory:
        starve();
        return Event::kNone;
    }
  }
  if (!shared_.fault.raised) end_pass(work);
  return Event::kNone;
}

// Called when there is no memory to read into. What the peer sends meanwhile stays in the sockets
// of both sides.
void Intake::starve() noexcept {
  static constinit trace::RateLimit limit;
  UDAPL_TRACE_LIMITED(limit, kError, "QP %p: no memory for the receive buffer",
                      static_cast<const void*>(&shared_.qp));
  starved_ = true;
  update_wants();
  continue_pass_.start_after(kStarvedFor);
}

void Intake::update_wants() noexcept {
  unsigned wanted = reads() && !starved_ ? Link::kInput : 0U;
  if (stalled_ && !peer_ends_ && !peer_closed_) wanted |= Link::kPeerEnd;
  shared_.link->want(Link::kInput | Link::kPeerEnd, wanted);
}

void Intake::deliver_staged(std::size_t& work) noexcept {
  shared_.link->deliver(queue_, work);
  delivered();
}

// A Terminate of the peer needs nothing here: Queue::terminated() has handled it.
void Intake::note_delivered() noexcept {
  Link& link = *shared_.link;
  if (link.incoming().waits != waiting_ || link.incoming().full != stalled_) [[unlikely]]
    note_waiting(false);
  if (!link.incoming().failed) return;
  if (link.incoming().failed_in_answer) queue_.blame_answer();
  shared_.fault.raise(shared_.refused_why, link.failure());
}

void Intake::end_pass(std::size_t work) noexcept {
  Link& link = *shared_.link;
  link.end_receive_pass();
  queue_.offer_receive();
  if (stalled_) return;
  if (work == 0 && link.incoming().staged != 0) {
    unfinished_ = true;
    continue_pass_.start_next_turn();  // a Deferred would run before other sockets are read
    return;
  }
  watch_debt();
}

void Intake::open() noexcept {
  set_input(Input::kOpen);
  if (shared_.link->incoming().staged != 0) take_read();
}

// ---- messages that arrive before their receive is posted ----------------------------------------

Intake::Event Intake::release() noexcept {
  Link& link = *shared_.link;
  if (!waiting_ || !reading()) return Event::kNone;
  note_waiting(link.release(queue_));
  std::size_t work = Queue::kPassBudget;
  deliver_staged(work);
  if (shared_.fault.raised) return Event::kNone;
  end_pass(work);
  return peer_closed_ && !waiting_ ? Event::kPeerClosed : Event::kNone;
}

// Called when the messages that the link holds back may have changed. `moved`: some were delivered.
void Intake::note_waiting(bool moved) noexcept {
  Link& link = *shared_.link;
  const bool waited = std::exchange(waiting_, link.incoming().waits);
  if (waiting_ && !waited)
    UDAPL_TRACE(kDetail, "QP %p: a message waits for a receive",
                static_cast<const void*>(&shared_.qp));
  if (waiting_ && (moved || !waited)) start_wait_timer();
  if (!waiting_ && waited) wait_timer_.stop();
  const bool stalled = waiting_ && link.incoming().full;
  if (stalled == stalled_) return;
  stalled_ = stalled;
  queue_.set_unanswered(stalled);
  if (!stalled) peer_ends_ = false;  // input is read again, up to the FIN
  update_wants();
}

void Intake::start_wait_timer() noexcept {
  std::optional<Clock::duration> limit = limits_.no_receive;
  if (peer_ends_ || peer_closed_)
    limit = std::min<Clock::duration>(limit.value_or(kLastReceives), kLastReceives);
  if (!limit) return;
  wait_until_ = Clock::now() + *limit;
  wait_timer_.start(wait_until_);
}

Intake::Event Intake::wait_over() noexcept {
  if (!waiting_ || Clock::now() < wait_until_) return Event::kNone;  // a receive was posted first
  if (peer_ends_ || peer_closed_) {
    UDAPL_TRACE(kNormal, "QP %p: the peer has closed, and its last messages found no receive",
                static_cast<const void*>(&shared_.qp));
    return Event::kPeerClosed;
  }
  shared_.link->refuse_held();
  shared_.fault.raise(BreakReason::kNoReceive, shared_.link->failure());
  return Event::kNone;
}

void Intake::put_off_end() noexcept {
  shared_.link->want(Link::kInput | Link::kPeerEnd, 0);
  continue_pass_.start_next_turn();
}

void Intake::wait_for_last() noexcept {
  peer_closed_ = true;
  update_wants();
  start_wait_timer();
}

void Intake::stop_waiting() noexcept {
  wait_timer_.stop();
  queue_.stop_waiting();
  if (shared_.link != nullptr) shared_.link->drop_held();
  waiting_ = false;
}

// ---- peers that do not finish what they have begun ----------------------------------------------

Intake::Debt Intake::debt() const noexcept {
  const Link& link = *shared_.link;
  return {link.incoming().mid_frame, queue_.occupies_srq(), link.incoming().frames,
          queue_.messages_received(), link.incoming().bytes};
}

// Starts the timer if the peer has begun a frame or message and not finished it. A timer that runs
// is not restarted for the next frame, so that ordinary traffic does not pay for it.
void Intake::watch_debt() noexcept {
  constexpr auto kWhenCrowded = std::chrono::seconds(1);
  if (debt_watched_ || limits_.peer_timeout == Clock::duration::zero()) return;
  const Debt owed = debt();
  if (!owed.frame && !owed.message) return;
  debt_watched_ = true;
  seen_debt_ = owed;
  const bool hurry =
      shared_.link->incoming().buffer > StagingPool::kMin && pool_.crowded_by_readers();
  debt_timer_.start_after(hurry ? std::min<Clock::duration>(kWhenCrowded, limits_.peer_timeout)
                                : limits_.peer_timeout);
}

// Called by the timer. A peer that has sent fewer than kMinBytes counts as silent.
void Intake::debt_due() noexcept {
  constexpr std::uint64_t kMinBytes = 4096;
  debt_watched_ = false;
  if (starved_) return watch_debt();  // the rest may have arrived and not been read
  const Debt owed = debt();
  const bool same_frame = owed.frame && seen_debt_.frame && owed.frames == seen_debt_.frames;
  const bool same_message =
      owed.message && seen_debt_.message && owed.messages == seen_debt_.messages;
  if ((!same_frame && !same_message) || owed.bytes - seen_debt_.bytes >= kMinBytes)
    return watch_debt();
  shared_.fault.raise(
      {BreakReason::kTransportLost, same_frame ? "it has stalled in the middle of a frame"
                                               : "it has stalled in the middle of a message"});
}

}  // namespace udapl::soft
