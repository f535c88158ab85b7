// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connection: the functions that the driving thread calls when there is input, and the handling of
// events.
#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/prefetch.h"
#include "common/tracing/trace.h"
#include "providers/soft/connection.h"

namespace udapl::soft {

using transport::BreakReason;

void Connection::open_receive() noexcept {
  const QpGuard guard(lock_);
  if (link_ == nullptr || state_ == State::kTerminating || intake_.reading()) return;
  intake_.open();
  queue_.transmit(Queue::kPassBudget);
  settle();
}

void Connection::on_ready(std::uint32_t events) noexcept {
  const trace::About about(shared_.context);
  const QpGuard guard(lock_);
  if (link_ == nullptr) return;  // the connection has ended meanwhile
  go_on(link_->ready(events));
}

void Connection::go_on(unsigned what) noexcept {
  if (state_ == State::kTerminating) return continue_terminate();
  if (put_off_.turns != 0) [[unlikely]]
    return;
  queue_.new_turn();
  if ((what & Link::kPlaced) != 0) queue_.collect_placed();
  act(intake_.on_ready(what));
}

// Called by the reactor. Returns kFound if there was input, or if the link has ended because of it.
// The fast path for short messages does not set trace::About, which takes as long as a lock: they
// cause no trace, unless one is refused.
Handler::Look Connection::look() noexcept {
  const QpGuard guard(lock_);
  if (link_ == nullptr) return Look::kNothing;
  if (state_ != State::kReady) [[unlikely]]
    return look_at_all();
  const Link::Quick quick = intake_.receive_short();
  if (quick == Link::Quick::kNothing) queue_.send_put_off();
  if (quick < Link::Quick::kDelivered)  // if blocked, only look_at_all() finds out about room
    return quick == Link::Quick::kNothing && !queue_.blocked() ? Look::kQuiet : look_at_all();
  queue_.new_turn();
  queue_.collect_answered();
  if (quick == Link::Quick::kRead || shared_.fault.raised || queue_.has_unsent()) [[unlikely]] {
    const trace::About about(shared_.context);
    const NotCancelled scope;
    if (quick == Link::Quick::kRead && !shared_.fault.raised) intake_.take_read();
    act(Intake::Event::kNone);
  }
  return Look::kFound;
}

Handler::Look Connection::look_at_all() noexcept {
  const trace::About about(shared_.context);
  const NotCancelled scope;
  const unsigned what = link_->look();
  if (what == 0) return Look::kNothing;
  if (what == Link::kPlaced && state_ == State::kReady) {
    queue_.collect_placed();
    if (shared_.fault.raised) act(Intake::Event::kNone);
    return Look::kFound;
  }
  const std::uint64_t before = link_->incoming().bytes;
  Link* const link = link_.get();
  go_on(what);
  return link_.get() != link || (what & Link::kPlaced) != 0 || link->incoming().bytes != before
             ? Look::kFound
             : Look::kNothing;
}

// Prefetches the memory of this Qp without its lock. To find other memory, the lock is needed; if
// another thread holds it, that thread is fetching the memory anyway.
void Connection::prepare() noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
  prefetch_bytes(&shared_, sizeof shared_);
  prefetch_bytes(&queue_, sizeof queue_);
  prefetch_bytes(this, sizeof *this - sizeof report_);
  report_.sink().prepare();
  if (!lock_.try_lock()) return;
  if (link_ != nullptr) link_->prepare();
  queue_.prepare();
  lock_.unlock();
}

bool Connection::rest() noexcept {
  const QpGuard guard(lock_);
  return link_ == nullptr || link_->rest();
}

// Called after the other sockets have been handled, if the previous pass has used up its budget or
// the end of the stream was put off.
void Connection::continue_receive() noexcept {
  const trace::About about(shared_.context);
  const QpGuard guard(lock_);
  if (link_ == nullptr || !intake_.reading() || state_ == State::kTerminating) return;
  // The end is not read again: the peer may have reset the stream since, which would change the
  // result.
  act(put_off_.turns != 0 ? put_off_.end : intake_.continue_pass());
}

void Connection::on_srq_buffer() noexcept {
  const trace::About about(shared_.context);
  const QpGuard guard(lock_);
  if (intake_.waits()) release_waiting();
}

void Connection::release_waiting() noexcept { act(intake_.release()); }

void Connection::on_wait_over() noexcept {
  const trace::About about(shared_.context);
  const QpGuard guard(lock_);
  if (intake_.wait_over() == Intake::Event::kPeerClosed) apply(Event::kPeerEnded);
  settle();
}

void Connection::on_debt_due() noexcept {
  const trace::About about(shared_.context);
  const QpGuard guard(lock_);
  catch_up();
  if (!awaits_input()) return;
  intake_.debt_due();
  settle();
}

bool Connection::awaits_input() const noexcept {
  return link_ != nullptr && intake_.reading() && state_ != State::kTerminating &&
         put_off_.turns == 0;
}

// Reads what has arrived, for a caller that would otherwise take the peer for silent. May end the
// connection.
void Connection::catch_up() noexcept {
  if (awaits_input()) act(intake_.catch_up());
}

// Whether to report an end of the stream later. A program may rely on it that, of two connections,
// the establishment of one is reported before the end of the other if its peers did things in this
// order: it waits until N connections are established and takes the next N events for their ends.
// But epoll does not report descriptors in the order in which they became ready. So while accepted
// connections are not established, an end is put off until all descriptors have been polled, and
// again as long as that establishes some of them.
bool Connection::puts_off(Intake::Event end) noexcept {
  constexpr int kMaxTurns = 1000;  // some turns do not look at the descriptors
  const int accepted = accepted_.count();
  const bool looked = put_off_.turns != 0 && put_off_.looks != reactor_.looks();
  if (accepted == 0 || state_ == State::kAccepting || put_off_.turns == kMaxTurns ||
      (looked && accepted >= put_off_.accepted)) {
    put_off_ = PutOff{};
    return false;
  }
  if (put_off_.turns == 0 || looked) put_off_ = {end, put_off_.turns, accepted, reactor_.looks()};
  ++put_off_.turns;
  intake_.put_off_end();
  return true;
}

// Handles the event, and then sends what has become due through the input.
void Connection::act(Intake::Event event) noexcept {
  switch (event) {
    case Intake::Event::kNone:
      break;
    case Intake::Event::kFirstMessage:
      established(Event::kFirstMessage);
      break;
    case Intake::Event::kEndOfStream:
      if (puts_off(event)) return;
      end_of_stream();
      break;
    case Intake::Event::kLost:
      if (puts_off(event)) return;
      shared_.fault.raise({BreakReason::kTransportLost, errno_words(link_->error())});
      break;
    case Intake::Event::kPeerClosed:
      apply(Event::kPeerEnded);
      return;
    case Intake::Event::kPeerReset:
      apply(Event::kPeerGone);
      return;
  }
  if (!shared_.fault.raised) queue_.transmit_after_input();
  settle();
}

}  // namespace udapl::soft
