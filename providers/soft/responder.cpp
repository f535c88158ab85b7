// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/responder.h"

#include "common/placement.h"

#include <algorithm>
#include <atomic>

namespace udapl::soft {

using iwarp::TerminateCode;
using iwarp::Verdict;
using transport::BreakReason;

namespace {

Verdict verdict_of(Refusal refusal) noexcept {
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

}  // namespace

// One slot more than the consumer allows: the peer may also open the connection, or ask for
// placement, with a Read.
WorkRing<Response> Responder::ring_for(const transport::QpInit& init) {
  return {count_of(init.max_rdma_read_in) + 1, 0};
}

void Responder::clear() noexcept {
  responses_.clear();
  built_ = 0;
}

// ---- requests of the peer -----------------------------------------------------------------------

Verdict Responder::verdict(std::uint32_t stag, Refusal refusal) noexcept {
  if (refusal == Refusal::kInvalidStag) shared_.refused_as_late = shared_.memory.was_issued(stag);
  return verdict_of(refusal);
}

Verdict Responder::invalidate(std::uint32_t stag) noexcept {
  return verdict(stag, shared_.memory.invalidate(stag, shared_.pd, shared_.id));
}

// Grants the peer direct access to the memory of an access that was allowed, if it can reach it.
void Responder::grant_direct_access(const MrTable::Access& access) noexcept {
  DirectAccess* const direct = shared_.link->direct_access();
  if (direct == nullptr || !direct->peer_reaches()) [[likely]]
    return;
  shm::Grants* const grants = direct->grants(shared_.memory);
  if (grants != nullptr && !grants->has(access.stag)) shared_.memory.grant(access, *grants);
}

// Like MrTable::access(), but keeps pins of registrations. Pins of windows are not kept, because a
// window is unbound under the lock of a Qp.
Refusal Responder::reach_target(const MrTable::Access& access, Segment& target,
                                MrTable::Pin& pin) noexcept {
  MrTable& memory = shared_.memory;
  if (access.stag == kept_stag_ && targets_.kept() != MrRef()) [[likely]]
    return memory.access_kept(targets_.kept(), access, target);
  const Refusal refusal = memory.access(access, target, pin);
  if (refusal == Refusal::kNone && memory.is_registration(target.ref) &&
      targets_.uses_again(target.ref)) {
    targets_.keep(memory, target.ref, std::move(pin));
    kept_stag_ = access.stag;
  }
  return refusal;
}

Verdict Responder::place_write(std::uint32_t stag, std::uint64_t to,
                               std::span<const std::byte> payload) noexcept {
  Segment target;
  MrTable::Pin pin;
  const MrTable::Access access{stag,         to,         static_cast<std::uint32_t>(payload.size()),
                               kRemoteWrite, shared_.pd, shared_.id};
  const Refusal refusal = reach_target(access, target, pin);
  if (refusal != Refusal::kNone) [[unlikely]]
    return verdict(stag, refusal);
  place_bytes(target.address, payload);
  grant_direct_access(access);
  return Verdict::kOk;
}

// The memory is pinned while `payload` reads bytes into it, which does not block.
Verdict Responder::fill_write(std::uint32_t stag, std::uint64_t to, std::uint32_t length,
                              iwarp::Payload& payload) noexcept {
  Segment target;
  MrTable::Pin pin;
  const Refusal refusal =
      shared_.memory.access({stag, to, length, kRemoteWrite, shared_.pd, shared_.id}, target, pin);
  if (refusal == Refusal::kNone) payload.put({target.address, target.length});
  return verdict(stag, refusal);
}

// Returns null if the peer has more Reads outstanding than we agreed to.
Response* Responder::next() noexcept {
  if (responses_.size() >= ird_ || responses_.full()) return nullptr;
  return &responses_.next();
}

Verdict Responder::read_request(const iwarp::ReadRequest& request, std::uint32_t msn) noexcept {
  Segment source{};
  if (request.size != 0) {
    MrTable::Pin pin;
    const MrTable::Access access{request.source_stag, request.source_to, request.size,
                                 kRemoteRead,         shared_.pd,        shared_.id};
    const Refusal refusal = shared_.memory.access(access, source, pin);
    if (refusal != Refusal::kNone) return verdict(request.source_stag, refusal);
    grant_direct_access(access);
  }
  Response* const response = next();
  if (response == nullptr) return Verdict::kTooManyReads;
  response->atomic = false;
  response->msn = msn;
  response->request = request;
  response->source = source;
  if (answers_) responses_.push();  // otherwise the peer no longer waits for answers
  return Verdict::kOk;
}

Verdict Responder::atomic_request(const iwarp::AtomicRequest& request) noexcept {
  Segment target;
  MrTable::Pin pin;
  const Refusal refusal = shared_.memory.access(
      {request.stag, request.to, sizeof(std::uint64_t), kRemoteAtomic, shared_.pd, shared_.id},
      target, pin);
  if (refusal != Refusal::kNone) return verdict(request.stag, refusal);
  // A zero-based registration need not begin at an aligned address.
  if (reinterpret_cast<std::uintptr_t>(target.address) % sizeof(std::uint64_t) != 0)
    return Verdict::kMisaligned;
  Response* const response = next();
  if (response == nullptr) return Verdict::kTooManyReads;
  // Atomic with respect to all other QPs and to atomic instructions of the application.
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target.address));
  std::uint64_t original = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(original, iwarp::apply(request, original),
                                     std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  response->atomic = true;
  response->answer = {request.request_id, original};
  if (answers_) responses_.push();
  return Verdict::kOk;
}

// ---- sending ------------------------------------------------------------------------------------

bool Responder::pin_unsent(PinSet& pins) noexcept {
  for (std::uint64_t i = responses_.head(); i != built_; ++i) {
    if (!pin(i, pins)) return false;
  }
  return true;
}

bool Responder::pin(std::uint64_t position, PinSet& pins) noexcept {
  const Response& response = responses_.at(position);
  if (response.atomic || response.request.size == 0) return true;
  if (pins.add(shared_.memory, response.source.ref)) return true;
  shared_.fault.raise(BreakReason::kProtocol);
  return false;
}

bool Responder::begin(Outgoing& out) noexcept {
  Response& response = responses_.at(built_);
  if (!out.pins.has_room(1)) return false;
  if (response.atomic) {
    shared_.link->begin_atomic_response(response.answer);
  } else {
    const iwarp::ReadRequest& request = response.request;
    if (request.size != 0) {
      if (!out.pins.add(shared_.memory, response.source.ref)) {
        shared_.refused_as_late = true;
        shared_.fault.raise(
            BreakReason::kProtocol,
            iwarp::make_read_terminate(TerminateCode::kRdmapInvalidStag, request, response.msn, 0));
        return false;
      }
      out.spans[0] = {response.source.address, request.size};
    }
    shared_.link->begin_read_response(request.sink_stag, request.sink_to,
                                      {out.spans.data(), request.size != 0 ? 1U : 0U},
                                      request.size);
  }
  return true;
}

}  // namespace udapl::soft
