// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Parses the incoming FPDU stream in place: framing, CRC, DDP and RDMAP checks, in the order and
// with the Terminate codes of RFC 5040 §7, 5041 §7, 5044 §8; hands messages to an Inbound.
//
// Not thread-safe: the caller holds the connection's receive lock. Owner: the connection's QP.
// Never allocates. Input is hostile: every length is checked where it is used.
//
// How to drive it (after the MPA start-up frames; `staged` is what recv() has put into the
// connection's staging buffer and what is still unconsumed):
//
//   used = receiver.feed(staged, inbound);      // whole FPDUs only; the rest stays staged
//   ... move staged[used..] to the front (or keep going if there is room behind it) ...
//   if (receiver.state() == State::kFailed)     send receiver.failure() as Terminate, then close
//   if (receiver.state() == State::kTerminated) close
//   on EOF: receiver.mid_fpdu() ? broken : graceful (mid_message() tells an unfinished message)
//
// The staging buffer must be able to hold kMaxFpduSize bytes, or at least grow to needed().
// An FPDU is processed only when all of it is there: its CRC comes before any placement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/terminate.h"
#include "providers/soft/iwarp/wire.h"

namespace udapl::iwarp {

class Receiver {
 public:
  enum class State : std::uint8_t {
    kOpen,
    kFailed,      // we found an error: failure() is to be sent, input is dropped
    kTerminated,  // the peer sent a Terminate, input is dropped
  };

  // `owner`: whom traces name.
  explicit Receiver(bool crc, const void* owner = nullptr) noexcept : owner_(owner), crc_(crc) {}

  // Processes the complete FPDUs at the front of `staged` and returns the number of bytes that the
  // caller may drop. Once the state is not kOpen, that is always all of them.
  std::size_t feed(std::span<const std::byte> staged, Inbound& inbound) noexcept;

  State state() const noexcept { return state_; }
  // REQUIRES: state() == kFailed. The Terminate to send.
  const Terminate& failure() const noexcept { return failure_; }

  // Ends the stream for an error found elsewhere (a Read source revoked): as if feed() had.
  // No effect unless kOpen: the first error wins.
  void fail(const Terminate& reason) noexcept;

  // After the last feed(): bytes of an incomplete FPDU are left over.
  bool mid_fpdu() const noexcept { return left_over_ != 0; }
  // A message has begun and its last segment has not arrived.
  bool mid_message() const noexcept { return tagged_.active || untagged_.active; }
  // Size of the FPDU at the front of the left-over bytes, so far as known: what the staging buffer
  // has to hold before feed() can make progress. Always in 2..kMaxFpduSize.
  std::size_t needed() const noexcept { return needed_; }

  // FPDUs accepted so far: > 0 means that the peer has seen our Reply (MPA start-up, the first one
  // is the RTR message when one was agreed).
  std::uint64_t fpdus() const noexcept { return fpdus_; }

 private:
  // The unfinished message of a kind; one tagged and one untagged may overlap (kernel siw does it).
  struct TaggedMessage {
    bool active = false;
    Opcode opcode = Opcode::kWrite;
    std::uint32_t stag = 0;
    std::uint64_t next_to = 0;
  };
  struct UntaggedMessage {
    bool active = false;
    Opcode opcode = Opcode::kSend;
    std::uint32_t msn = 0;
    std::uint32_t next_mo = 0;
  };
  struct Segment;

  void trace(const Segment& s) const noexcept;
  static bool length_covers_header(const std::byte* fpdu, std::size_t available) noexcept;
  void process(const std::byte* ulpdu, std::uint16_t length, Inbound& inbound) noexcept;
  void tagged(const Segment& s, Inbound& inbound) noexcept;
  void untagged(const Segment& s, Inbound& inbound) noexcept;
  // These return false when they ended the stream.
  bool read_response(const Segment& s, Inbound& inbound) noexcept;
  bool send(const Segment& s, Inbound& inbound) noexcept;
  bool single_segment(const Segment& s, Inbound& inbound) noexcept;
  bool accept(const Segment& s, Verdict verdict) noexcept;
  void fail(const Segment& s, TerminateCode code) noexcept;

  const void* owner_;
  bool crc_;
  State state_ = State::kOpen;
  std::size_t left_over_ = 0;
  std::size_t needed_ = kFpduLengthSize;
  std::uint64_t fpdus_ = 0;
  std::uint32_t next_msn_[kQueueCount] = {1, 1, 1, 1};
  TaggedMessage tagged_;
  UntaggedMessage untagged_;
  ReadSink read_{};                // of the Read Response in progress
  std::uint32_t read_offset_ = 0;  // bytes of it that have arrived
  Terminate failure_;
};

}  // namespace udapl::iwarp
