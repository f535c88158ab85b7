// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// SendQueue: how requests end: done, acknowledged, answered, failed or flushed.
#include "providers/soft/cq.h"
#include "providers/soft/iwarp/wire.h"
#include "providers/soft/send_queue.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace udapl::soft {

using iwarp::TerminateCode;
using iwarp::Verdict;
using transport::BreakReason;

void SendQueue::fail(std::uint64_t position, DAT_DTO_COMPLETION_STATUS status) noexcept {
  requests_.at(position).status = status;
  shared_.fault.raise(BreakReason::kLocalFault,
                      iwarp::make_terminate(TerminateCode::kRdmapLocalCatastrophic));
}

// ---- completions --------------------------------------------------------------------------------

// A Send or RDMA Write that was sent is done, because its memory may be reused, unless it has to
// wait until the peer has placed its bytes.
void SendQueue::sent(std::uint64_t end) noexcept {
  if (unanswered_for_now_) [[unlikely]]
    settle_for(end);
  while (sent_ != built_ && requests_.at(sent_).end <= end) {
    Request& request = requests_.at(sent_++);
    if (!waits_for_placement(request.kind) || request.end <= placed_) {
      if (!expects_response(request.kind)) request.done = true;
    } else if (!request.done) {
      unplaced_end_ = request.end;
    }
    if (some_unplaced() && awaited_ == 0 && !asks_for_placement_ && cq_ != nullptr &&
        is_seen(request))
      await_placed(unplaced_end_);
  }
  if (some_unplaced() && requests_.size() > requests_.depth() / 2) release_unseen();
  report_done();
}

// Reports completions in the order of posting: a request that is done waits for earlier ones that
// are not.
void SendQueue::report_done() noexcept {
  while (requests_.head() != sent_ && requests_.at(requests_.head()).done) {
    const Request& request = requests_.at(requests_.head());
    if (released_end_ > placed_ && is_seen(request)) [[unlikely]]
      return;
    report(request, DAT_DTO_SUCCESS);
    requests_.pop();
  }
}

void SendQueue::report(const Request& request, DAT_DTO_COMPLETION_STATUS status) noexcept {
  if (status == DAT_DTO_SUCCESS)
    return report_success(request.kind, request.id, request.flags, request.length);
  if (cq_ == nullptr) return;
  transport::Completion completion{};
  completion.id = request.id;
  completion.qp_context = shared_.context;
  completion.status = status;
  completion.operation = operation_of(request.kind);
  if (!cq_->push(completion, shared_.qp, true)) shared_.lose_completion();
}

void SendQueue::report_success(RequestKind kind, transport::WorkId id, transport::WorkFlags flags,
                               std::uint32_t length) noexcept {
  if (cq_ == nullptr || (flags & transport::kSignalled) == 0) return;
  transport::Completion completion{};
  completion.id = id;
  completion.qp_context = shared_.context;
  completion.operation = operation_of(kind);
  completion.length = length;
  const bool notify = (flags & transport::kQuiet) == 0;
  if (!cq_->push(completion, shared_.qp, notify)) [[unlikely]]
    shared_.lose_completion();
}

// Reports a request that has failed with its own status, and all others as flushed, because nothing
// succeeds after a failure (docs/semantics.md#disconnecting).
void SendQueue::flush() noexcept {
  unplaced_end_ = placed_;
  for (; !requests_.empty(); requests_.pop()) {
    const Request& request = requests_.at(requests_.head());
    if (request.kind == RequestKind::kBind && requests_.head() >= built_)
      shared_.memory.cancel_bind(request.bind);
    report(request, request.status != DAT_DTO_SUCCESS ? request.status : DAT_DTO_ERR_FLUSHED);
  }
}

void SendQueue::unbind() noexcept {
  if (has_bound_) shared_.memory.unbind_all(shared_.id);
  has_bound_ = false;
}

void SendQueue::blame_transport(bool building) noexcept {
  if (requests_.head() < built_ || building || half_built())
    requests_.at(requests_.head()).status = DAT_DTO_ERR_TRANSPORT;
}

// Returns the oldest Read or atomic that was handed over completely and has no answer yet; null if
// there is none. Uses handed(), not sent(): the answer can arrive before this side has noticed that
// payload which was lent before the request was returned.
Request* SendQueue::oldest_unanswered() noexcept {
  unanswered_ = std::max(unanswered_, requests_.head());
  const std::uint64_t handed = shared_.link->handed();
  while (unanswered_ < built_ && requests_.at(unanswered_).end <= handed) {
    Request& request = requests_.at(unanswered_);
    if (expects_response(request.kind) && !request.done) return &request;
    ++unanswered_;
  }
  return nullptr;
}

// The peer answers only after it has placed everything before the request, so the answer also
// confirms that.
void SendQueue::answered(Request& request) noexcept {
  request.done = true;
  --reads_in_flight_;
  if (asks_for_placement_) placed(request.end);
  report_done();
}

namespace {

// The kinds of requests that can have caused a Terminate, and the status of the request that has.
struct Culprit {
  DAT_DTO_COMPLETION_STATUS status;
  bool (*can_be)(RequestKind kind);
};

Culprit culprit_of(TerminateCode code) noexcept {
  constexpr auto is_send = [](RequestKind kind) { return kind == RequestKind::kSend; };
  constexpr auto is_write = [](RequestKind kind) {
    return kind == RequestKind::kWrite || kind == RequestKind::kWriteImmediate;
  };
  constexpr auto takes_receive = [](RequestKind kind) {
    return kind == RequestKind::kSend || kind == RequestKind::kWriteImmediate;
  };
  switch (code) {
    case TerminateCode::kRdmapInvalidStag:
    case TerminateCode::kRdmapBaseBounds:
    case TerminateCode::kRdmapAccess:
    case TerminateCode::kRdmapNotThisStream:
    case TerminateCode::kRdmapToWrap:
    case TerminateCode::kRdmapProtectionUnspecified:
      return {DAT_DTO_ERR_REMOTE_ACCESS, expects_response};
    case TerminateCode::kRdmapCannotInvalidateProtection:
    case TerminateCode::kRdmapCannotInvalidate:
      return {DAT_DTO_ERR_REMOTE_ACCESS, is_send};
    case TerminateCode::kDdpTaggedInvalidStag:
    case TerminateCode::kDdpTaggedBaseBounds:
    case TerminateCode::kDdpTaggedNotThisStream:
    case TerminateCode::kDdpTaggedToWrap:
      return {DAT_DTO_ERR_REMOTE_ACCESS, is_write};
    case TerminateCode::kDdpUntaggedNoBuffer:
      return {DAT_DTO_ERR_RECEIVER_NOT_READY, takes_receive};
    case TerminateCode::kDdpUntaggedTooLong:
      return {DAT_DTO_ERR_REMOTE_RESPONDER, takes_receive};
    default:
      return {DAT_DTO_ERR_REMOTE_RESPONDER, [](RequestKind) { return true; }};
  }
}

// Whether the Terminate contains the header of a segment that belongs to another RDMA Write than
// `request`.
bool names_another(const iwarp::Terminate& reason, const Request& request) noexcept {
  if (reason.ddp_header_size != iwarp::kTaggedHeaderSize || !reason.has_ddp_header) return false;
  constexpr std::size_t kStagAt = 2;
  constexpr std::size_t kToAt = 6;
  const std::byte* const header = reason.ddp_header.data();
  return iwarp::load32(header + kStagAt) != request.stag ||
         iwarp::load64(header + kToAt) - request.to > request.length;
}

// Returns the message number of a Send, if the Terminate contains the header of a segment of it.
std::optional<std::uint32_t> named_send(const iwarp::Terminate& reason) noexcept {
  if (reason.ddp_header_size != iwarp::kUntaggedHeaderSize || !reason.has_ddp_header)
    return std::nullopt;
  constexpr std::size_t kQueueAt = 6;
  constexpr std::size_t kNumberAt = 10;
  const std::byte* const header = reason.ddp_header.data();
  if (iwarp::load32(header + kQueueAt) != iwarp::kQueueSend) return std::nullopt;
  return iwarp::load32(header + kNumberAt);
}

}  // namespace

// Whether a message of the request has a number of the Send queue. `building`: the request at
// built_ has begun.
bool SendQueue::is_numbered(std::uint64_t position, bool building) noexcept {
  const Request& request = requests_.at(position);
  if (position != built_)
    return request.kind == RequestKind::kSend || request.kind == RequestKind::kWriteImmediate;
  return building && (request.kind == RequestKind::kSend || request.write_sent);
}

// The peer has ended the stream, perhaps because of one of our requests: the one that the Terminate
// names, or else the oldest that can have caused it. That request gets the status of its failure;
// the peer has placed everything before it. A Send or Write that was already reported as done keeps
// its status (docs/compatibility.md C6).
void SendQueue::blame(const iwarp::Terminate& reason, bool building) noexcept {
  const Culprit culprit = culprit_of(reason.code);
  // Considers only requests that have been sent at least in part.
  const std::uint64_t end = built_ + (building || half_built() ? 1 : 0);
  std::uint64_t found = end;
  const std::optional<std::uint32_t> named = named_send(reason);
  std::uint32_t number = shared_.link->next_send();
  for (std::uint64_t i = requests_.head(); i != end; ++i)
    number -= is_numbered(i, building) ? 1 : 0;
  for (std::uint64_t i = requests_.head(); i != end; ++i) {
    const Request& request = requests_.at(i);
    const bool another_send = named.has_value() && *named != number;
    number += is_numbered(i, building) ? 1 : 0;
    if (request.kind == RequestKind::kBind || !culprit.can_be(request.kind)) continue;
    if (found == end) found = i;
    if (another_send || names_another(reason, request)) continue;
    found = i;
    break;
  }
  if (found == end) return;
  requests_.at(found).status = culprit.status;
  if (asks_for_placement_ && found != requests_.head()) placed(requests_.at(found - 1).end);
}

// ---- answers to our requests --------------------------------------------------------------------

bool SendQueue::oldest_read(iwarp::ReadSink& sink) noexcept {
  if (opening_read_in_flight_) {  // it was sent before all other Reads
    sink = {kNoStag, 0, 0};
    return true;
  }
  if (placement_is_next()) {
    sink = {kNoStag, 0, 0};
    return true;
  }
  const Request* const request = oldest_unanswered();
  if (request == nullptr || request->kind != RequestKind::kRead) return false;
  scatter_.start({requests_.segments(unanswered_), request->segment_count});
  sink = {read_stag_, std::uint64_t{static_cast<std::uint32_t>(unanswered_)} << 32,
          request->length};
  return true;
}

Verdict SendQueue::place_read(std::span<const std::byte> payload) noexcept {
  return check_read_placed(scatter_.place(shared_.memory, sinks_, payload));
}

Verdict SendQueue::fill_read(iwarp::Payload& payload) noexcept {
  return check_read_placed(scatter_.fill(shared_.memory, payload));
}

Verdict SendQueue::check_read_placed(bool placed) noexcept {
  if (placed) return Verdict::kOk;
  requests_.at(unanswered_).status = DAT_DTO_ERR_LOCAL_PROTECTION;
  shared_.refused_why = BreakReason::kLocalFault;
  return Verdict::kInvalidStag;
}

void SendQueue::read_done() noexcept {
  if (opening_read_in_flight_) {
    opening_read_in_flight_ = false;
    --reads_in_flight_;
    return;
  }
  if (placement_is_next()) return placement_read_done();
  answered(requests_.at(unanswered_));
}

Verdict SendQueue::atomic_response(const iwarp::AtomicResponse& response) noexcept {
  Request* const request =
      opening_read_in_flight_ || placement_is_next() ? nullptr : oldest_unanswered();
  if (request == nullptr || request->kind == RequestKind::kRead ||
      response.request_id != static_cast<std::uint32_t>(unanswered_))
    return Verdict::kNothingOutstanding;
  std::byte bytes[sizeof response.original];
  std::memcpy(bytes, &response.original, sizeof bytes);
  scatter_.start({requests_.segments(unanswered_), 1});
  if (!scatter_.place(shared_.memory, sinks_, bytes)) {
    request->status = DAT_DTO_ERR_LOCAL_PROTECTION;
    shared_.refused_why = BreakReason::kLocalFault;
    return Verdict::kCatastrophic;
  }
  answered(*request);
  return Verdict::kOk;
}

void SendQueue::blame_answer() noexcept {
  if (opening_read_in_flight_ || placement_is_next()) return;
  Request* const request = oldest_unanswered();
  if (request != nullptr && request->status == DAT_DTO_SUCCESS)
    request->status = DAT_DTO_ERR_BAD_RESPONSE;
}

}  // namespace udapl::soft
