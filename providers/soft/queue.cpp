// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/queue.h"

#include "common/tracing/trace.h"
#include "providers/soft/cq.h"

#include <algorithm>
#include <utility>

namespace udapl::soft {

using transport::BreakReason;

namespace {

// Read Responses have priority, but after this many in a row our own requests get a turn
// (docs/semantics.md#iwarp-peers).
constexpr int kMaxResponsesInARow = 4;

}  // namespace

Queue::Queue(QpShared& shared, const transport::QpInit& init, Reactor& reactor, const Rules& rules,
             QueueEnd& end, const Calls& calls)
    : shared_(shared),
      reactor_(reactor),
      requests_(shared, init, rules.confirms_writes),
      receives_(shared, init, reactor, rules.waits, end, calls.srq_buffer),
      responder_(shared, init),
      max_read_in_(count_of(init.max_rdma_read_in)),
      max_read_out_(count_of(init.max_rdma_read_out)),
      delayed_ack_(init.delayed_ack),
      confirms_writes_(rules.confirms_writes),
      send_gathered_(reactor, calls.send_gathered),
      late_answers_(reactor, calls.answer_late) {
  out_.spans.resize(std::max(1U, count_of(init.max_request_segments)));
  out_.pins.reserve_for(out_.spans.size());
}

Status Queue::modify(const transport::QpInit& init, ScopeId pd) {
  WorkRing<Request> new_requests = SendQueue::ring_for(init);
  WorkRing<Response> new_responses = Responder::ring_for(init);
  std::vector<iwarp::IoSpan> spans(new_requests.max_segments());
  WorkRing<Receive> new_receives = receives_.ring_for(init);
  if (receives_.size() > new_receives.depth()) return failure(DAT_INVALID_PARAMETER);
  out_.pins.reserve_for(spans.size());
  receives_.change(init, std::move(new_receives));
  requests_.change(init, std::move(new_requests));
  responder_.change(std::move(new_responses));
  out_.spans = std::move(spans);
  shared_.pd = pd;
  max_read_in_ = count_of(init.max_rdma_read_in);
  max_read_out_ = count_of(init.max_rdma_read_out);
  delayed_ack_ = init.delayed_ack;
  return Status();
}

void Queue::clear() noexcept {
  requests_.clear();
  responder_.clear();
  receives_.clear();
  shared_.refused_why = BreakReason::kProtocol;
  shared_.refused_as_late = false;
  responses_in_a_row_ = 0;
  current_ = Current::kNone;
  controls_ = 0;
  blocked_ = false;
  burst_ = 0;
  long_bursts_ = false;
  settles_ = false;
  gathered_bytes_ = 0;
}

// The core is going to reuse the work ids of these completions, so no consumer may get them.
void Queue::purge() noexcept {
  Cq* const recv_cq = receives_.cq();
  Cq* const request_cq = requests_.cq();
  if (recv_cq != nullptr) recv_cq->purge(shared_.qp);
  if (request_cq != nullptr && request_cq != recv_cq) request_cq->purge(shared_.qp);
}

void Queue::close() noexcept {
  send_gathered_.close();
  receives_.close();
}

// ---- for the connection -------------------------------------------------------------------------

iwarp::MpaConfig Queue::depths() const noexcept {
  iwarp::MpaConfig config;
  // Reads without data confirm placement. If this side sends some, the peer probably does, too.
  const std::uint32_t placement_reads = delayed_ack_ || confirms_writes_ ? 1 : 0;
  config.ird = static_cast<std::uint16_t>(
      std::min<std::uint32_t>(std::max(max_read_in_, placement_reads), iwarp::kDepthMax));
  const std::uint32_t reads = std::max(max_read_out_, placement_reads);
  config.ord = static_cast<std::uint16_t>(std::min<std::uint32_t>(reads, iwarp::kDepthMax));
  return config;
}

void Queue::start(const iwarp::Agreed& agreed) noexcept {
  requests_.start(agreed.ord == iwarp::kDepthNotNegotiated
                      ? max_read_out_
                      : std::min<std::uint32_t>(agreed.ord, max_read_out_),
                  agreed.ord != 0);
  // A Read that opens the connection or confirms placement needs a slot even if the consumer allows
  // no Reads.
  const bool one_more = (agreed.rtr & iwarp::kRtrRead) != 0 || delayed_ack_ || confirms_writes_;
  responder_.start(std::max(max_read_in_, one_more ? 1U : 0U));
}

void Queue::set_mode(const QueueMode& mode) noexcept {
  requests_.set_posts(mode.posts);
  receives_.set_mode(mode);
  responder_.set_answers(mode.answers);
  transmits_ = mode.transmits;
  posts_ = mode.posts == Posts::kQueued;
}

void Queue::stop() noexcept {
  send_gathered_.cancel();
  late_answers_.stop();
  call_pending_ = late_call_pending_ = answers_put_off_ = answered_alone_ = false;
  receives_.stop_waiting();
  unpin();
  requests_.flush();
  receives_.flush();
  requests_.unbind();
}

// Small requests are gathered, because a system call for each of them, or a write to a cache line
// that the peer polls, would cost more than the rest of the work.
bool Queue::send_now() noexcept {
  if (!transmits_) [[unlikely]] {  // accepted but not yet established, or ending
    requests_.copy_last();
    return false;
  }
  note_turns();
  if (answers_put_off_ || answered_alone_) note_post();
  gathered_bytes_ += requests_.last_length();
  ++burst_;
  if (blocked_) {
    requests_.copy_last();
    return false;
  }
  const bool gathers = long_bursts_ || burst_ > kPostsInPlace;
  if (gathers && gathered_bytes_ < kGatheredBytes && requests_.unbuilt() < kGatheredRequests &&
      reactor_.polled()) {
    requests_.copy_last();
    if (!std::exchange(call_pending_, true)) send_gathered_.post_for_poll();
    return false;
  }
  return true;
}

// ---- sending ------------------------------------------------------------------------------------

// Fast path: sends short messages if nothing else must be sent before them. Returns true if nothing
// is left to send, or nothing can be sent any more.
bool Queue::send_short() noexcept {
  Link& link = *shared_.link;
  if (controls_ != 0 || current_ != Current::kNone || blocked_ || !link.all_sent()) return false;
  const bool answers = responder_.owes() && build_confirmations();
  if (responder_.owes()) [[unlikely]]
    return false;
  bool any = false;
  while (requests_.startable() && requests_.send_short(out_.pins)) any = true;
  unpin();
  if (answers && !any && requests_.startable()) return false;  // they leave with a longer request
  any |= answers;
  if (any && requests_.placement_due() && requests_.unbuilt() == 0) ask_for_placement();
  if (any) {
    const Link::Flushed flushed = link.flush_short();
    if (flushed >= Link::Flushed::kNoReader) [[unlikely]]
      stop_sending(flushed);
    requests_.sent(link.sent());
    responder_.sent(link.sent());
    link.end_pass();
  }
  return (requests_.unbuilt() == 0 && link.all_sent() && !requests_.placement_due()) ||
         shared_.fault.raised || !transmits_;
}

[[gnu::noinline]] void Queue::transmit(std::size_t budget) noexcept {
  if (!transmits_) return;
  answers_put_off_ = puts_off_ = false;
  if (gathered_bytes_ < kLongWork && send_short()) {
    gathered_bytes_ = 0;
    return;
  }
  Link& link = *shared_.link;
  bool large = blocked_ || gathered_bytes_ >= kLongWork;
  gathered_bytes_ = 0;
  bool unfinished = false;
  bool asked = link.all_sent();  // false: flush() must be called to collect returned loans
  while (pin_unsent()) {
    if (large) reactor_.works_long();
    fill(std::min(budget, kPassBudget));
    if (shared_.fault.raised || (link.all_handed() && asked)) break;
    asked = true;
    const std::uint64_t before = link.handed();
    const Link::Flushed flushed = link.flush();
    assist();
    unpin();
    if (flushed >= Link::Flushed::kNoReader) [[unlikely]]
      stop_sending(flushed);
    requests_.sent(link.sent());
    responder_.sent(link.sent());
    if (flushed >= Link::Flushed::kNoReader) break;
    budget -= std::min<std::uint64_t>(budget, link.handed() - before);
    large = link.handed() - before >= kLongWork;
    unfinished = !link.all_handed() || budget == 0;
    if (unfinished || shared_.fault.raised) break;
  }
  unpin();
  link.end_pass();
  if ((unfinished || puts_off_) == blocked_ || shared_.fault.raised) return;
  blocked_ = !blocked_;
  link.want(Link::kRoom, blocked_ ? Link::kRoom : 0U);
}

// If the peer reads no more, its input is still to be read, and the end of the input tells how the
// connection ends.
void Queue::stop_sending(Link::Flushed why) noexcept {
  if (why == Link::Flushed::kBroken) shared_.fault.raise(BreakReason::kTransportLost);
  transmits_ = false;
}

// Pins the memory of the message being built, and of built messages whose memory the link will
// read. Fails if some of it was freed since the last call: if part of an FPDU of such a message was
// sent, only a reset can end the stream.
bool Queue::pin_unsent() noexcept {
  unpin();
  if (shared_.link->refers() &&
      (!requests_.pin_unsent(out_.pins) || !responder_.pin_unsent(out_.pins)))
    return false;
  if (current_ == Current::kRequest) return requests_.pin_current(out_.pins);
  if (current_ == Current::kResponse) return responder_.pin_current(out_.pins);
  return true;
}

void Queue::fill(std::size_t budget) noexcept {
  Link& link = *shared_.link;
  const std::uint64_t limit = link.built() + budget;
  while (link.built() < limit) {
    if (current_ == Current::kNone && !begin_message()) return;
    if (shares()) {  // builds only the frames before assist()
      for (std::uint32_t i = link.direct_access()->share().frames; i != 0; --i)
        static_cast<void>(link.build(1));
      return;
    }
    if (current_ != Current::kDone && !link.build(limit - link.built())) return;
    end_message(link.built());
  }
}

// Called after each flush. Does this side's part of an RDMA Write that is shared with the peer.
void Queue::assist() noexcept {
  Link& link = *shared_.link;
  if (shares()) {
    settles_ = true;
    if (!link.direct_access()->assist())
      shared_.fault.raise({BreakReason::kTransportLost, "its memory cannot be reached any more"});
  } else if (settles_ && current_ == Current::kNone) {
    settles_ = false;
    link.direct_access()->settle();
    link.collect_returned();
    requests_.sent(link.sent());
    requests_.collect_placed();
  }
}

// Whether the current request is a shared RDMA Write, of which assist() has not placed a part yet.
bool Queue::shares() const noexcept {
  const DirectAccess* const direct = shared_.link->direct_access();
  return current_ == Current::kRequest && direct != nullptr && direct->share().frames != 0;
}

// Begins the next message. Returns false if there is none, or none that may start now.
bool Queue::begin_message() noexcept {
  if (controls_ != 0) {
    begin_control();
    return true;
  }
  if (responder_.owes() && (responses_in_a_row_ < kMaxResponsesInARow || !requests_.startable())) {
    ++responses_in_a_row_;
    if (!responder_.begin(out_)) return false;
    current_ = Current::kResponse;
    return true;
  }
  responses_in_a_row_ = 0;
  if (!requests_.execute_binds(out_)) return false;
  if (requests_.placement_due()) {
    controls_ |= kPlacementRead;
    begin_control();
    return true;
  }
  if (!requests_.startable()) return false;
  if (DirectAccess* const direct = shared_.link->direct_access(); direct != nullptr) {
    direct->forget_share();
    if (requests_.reach(out_)) {
      current_ = Current::kDone;
      return true;
    }
  }
  puts_off_ = requests_.puts_off_send();
  if (puts_off_ || !requests_.begin(out_)) return false;
  current_ = Current::kRequest;
  return true;
}

void Queue::begin_control() noexcept {
  Link& link = *shared_.link;
  const auto control = static_cast<Control>(controls_ & -controls_);
  controls_ = static_cast<std::uint8_t>(controls_ & ~control);
  current_ = Current::kControl;
  switch (control) {
    case kRtrSend:
      link.begin_send(iwarp::Opcode::kSend, 0, {}, 0);
      break;
    case kRtrWrite:
    case kKickWrite:
      link.begin_write(kNoStag, 0, {}, 0);
      break;
    case kRtrRead:
      link.begin_read_request({kNoStag, 0, 0, kNoStag, 0});
      requests_.opening_read_begun();
      break;
    case kPlacementRead:
      link.begin_read_request({kNoStag, 0, 0, kNoStag, 0});
      requests_.placement_read_begun();
      break;
  }
}

void Queue::end_message(std::uint64_t end) noexcept {
  const Current ended = std::exchange(current_, Current::kNone);
  if (ended == Current::kResponse) responder_.message_built(end);
  if (ended == Current::kRequest) requests_.message_built(end);
}

// ---- receiving ----------------------------------------------------------------------------------

void Queue::terminated(const iwarp::Terminate& reason) {
  UDAPL_TRACE(kNormal, "QP %p: the peer sent Terminate: %s", static_cast<const void*>(&shared_.qp),
              iwarp::name(reason.code));
  requests_.collect_placed();  // the Terminate does not refer to requests that were placed
  requests_.blame(reason, current_ == Current::kRequest);
  shared_.fault.raise({BreakReason::kRemoteFault, iwarp::name(reason.code)});
}

}  // namespace udapl::soft
