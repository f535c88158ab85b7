// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Turns messages into FPDUs: RDMAP and DDP headers, segmentation, pad, CRC, markers, numbering.
//
// Not thread-safe: the caller holds the connection's transmit lock. Owner: the connection's QP.
// With a CRC, the payload is copied into the batch and the checksum is computed over the copy. The
// consumer may change its memory meanwhile (for example while a peer reads it): the frame then
// contains old or new bytes, but its CRC is valid. Without a CRC, segments with more payload than
// kCopyLimit are sent directly from the consumer's memory; for an exception see copy_below(). Spec:
// RFC 5040, 5041, 5044, 7306.
//
// How to drive it (one Sender and one TxBatch per connection, after the MPA start-up frames):
//
//   while (the batch should hold more) {
//     if (!sender.busy()) {                        // between messages: pick the next one, e.g. a
//       ... sender.begin_send(...) or begin_*();   // Read Response before our own requests
//     }
//     if (sender.fill(batch, budget) != Fill::kDone) break;   // batch full or budget used
//     wqe.end = batch.appended();                  // this message ends here in the stream
//   }
//   n = sendmsg(batch.spans());  batch.consume(n);            // any n, even in mid-header
//   while (!wqes.empty() && wqes.front().end <= batch.sent()) complete(wqes.pop());
//
// A message is built completely before the next begins, because segments of two messages must not
// be interleaved (RFC 5041 §5.4). The caller may send any number of times between two calls of
// fill() for one message, and may call fill() again while an earlier part of the batch is unsent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "providers/soft/iwarp/rdmap.h"
#include "providers/soft/iwarp/terminate.h"
#include "providers/soft/iwarp/tx_batch.h"
#include "providers/soft/iwarp/wire.h"

namespace udapl::iwarp {

struct SenderConfig {
  bool crc = true;              // Agreed::crc
  bool markers = false;         // Agreed::markers_to_send
  std::uint32_t emss = 1448;    // TCP effective MSS, bytes
  const void* owner = nullptr;  // identifies the connection in traces
};

class Sender {
 public:
  // Segments with at most this much payload are copied behind their header. The CRC is then one
  // pass over contiguous bytes, and the FPDU a single iovec, which costs the kernel less than two.
  static constexpr std::size_t kCopyLimit = 64;
  // If payload is copied, up to about this many bytes are copied ahead of what TCP has accepted.
  static constexpr std::size_t kCopyArena = 256 * 1024;

  enum class Fill : std::uint8_t {
    kDone,       // the whole message is in the batch; busy() is false
    kBudget,     // stopped at the byte budget; call again later
    kBatchFull,  // stopped for lack of room: send and consume() first
  };

  explicit Sender(const SenderConfig& config) noexcept;

  // Without a CRC, payload is also copied while fewer than `pending` bytes are pending, if sendmsg
  // would probably copy it at a slow distance (common/copy_bytes.h).
  void copy_below(std::size_t pending) noexcept { copy_below_ = pending; }

  // Called when the effective MSS of TCP has changed. Applies from the next FPDU on.
  void set_emss(std::uint32_t emss) noexcept;

  // ---- start a message. REQUIRES: !busy(). -----------------------------------------------------
  // `payload` is the list of pieces in order; zero-length pieces are allowed. The list must remain
  // valid until fill() returns kDone. The memory must remain valid until batch.sent() has reached
  // the end of the message (or until kDone, if nothing in the batch refers to it). `length` is the
  // sum of the pieces in bytes. The functions that begin an untagged message return its MSN.

  void begin_write(std::uint32_t stag, std::uint64_t to, std::span<const IoSpan> payload,
                   std::uint32_t length) noexcept;
  // `stag`/`to` are the sink's, from the Read Request.
  void begin_read_response(std::uint32_t stag, std::uint64_t to, std::span<const IoSpan> payload,
                           std::uint32_t length) noexcept;
  // `opcode` is one of the four Sends (send_opcode()); `invalidate_stag` is 0 without invalidate.
  std::uint32_t begin_send(Opcode opcode, std::uint32_t invalidate_stag,
                           std::span<const IoSpan> payload, std::uint32_t length) noexcept;
  std::uint32_t begin_read_request(const ReadRequest& request) noexcept;
  std::uint32_t begin_immediate(const ImmediateBytes& data, bool solicited) noexcept;
  std::uint32_t begin_atomic_request(const AtomicRequest& request) noexcept;
  std::uint32_t begin_atomic_response(const AtomicResponse& response) noexcept;
  // No message may follow a Terminate: the caller sends it and closes.
  void begin_terminate(const Terminate& terminate) noexcept;

  // ---- a short message in one call; REQUIRES: !busy() -------------------------------------------
  // An RDMA Write, or a Send without invalidation, that is sent in a single frame.
  struct Short {
    Opcode opcode;
    std::uint32_t stag;  // for a Write only, like `to`
    std::uint64_t to;
  };
  // Whether frames can be written piece by piece: without CRC and markers, no byte of a frame
  // depends on the others.
  bool builds_plainly() const noexcept { return !crc_ && !markers_; }
  bool checksums() const noexcept { return crc_; }
  // Writes the bytes in front of the payload and returns their end. If builds_plainly(), the caller
  // then writes the payload, and behind it zeros for pad and CRC.
  std::byte* write_short_front(std::byte* out, const Short& message, std::uint32_t length) noexcept;
  bool adds_short() const noexcept { return !markers_; }
  // Appends the message with a copy of its payload. Returns false if the batch has no room.
  // REQUIRES: adds_short(), at most kCopyLimit bytes.
  bool add_short(TxBatch& batch, const Short& message, std::span<const std::byte> payload) noexcept;

  // ---- build -----------------------------------------------------------------------------------
  // Appends FPDUs of the current message until the message is complete, this call has appended
  // `budget` bytes, or the batch has no room for the next FPDU. The budget makes no FPDU shorter,
  // and at least one is appended if there is room. REQUIRES: busy().
  Fill fill(TxBatch& batch, std::size_t budget = ~std::size_t{0}) noexcept;

  bool busy() const noexcept { return busy_; }
  // The MSN of the next Send.
  std::uint32_t next_send() const noexcept { return next_msn_[kQueueSend]; }
  // Payload bytes of the current message not yet built into FPDUs.
  std::uint32_t remaining() const noexcept { return length_ - offset_; }

  // Drops the part of the current message that was not built yet. The stream stays well-formed,
  // because the batch contains whole FPDUs. Only a Terminate may follow (RFC 5040 §4.8).
  void abandon() noexcept { busy_ = false; }

 private:
  struct Segment;

  void begin(Opcode opcode, std::uint32_t first_word, std::span<const IoSpan> payload,
             std::uint32_t length) noexcept;
  std::uint32_t begin_untagged(Opcode opcode, QueueNumber queue, std::uint32_t first_word,
                               std::span<const IoSpan> payload, std::uint32_t length) noexcept;
  Segment next_segment() const noexcept;
  std::byte* write_header(std::byte* out, const Segment& segment) const noexcept;
  // Makes room for the segment and decides whether its payload is copied; may shorten the segment
  // if memory is short. Returns false if the batch has no room.
  [[nodiscard]] bool make_room(TxBatch& batch, Segment& segment) const noexcept;
  [[nodiscard]] bool is_slow(std::size_t before) const noexcept;
  void build_plain(TxBatch& batch, const Segment& segment) noexcept;
  void build_marked(TxBatch& batch, const Segment& segment) noexcept;
  // Calls take(data, bytes) for each piece of the next `bytes` of payload.
  template <class Take>
  void take_payload(std::size_t bytes, Take take) noexcept;

  void trace(const Segment& segment) const noexcept;

  // Per connection.
  const void* owner_;
  bool crc_;
  std::size_t copy_below_ = 0;
  bool markers_;
  std::size_t max_ulpdu_;
  std::array<std::uint32_t, kQueueCount> next_msn_{1, 1, 1, 1};

  // The current message.
  bool busy_ = false;
  Opcode opcode_ = Opcode::kWrite;
  std::uint8_t body_size_ = 0;    // RDMAP header or immediate bytes behind the DDP header
  std::uint32_t first_word_ = 0;  // STag of a tagged message, invalidate STag of an untagged one
  std::uint32_t queue_ = 0;
  std::uint32_t msn_ = 0;
  std::uint64_t to_ = 0;
  std::uint32_t length_ = 0;
  std::uint32_t offset_ = 0;
  std::span<const IoSpan> payload_;
  std::size_t piece_ = 0;         // index into payload_
  std::size_t piece_offset_ = 0;  // bytes of payload_[piece_] already built
  std::array<std::byte, kMaxBodySize> body_;
};

}  // namespace udapl::iwarp
