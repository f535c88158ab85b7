// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The functions of the connection's QP that a Receiver calls: checks of memory accesses, placement,
// and delivery of messages.
//
// Called only from within a Receiver, under the locks that the Receiver's caller holds. Payload
// spans are valid during the call only: an implementation copies the bytes, keeps no reference, and
// does not call the Receiver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "providers/soft/iwarp/rdmap.h"
#include "providers/soft/iwarp/terminate.h"
#include "providers/soft/iwarp/wire.h"

namespace udapl::iwarp {

// The result of a memory check. After kWait, the Receiver holds back the message and everything
// that must not overtake it. Any result other than kOk and kWait ends the stream with a Terminate,
// whose code depends on the operation (code_for()). If several errors apply, the first in this
// order is returned.
enum class Verdict : std::uint8_t {
  kOk,
  kWait,                // Send, Immediate: no receive posted yet; release() retries
  kNoBuffer,            // Send, Immediate: no receive posted
  kTooLong,             // Send: more bytes than the receive's buffers hold
  kInvalidStag,         // unknown, freed, unbound
  kNotThisStream,       // belongs to another protection zone or EP
  kToWrap,              // offset + length overflows 64 bits
  kBaseBounds,          // outside the registered bytes
  kAccess,              // the right (remote read, remote write, invalidate) was not granted
  kTooManyReads,        // Read or Atomic Request beyond our IRD
  kMisaligned,          // Atomic Request: target not on an 8-byte boundary
  kNothingOutstanding,  // Response without an outstanding request of ours
  kCatastrophic,        // a local error
};

// The Terminate code for a verdict on a message with this opcode.
TerminateCode code_for(Opcode opcode, Verdict verdict) noexcept;

struct SendSegment {
  Opcode opcode;  // one of the four Sends
  bool first;     // the first segment of its message: takes a new receive
  bool last;      // this segment completes the message
  std::uint32_t msn;
  std::uint32_t offset;                // of `payload` in the message, bytes
  std::span<const std::byte> payload;  // empty for a zero-length Send
};

struct SendDone {
  Opcode opcode;
  bool solicited;
  bool invalidated;  // `invalidated_stag` was passed to invalidate() and accepted
  std::uint32_t invalidated_stag;
  std::uint32_t length;  // of the whole message, bytes
};

// The sink of one of our Reads. The Response must name exactly this sink.
struct ReadSink {
  std::uint32_t stag;
  std::uint64_t to;
  std::uint32_t length;
};

// Payload of a segment that has not been read yet and can be read directly into its destination.
class Payload {
 public:
  // Reads the bytes that are available now into the front of `room`, writing them in any order, and
  // returns their number. Called at most once.
  virtual std::size_t put(std::span<std::byte> room) noexcept = 0;

 protected:
  ~Payload() = default;
};

class Inbound {
 public:
  // A segment of an RDMA Write, never empty. Checks, in this order: STag valid, of this stream,
  // no wrap, inside the bounds, remote write allowed; then copies. The checks are repeated for
  // every segment because the STag may be revoked between two segments.
  virtual Verdict place_write(std::uint32_t stag, std::uint64_t to,
                              std::span<const std::byte> payload) = 0;

  // Counterparts of the place_*() functions for large segments that are not staged
  // (Receiver::set_in_place). `length`: the number of missing bytes. They check the access for all
  // missing bytes, and then let `payload` read some of these into the contiguous memory at the
  // start of their destination. They return kWait, with nothing changed, if this is not supported
  // or not possible now.
  virtual Verdict fill_write(std::uint32_t, std::uint64_t, std::uint32_t, Payload&) {
    return Verdict::kWait;
  }
  // `segment`: without its payload.
  virtual Verdict fill_send(const SendSegment&, std::uint32_t, Payload&) { return Verdict::kWait; }
  virtual Verdict fill_read(std::uint32_t, std::uint32_t, Payload&) { return Verdict::kWait; }

  // A segment of a Send. On `first` a receive is dequeued (kWait or kNoBuffer if there is none);
  // every segment is checked against the receive's size (kTooLong) and copied to `offset`.
  virtual Verdict place_send(const SendSegment& segment) = 0;

  // Fast path for a complete Send of one segment without invalidation: does what place_send() and
  // send_done() do. Returns false, with nothing done, if those must be called instead.
  virtual bool take_whole_send(std::span<const std::byte>, [[maybe_unused]] bool solicited) {
    return false;
  }

  // Invalidates the STag of a Send with Invalidate; called after its last segment was placed and
  // before send_done(). Errors: kInvalidStag, kAccess (not remotely invalidable), kNotThisStream
  // (wrong zone or EP).
  virtual Verdict invalidate(std::uint32_t stag) = 0;

  // The Send that place_send() was placing is complete: completes its receive.
  virtual void send_done(const SendDone& done) = 0;

  // Immediate Data: dequeues a receive and completes it, in order with Sends (kWait or kNoBuffer if
  // there is none).
  virtual Verdict immediate(const ImmediateBytes& data, bool solicited) = 0;

  // Read Request: checks the source (unless size is 0), then the IRD; queues the Response. `msn` is
  // for make_read_terminate().
  virtual Verdict read_request(const ReadRequest& request, std::uint32_t msn) = 0;

  // Called for the first segment of a Read Response: fills `sink` for our oldest unanswered request
  // (including the zero-length RTR Read). Returns false if none is outstanding, or if the oldest is
  // not a Read.
  virtual bool oldest_read(ReadSink& sink) = 0;
  // A segment of that Response, never empty and within the Read's length; copies it to `offset`.
  // Errors: kInvalidStag (the local buffer was freed meanwhile), kCatastrophic.
  virtual Verdict place_read(std::uint32_t offset, std::span<const std::byte> payload) = 0;
  // That Read is complete.
  virtual void read_done() = 0;

  // Atomic Request, sub-opcode known and offset 8-byte aligned: checks as for place_write but with
  // the right for remote atomics, then IRD; performs it and queues the Response.
  virtual Verdict atomic_request(const AtomicRequest& request) = 0;
  // Completes the oldest unanswered request, which the response must answer (else
  // kNothingOutstanding).
  virtual Verdict atomic_response(const AtomicResponse& response) = 0;

  // The peer ended the stream. Nothing more will be delivered.
  virtual void terminated(const Terminate& reason) = 0;

 protected:
  ~Inbound() = default;
};

}  // namespace udapl::iwarp
