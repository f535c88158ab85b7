// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the iWARP tests share: hex, a plain reference CRC, sending into bytes, an Inbound that
// writes down what it is told.
#pragma once

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/receiver.h"
#include "providers/soft/iwarp/sender.h"
#include "providers/soft/iwarp/wire.h"

namespace iwarp_test {

using namespace udapl::iwarp;  // NOLINT(google-build-using-namespace): test-only header
using Bytes = std::vector<std::byte>;

inline Bytes hex(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw std::invalid_argument("not a hex digit");
  };
  Bytes out;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') continue;
    if (high < 0) {
      high = digit(c);
    } else {
      out.push_back(static_cast<std::byte>(high << 4 | digit(c)));
      high = -1;
    }
  }
  return out;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Bit by bit, straight from the polynomial: shares nothing with the code under test.
inline std::uint32_t reference_crc(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::byte b : bytes) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

// Not inlined: GCC 12 warns about a reallocation of a vector whose size it thinks it knows.
[[gnu::noinline]] inline void append(Bytes& to, std::span<const std::byte> from) {
  to.insert(to.end(), from.begin(), from.end());
}
[[gnu::noinline]] inline void append_be(Bytes& to, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

// An FPDU around any ULPDU, right or wrong, made without the code under test.
inline Bytes make_fpdu(std::span<const std::byte> ulpdu) {
  Bytes out;
  append_be(out, ulpdu.size(), 2);
  append(out, ulpdu);
  while (out.size() % 4 != 0) out.push_back(std::byte{0});
  const std::uint32_t crc = reference_crc(out);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
  return out;
}
inline Bytes tagged_ulpdu(unsigned opcode, bool last, std::uint32_t stag, std::uint64_t to,
                          std::span<const std::byte> payload = {}) {
  Bytes out;
  append_be(out, last ? 0xC1 : 0x81, 1);
  append_be(out, 0x40 | opcode, 1);
  append_be(out, stag, 4);
  append_be(out, to, 8);
  append(out, payload);
  return out;
}
inline Bytes untagged_ulpdu(unsigned opcode, bool last, std::uint32_t qn, std::uint32_t msn,
                            std::uint32_t mo, std::span<const std::byte> payload = {},
                            std::uint32_t stag = 0) {
  Bytes out;
  append_be(out, last ? 0x41 : 0x01, 1);
  append_be(out, 0x40 | opcode, 1);
  append_be(out, stag, 4);
  append_be(out, qn, 4);
  append_be(out, msn, 4);
  append_be(out, mo, 4);
  append(out, payload);
  return out;
}

inline Bytes pattern(std::size_t size, unsigned seed = 1) {
  Bytes out(size);
  std::minstd_rand random(seed);
  for (auto& b : out) b = static_cast<std::byte>(random() >> 8);
  return out;
}

// A Sender whose output is gathered as TCP would: TxBatch entries in order.
class Tx {
 public:
  explicit Tx(const SenderConfig& config) : sender(config) {}

  // Builds the message that was begun, sending whenever the batch is full.
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

// Writes down every call as a line; answers what the test set.
class Recorder final : public Inbound {
 public:
  // Answers.
  Verdict on_write = Verdict::kOk;
  Verdict on_send = Verdict::kOk;
  Verdict on_invalidate = Verdict::kOk;
  Verdict on_immediate = Verdict::kOk;
  Verdict on_read_request = Verdict::kOk;
  Verdict on_place_read = Verdict::kOk;
  Verdict on_atomic_request = Verdict::kOk;
  Verdict on_atomic_response = Verdict::kOk;
  std::vector<ReadSink> reads;  // outstanding, oldest first

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
  // Long payloads are noted by size and CRC.
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
  }
};

inline std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& l : lines) out += l + "\n";
  return out;
}

// What a connection does with its staging buffer: bytes come in, whole FPDUs are consumed.
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
