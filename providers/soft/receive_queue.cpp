// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/receive_queue.h"

#include "common/placement.h"
#include "common/tracing/trace.h"
#include "providers/soft/cq.h"

#include <dat/dat_ib_extensions.h>

#include <algorithm>

namespace udapl::soft {

using iwarp::Verdict;
using transport::BreakReason;

ReceiveQueue::ReceiveQueue(QpShared& shared, const transport::QpInit& init, Reactor& reactor,
                           bool waits, QueueEnd& end, udapl::Call on_buffer)
    : shared_(shared),
      srq_(static_cast<Srq*>(init.srq)),
      waits_(waits),
      end_(end),
      cq_(static_cast<Cq*>(init.recv_cq)),
      solicited_only_(init.solicited_only),
      receives_(srq_ != nullptr ? 0 : count_of(init.max_recv), count_of(init.max_recv_segments)),
      buffer_promised_(reactor, on_buffer),
      srq_waiter_(buffer_promised_) {
  if (srq_ != nullptr)
    srq_segments_ = std::make_unique<Segment[]>(static_cast<std::size_t>(srq_->max_segments()));
}

// The new ring must also have room for the segments of receives that are already posted.
WorkRing<Receive> ReceiveQueue::ring_for(const transport::QpInit& init) {
  const std::uint32_t segments = count_of(init.max_recv_segments);
  return {count_of(init.max_recv),
          receives_.empty() ? segments : std::max(receives_.max_segments(), segments)};
}

void ReceiveQueue::change(const transport::QpInit& init, WorkRing<Receive> receives) noexcept {
  solicited_only_ = init.solicited_only;
  if (srq_ != nullptr) return;
  move_all(receives_, receives);
  receives_ = std::move(receives);
}

void ReceiveQueue::clear() noexcept {
  receiving_ = false;
  buffer_status_ = DAT_DTO_SUCCESS;
  offers_until_ = 0;
  offered_ = built_at_offer_ = 0;
}

DAT_RETURN ReceiveQueue::post(transport::WorkId id, std::span<const DAT_LMR_TRIPLET> list,
                              transport::WorkFlags flags) noexcept {
  if (receives_.full()) [[unlikely]]
    return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  Receive& receive = receives_.next();
  receive.id = id;
  receive.flags = flags;
  receive.pd = shared_.pd;
  if (is_resolved(list, receive)) [[likely]] {
    receives_.push();
    offer_next();
    return DAT_SUCCESS;
  }
  if (flushes_posts_) [[unlikely]] {
    receive.segment_count = 0;
    receives_.push();
    flush();
    return DAT_SUCCESS;
  }
  const DAT_RETURN checked =
      resolve_receive(shared_.memory, shared_.pd, list, receives_.max_segments(),
                      receives_.segments(receives_.tail()), receive);
  if (checked != DAT_SUCCESS) [[unlikely]]
    return checked;
  receives_.push();
  offer_next();
  return DAT_SUCCESS;
}

// In a series of Sends, offers several receives, so that the peer need not wait for this side
// between two Sends.
void ReceiveQueue::offer_receives() noexcept {
  Link* const link = shared_.link;
  if (link == nullptr) return;
  if (messages_ > offers_until_) {
    // Message numbers wrap: an old offer must not be taken for one of a later message.
    if (offered_ != 0) link->end_offers(shared_.memory);
    offered_ = offers_until_ = 0;
    return;
  }
  if (!offers_in_series_ && (receiving_ || built_at_offer_ == link->built())) return;
  const std::uint32_t most = offers_in_series_ ? shm::kOffers : 1;
  const std::uint64_t end = messages_ + std::min(receives_.size(), most);
  const std::uint64_t first = std::max(offered_, messages_ + (receiving_ ? 1 : 0));
  for (offered_ = first; offered_ < end; ++offered_)
    offer(static_cast<std::uint32_t>(offered_ - messages_));
}

// `ours`: a segment of a receive with `ahead` receives before it. Returns whether none of these has
// memory in common with the segment. Otherwise an earlier message could overwrite what the peer has
// placed there.
bool ReceiveQueue::is_apart(const Segment& ours, std::uint32_t ahead) noexcept {
  const std::uint64_t head = receives_.head();
  for (std::uint64_t position = head; position != head + ahead; ++position) {
    const Segment* const segments = receives_.segments(position);
    for (std::uint32_t i = 0; i < receives_.at(position).segment_count; ++i) {
      if (segments[i].address < ours.address + ours.length &&
          ours.address < segments[i].address + segments[i].length)
        return false;
    }
  }
  return true;
}

void ReceiveQueue::offer(std::uint32_t ahead) noexcept {
  const std::uint64_t position = receives_.head() + ahead;
  const Receive& receive = receives_.at(position);
  if (receive.segment_count == 0 || receive.pd != shared_.pd) return;
  const Segment* const segments = receives_.segments(position);
  const Segment& last = segments[receive.segment_count - 1];
  std::uint64_t before = 0;
  for (const Segment* other = segments; other != &last; ++other) before += other->length;
  if (last.length < kMinSharedSend - kMaxBeforeShared || before >= kMaxBeforeShared) return;
  built_at_offer_ = shared_.link->built();
  shared_.link->offer_receive(
      shared_.memory, {last, static_cast<std::uint32_t>(before), ahead, is_apart(last, ahead)},
      shared_.id);
}

// Fast path of resolve_receive() for one segment inside the registration whose pin is kept.
bool ReceiveQueue::is_resolved(std::span<const DAT_LMR_TRIPLET> list, Receive& receive) noexcept {
  if (list.size() != 1 || flushes_posts_ || receives_.max_segments() == 0) return false;
  const DAT_LMR_TRIPLET& segment = list.front();
  std::byte* const memory = kept_.resolve(segment, shared_.pd, kLocalWrite);
  const std::uint32_t length = segment.segment_length;
  if (memory == nullptr || length == 0) return false;
  *receives_.segments(receives_.tail()) = {memory, length, kept_.kept()};
  receive.segment_count = 1;
  receive.room = length;
  receive.cut_off = false;
  return true;
}

// ---- messages -----------------------------------------------------------------------------------

// Makes the next receive the current buffer_. Returns false if there is none.
bool ReceiveQueue::take() noexcept {
  std::span<const Segment> segments;
  if (srq_ != nullptr) {
    if (!srq_->take(buffer_, srq_segments_.get(), srq_waiter_)) return false;
    segments = {srq_segments_.get(), buffer_.segment_count};
  } else {
    if (receives_.empty()) return false;
    buffer_ = receives_.at(receives_.head());
    segments = {receives_.segments(receives_.head()), buffer_.segment_count};
  }
  receiving_ = true;
  scatter_.start(segments);
  if (srq_ != nullptr) check_watermarks();
  return true;
}

Verdict ReceiveQueue::without_receive() noexcept {
  if (waits_) return Verdict::kWait;
  shared_.refused_why = BreakReason::kNoReceive;
  return Verdict::kNoBuffer;
}

// A receive of an SRQ is taken only when the first segment is complete, so that a QP occupies no
// buffer of the SRQ before its message has arrived.
Verdict ReceiveQueue::fill_send(const iwarp::SendSegment& segment, std::uint32_t length,
                                iwarp::Payload& payload) noexcept {
  if (segment.first && (srq_ != nullptr || receives_.empty())) return Verdict::kWait;
  const Verdict prepared = prepare(segment, length);
  return prepared == Verdict::kOk ? check_placed(scatter_.fill(shared_.memory, payload)) : prepared;
}

Verdict ReceiveQueue::place_send(const iwarp::SendSegment& segment) noexcept {
  const Verdict prepared = prepare(segment, segment.payload.size());
  if (prepared != Verdict::kOk) return prepared;
  return check_placed(scatter_.place(shared_.memory, kept_, segment.payload));
}

// If this is the first segment, takes a receive. Checks that `length` bytes of the segment fit.
Verdict ReceiveQueue::prepare(const iwarp::SendSegment& segment, std::size_t length) noexcept {
  if (segment.first) {
    if (!take()) return without_receive();
    if (srq_ == nullptr && buffer_.pd != shared_.pd && buffer_.segment_count != 0) [[unlikely]] {
      const trace::About about(shared_.context);
      UDAPL_TRACE(kNormal, "QP %p: the receive belongs to the EP's former protection zone",
                  static_cast<const void*>(&shared_.qp));
      buffer_status_ = DAT_DTO_ERR_LOCAL_PROTECTION;
      shared_.refused_why = BreakReason::kLocalFault;
      return Verdict::kCatastrophic;
    }
  }
  if (segment.offset + std::uint64_t{length} > buffer_.room) {
    shared_.refused_why = BreakReason::kLocalFault;
    if (buffer_.cut_off) [[unlikely]] {
      const trace::About about(shared_.context);
      UDAPL_TRACE(
          kNormal, "QP %p: a message of more than %llu bytes reaches beyond the LMR of its receive",
          static_cast<const void*>(&shared_.qp), static_cast<unsigned long long>(buffer_.room));
      buffer_status_ = DAT_DTO_ERR_LOCAL_PROTECTION;
      return Verdict::kCatastrophic;
    }
    buffer_status_ = DAT_DTO_ERR_LOCAL_LENGTH;
    return Verdict::kTooLong;
  }
  return Verdict::kOk;
}

Verdict ReceiveQueue::check_placed(bool placed) noexcept {
  if (placed) return Verdict::kOk;
  buffer_status_ = DAT_DTO_ERR_LOCAL_PROTECTION;
  shared_.refused_why = BreakReason::kLocalFault;
  return Verdict::kCatastrophic;
}

// Consumes the current receive, and reports it with the data and status in `completion`. Inline
// because of Cq::push.
[[gnu::always_inline]] inline void ReceiveQueue::complete(const Receive& receive,
                                                          transport::Completion completion,
                                                          bool solicited) noexcept {
  completion.id = receive.id;
  completion.qp_context = shared_.context;
  const bool success = completion.status == DAT_DTO_SUCCESS;
  const bool notify =
      !success || (solicited_only_ ? solicited : (receive.flags & transport::kQuiet) == 0);
  receiving_ = false;
  ++messages_;
  if (srq_ == nullptr)
    receives_.pop();
  else
    ++unread_bound_;
  if (cq_ != nullptr && !cq_->push(completion, shared_.qp, notify))
    shared_.fault.raise(BreakReason::kLocalFault);
}

void ReceiveQueue::send_done(const iwarp::SendDone& done) noexcept {
  transport::Completion completion{};
  completion.operation = done.invalidated ? DAT_DTO_RECEIVE_WITH_INVALIDATE : DAT_DTO_RECEIVE;
  completion.length = done.length;
  completion.rmr_context = done.invalidated ? done.invalidated_stag : 0;
  if (done.length >= kMinSharedSend) {
    offers_until_ = messages_ + kOffers;
    offers_in_series_ = done.length >= kMinSharedInSeries;
  }
  complete(buffer_, completion, done.solicited);
}

// Handles only the most frequent receive: of this queue, with one segment in memory whose pin is
// kept.
bool ReceiveQueue::take_whole_send(std::span<const std::byte> payload, bool solicited) noexcept {
  if (receives_.empty()) [[unlikely]]  // always with an SRQ
    return false;
  const Receive& receive = receives_.at(receives_.head());
  const Segment& segment = *receives_.segments(receives_.head());
  if (receive.segment_count != 1 || payload.size() > segment.length || receive.pd != shared_.pd ||
      segment.ref != kept_.kept()) [[unlikely]]
    return false;
  place_bytes(segment.address, payload);
  transport::Completion completion{};
  completion.operation = DAT_DTO_RECEIVE;
  completion.length = static_cast<std::uint32_t>(payload.size());
  complete(receive, completion, solicited);
  return true;
}

Verdict ReceiveQueue::immediate(const iwarp::ImmediateBytes& data, bool solicited) noexcept {
  if (!take()) return without_receive();
  const iwarp::WriteImmediate value = iwarp::decode_write_immediate(data);
  transport::Completion completion{};
  completion.operation = static_cast<DAT_DTOS>(DAT_IB_DTO_RECV_IMMED);
  completion.length = value.write_length;
  completion.immediate = value.immediate;
  complete(buffer_, completion, solicited);
  return Verdict::kOk;
}

// Flushes the buffer of an unfinished message, then all other receives of this queue.
void ReceiveQueue::flush() noexcept {
  transport::Completion completion{};
  completion.operation = DAT_DTO_RECEIVE;
  while (receiving_ || !receives_.empty()) {
    if (!receiving_) buffer_ = receives_.at(receives_.head());
    completion.status =
        receiving_ && buffer_status_ != DAT_DTO_SUCCESS ? buffer_status_ : DAT_DTO_ERR_FLUSHED;
    complete(buffer_, completion, false);
  }
}

void ReceiveQueue::stop_waiting() noexcept {
  buffer_promised_.cancel();
  if (srq_ != nullptr) srq_->stop_waiting(srq_waiter_);
}

// ---- watermarks ---------------------------------------------------------------------------------

int ReceiveQueue::held() const noexcept {
  if (srq_ != nullptr) return receiving_ ? 1 : 0;
  return static_cast<int>(receives_.size());
}

// With an SRQ, receives whose completions the consumer has not taken from the CQ count, too. Counts
// these only if their upper bound makes the sum exceed `mark`.
bool ReceiveQueue::holds_more_than(int mark) noexcept {
  if (mark < 0) return false;
  if (srq_ == nullptr) return held() > mark;
  if (held() + unread_bound_ <= mark) return false;
  unread_bound_ = cq_ != nullptr ? cq_->receives_of(shared_.qp) : 0;
  return held() + unread_bound_ > mark;
}

void ReceiveQueue::set_watermarks(int soft, int hard) noexcept {
  soft_mark_ = soft;
  hard_mark_ = hard;
  check_watermarks();
}

void ReceiveQueue::check_watermarks() noexcept {
  if (holds_more_than(soft_mark_)) {
    soft_mark_ = -1;
    end_.on_soft_watermark();
  }
  if (connected_ && holds_more_than(hard_mark_))
    shared_.fault.raise(BreakReason::kWatermark,
                        iwarp::make_terminate(iwarp::TerminateCode::kRdmapLocalCatastrophic));
}

}  // namespace udapl::soft
