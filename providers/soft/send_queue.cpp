// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// SendQueue: posting and starting requests.
#include "providers/soft/send_queue.h"

#include "common/tracing/trace.h"
#include "providers/soft/cq.h"
#include "providers/soft/mr.h"

#include <algorithm>
#include <utility>

namespace udapl::soft {

using iwarp::TerminateCode;
using transport::BreakReason;
using transport::WorkFlags;
using transport::WorkId;

namespace {

// The error for a window or registration of the consumer that cannot be the sink of a Read.
DAT_RETURN local_error(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNotThisStream:
      return dat_error(DAT_PROTECTION_VIOLATION);
    case Refusal::kToWrap:
    case Refusal::kBounds:
      return dat_error(DAT_INVALID_PARAMETER);
    default:
      return dat_error(DAT_PRIVILEGES_VIOLATION);
  }
}

}  // namespace

SendQueue::SendQueue(QpShared& shared, const transport::QpInit& init, bool confirms_writes)
    : shared_(shared),
      cq_(static_cast<Cq*>(init.request_cq)),
      confirms_writes_(confirms_writes),
      delayed_ack_(init.delayed_ack),
      requests_(ring_for(init)) {}

WorkRing<Request> SendQueue::ring_for(const transport::QpInit& init) {
  return {count_of(init.max_request), std::max(1U, count_of(init.max_request_segments))};
}

void SendQueue::change(const transport::QpInit& init, WorkRing<Request> requests) noexcept {
  requests_ = std::move(requests);
  delayed_ack_ = init.delayed_ack;
}

void SendQueue::clear() noexcept {
  requests_.clear();
  built_ = sent_ = unanswered_ = 0;
  reads_in_flight_ = 0;
  opening_read_in_flight_ = false;
  asked_.clear();
  waiting_end_ = needed_end_ = 0;
  unanswered_for_now_ = false;
  placed_ = unplaced_end_ = released_end_ = awaited_ = confirmed_ = 0;
  waited_in_vain_ = kNeverInVain;
}

// An RDMA Write completes only when the peer has placed it, if Confirmations or Reads can tell: the
// consumer may announce the data over another connection (docs/adr/0039, 0084).
void SendQueue::start(std::uint32_t ord, bool can_ask) noexcept {
  constexpr auto bit = [](RequestKind kind) { return 1U << static_cast<unsigned>(kind); };
  constexpr unsigned kWrites = bit(RequestKind::kWrite) | bit(RequestKind::kWriteImmediate);
  read_stag_ = shared_.memory.ephemeral_stag();
  ord_ = ord;
  const bool confirms = shared_.link->confirmations() != nullptr;
  asks_for_placement_ = !confirms && can_ask && (delayed_ack_ || confirms_writes_);
  kinds_placed_ = static_cast<std::uint8_t>((confirms || asks_for_placement_ ? kWrites : 0) |
                                            (delayed_ack_ ? bit(RequestKind::kSend) : 0));
  if (!confirms && !can_ask && confirms_writes_)
    UDAPL_TRACE(kNormal,
                "QP %p: the peer serves no RDMA Reads, so RDMA Writes complete when TCP "
                "has taken them",
                static_cast<const void*>(&shared_.qp));
}

// ---- posting ------------------------------------------------------------------------------------

// `fill` completes the request and its segments. If it fails, the request is not queued.
template <class Fill>
DAT_RETURN SendQueue::post(RequestKind kind, WorkId id, WorkFlags flags, Fill fill) noexcept {
  if (posts_ != Posts::kQueued) [[unlikely]]
    return post_unconnected(kind, id, flags);
  if (requests_.full()) [[unlikely]]
    return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

  Request& request = requests_.next();
  request.id = id;
  request.flags = flags;
  request.kind = kind;
  request.invalidate = request.write_sent = request.done = request.copied = false;
  request.segment_count = 0;
  request.length = 0;
  request.status = DAT_DTO_SUCCESS;
  const DAT_RETURN filled = fill(request, requests_.segments(requests_.tail()));
  if (filled != DAT_SUCCESS) [[unlikely]]
    return filled;
  requests_.push();
  return DAT_SUCCESS;
}

DAT_RETURN SendQueue::post_unconnected(RequestKind kind, WorkId id, WorkFlags flags) noexcept {
  if (posts_ == Posts::kRefused) return dat_error(DAT_INVALID_STATE);
  Request request{};
  request.id = id;
  request.flags = flags;
  request.kind = kind;
  report(request, DAT_DTO_ERR_FLUSHED);
  return DAT_SUCCESS;
}

// Posts a Send, RDMA Write or RDMA Read, which have a list of local segments.
DAT_RETURN SendQueue::post_message(RequestKind kind, WorkId id, Triplets list,
                                   const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                   WorkFlags flags) noexcept {
  return post(kind, id, flags, [&](Request& request, Segment* segments) UDAPL_REQUIRES(qp_locked) {
    std::uint64_t total = 0;
    const DAT_RETURN checked = resolve_list(
        shared_.memory, shared_.pd, kind == RequestKind::kRead ? kLocalWrite : kLocalRead, list,
        requests_.max_segments(), segments, request.segment_count, total);
    if (checked != DAT_SUCCESS) return checked;
    if (total > UINT32_MAX) return dat_error(DAT_LENGTH_ERROR);
    if (kind == RequestKind::kRead) {
      if (total < remote.segment_length) return dat_error(DAT_LENGTH_ERROR);
      total = remote.segment_length;
    }
    request.length = static_cast<std::uint32_t>(total);
    request.stag = remote.rmr_context;
    request.to = remote.virtual_address;
    request.operand[0] = immediate;
    return DAT_RETURN{DAT_SUCCESS};
  });
}

// A request with a fence is not copied, because an earlier Read may still change its data.
void SendQueue::copy_last() noexcept {
  if (requests_.empty()) return;  // the post has flushed the request
  const std::uint64_t last = requests_.tail() - 1;
  const Request& request = requests_.at(last);
  if (!request.copied && (request.flags & transport::kFence) == 0) static_cast<void>(copy(last));
}

// Copies the payload of a short message. Returns false if the request is none, or if its memory is
// no longer registered.
bool SendQueue::copy(std::uint64_t position) noexcept {
  Request& request = requests_.at(position);
  if (expects_response(request.kind) || request.kind == RequestKind::kBind ||
      request.segment_count == 0 || request.length > Request::kMaxCopied)
    return false;
  std::byte* to = request.copy;
  const std::span segments(requests_.segments(position), request.segment_count);
  for (const Segment& segment : segments) {
    MrTable::Pin pin;
    if (!sources_.holds(shared_.memory, segment.ref)) {
      pin = shared_.memory.pin(segment.ref);
      if (!pin) return false;
    }
    to = std::copy_n(segment.address, segment.length, to);
  }
  return request.copied = true;
}

DAT_RETURN SendQueue::post_send_invalidate(WorkId id, Triplets list, DAT_RMR_CONTEXT context,
                                           WorkFlags flags) noexcept {
  return post(RequestKind::kSend, id, flags,
              [&](Request& request, Segment* out) UDAPL_REQUIRES(qp_locked) {
                std::uint64_t total = 0;
                const DAT_RETURN checked =
                    resolve_list(shared_.memory, shared_.pd, kLocalRead, list,
                                 requests_.max_segments(), out, request.segment_count, total);
                if (checked != DAT_SUCCESS) return checked;
                if (total > UINT32_MAX) return dat_error(DAT_LENGTH_ERROR);
                request.length = static_cast<std::uint32_t>(total);
                request.stag = context;
                request.invalidate = true;
                return DAT_RETURN{DAT_SUCCESS};
              });
}

DAT_RETURN SendQueue::post_read_to_rmr(WorkId id, const DAT_RMR_TRIPLET& sink,
                                       const DAT_RMR_TRIPLET& remote, WorkFlags flags) noexcept {
  return post(
      RequestKind::kRead, id, flags, [&](Request& request, Segment* out) UDAPL_REQUIRES(qp_locked) {
        if (sink.segment_length < remote.segment_length) return dat_error(DAT_LENGTH_ERROR);
        if (remote.segment_length != 0) {
          MrTable::Pin pin;
          const Refusal refusal =
              shared_.memory.access({sink.rmr_context, sink.virtual_address, remote.segment_length,
                                     kRemoteWrite, shared_.pd, shared_.id},
                                    out[0], pin);
          if (refusal != Refusal::kNone) return local_error(refusal);
          request.segment_count = 1;
        }
        request.length = remote.segment_length;
        request.stag = remote.rmr_context;
        request.to = remote.virtual_address;
        return DAT_RETURN{DAT_SUCCESS};
      });
}

DAT_RETURN SendQueue::post_bind(WorkId id, const transport::BindRequest& bind, WorkFlags flags,
                                DAT_RMR_CONTEXT* context) noexcept {
  DAT_RMR_CONTEXT created = 0;
  const DAT_RETURN posted = post(RequestKind::kBind, id, flags,
                                 [&](Request& request, Segment*) UDAPL_REQUIRES(qp_locked) {
                                   const auto* const mr = static_cast<const Mr*>(bind.mr);
                                   const MrRef ref = mr == nullptr ? MrRef{} : mr->ref();
                                   const DAT_RETURN prepared = shared_.memory.prepare_bind(
                                       shared_.pd, static_cast<const Window*>(bind.window)->index(),
                                       mr == nullptr ? nullptr : &ref, bind, request.bind);
                                   created = request.bind.stag;
                                   return prepared;
                                 });
  if (posted == DAT_SUCCESS) *context = created;
  return posted;
}

DAT_RETURN SendQueue::post_atomic(RequestKind kind, WorkId id, const DAT_LMR_TRIPLET& local,
                                  const DAT_RMR_TRIPLET& remote, std::uint64_t first,
                                  std::uint64_t second, WorkFlags flags) noexcept {
  return post(kind, id, flags, [&](Request& request, Segment* out) UDAPL_REQUIRES(qp_locked) {
    if (local.segment_length != sizeof(std::uint64_t) ||
        remote.virtual_address % sizeof(std::uint64_t) != 0)
      return dat_error(DAT_INVALID_PARAMETER);
    const DAT_RETURN checked = shared_.memory.resolve(local, shared_.pd, kLocalWrite, out[0]);
    if (checked != DAT_SUCCESS) return checked;
    request.segment_count = 1;
    request.length = sizeof(std::uint64_t);
    request.stag = remote.rmr_context;
    request.to = remote.virtual_address;
    request.operand[0] = first;
    request.operand[1] = second;
    return DAT_RETURN{DAT_SUCCESS};
  });
}

// ---- sending ------------------------------------------------------------------------------------

bool SendQueue::pin_unsent(PinSet& pins) noexcept {
  const std::uint64_t end = half_built() ? built_ + 1 : built_;
  for (std::uint64_t i = sent_; i != end; ++i) {
    if (!pin(i, pins)) return false;
  }
  return true;
}

bool SendQueue::pin(std::uint64_t position, PinSet& pins) noexcept {
  const Request& request = requests_.at(position);
  // The link does not read the memory of such requests.
  if (expects_response(request.kind) || request.copied) return true;
  const Segment* const segments = requests_.segments(position);
  for (std::uint32_t i = 0; i < request.segment_count; ++i) {
    if (pins.add(shared_.memory, segments[i].ref)) continue;
    requests_.at(position).status = DAT_DTO_ERR_LOCAL_PROTECTION;
    shared_.fault.raise(BreakReason::kLocalFault);
    return false;
  }
  return true;
}

bool SendQueue::startable(const Request& request) const noexcept {
  if ((request.flags & transport::kFence) != 0 && reads_in_flight_ != 0) return false;
  if (expects_response(request.kind)) return reads_in_flight_ < ord_ || ord_ == 0;
  return true;
}

// Copies a short message even if it begins during its post: the message may be built after the post
// has returned.
bool SendQueue::begin(Outgoing& out) noexcept {
  Request& request = requests_.at(built_);
  if (!out.pins.has_room(request.segment_count + 1)) return false;
  if (expects_response(request.kind)) {
    if (ord_ == 0) {  // the peer serves no Reads, and would break the connection
      fail(built_, DAT_DTO_ERR_REMOTE_RESPONDER);
      return false;
    }
    begin_query(request);
  } else if (request.copied || copy(built_)) {
    out.spans[0] = {request.copy, request.length};
    begin_payload(request, 1, out);
  } else {
    const Segment* const segments = requests_.segments(built_);
    for (std::uint32_t i = 0; i < request.segment_count; ++i) {
      if (!out.pins.add(shared_.memory, segments[i].ref)) {
        fail(built_, DAT_DTO_ERR_LOCAL_PROTECTION);
        return false;
      }
      out.spans[i] = {segments[i].address, segments[i].length};
    }
    if (!begin_shared(request, out)) begin_payload(request, request.segment_count, out);
  }
  return true;
}

// Starts an RDMA Write of which this side places the first bytes (DirectAccess::share). Returns
// false if the request is not one.
bool SendQueue::begin_shared(const Request& request, Outgoing& out) noexcept {
  const DirectAccess* const direct = shared_.link->direct_access();
  if (request.kind != RequestKind::kWrite || direct == nullptr || direct->share().frames == 0)
    return false;
  const std::uint32_t first = direct->share().first;
  iwarp::IoSpan& rest = out.spans[0];
  rest = {static_cast<const std::byte*>(rest.data) + first, rest.size - first};
  shared_.link->begin_write(request.stag, request.to + first, {&rest, 1}, request.length - first);
  return true;
}

void SendQueue::begin_payload(Request& request, std::size_t spans, const Outgoing& out) noexcept {
  const std::span<const iwarp::IoSpan> payload(out.spans.data(), spans);
  const bool solicited = (request.flags & transport::kSolicited) != 0;
  if (request.kind == RequestKind::kSend) {
    shared_.link->begin_send(iwarp::send_opcode(solicited, request.invalidate),
                             request.invalidate ? request.stag : 0, payload, request.length);
  } else if (request.kind == RequestKind::kWrite || !request.write_sent) {
    shared_.link->begin_write(request.length != 0 ? request.stag : kNoStag, request.to, payload,
                              request.length);
  } else {
    shared_.link->begin_immediate(
        iwarp::encode(
            iwarp::WriteImmediate{static_cast<std::uint32_t>(request.operand[0]), request.length}),
        solicited);
  }
}

// The sink STag names no memory, because the peer need not know where this side places the data of
// a Read. The upper half of the sink offset is the number of the Read; the lower half is the offset
// in the list of local segments.
void SendQueue::begin_query(Request& request) noexcept {
  const auto number = static_cast<std::uint32_t>(built_);
  ++reads_in_flight_;
  if (request.kind == RequestKind::kRead) {
    shared_.link->begin_read_request({read_stag_, std::uint64_t{number} << 32, request.length,
                                      request.length != 0 ? request.stag : kNoStag, request.to});
  } else if (request.kind == RequestKind::kFetchAdd) {
    shared_.link->begin_atomic_request(
        iwarp::AtomicRequest::fetch_add(number, request.stag, request.to, request.operand[0]));
  } else {
    shared_.link->begin_atomic_request(iwarp::AtomicRequest::compare_swap(
        number, request.stag, request.to, request.operand[0], request.operand[1]));
  }
}

void SendQueue::message_built(std::uint64_t end) noexcept {
  Request& request = requests_.at(built_);
  if (request.kind == RequestKind::kWriteImmediate && !request.write_sent) {
    request.write_sent = true;  // the second message follows; an answer may be sent between
    return;
  }
  request.end = end;
  count_built(request);
}

// A bind may have to wait for an access through the old binding. So it is executed only when all
// earlier requests have been sent, and this thread holds no pins.
bool SendQueue::execute_binds(Outgoing& out) noexcept {
  while (startable() && requests_.at(built_).kind == RequestKind::kBind) {
    if (!shared_.link->all_sent()) return false;
    out.pins.clear();
    Request& request = requests_.at(built_);
    if (!shared_.memory.commit_bind(request.bind, shared_.id)) {
      request.bind.mr = {};  // already released
      fail(built_, DAT_RMR_OPERATION_FAILED);
      return false;
    }
    has_bound_ = true;
    request.end = shared_.link->built();
    count_built(request);
    sent(request.end);
  }
  return !shared_.fault.raised;
}

}  // namespace udapl::soft
