// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Parses the incoming FPDU stream in place: framing, CRC, DDP and RDMAP checks, in the order and
// with the Terminate codes of RFC 5040 §7, 5041 §7, 5044 §8; hands messages to an Inbound.
//
// Not thread-safe: the caller holds the connection's receive lock. Owner: the connection's QP.
// Input is hostile: every length is checked where it is used. Allocates only to hold messages back.
// It may lie in memory that the peer can still change: of headers a copy is made first, of payload
// every byte is read once, to be placed. Only with a CRC the input has to be ours.
//
// How to drive it (after the MPA start-up frames; `staged` is what recv() has put into the
// connection's staging buffer and what is still unconsumed):
//
//   used = receiver.feed(staged, inbound);      // whole FPDUs only; the rest stays staged
//   ... move staged[used..] to the front (or keep going if there is room behind it) ...
//   if (receiver.state() == State::kFailed)     send receiver.failure() as Terminate, then close
//   if (receiver.state() == State::kTerminated) close
//   if (receiver.waits())                       a message has no receive: release() when it may
//   if (receiver.stalled())                     stop reading until release() has made room
//   on EOF: receiver.mid_fpdu() ? broken : graceful (mid_message() tells an unfinished message)
//
// The staging buffer must be able to hold kMaxFpduSize bytes, or at least grow to needed().
// An FPDU is processed only when all of it is there: its CRC comes before any placement. But where
// there is no CRC a large segment may be opened when its header is there (set_in_place()): then
//
//   while (receiver.open_bytes() != 0 && nothing is staged)
//     receiver.fill(inbound, payload);          // what comes next, straight into its memory
//
// all but its last kClosingBytes, which feed() places as it does those of a small one: they become
// visible last. Whoever may use the memory is asked anew by each fill().
//
// A message that finds no receive (Verdict::kWait) is held, and whatever comes behind it in the
// same direction too: Sends, Writes, requests to read. So the peer's operations take effect in the
// order in which they were posted, as over InfiniBand, where the peer would repeat the Send until a
// receive is there. Answers to our own requests and a Terminate pass what is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "providers/soft/iwarp/held_segments.h"
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
  std::size_t feed(std::span<const std::byte> staged, Inbound& inbound) noexcept {
    std::size_t unlimited = std::numeric_limits<std::size_t>::max();
    return feed(staged, inbound, unlimited);
  }
  // The same, but stops after an FPDU when `work` is used up, of which each takes its bytes and
  // kFpduWork: a peer that sends tiny FPDUs gets no more of our time than others. With `work` 0
  // whole FPDUs may be left over.
  static constexpr std::size_t kFpduWork = 1024;
  std::size_t feed(std::span<const std::byte> staged, Inbound& inbound, std::size_t& work) noexcept;

  // The same for Sends and RDMA Writes at the front, whole messages in one segment each, while
  // nothing waits or is unfinished. Stops at anything else. 0: nothing was done.
  std::size_t feed_plain(std::span<const std::byte> staged, Inbound& inbound) noexcept;

  // A receive may be there for the message that waits: delivers what is held, as far as it gets.
  // Afterwards feed() what is still staged. True: something was delivered.
  bool release(Inbound& inbound) noexcept;

  // ---- large segments in place; REQUIRES: without a CRC -----------------------------------------
  static constexpr std::size_t kClosingBytes = 8;
  // What has to be missing of a segment, and what has to lie in one piece.
  static constexpr std::size_t kLeastOpened = 16 * 1024;
  static constexpr std::size_t kLeastPiece = 4 * 1024;
  // From now on, where so much of a segment is missing; 0: nowhere.
  void set_in_place(std::size_t least = kLeastOpened) noexcept { least_opened_ = crc_ ? 0 : least; }
  // The next bytes of the stream, so many, are to be given to fill().
  std::size_t open_bytes() const noexcept {
    return open_ > kClosingBytes && !scattered_ ? open_ - kClosingBytes : 0;
  }
  bool opened() const noexcept { return open_ != 0; }
  void fill(Inbound& inbound, Payload& payload) noexcept;
  // Large segments have come lately: what is read ahead of the next header is copied once more.
  bool expects_large() const noexcept { return large_ != 0; }

  // Gives up on the message that waits: it fails for lack of a buffer. REQUIRES: waits().
  void refuse_held() noexcept;
  void drop_held() noexcept {
    held_.clear();
    stalled_ = false;
  }
  bool waits() const noexcept { return !held_.empty(); }
  // The last feed() stopped before an FPDU for which there is no room behind what is held.
  bool stalled() const noexcept { return stalled_; }

  State state() const noexcept { return state_; }
  // REQUIRES: state() == kFailed. The Terminate to send.
  const Terminate& failure() const noexcept { return failure_; }

  // REQUIRES: state() == kFailed. It was an answer to a Read or an atomic that made no sense.
  bool failed_in_answer() const noexcept { return failed_in_answer_; }

  // Ends the stream for an error found elsewhere (a Read source revoked): as if feed() had.
  // No effect unless kOpen: the first error wins.
  void fail(const Terminate& reason) noexcept;

  // After the last feed(): bytes of an incomplete FPDU are left over.
  bool mid_fpdu() const noexcept { return left_over_ != 0 || opened(); }
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
  class Part;
  enum class Delivery : std::uint8_t { kDone, kWaits, kFailed };

  [[nodiscard]] std::size_t plain_message(std::span<const std::byte> staged,
                                          Inbound& inbound) noexcept;
  bool is_plain_send(const Segment& s) const noexcept;
  bool is_plain_write(const Segment& s) const noexcept;
  static Verdict deliver_plain_send(const Segment& s, Inbound& inbound) noexcept;
  static Verdict deliver_plain_write(const Segment& s, Inbound& inbound) noexcept;
  void trace(const Segment& s) const noexcept;
  static bool length_covers_header(const std::byte* front, std::size_t available) noexcept;
  bool open(const std::byte* front, std::size_t available, std::uint16_t length,
            Inbound& inbound) noexcept;
  std::size_t close(std::span<const std::byte> staged, Inbound& inbound,
                    std::size_t& work) noexcept;
  bool put(Inbound& inbound, Payload& payload) noexcept;
  void process(const Segment& s, Inbound& inbound) noexcept;
  void tagged(const Segment& s, Inbound& inbound) noexcept;
  void untagged(const Segment& s, Inbound& inbound) noexcept;
  // These return false when they ended the stream.
  bool read_response(const Segment& s, Inbound& inbound) noexcept;
  bool send(const Segment& s, Inbound& inbound) noexcept;
  bool single_segment(const Segment& s, Inbound& inbound) noexcept;
  bool deliver_in_order(const Segment& s, bool first, Inbound& inbound) noexcept;
  bool hold(const Segment& s, bool first) noexcept;
  Delivery deliver(const Segment& s, bool first, Inbound& inbound) noexcept;
  Delivery deliver_send(const Segment& s, bool first, Inbound& inbound) noexcept;
  Delivery delivered(const Segment& s, Verdict verdict) noexcept;
  bool accept(const Segment& s, Verdict verdict) noexcept;
  void fail(const Segment& s, TerminateCode code) noexcept;
  void note_size(std::size_t total) noexcept;

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
  HeldSegments held_;
  bool stalled_ = false;
  // The opened segment.
  std::size_t least_opened_ = 0;  // see set_in_place()
  bool scattered_ = false;        // ... is not filled any more: its memory is in small pieces
  std::uint8_t large_ = 0;        // segments for which expects_large() stays
  std::uint16_t open_ = 0;        // payload that is still to come; 0: none is open
  std::uint8_t trailer_ = 0;      // pad and CRC field
  std::byte header_[kUntaggedHeaderSize];  // as if what is still to come were a segment
  Terminate failure_;
  bool failed_in_answer_ = false;
};

}  // namespace udapl::iwarp
