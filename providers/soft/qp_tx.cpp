// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: sending: which message is next, and its payload.
#include "common/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/qp.h"

#include <sys/epoll.h>

#include <algorithm>

namespace udapl::soft {

using iwarp::TerminateCode;
using transport::BreakReason;

namespace {

// A Read Response goes first, but our own requests get a turn (soft-transport 4.2).
constexpr int kMaxResponsesInARow = 4;

}  // namespace

// Sends until nothing is left, the socket is full or `budget` bytes have gone. In the last two
// cases EPOLLOUT brings us back.
void Qp::transmit(std::size_t budget) noexcept {
  if (state_ != State::kReady && state_ != State::kDraining) return;
  gathered_bytes_ = 0;
  bool unfinished = false;
  while (pin_unsent()) {
    fill(std::min(budget, kPassBudget));
    if (fault_.raised || batch_.empty()) break;
    const IoResult result = stream_->send(batch_.spans());
    pins_.clear();
    if (result.kind == IoResult::kBroken) {
      raise(BreakReason::kTransportLost);
      break;
    }
    batch_.consume(result.bytes);
    retire_sent();
    budget -= std::min(budget, result.bytes);
    unfinished = !batch_.empty() || budget == 0;
    if (unfinished || fault_.raised) break;
  }
  pins_.clear();
  if (unfinished == blocked_ || fault_.raised) return;
  blocked_ = unfinished;
  stream_->set_events((receive_open_ ? EPOLLIN : 0U) | (blocked_ ? EPOLLOUT : 0U));
}

// ---- memory ------------------------------------------------------------------------------------

// Pins what the batch and the message being built refer to; it may have been freed since the last
// time. Half an FPDU of it may be out: then only a reset ends the stream.
bool Qp::pin_unsent() noexcept {
  pins_.clear();
  for (std::uint64_t i = sent_; i != built_; ++i) {
    if (!pin_request(i)) return false;
  }
  for (std::uint64_t i = responses_.head(); i != response_built_; ++i) {
    if (!pin_response(i)) return false;
  }
  if (current_ == Current::kRequest) return pin_request(built_);
  if (current_ == Current::kResponse) return pin_response(response_built_);
  return true;
}

bool Qp::pin_request(std::uint64_t position) noexcept {
  const Request& request = requests_.at(position);
  if (expects_response(request.kind)) return true;  // nothing of it is read
  const Segment* const segments = requests_.segments(position);
  for (std::uint32_t i = 0; i < request.segment_count; ++i) {
    if (pins_.add(memory_, segments[i].ref)) continue;
    requests_.at(position).status = DAT_DTO_ERR_LOCAL_PROTECTION;
    raise(BreakReason::kLocalFault);
    return false;
  }
  return true;
}

bool Qp::pin_response(std::uint64_t position) noexcept {
  const Response& response = responses_.at(position);
  if (response.atomic || response.request.size == 0) return true;
  if (pins_.add(memory_, response.source.ref)) return true;
  raise(BreakReason::kProtocol);
  return false;
}

// ---- choosing and building messages ------------------------------------------------------------

void Qp::fill(std::size_t budget) noexcept {
  const std::uint64_t limit = batch_.appended() + budget;
  while (batch_.appended() < limit) {
    if (!sender_->busy() && !begin_message()) return;
    if (sender_->fill(batch_, limit - batch_.appended()) != iwarp::Sender::Fill::kDone) return;
    end_message();
  }
}

// Picks the next message. False: there is none, or none that may start now.
bool Qp::begin_message() noexcept {
  if (controls_ != 0) {
    begin_control();
    return true;
  }
  const bool owes = response_built_ != responses_.tail();
  if (owes && (responses_in_a_row_ < kMaxResponsesInARow || !request_startable())) {
    ++responses_in_a_row_;
    return begin_response();
  }
  responses_in_a_row_ = 0;
  if (!execute_binds()) return false;
  if (placement_due()) {
    controls_ |= kPlacedRead;
    begin_control();
    return true;
  }
  return request_startable() && begin_request();
}

// One of our own messages, which no request stands for.
void Qp::begin_control() noexcept {
  const auto control = static_cast<Control>(controls_ & -controls_);
  controls_ = static_cast<std::uint8_t>(controls_ & ~control);
  current_ = Current::kControl;
  switch (control) {
    case kRtrSend:
      sender_->begin_send(iwarp::Opcode::kSend, 0, {}, 0);
      break;
    case kRtrWrite:
    case kKickWrite:
      sender_->begin_write(kNoStag, 0, {}, 0);
      break;
    case kRtrRead:
      sender_->begin_read_request({kNoStag, 0, 0, kNoStag, 0});
      rtr_read_in_flight_ = true;
      ++reads_in_flight_;
      break;
    case kPlacedRead:
      sender_->begin_read_request({kNoStag, 0, 0, kNoStag, 0});
      placed_read_in_flight_ = true;
      asked_ = built_;
      ++reads_in_flight_;
      break;
  }
}

bool Qp::begin_response() noexcept {
  Response& response = responses_.at(response_built_);
  if (!pins_.has_room(1)) return false;
  if (response.atomic) {
    sender_->begin_atomic_response(response.answer);
  } else {
    const iwarp::ReadRequest& request = response.request;
    if (request.size != 0) {
      if (!pins_.add(memory_, response.source.ref)) {
        raise(BreakReason::kProtocol, iwarp::make_read_terminate(TerminateCode::kRdmapInvalidStag,
                                                                 request, response.msn, 0));
        return false;
      }
      spans_[0] = {response.source.address, request.size};
    }
    sender_->begin_read_response(request.sink_stag, request.sink_to,
                                 {spans_.data(), request.size != 0 ? 1U : 0U}, request.size);
  }
  current_ = Current::kResponse;
  return true;
}

// May the first request that is not built yet start now?
bool Qp::request_startable() noexcept {
  if (built_ == requests_.tail()) return false;
  const Request& request = requests_.at(built_);
  if ((request.flags & transport::kFence) != 0 && reads_in_flight_ != 0) return false;
  if (expects_response(request.kind)) return reads_in_flight_ < ord_ || ord_ == 0;
  return true;
}

bool Qp::begin_request() noexcept {
  Request& request = requests_.at(built_);
  if (!pins_.has_room(request.segment_count + 1)) return false;
  if (expects_response(request.kind)) {
    if (ord_ == 0) {  // the peer serves no Reads: this one would break the connection there
      fail_request(built_, DAT_DTO_ERR_REMOTE_RESPONDER);
      return false;
    }
    begin_query(request);
  } else {
    const Segment* const segments = requests_.segments(built_);
    for (std::uint32_t i = 0; i < request.segment_count; ++i) {
      if (!pins_.add(memory_, segments[i].ref)) {
        fail_request(built_, DAT_DTO_ERR_LOCAL_PROTECTION);
        return false;
      }
      spans_[i] = {segments[i].address, segments[i].length};
    }
    begin_payload(request);
  }
  current_ = Current::kRequest;
  return true;
}

void Qp::begin_payload(Request& request) noexcept {
  const std::span<const iwarp::IoSpan> payload(spans_.data(), request.segment_count);
  const bool solicited = (request.flags & transport::kSolicited) != 0;
  if (request.kind == RequestKind::kSend) {
    sender_->begin_send(iwarp::send_opcode(solicited, request.invalidate),
                        request.invalidate ? request.stag : 0, payload, request.length);
  } else if (request.kind == RequestKind::kWrite || !request.write_sent) {
    sender_->begin_write(request.length != 0 ? request.stag : kNoStag, request.to, payload,
                         request.length);
  } else {
    sender_->begin_immediate(iwarp::encode(iwarp::WriteImmediate{
                                 static_cast<std::uint32_t>(request.operand[0]), request.length}),
                             solicited);
  }
}

// Where a Read's data goes is nobody's business but ours: the sink STag names no memory, its offset
// counts the bytes of the local list, behind the number of the Read.
void Qp::begin_query(Request& request) noexcept {
  const auto number = static_cast<std::uint32_t>(built_);
  ++reads_in_flight_;
  if (request.kind == RequestKind::kRead) {
    sender_->begin_read_request({read_stag_, std::uint64_t{number} << 32, request.length,
                                 request.length != 0 ? request.stag : kNoStag, request.to});
  } else if (request.kind == RequestKind::kFetchAdd) {
    sender_->begin_atomic_request(
        iwarp::AtomicRequest::fetch_add(number, request.stag, request.to, request.operand[0]));
  } else {
    sender_->begin_atomic_request(iwarp::AtomicRequest::compare_swap(
        number, request.stag, request.to, request.operand[0], request.operand[1]));
  }
}

void Qp::end_message() noexcept {
  const Current ended = std::exchange(current_, Current::kNone);
  if (ended == Current::kResponse) {
    responses_.at(response_built_++).end = batch_.appended();
  } else if (ended == Current::kRequest) {
    Request& request = requests_.at(built_);
    if (request.kind == RequestKind::kWriteImmediate && !request.write_sent) {
      request.write_sent = true;  // the second message follows, perhaps behind a response
      return;
    }
    request.end = batch_.appended();
    ++built_;
  }
}

// Executes binds that are next. One may have to wait for a copy out of the old binding, so it is
// done while we hold no pin and have nothing half sent. False: not now.
bool Qp::execute_binds() noexcept {
  while (request_startable() && requests_.at(built_).kind == RequestKind::kBind) {
    if (!batch_.empty()) return false;
    pins_.clear();
    Request& request = requests_.at(built_);
    if (!memory_.commit_bind(request.bind, id_)) {
      request.bind.mr = {};  // already given back
      fail_request(built_, DAT_RMR_OPERATION_FAILED);
      return false;
    }
    has_bound_ = true;
    request.end = batch_.appended();
    ++built_;
    retire_sent();
  }
  return !fault_.raised;
}

}  // namespace udapl::soft
