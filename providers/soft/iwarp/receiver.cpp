// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/receiver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <limits>

#include "common/tracing/trace.h"
#include "providers/soft/iwarp/crc32c.h"
#include "providers/soft/iwarp/receiver_segment.h"

namespace udapl::iwarp {
namespace {

struct OpcodeFacts {
  std::uint8_t min_ulpdu;  // DDP and RDMAP header
  std::uint8_t queue;      // untagged only
};

constexpr OpcodeFacts kOpcodes[kOpcodeCount] = {
    {kTaggedHeaderSize, 0},                                         // RDMA Write
    {kUntaggedHeaderSize + kReadRequestSize, kQueueReadRequest},    // RDMA Read Request
    {kTaggedHeaderSize, 0},                                         // RDMA Read Response
    {kUntaggedHeaderSize, kQueueSend},                              // Send
    {kUntaggedHeaderSize, kQueueSend},                              // Send with Invalidate
    {kUntaggedHeaderSize, kQueueSend},                              // Send with SE
    {kUntaggedHeaderSize, kQueueSend},                              // Send with SE and Invalidate
    {kUntaggedHeaderSize + kTerminateMinSize, kQueueTerminate},     // Terminate
    {kUntaggedHeaderSize + kImmediateSize, kQueueSend},             // Immediate Data
    {kUntaggedHeaderSize + kImmediateSize, kQueueSend},             // Immediate Data with SE
    {kUntaggedHeaderSize + kAtomicRequestSize, kQueueReadRequest},  // Atomic Request
    {kUntaggedHeaderSize + kAtomicResponseSize, kQueueAtomicResponse},
};

// Whether messages of this kind bypass the messages that are held back: responses to our own
// requests, and a Terminate.
bool passes_held(Opcode opcode) noexcept {
  return opcode == Opcode::kReadResponse || opcode == Opcode::kAtomicResponse ||
         opcode == Opcode::kTerminate;
}

bool crc_good(const std::byte* fpdu, std::size_t total) noexcept {
  const std::size_t covered = total - kCrcSize;
  return crc32c(fpdu, covered) == load_crc(fpdu + covered);
}

}  // namespace

TerminateCode code_for(Opcode opcode, Verdict verdict) noexcept {
  using Code = TerminateCode;
  switch (verdict) {
    case Verdict::kNoBuffer:
      return Code::kDdpUntaggedNoBuffer;
    case Verdict::kTooLong:
      return Code::kDdpUntaggedTooLong;
    case Verdict::kTooManyReads:
      return Code::kRdmapCatastrophicStream;
    case Verdict::kMisaligned:
      return Code::kRdmapCatastrophicStream;
    case Verdict::kNothingOutstanding:
      return Code::kRdmapUnexpectedOpcode;
    case Verdict::kInvalidStag:
      if (is_tagged(opcode)) return Code::kDdpTaggedInvalidStag;
      return is_send(opcode) ? Code::kRdmapCannotInvalidate : Code::kRdmapInvalidStag;
    case Verdict::kNotThisStream:
      if (is_tagged(opcode)) return Code::kDdpTaggedNotThisStream;
      return is_send(opcode) ? Code::kRdmapCannotInvalidateProtection : Code::kRdmapNotThisStream;
    case Verdict::kToWrap:
      return is_tagged(opcode) ? Code::kDdpTaggedToWrap : Code::kRdmapToWrap;
    case Verdict::kBaseBounds:
      return is_tagged(opcode) ? Code::kDdpTaggedBaseBounds : Code::kRdmapBaseBounds;
    case Verdict::kAccess:
      // DDP has no code for a missing right (RFC 5041 §8.2): report the STag as invalid.
      if (is_tagged(opcode)) return Code::kDdpTaggedInvalidStag;
      return is_send(opcode) ? Code::kRdmapCannotInvalidate : Code::kRdmapAccess;
    case Verdict::kOk:
    case Verdict::kWait:
    case Verdict::kCatastrophic:
      break;
  }
  return Code::kRdmapLocalCatastrophic;
}

// Records the size of an FPDU that was not opened, for expects_large().
void Receiver::note_size(std::size_t total) noexcept {
  if (least_opened_ != 0 && total >= kMinOpened)
    large_ = kLargeAhead;
  else if (large_ != 0)
    --large_;
}

// Fast path for an ordinary message at the front: a Send or an RDMA Write that has arrived
// completely, in one segment and in sequence, and needs no special handling. Returns its size; the
// message has then been delivered, is held back, or has failed the stream. Returns 0, with nothing
// done, for anything else.
std::size_t Receiver::plain_message(std::span<const std::byte> staged, Inbound& inbound) noexcept {
  constexpr std::size_t kHeader = kFpduLengthSize + kUntaggedHeaderSize;
  static_assert(kHeader <= fpdu_size(kTaggedHeaderSize), "no FPDU is shorter");
  if (staged.size() < kHeader || !held_.empty() || udapl::trace::enabled(udapl::trace::kDetail))
    return 0;
  std::array<std::byte, kFpduLengthSize + kMaxFront> front;
  std::memcpy(front.data(), staged.data(), kHeader);
  const std::uint16_t length = load16(front.data());
  const std::size_t total = fpdu_size(length);
  if (total > staged.size()) return 0;
  const Segment s =
      Segment::of(front.data() + kFpduLengthSize, staged.data() + kFpduLengthSize, length);
  const bool write = s.opcode == Opcode::kWrite;
  if (!(write ? is_plain_write(s) : is_plain_send(s)) || (crc_ && !crc_good(staged.data(), total)))
    return 0;
  const Verdict verdict = write ? deliver_plain_write(s, inbound) : deliver_plain_send(s, inbound);
  if (verdict != Verdict::kOk) [[unlikely]] {
    const std::size_t most = std::min(total, front.size());
    std::memcpy(front.data() + kHeader, staged.data() + kHeader, most - kHeader);
    if (verdict == Verdict::kWait ? !hold(s, !write) : !accept(s, verdict)) return total;
  }
  if (!write) ++next_msn_[kQueueSend];
  return total;
}

// Fast path of plain_message() for a Send for which the Inbound has a receive at hand. Reads the
// header in words of the size in which the peer has just written it: reads of other sizes take
// longer.
std::size_t Receiver::whole_send(std::span<const std::byte> staged, Inbound& inbound) noexcept {
  constexpr std::size_t kHeader = kFpduLengthSize + kUntaggedHeaderSize;
  if (staged.size() < kHeader || crc_ || !held_.empty() || untagged_.active ||
      udapl::trace::enabled(udapl::trace::kDetail)) [[unlikely]]
    return 0;
  const std::uint64_t front = load64(staged.data());
  const std::uint64_t queue_and_msn = load64(staged.data() + 8);
  const std::uint32_t mo = load32(staged.data() + 16);
  std::atomic_signal_fence(std::memory_order_acq_rel);  // the peer may change them: not read again
  const auto length = static_cast<std::uint16_t>(front >> 48);
  const auto control = static_cast<std::uint16_t>(front >> 32);
  const std::size_t total = fpdu_size(length);
  const bool solicited = control == control_bytes(Opcode::kSendSolicited, true);
  if (!solicited && control != control_bytes(Opcode::kSend, true)) return 0;
  if (queue_and_msn != (std::uint64_t{kQueueSend} << 32 | next_msn_[kQueueSend]) || mo != 0 ||
      length < kUntaggedHeaderSize || total > staged.size()) [[unlikely]]
    return 0;
  if (!inbound.take_whole_send(staged.subspan(kHeader, length - kUntaggedHeaderSize), solicited))
      [[unlikely]]
    return 0;
  ++next_msn_[kQueueSend];
  return total;
}

bool Receiver::is_plain_send(const Segment& s) const noexcept {
  return load16(s.front) == control_bytes(s.opcode, true) && !untagged_.active &&
         (s.opcode == Opcode::kSend || s.opcode == Opcode::kSendSolicited) &&
         s.length >= kUntaggedHeaderSize && s.queue() == kQueueSend &&
         s.msn() == next_msn_[kQueueSend] && s.mo() == 0;
}

Verdict Receiver::deliver_plain_send(const Segment& s, Inbound& inbound) noexcept {
  const auto payload = s.untagged_payload();
  const bool solicited = s.opcode == Opcode::kSendSolicited;
  if (inbound.take_whole_send(payload, solicited)) return Verdict::kOk;
  const Verdict verdict = inbound.place_send({s.opcode, true, true, s.msn(), 0, payload});
  if (verdict == Verdict::kOk) [[likely]]
    inbound.send_done({s.opcode, solicited, false, 0, static_cast<std::uint32_t>(payload.size())});
  return verdict;
}

bool Receiver::is_plain_write(const Segment& s) const noexcept {
  return load16(s.front) == control_bytes(Opcode::kWrite, true) && !tagged_.active &&
         s.length >= kTaggedHeaderSize;
}

// STag and offset of a zero-length Write are not checked (RFC 5040 §5.1).
Verdict Receiver::deliver_plain_write(const Segment& s, Inbound& inbound) noexcept {
  const auto payload = s.tagged_payload();
  return payload.empty() ? Verdict::kOk : inbound.place_write(s.stag(), s.to(), payload);
}

void Receiver::count_fpdu(std::size_t total) noexcept {
  ++fpdus_;
  consumed_ += total;
  note_size(total);
}

// Ends the processing of a whole FPDU. Returns its size, or 0 if it has failed the stream.
std::size_t Receiver::end_fpdu(std::size_t total, std::size_t& work) noexcept {
  if (state_ == State::kFailed) return 0;
  count_fpdu(total);
  work -= std::min(work, total + kFpduWork);
  return total;
}

std::size_t Receiver::feed(std::span<const std::byte> staged, Inbound& inbound,
                           std::size_t& work) noexcept {
  std::size_t used = 0;
  needed_ = kFpduLengthSize;
  stalled_ = false;
  while (state_ == State::kOpen && work != 0) {
    const std::span<const std::byte> rest = staged.subspan(used);
    if (open_ != 0) {
      used += close(rest, inbound, work);
      if (open_ != 0) break;
      continue;
    }
    const std::size_t consumed = next_fpdu(rest, inbound, work);
    if (consumed == 0) break;
    used += consumed;
  }
  if (state_ != State::kOpen) {
    used = staged.size();
    discard_held();
  }
  left_over_ = staged.size() - used;
  return used;
}

// Processes the FPDU at the front. If the FPDU is large and most of it is missing, opens its
// segment instead, and consumes the bytes that have arrived. Returns the number of bytes consumed:
// 0 if the FPDU must wait, or the stream has failed.
std::size_t Receiver::next_fpdu(std::span<const std::byte> staged, Inbound& inbound,
                                std::size_t& work) noexcept {
  if (const std::size_t plain = plain_message(staged, inbound); plain != 0) [[likely]]
    return end_fpdu(plain, work);
  if (staged.size() < kFpduLengthSize) return 0;
  std::array<std::byte, kFpduLengthSize + kMaxFront> front;
  std::memcpy(front.data(), staged.data(), std::min(staged.size(), front.size()));
  if (!length_covers_header(front.data(), staged.size())) {
    fail(make_terminate(TerminateCode::kMpaMarkerOrLength));
    return 0;
  }
  const std::uint16_t length = load16(front.data());
  const std::size_t total = fpdu_size(length);
  const std::byte* const header = front.data() + kFpduLengthSize;
  if (staged.size() < total) {
    needed_ = total;
    if (least_opened_ == 0 || total - staged.size() < least_opened_ ||
        !open(header, staged.size() - kFpduLengthSize, length, inbound))
      return 0;
    const std::size_t opened = total - open_ - trailer_;
    consumed_ += opened;
    return opened;
  }
  if (crc_ && !crc_good(staged.data(), total)) {
    fail(make_terminate(TerminateCode::kMpaCrc));
    return 0;
  }
  const Segment s = Segment::of(header, staged.data() + kFpduLengthSize, length);
  if (!held_.empty() && !passes_held(s.opcode) && !held_.has_room(length)) [[unlikely]] {
    stalled_ = true;
    return 0;
  }
  process(s, inbound);
  return end_fpdu(total, work);
}

std::size_t Receiver::feed_plain(std::span<const std::byte> staged, Inbound& inbound) noexcept {
  if (state_ != State::kOpen || open_ != 0 || stalled_) return 0;
  std::size_t used = 0;
  while (used != staged.size()) {
    std::size_t plain = whole_send(staged.subspan(used), inbound);
    if (plain == 0) plain = plain_message(staged.subspan(used), inbound);
    if (plain == 0) break;
    used += plain;
    if (state_ != State::kOpen) {
      left_over_ = 0;
      return staged.size();
    }
    count_fpdu(plain);
  }
  if (used == 0) return 0;
  needed_ = kFpduLengthSize;
  left_over_ = staged.size() - used;
  return used;
}

void Receiver::fail(const Terminate& reason) noexcept {
  if (state_ != State::kOpen) return;
  state_ = State::kFailed;
  failure_ = reason;
  left_over_ = 0;
  open_ = 0;
}

void Receiver::fail(const Segment& s, TerminateCode code) noexcept {
  if (state_ == State::kOpen)
    failed_in_answer_ = s.opcode == Opcode::kReadResponse || s.opcode == Opcode::kAtomicResponse;
  const Terminate terminate = make_terminate(code);
  if (terminate.type() == 0 && terminate.layer() == 0) return fail(terminate);
  const bool protection = terminate.layer() == 0 && terminate.type() == 1;
  fail(make_terminate(code, s.front, s.length, protection && s.opcode == Opcode::kReadRequest));
}

bool Receiver::accept(const Segment& s, Verdict verdict) noexcept {
  if (verdict == Verdict::kOk) return true;
  fail(s, code_for(s.opcode, verdict));
  return false;
}

bool Receiver::length_covers_header(const std::byte* front, std::size_t available) noexcept {
  const std::size_t length = load16(front);
  if (length < 2) return false;
  if (available < kFpduLengthSize + 2) return true;  // decided once the control bytes have arrived
  const bool tagged = (load8(front + 2) & kDdpTagged) != 0;
  std::size_t least = tagged ? kTaggedHeaderSize : kUntaggedHeaderSize;
  const unsigned opcode = load8(front + 3) & kRdmapOpcodeMask;
  if (opcode < kOpcodeCount) least = std::max<std::size_t>(least, kOpcodes[opcode].min_ulpdu);
  return length >= least;
}

void Receiver::trace(const Segment& s) const noexcept {
  const bool tagged = is_tagged(s.opcode);
  udapl::trace::emit({.level = udapl::trace::kDetail,
                      .kind = udapl::trace::Kind::kFrame,
                      .code = s.last ? 1 : 0,
                      .cookie = tagged ? s.stag() : s.msn(),
                      .length = tagged ? s.tagged_payload().size()
                                       : std::size_t{s.length} -
                                             kOpcodes[static_cast<unsigned>(s.opcode)].min_ulpdu,
                      .object = owner_,
                      .function = "frame",
                      .text = name(s.opcode),
                      .detail = "in"});
}

void Receiver::process(const Segment& s, Inbound& inbound) noexcept {
  const std::uint8_t ddp = load8(s.front);
  const std::uint8_t rdmap = load8(s.front + 1);
  const bool is_tagged_segment = (ddp & kDdpTagged) != 0;
  if ((ddp & kDdpVersionMask) != kDdpVersionValue) {
    return fail(make_terminate(is_tagged_segment ? TerminateCode::kDdpTaggedVersion
                                                 : TerminateCode::kDdpUntaggedVersion));
  }
  if (rdmap >> kRdmapVersionShift != kRdmapVersionValue) {
    return fail(make_terminate(TerminateCode::kRdmapVersion));
  }
  if (static_cast<unsigned>(s.opcode) >= kOpcodeCount || is_tagged(s.opcode) != is_tagged_segment) {
    return fail(make_terminate(TerminateCode::kRdmapUnexpectedOpcode));
  }
  if (udapl::trace::enabled(udapl::trace::kDetail) && open_ == 0) [[unlikely]]
    trace(s);
  if (is_tagged_segment) {
    tagged(s, inbound);
  } else {
    untagged(s, inbound);
  }
}

// ---- tagged: RDMA Write, RDMA Read Response ----------------------------------------------------

void Receiver::tagged(const Segment& s, Inbound& inbound) noexcept {
  if (tagged_.active &&
      (s.opcode != tagged_.opcode || s.stag() != tagged_.stag || s.to() != tagged_.next_to)) {
    return fail(s, TerminateCode::kDdpTaggedBaseBounds);
  }
  if (s.opcode == Opcode::kWrite) {
    // STag and offset of a zero-length Write are not checked (RFC 5040 §5.1).
    if (!s.tagged_payload().empty() && !deliver_in_order(s, false, inbound)) return;
  } else if (!read_response(s, inbound)) {
    return;
  }
  tagged_ = {!s.ends(), s.opcode, s.stag(), s.to() + s.bytes()};
}

bool Receiver::read_response(const Segment& s, Inbound& inbound) noexcept {
  const bool first = !tagged_.active;
  if (first) {
    read_offset_ = 0;
    if (!inbound.oldest_read(read_)) return accept(s, Verdict::kNothingOutstanding);
  }
  const auto payload = s.tagged_payload();
  const bool empty_message = first && s.last && payload.empty() && read_.length == 0;
  if (!empty_message) {
    if (s.stag() != read_.stag) return accept(s, Verdict::kInvalidStag);
    const std::uint32_t room = read_.length - read_offset_;
    if (s.to() != read_.to + read_offset_ || payload.size() > room ||
        (s.last && payload.size() != room)) {
      return accept(s, Verdict::kBaseBounds);
    }
  }
  if (s.part != nullptr) {
    const auto length = static_cast<std::uint32_t>(payload.size());
    const Verdict verdict = inbound.fill_read(read_offset_, length, *s.part);
    if (verdict == Verdict::kWait || !accept(s, verdict)) return false;
  } else if (!payload.empty() && !accept(s, inbound.place_read(read_offset_, payload))) {
    return false;
  }
  read_offset_ += s.bytes();
  if (s.ends()) inbound.read_done();
  return true;
}

// ---- untagged ----------------------------------------------------------------------------------

void Receiver::untagged(const Segment& s, Inbound& inbound) noexcept {
  // A Terminate may interrupt the message that its sender abandoned.
  const bool continues = untagged_.active && s.opcode != Opcode::kTerminate;
  if (continues && (s.opcode != untagged_.opcode || s.msn() != untagged_.msn)) {
    return fail(s, TerminateCode::kDdpUntaggedMsnRange);
  }
  if (s.mo() != (continues ? untagged_.next_mo : 0)) {
    return fail(s, TerminateCode::kDdpUntaggedInvalidMo);
  }
  const std::uint32_t queue = kOpcodes[static_cast<unsigned>(s.opcode)].queue;
  if (s.queue() != queue) return fail(s, TerminateCode::kDdpUntaggedInvalidQueue);
  if (s.msn() != next_msn_[queue]) return fail(s, TerminateCode::kDdpUntaggedMsnRange);

  const bool accepted = is_send(s.opcode) ? send(s, inbound) : single_segment(s, inbound);
  if (accepted && s.ends()) ++next_msn_[queue];
}

bool Receiver::send(const Segment& s, Inbound& inbound) noexcept {
  const std::uint64_t end = std::uint64_t{s.mo()} + s.untagged_payload().size();
  if (end > std::numeric_limits<std::uint32_t>::max()) return accept(s, Verdict::kTooLong);
  if (!deliver_in_order(s, !untagged_.active, inbound)) return false;
  untagged_ = {!s.ends(), s.opcode, s.msn(), s.mo() + s.bytes()};
  return true;
}

bool Receiver::single_segment(const Segment& s, Inbound& inbound) noexcept {
  if (s.opcode == Opcode::kTerminate) {
    state_ = State::kTerminated;
    inbound.terminated(decode_terminate(s.terminate(), fpdus_ == 0));
    return true;
  }
  // The buffers of these queues hold one header each.
  if (!s.last || s.length != kOpcodes[static_cast<unsigned>(s.opcode)].min_ulpdu) {
    return accept(s, Verdict::kTooLong);
  }
  if (s.opcode == Opcode::kAtomicResponse)
    return accept(s, inbound.atomic_response(decode_atomic_response(s.body())));
  return deliver_in_order(s, true, inbound);
}

}  // namespace udapl::iwarp
