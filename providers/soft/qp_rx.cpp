// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: receiving. The Receiver parses and checks; here is what it asks about memory and what it
// delivers.
#include "common/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/qp.h"
#include "providers/soft/srq.h"

#include <dat/dat_ib_extensions.h>

#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace udapl::soft {

using iwarp::Verdict;
using transport::BreakReason;

void Qp::on_ready(std::uint32_t events) noexcept {
  const trace::About about(context_);
  const ScopedLock lock(lock_);
  if (stream_ == nullptr) return;  // a disconnect was faster
  if (state_ == State::kTerminating) return continue_terminate();
  posts_in_place_ = 0;
  if (receive_open_ && (events & ~EPOLLOUT) != 0) receive();
  if (!fault_.raised) transmit(kPassBudget);
  settle();
}

void Qp::receive() noexcept {
  for (std::size_t budget = kPassBudget;;) {
    if (!staging_.reserve(needed())) {
      UDAPL_TRACE(kError, "QP %p: no memory for the receive buffer", static_cast<void*>(this));
      return raise(BreakReason::kTransportLost);
    }
    const IoResult result = stream_->receive(staging_.room());
    if (result.kind == IoResult::kBlocked) return;
    if (result.kind == IoResult::kBroken) return raise(BreakReason::kTransportLost);
    if (result.kind == IoResult::kEnd) return end_of_stream();
    staging_.filled(result.bytes);
    if (state_ == State::kAccepted) {
      // The first FPDU shows that the peer has our Reply; it is looked at when the sink knows.
      if (staging_.staged().size() >= needed()) return established();
    } else {
      consume_staged();
      if (fault_.raised || stream_ == nullptr) return;
    }
    budget -= std::min(budget, result.bytes);
    if (!staging_.was_filled() || budget == 0) return;
  }
}

// How many staged bytes it takes to get on.
std::size_t Qp::needed() const noexcept {
  const std::span<const std::byte> staged = staging_.staged();
  if (state_ != State::kAccepted || staged.size() < iwarp::kFpduLengthSize)
    return receiver_->needed();
  return iwarp::fpdu_size(iwarp::load16(staged.data()));
}

void Qp::consume_staged() noexcept {
  staging_.drop(receiver_->feed(staging_.staged(), *this));
  // A Terminate of the peer was dealt with in terminated().
  if (receiver_->state() == iwarp::Receiver::State::kFailed)
    raise(receive_why_, receiver_->failure());
}

void Qp::end_of_stream() noexcept {
  if (state_ == State::kAccepted || receiver_->mid_fpdu())
    return raise(BreakReason::kTransportLost);
  UDAPL_TRACE(kDetail, "QP %p: the peer has closed", static_cast<void*>(this));
  finish(Close::kGently);
  gate_.post(kDisconnected);
}

void Qp::terminated(const iwarp::Terminate& reason) {
  UDAPL_TRACE(kNormal, "QP %p: the peer sent Terminate: %s", static_cast<void*>(this),
              iwarp::name(reason.code));
  blame(reason);
  raise(BreakReason::kRemoteFault);
}

// ---- Sends -------------------------------------------------------------------------------------

// The next buffer becomes buffer_.
bool Qp::take_receive() noexcept {
  std::span<const Segment> segments;
  if (srq_ != nullptr) {
    if (!srq_->take(buffer_, srq_segments_.get())) return false;
    segments = {srq_segments_.get(), buffer_.segment_count};
  } else {
    if (receives_.empty()) return false;
    buffer_ = receives_.at(receives_.head());
    segments = {receives_.segments(receives_.head()), buffer_.segment_count};
  }
  receiving_ = true;
  send_scatter_.start(segments);
  if (srq_ != nullptr) check_watermarks();
  return true;
}

Verdict Qp::place_send(const iwarp::SendSegment& segment) {
  if (segment.first && !take_receive()) {
    receive_why_ = BreakReason::kNoReceive;
    return Verdict::kNoBuffer;
  }
  if (segment.offset + std::uint64_t{segment.payload.size()} > buffer_.room) {
    buffer_status_ = DAT_DTO_ERR_LOCAL_LENGTH;
    receive_why_ = BreakReason::kLocalFault;
    return Verdict::kTooLong;
  }
  if (!send_scatter_.place(memory_, segment.payload)) {
    buffer_status_ = DAT_DTO_ERR_LOCAL_PROTECTION;
    receive_why_ = BreakReason::kLocalFault;
    return Verdict::kCatastrophic;
  }
  return Verdict::kOk;
}

Verdict Qp::invalidate(std::uint32_t stag) { return refuse(memory_.invalidate(stag, pd_, id_)); }

void Qp::send_done(const iwarp::SendDone& done) {
  transport::Completion completion{};
  completion.operation = done.invalidated ? DAT_DTO_RECEIVE_WITH_INVALIDATE : DAT_DTO_RECEIVE;
  completion.length = done.length;
  completion.rmr_context = done.invalidated ? done.invalidated_stag : 0;
  complete_receive(completion, done.solicited);
}

Verdict Qp::immediate(const iwarp::ImmediateBytes& data, bool solicited) {
  if (!take_receive()) {
    receive_why_ = BreakReason::kNoReceive;
    return Verdict::kNoBuffer;
  }
  const iwarp::WriteImmediate value = iwarp::decode_write_immediate(data);
  transport::Completion completion{};
  completion.operation = static_cast<DAT_DTOS>(DAT_IB_DTO_RECV_IMMED);
  completion.length = value.write_length;
  completion.immediate = value.immediate;
  complete_receive(completion, solicited);
  return Verdict::kOk;
}

// Reports buffer_ with what `completion` says and the status that it has; it is used up.
void Qp::complete_receive(const transport::Completion& completion, bool solicited) noexcept {
  transport::Completion full = completion;
  full.id = buffer_.id;
  full.qp_context = context_;
  const bool success = full.status == DAT_DTO_SUCCESS;
  const bool notify =
      !success || (solicited_only_ ? solicited : (buffer_.flags & transport::kQuiet) == 0);
  receiving_ = false;
  if (srq_ == nullptr) receives_.pop();
  if (recv_cq_ != nullptr && !recv_cq_->push(full, *this, notify)) raise(BreakReason::kLocalFault);
}

// The buffer of an unfinished message, then all others that are ours.
void Qp::flush_receives() noexcept {
  transport::Completion completion{};
  completion.operation = DAT_DTO_RECEIVE;
  while (receiving_ || !receives_.empty()) {
    if (!receiving_) buffer_ = receives_.at(receives_.head());
    completion.status =
        receiving_ && buffer_status_ != DAT_DTO_SUCCESS ? buffer_status_ : DAT_DTO_ERR_FLUSHED;
    complete_receive(completion, false);
  }
}

// ---- RDMA --------------------------------------------------------------------------------------

Verdict Qp::refuse(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNone:
      return Verdict::kOk;
    case Refusal::kInvalidStag:
      return Verdict::kInvalidStag;
    case Refusal::kNotThisStream:
      return Verdict::kNotThisStream;
    case Refusal::kToWrap:
      return Verdict::kToWrap;
    case Refusal::kBounds:
      return Verdict::kBaseBounds;
    case Refusal::kAccess:
      break;
  }
  return Verdict::kAccess;
}

Verdict Qp::place_write(std::uint32_t stag, std::uint64_t to, std::span<const std::byte> payload) {
  Segment target;
  MrTable::Pin pin;
  const Refusal refusal = memory_.access(
      {stag, to, static_cast<std::uint32_t>(payload.size()), kRemoteWrite, pd_, id_}, target, pin);
  if (refusal == Refusal::kNone) std::memcpy(target.address, payload.data(), payload.size());
  return refuse(refusal);
}

// Null: the peer has more Reads outstanding than we agreed to.
Response* Qp::new_response() noexcept {
  if (responses_.size() >= ird_ || responses_.full()) return nullptr;
  return &responses_.next();
}

Verdict Qp::read_request(const iwarp::ReadRequest& request, std::uint32_t msn) {
  Segment source{};
  if (request.size != 0) {
    MrTable::Pin pin;
    const Refusal refusal = memory_.access(
        {request.source_stag, request.source_to, request.size, kRemoteRead, pd_, id_}, source, pin);
    if (refusal != Refusal::kNone) return refuse(refusal);
  }
  Response* const response = new_response();
  if (response == nullptr) return Verdict::kTooManyReads;
  response->atomic = false;
  response->msn = msn;
  response->request = request;
  response->source = source;
  if (state_ != State::kHalfClosed) responses_.push();  // else nobody waits for it any more
  return Verdict::kOk;
}

Verdict Qp::atomic_request(const iwarp::AtomicRequest& request) {
  Segment target;
  MrTable::Pin pin;
  const Refusal refusal = memory_.access(
      {request.stag, request.to, sizeof(std::uint64_t), kRemoteAtomic, pd_, id_}, target, pin);
  if (refusal != Refusal::kNone) return refuse(refusal);
  // A zero-based registration need not begin on a boundary.
  if (reinterpret_cast<std::uintptr_t>(target.address) % sizeof(std::uint64_t) != 0)
    return Verdict::kMisaligned;
  Response* const response = new_response();
  if (response == nullptr) return Verdict::kTooManyReads;
  // Atomic against all other QPs, and against atomic instructions of the application.
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target.address));
  std::uint64_t original = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(original, iwarp::apply(request, original),
                                     std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  response->atomic = true;
  response->answer = {request.request_id, original};
  if (state_ != State::kHalfClosed) responses_.push();
  return Verdict::kOk;
}

// ---- answers to our requests -------------------------------------------------------------------

bool Qp::oldest_read(iwarp::ReadSink& sink) {
  if (rtr_read_in_flight_) {  // it was the first
    sink = {kNoStag, 0, 0};
    return true;
  }
  if (placement_is_next()) {
    sink = {kNoStag, 0, 0};
    return true;
  }
  const Request* const request = oldest_unanswered();
  if (request == nullptr || request->kind != RequestKind::kRead) return false;
  read_scatter_.start({requests_.segments(unanswered_), request->segment_count});
  sink = {read_stag_, std::uint64_t{static_cast<std::uint32_t>(unanswered_)} << 32,
          request->length};
  return true;
}

Verdict Qp::place_read(std::uint32_t, std::span<const std::byte> payload) {
  if (read_scatter_.place(memory_, payload)) return Verdict::kOk;
  requests_.at(unanswered_).status = DAT_DTO_ERR_LOCAL_PROTECTION;
  receive_why_ = BreakReason::kLocalFault;
  return Verdict::kInvalidStag;
}

void Qp::read_done() {
  if (rtr_read_in_flight_) {
    rtr_read_in_flight_ = false;
    --reads_in_flight_;
    return;
  }
  if (placement_is_next()) return placed();
  answered(requests_.at(unanswered_));
}

Verdict Qp::atomic_response(const iwarp::AtomicResponse& response) {
  Request* const request =
      rtr_read_in_flight_ || placement_is_next() ? nullptr : oldest_unanswered();
  if (request == nullptr || request->kind == RequestKind::kRead ||
      response.request_id != static_cast<std::uint32_t>(unanswered_))
    return Verdict::kNothingOutstanding;
  std::byte bytes[sizeof response.original];
  std::memcpy(bytes, &response.original, sizeof bytes);
  read_scatter_.start({requests_.segments(unanswered_), 1});
  if (!read_scatter_.place(memory_, bytes)) {
    request->status = DAT_DTO_ERR_LOCAL_PROTECTION;
    receive_why_ = BreakReason::kLocalFault;
    return Verdict::kCatastrophic;
  }
  answered(*request);
  return Verdict::kOk;
}

}  // namespace udapl::soft
