// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The two ends of a connection in the iWARP tests: a Sender whose output is bytes, a Receiver with
// its staging buffer, and an Inbound that records its calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/receiver.h"
#include "providers/soft/iwarp/sender.h"
#include "tests/unit/iwarp/support.h"

namespace iwarp_test {

// A Sender whose output is gathered as TCP would do it: the TxBatch entries in order.
class Tx {
 public:
  explicit Tx(const SenderConfig& config) : sender(config) {}

  // Builds the message that was begun, and drains the batch whenever it is full.
  void finish() {
    while (sender.fill(batch) != Sender::Fill::kDone) drain();
    drain();
  }
  void drain() {
    for (const IoSpan& s : batch.spans()) {
      append(out, {static_cast<const std::byte*>(s.data), s.size});
    }
    batch.consume(batch.pending_bytes());
  }
  Bytes take() { return std::exchange(out, {}); }

  void write(std::uint32_t stag, std::uint64_t to, std::span<const std::byte> data) {
    const IoSpan piece{data.data(), data.size()};
    sender.begin_write(stag, to, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
    finish();
  }
  void read_response(std::uint32_t stag, std::uint64_t to, std::span<const std::byte> data) {
    const IoSpan piece{data.data(), data.size()};
    sender.begin_read_response(stag, to, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
    finish();
  }
  void send(std::span<const std::byte> data, Opcode opcode = Opcode::kSend,
            std::uint32_t invalidate = 0) {
    const IoSpan piece{data.data(), data.size()};
    sender.begin_send(opcode, invalidate, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
    finish();
  }

  Sender sender;
  TxBatch batch;
  Bytes out;
};

// Accepts everything and keeps nothing.
class Accepting : public Inbound {
 public:
  Verdict place_write(std::uint32_t, std::uint64_t, std::span<const std::byte>) override {
    return Verdict::kOk;
  }
  Verdict place_send(const SendSegment&) override { return Verdict::kOk; }
  Verdict invalidate(std::uint32_t) override { return Verdict::kOk; }
  void send_done(const SendDone&) override {}
  Verdict immediate(const ImmediateBytes&, bool) override { return Verdict::kOk; }
  Verdict read_request(const ReadRequest&, std::uint32_t) override { return Verdict::kOk; }
  bool oldest_read(ReadSink&) override { return false; }
  Verdict place_read(std::uint32_t, std::span<const std::byte>) override { return Verdict::kOk; }
  void read_done() override {}
  Verdict atomic_request(const AtomicRequest&) override { return Verdict::kOk; }
  Verdict atomic_response(const AtomicResponse&) override { return Verdict::kOk; }
  void terminated(const Terminate&) override {}

 protected:
  ~Accepting() = default;
};

// Records every call as a line, and returns the verdicts that the test has set.
class Recorder final : public Inbound {
 public:
  // Return values of the calls.
  Verdict on_write = Verdict::kOk;
  Verdict on_send = Verdict::kOk;
  Verdict on_invalidate = Verdict::kOk;
  Verdict on_immediate = Verdict::kOk;
  Verdict on_read_request = Verdict::kOk;
  Verdict on_place_read = Verdict::kOk;
  Verdict on_atomic_request = Verdict::kOk;
  Verdict on_atomic_response = Verdict::kOk;
  std::vector<ReadSink> reads;  // outstanding, oldest first
  // Overwritten at each call, as a peer that shares the stream's memory may do.
  std::span<std::byte> scribbled;

  std::vector<std::string> log;
  Terminate peer_terminate;

  Verdict place_write(std::uint32_t stag, std::uint64_t to,
                      std::span<const std::byte> payload) override {
    line("write %x %llx %s", stag, static_cast<unsigned long long>(to), text(payload).c_str());
    return on_write;
  }
  Verdict place_send(const SendSegment& s) override {
    line("place %u%s%s msn %u at %u %s", static_cast<unsigned>(s.opcode), s.first ? " first" : "",
         s.last ? " last" : "", s.msn, s.offset, text(s.payload).c_str());
    return on_send;
  }
  Verdict invalidate(std::uint32_t stag) override {
    line("invalidate %x", stag);
    return on_invalidate;
  }
  void send_done(const SendDone& d) override {
    line("sent %u length %u%s%s %x", static_cast<unsigned>(d.opcode), d.length,
         d.solicited ? " solicited" : "", d.invalidated ? " invalidated" : "", d.invalidated_stag);
  }
  Verdict immediate(const ImmediateBytes& data, bool solicited) override {
    line("immediate %s%s", to_hex(data).c_str(), solicited ? " solicited" : "");
    return on_immediate;
  }
  Verdict read_request(const ReadRequest& r, std::uint32_t msn) override {
    line("read %u msn %u from %x %llx to %x %llx", r.size, msn, r.source_stag,
         static_cast<unsigned long long>(r.source_to), r.sink_stag,
         static_cast<unsigned long long>(r.sink_to));
    return on_read_request;
  }
  bool oldest_read(ReadSink& sink) override {
    if (reads.empty()) return false;
    sink = reads.front();
    return true;
  }
  Verdict place_read(std::uint32_t offset, std::span<const std::byte> payload) override {
    line("response at %u %s", offset, text(payload).c_str());
    return on_place_read;
  }
  void read_done() override {
    reads.erase(reads.begin());
    line("read done");
  }
  Verdict atomic_request(const AtomicRequest& r) override {
    line("atomic %u id %u at %x %llx: %llx %llx %llx %llx", static_cast<unsigned>(r.op),
         r.request_id, r.stag, static_cast<unsigned long long>(r.to),
         static_cast<unsigned long long>(r.add_swap),
         static_cast<unsigned long long>(r.add_swap_mask),
         static_cast<unsigned long long>(r.compare),
         static_cast<unsigned long long>(r.compare_mask));
    return on_atomic_request;
  }
  Verdict atomic_response(const AtomicResponse& r) override {
    line("atomic response id %u: %llu", r.request_id, static_cast<unsigned long long>(r.original));
    return on_atomic_response;
  }
  void terminated(const Terminate& t) override {
    peer_terminate = t;
    line("terminated: %s", name(t.code));
  }

 private:
  // Long payloads are recorded as their size and CRC.
  static std::string text(std::span<const std::byte> payload) {
    if (payload.size() <= 16) return to_hex(payload);
    return std::to_string(payload.size()) + "/" + std::to_string(reference_crc(payload));
  }
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) {
    std::array<char, 256> buffer;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
    va_end(arguments);
    log.emplace_back(buffer.data());
    std::ranges::fill(scribbled, std::byte{0xff});
  }
};

inline std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& l : lines) out += l + "\n";
  return out;
}

// Handles the staging buffer as a connection does: bytes are appended, whole FPDUs are consumed.
class Rx {
 public:
  explicit Rx(bool crc = true) : receiver(crc) {}
  void arrive(std::span<const std::byte> bytes) {
    append(staged, bytes);
    const std::size_t used = receiver.feed(staged, inbound);
    staged.erase(staged.begin(), staged.begin() + static_cast<std::ptrdiff_t>(used));
  }
  // The Terminate we would send, as bytes of its RDMAP part.
  std::string failure() const {
    std::array<std::byte, kTerminateMaxSize> bytes;
    return to_hex(std::span(bytes).first(encode(receiver.failure(), bytes)));
  }

  Receiver receiver;
  Recorder inbound;
  Bytes staged;
};

}  // namespace iwarp_test
