// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Qp: what becomes of requests: done, acknowledged, answered, failed or flushed.
#include "common/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/qp.h"

#include <algorithm>

namespace udapl::soft {

using iwarp::TerminateCode;
using transport::BreakReason;

void Qp::fail_request(std::uint64_t position, DAT_DTO_COMPLETION_STATUS status) noexcept {
  requests_.at(position).status = status;
  raise(BreakReason::kLocalFault, iwarp::make_terminate(TerminateCode::kRdmapLocalCatastrophic));
}

// ---- delayed acknowledgement --------------------------------------------------------------------

// Is it time to ask the peer whether all that was sent is placed? One question at a time; many
// requests share it.
bool Qp::placement_due() noexcept {
  if (!delayed_ack_ || placed_read_in_flight_ || reads_in_flight_ >= std::max(ord_, 1U))
    return false;
  if (built_ - acknowledged_ < kUnacknowledged && request_startable()) return false;
  acknowledged_ = std::max(acknowledged_, requests_.head());
  while (acknowledged_ != built_ && (expects_response(requests_.at(acknowledged_).kind) ||
                                     requests_.at(acknowledged_).kind == RequestKind::kBind))
    ++acknowledged_;
  return acknowledged_ != built_;
}

// Is the answer to that question the next that the peer gives?
bool Qp::placement_is_next() noexcept {
  if (!placed_read_in_flight_) return false;
  const Request* const request = oldest_unanswered();
  return request == nullptr || unanswered_ >= asked_;
}

void Qp::placed() noexcept {
  placed_read_in_flight_ = false;
  --reads_in_flight_;
  for (std::uint64_t i = std::max(acknowledged_, requests_.head()); i != asked_; ++i) {
    Request& request = requests_.at(i);
    if (!expects_response(request.kind)) request.done = true;
  }
  acknowledged_ = asked_;
  report_done();
}

// TCP has taken some more bytes: those of a Send or Write may be reused, so it is done, unless it
// has to wait until they are placed.
void Qp::retire_sent() noexcept {
  while (sent_ != built_ && requests_.at(sent_).end <= batch_.sent()) {
    Request& request = requests_.at(sent_++);
    if (!expects_response(request.kind) && (!delayed_ack_ || request.kind == RequestKind::kBind))
      request.done = true;
  }
  while (responses_.head() != response_built_ &&
         responses_.at(responses_.head()).end <= batch_.sent())
    responses_.pop();
  report_done();
}

// In posted order: what is done behind a Read that is not has to wait.
void Qp::report_done() noexcept {
  while (requests_.head() != sent_ && requests_.at(requests_.head()).done) {
    report(requests_.at(requests_.head()), DAT_DTO_SUCCESS);
    requests_.pop();
  }
}

void Qp::report(const Request& request, DAT_DTO_COMPLETION_STATUS status) noexcept {
  const bool success = status == DAT_DTO_SUCCESS;
  if (request_cq_ == nullptr || (success && (request.flags & transport::kSignalled) == 0)) return;
  transport::Completion completion{};
  completion.id = request.id;
  completion.qp_context = context_;
  completion.status = status;
  completion.operation = operation_of(request.kind);
  completion.length = success ? request.length : 0;
  const bool notify = !success || (request.flags & transport::kQuiet) == 0;
  if (!request_cq_->push(completion, *this, notify)) break_for_cq();
}

// The first that failed with its own status, all others as flushed: nothing succeeds behind a
// failure (udapl-semantics 3.4).
void Qp::flush_requests() noexcept {
  for (; !requests_.empty(); requests_.pop()) {
    const Request& request = requests_.at(requests_.head());
    if (request.kind == RequestKind::kBind && requests_.head() >= built_)
      memory_.cancel_bind(request.bind);
    report(request, request.status != DAT_DTO_SUCCESS ? request.status : DAT_DTO_ERR_FLUSHED);
  }
}

// The oldest Read or atomic that was sent wholly and has no answer yet; null if there is none.
Request* Qp::oldest_unanswered() noexcept {
  unanswered_ = std::max(unanswered_, requests_.head());
  while (unanswered_ < sent_) {
    Request& request = requests_.at(unanswered_);
    if (expects_response(request.kind) && !request.done) return &request;
    ++unanswered_;
  }
  return nullptr;
}

void Qp::answered(Request& request) noexcept {
  request.done = true;
  --reads_in_flight_;
  report_done();
}

// The peer has ended the stream because of something of ours: gives the oldest request of the kind
// that the Terminate speaks of a status of its own. A Send or Write that was reported as done
// cannot be blamed any more (docs/compatibility.md).
void Qp::blame(const iwarp::Terminate& reason) noexcept {
  DAT_DTO_COMPLETION_STATUS status = DAT_DTO_ERR_REMOTE_RESPONDER;
  bool (*blamed)(RequestKind) = [](RequestKind) { return true; };
  switch (reason.code) {
    case TerminateCode::kRdmapInvalidStag:
    case TerminateCode::kRdmapBaseBounds:
    case TerminateCode::kRdmapAccess:
    case TerminateCode::kRdmapNotThisStream:
    case TerminateCode::kRdmapToWrap:
    case TerminateCode::kRdmapProtectionUnspecified:
      status = DAT_DTO_ERR_REMOTE_ACCESS;
      blamed = expects_response;
      break;
    case TerminateCode::kRdmapCannotInvalidateProtection:
    case TerminateCode::kRdmapCannotInvalidate:
      status = DAT_DTO_ERR_REMOTE_ACCESS;
      blamed = [](RequestKind kind) { return kind == RequestKind::kSend; };
      break;
    case TerminateCode::kDdpTaggedInvalidStag:
    case TerminateCode::kDdpTaggedBaseBounds:
    case TerminateCode::kDdpTaggedNotThisStream:
    case TerminateCode::kDdpTaggedToWrap:
      status = DAT_DTO_ERR_REMOTE_ACCESS;
      blamed = [](RequestKind kind) {
        return kind == RequestKind::kWrite || kind == RequestKind::kWriteImmediate;
      };
      break;
    case TerminateCode::kDdpUntaggedNoBuffer:
      status = DAT_DTO_ERR_RECEIVER_NOT_READY;
      [[fallthrough]];
    case TerminateCode::kDdpUntaggedTooLong:
      blamed = [](RequestKind kind) {
        return kind == RequestKind::kSend || kind == RequestKind::kWriteImmediate;
      };
      break;
    default:
      break;
  }
  // Only what has been sent at least in part.
  const std::uint64_t end = built_ + (current_ == Current::kRequest ? 1 : 0);
  for (std::uint64_t i = requests_.head(); i != end; ++i) {
    Request& request = requests_.at(i);
    if (request.kind == RequestKind::kBind || !blamed(request.kind)) continue;
    request.status = status;
    return;
  }
}

}  // namespace udapl::soft
