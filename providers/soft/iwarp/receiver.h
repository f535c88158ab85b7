// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Parses the incoming FPDU stream in place: framing, CRC, DDP and RDMAP checks, in the order and
// with the Terminate codes of RFC 5040 §7, 5041 §7, 5044 §8; hands messages to an Inbound.
//
// Not thread-safe: the caller holds the connection's receive lock. Owner: the connection's QP.
// Treats the input as hostile: every length is checked where it is used. Allocates memory only for
// messages that are held back. In shared memory the peer may change the input while it is
// processed: so headers are copied first, and each byte of payload is read once, when it is placed.
// If CRCs are checked, the peer must not be able to change the input.
//
// How to drive it (after the MPA start-up frames; `staged` is the unconsumed input in the
// connection's staging buffer):
//
//   used = receiver.feed(staged, inbound);      // whole FPDUs only; the rest stays staged
//   ... move staged[used..] to the front (or leave it if there is room behind it) ...
//   if (receiver.state() == State::kFailed)     send receiver.failure() as Terminate, then close
//   if (receiver.state() == State::kTerminated) close
//   if (receiver.waits())                       a message has no receive: release() once posted
//   if (receiver.stalled())                     stop reading until release() has made room
//   on EOF: receiver.mid_fpdu() ? broken : graceful, also within a message
//
// The staging buffer must be able to hold kMaxFpduSize bytes, or at least grow to needed(). An FPDU
// is processed only when it is complete: its CRC is checked before anything is placed. Without a
// CRC, a large segment may be opened as soon as its header is complete (set_in_place()): its
// payload is then read straight to its destination. The loop
//
//   while (receiver.open_bytes() != 0 && nothing is staged)
//     receiver.fill(inbound, payload);          // reads more, directly into the segment's memory
//
// places all but the last kClosingBytes. feed() places those, as for a small segment, so that they
// become visible last. Each fill() checks again that the memory may be used.
//
// If there is no receive for a message (Verdict::kWait), the message is held back, together with
// everything that the peer sends after it: Sends, Writes, Read Requests. So the peer's operations
// take effect in the order in which they were posted, as over InfiniBand, where the peer's adapter
// repeats the Send until a receive is posted. Responses to our own requests and a Terminate bypass
// the held messages.
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
    kFailed,      // we found an error: send failure(); further input is dropped
    kTerminated,  // the peer sent a Terminate; further input is dropped
  };

  // `owner` identifies the connection in traces. `budget`: see HeldSegments.
  explicit Receiver(bool crc, const void* owner = nullptr,
                    HeldSegments::Budget* budget = nullptr) noexcept
      : owner_(owner), crc_(crc), held_(budget) {}

  // Processes the complete FPDUs at the front of `staged`. Returns the number of bytes that the
  // caller may drop: all bytes once the state is no longer kOpen.
  std::size_t feed(std::span<const std::byte> staged, Inbound& inbound) noexcept {
    std::size_t unlimited = std::numeric_limits<std::size_t>::max();
    return feed(staged, inbound, unlimited);
  }
  // The same, but stops when `work` is used up. Each FPDU consumes its size plus kFpduWork, so that
  // a peer that sends tiny FPDUs gets no more of our time than others. If `work` is 0 afterwards,
  // whole FPDUs may be left over.
  static constexpr std::size_t kFpduWork = 1024;
  std::size_t feed(std::span<const std::byte> staged, Inbound& inbound, std::size_t& work) noexcept;

  // Fast path of feed() for complete Sends and RDMA Writes of one segment at the front of `staged`,
  // while no message is held back or unfinished. Stops at anything else. Returns the number of
  // bytes that it has processed.
  std::size_t feed_plain(std::span<const std::byte> staged, Inbound& inbound) noexcept;

  // Called when there may be a receive for the message that waits. Delivers as many of the held
  // segments as possible, and returns whether it has delivered any. feed() must follow, with the
  // bytes that are still staged.
  bool release(Inbound& inbound) noexcept;

  // ---- large segments in place; REQUIRES: without a CRC -----------------------------------------
  static constexpr std::size_t kClosingBytes = 8;
  // The least number of missing bytes for which a segment is opened, and the smallest contiguous
  // piece of memory that is filled in place.
  static constexpr std::size_t kMinOpened = 16 * 1024;
  static constexpr std::size_t kMinPiece = 4 * 1024;
  // From now on, opens segments of which at least `least` bytes are missing; 0: none.
  void set_in_place(std::size_t least = kMinOpened) noexcept { least_opened_ = crc_ ? 0 : least; }
  // The number of upcoming bytes of the stream that fill() must consume.
  std::size_t open_bytes() const noexcept {
    return open_ > kClosingBytes && !scattered_ ? open_ - kClosingBytes : 0;
  }
  bool opened() const noexcept { return open_ != 0; }
  void fill(Inbound& inbound, Payload& payload) noexcept;
  // Whether large segments have arrived lately. Then reading ahead costs an additional copy.
  bool expects_large() const noexcept { return large_ != 0; }

  // Fails the waiting message for lack of a receive. REQUIRES: waits().
  void refuse_held() noexcept;
  void drop_held() noexcept {
    discard_held();
    stalled_ = false;
  }
  bool waits() const noexcept { return !held_.empty(); }
  // Whether the last feed() has stopped at an FPDU because no more segments can be held back.
  bool stalled() const noexcept { return stalled_; }

  State state() const noexcept { return state_; }
  // REQUIRES: state() == kFailed. The Terminate to send.
  const Terminate& failure() const noexcept { return failure_; }

  // REQUIRES: state() == kFailed. Whether the cause was an invalid answer to a Read or an atomic.
  bool failed_in_answer() const noexcept { return failed_in_answer_; }

  // Fails the stream for an error that was found elsewhere (for example, a Read source was
  // revoked), as feed() does for an error in the input. Has no effect unless the state is kOpen.
  void fail(const Terminate& reason) noexcept;

  // Whether the last feed() left bytes of an incomplete FPDU.
  bool mid_fpdu() const noexcept { return left_over_ != 0 || opened(); }
  // The size of the incomplete FPDU, as far as known: the staging buffer must hold this much before
  // feed() can make progress. Always in 2..kMaxFpduSize.
  std::size_t needed() const noexcept { return needed_; }

  // The position in the stream up to which all messages have taken effect. Messages that are held
  // back or have failed, and everything behind them, have not.
  std::uint64_t placed() const noexcept {
    return held_.empty() ? consumed_ : held_.front().position;
  }

  // The MSN of the next message that takes a receive. REQUIRES: !waits(), and no such message is
  // unfinished.
  std::uint32_t next_send() const noexcept { return next_msn_[kQueueSend]; }

  // FPDUs accepted so far. > 0 means that the peer has received our Reply (MPA start-up; the first
  // FPDU is the RTR message if one was agreed).
  std::uint64_t fpdus() const noexcept { return fpdus_; }

 private:
  // The unfinished messages. A tagged and an untagged one may overlap (kernel siw sends such).
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

  [[nodiscard]] std::size_t next_fpdu(std::span<const std::byte> staged, Inbound& inbound,
                                      std::size_t& work) noexcept;
  [[nodiscard]] std::size_t end_fpdu(std::size_t total, std::size_t& work) noexcept;
  void count_fpdu(std::size_t total) noexcept;
  [[nodiscard]] std::size_t whole_send(std::span<const std::byte> staged,
                                       Inbound& inbound) noexcept;
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
  // These return false if they ended the stream, or if an opened segment must be staged instead.
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
  void discard_held() noexcept {
    consumed_ = placed();
    held_.clear();
  }

  const void* owner_;
  bool crc_;
  State state_ = State::kOpen;
  std::size_t left_over_ = 0;
  std::size_t needed_ = kFpduLengthSize;
  std::uint64_t fpdus_ = 0;
  std::uint64_t consumed_ = 0;  // bytes, up to the end of what was accepted
  std::uint32_t next_msn_[kQueueCount] = {1, 1, 1, 1};
  TaggedMessage tagged_;
  UntaggedMessage untagged_;
  ReadSink read_{};                // of the Read Response in progress
  std::uint32_t read_offset_ = 0;  // bytes of the response that have arrived
  HeldSegments held_;
  bool stalled_ = false;
  // The opened segment.
  std::size_t least_opened_ = 0;  // see set_in_place()
  bool scattered_ = false;        // the open segment is staged: its memory is in small pieces
  std::uint8_t large_ = 0;        // number of further segments for which expects_large() holds
  std::uint16_t open_ = 0;        // payload that has not arrived; 0: no segment is open
  std::uint8_t trailer_ = 0;      // pad and CRC field
  std::byte header_[kUntaggedHeaderSize];  // describes the missing bytes as a separate segment
  Terminate failure_;
  bool failed_in_answer_ = false;
};

}  // namespace udapl::iwarp
