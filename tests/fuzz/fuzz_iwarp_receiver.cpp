// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Feeds the iWARP receiver with whatever a hostile peer may send. Input: two control bytes, then
// either the raw TCP stream, or a list of {2 bytes of length, ULPDU} that the harness frames with a
// good CRC, so that the code behind the CRC check is reached, too. The same bytes are also passed
// to the decoders of the start-up frame and of Terminate.
//
// Checks, besides those of the sanitizers: offsets are consecutive and inside the announced length,
// nothing is delivered after the end of a stream, and feed() always makes progress or needs more
// bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "providers/soft/iwarp/crc32c.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/mpa_frame.h"
#include "providers/soft/iwarp/receiver.h"
#include "providers/soft/iwarp/wire.h"

using namespace udapl::iwarp;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A QP with receives and a few Reads. It refuses or delays segments as the input says.
class Peer final : public Inbound {
 public:
  explicit Peer(unsigned mood) : mood_(mood) {}

  Verdict place_write(std::uint32_t, std::uint64_t, std::span<const std::byte> payload) override {
    require(!payload.empty());
    touch(payload);
    return answer();
  }
  Verdict place_send(const SendSegment& s) override {
    if (s.first && waits()) return Verdict::kWait;
    require(is_send(s.opcode));
    require(s.first == !in_send_);
    require(s.offset == (s.first ? 0 : send_offset_));
    touch(s.payload);
    send_offset_ = s.offset + static_cast<std::uint32_t>(s.payload.size());
    require(send_offset_ >= s.offset);
    in_send_ = !s.last;
    return answer();
  }
  Verdict fill_write(std::uint32_t, std::uint64_t, std::uint32_t length,
                     Payload& payload) override {
    return fill(length, payload);
  }
  Verdict fill_send(const SendSegment& s, std::uint32_t length, Payload& payload) override {
    if (s.first && waits()) return Verdict::kWait;
    require(is_send(s.opcode) && !s.last);
    require(s.first == !in_send_);
    require(s.offset == (s.first ? 0 : send_offset_));
    const Verdict verdict = fill(length, payload);
    send_offset_ = s.offset + static_cast<std::uint32_t>(filled_);
    in_send_ = true;
    return verdict;
  }
  Verdict invalidate(std::uint32_t) override { return answer(); }
  void send_done(const SendDone& done) override {
    live();
    require(!in_send_ && done.length == send_offset_);
  }
  Verdict immediate(const ImmediateBytes&, bool) override {
    return waits() ? Verdict::kWait : answer();
  }
  Verdict read_request(const ReadRequest&, std::uint32_t) override { return answer(); }
  bool oldest_read(ReadSink& sink) override {
    live();
    if (reads_ == 0) return false;
    // Small numbers, so that the input matches them.
    sink = {1, 2 * std::uint64_t{reads_}, reads_ % 4 * 100};
    read_ = sink;
    read_offset_ = 0;
    return true;
  }
  Verdict place_read(std::uint32_t offset, std::span<const std::byte> payload) override {
    require(!payload.empty());
    require(offset == read_offset_ && payload.size() <= read_.length - offset);
    touch(payload);
    read_offset_ += static_cast<std::uint32_t>(payload.size());
    return answer();
  }
  void read_done() override {
    live();
    require(read_offset_ == read_.length);
    --reads_;
  }
  Verdict atomic_request(const AtomicRequest& r) override {
    require(known_atomic(r.op) && r.to % 8 == 0);
    return answer();
  }
  Verdict atomic_response(const AtomicResponse&) override { return answer(); }
  void terminated(const Terminate& t) override {
    live();
    require(name(t.code) != nullptr);
    over_ = true;
  }

  bool over() const { return over_; }

 private:
  void live() const { require(!over_); }
  // Reads every byte, so that the sanitizer detects invalid ones.
  void touch(std::span<const std::byte> payload) {
    for (const std::byte b : payload) sum_ = sum_ + std::to_integer<unsigned>(b);
  }
  Verdict fill(std::uint32_t length, Payload& payload) {
    filled_ = 0;
    const Verdict verdict = answer();
    if (verdict != Verdict::kOk) return verdict;
    std::vector<std::byte> room(length);
    filled_ = payload.put(room);
    require(filled_ <= length);
    return verdict;
  }
  // Returns true sometimes, as if there were no receive yet.
  bool waits() { return (mood_ & 0x10) != 0 && ++asked_ % 3 != 0; }
  Verdict answer() {
    live();
    ++calls_;
    if ((mood_ & 0x0F) == 0 || calls_ % (mood_ & 0x0F) != 0) return Verdict::kOk;
    const auto verdict = static_cast<Verdict>(mood_ >> 4 & 0x0F);
    if (verdict <= Verdict::kWait || verdict > Verdict::kCatastrophic) return Verdict::kOk;
    over_ = true;
    return verdict;
  }

  unsigned mood_;
  unsigned calls_ = 0;
  unsigned asked_ = 0;
  bool over_ = false;
  bool in_send_ = false;
  std::uint32_t send_offset_ = 0;
  std::size_t filled_ = 0;
  std::uint32_t reads_ = 6;
  ReadSink read_{};
  std::uint32_t read_offset_ = 0;
  volatile unsigned sum_ = 0;
};

std::vector<std::byte> framed(std::span<const std::byte> in) {
  std::vector<std::byte> out;
  while (in.size() >= 2) {
    const std::size_t size = std::min<std::size_t>(load16(in.data()) % 2048, in.size() - 2);
    const std::size_t start = out.size();
    out.resize(start + fpdu_size(size));
    std::byte* fpdu = &out[start];
    std::copy_n(in.begin() + 2, size, store16(fpdu, static_cast<std::uint16_t>(size)));
    const std::size_t covered = fpdu_size(size) - kCrcSize;
    store_crc(fpdu + covered, crc32c(fpdu, covered));
    in = in.subspan(2 + size);
  }
  return out;
}

void run(std::span<const std::byte> stream, bool crc, unsigned mood, std::size_t chunk,
         bool in_place) {
  Receiver receiver(crc);
  if (in_place) receiver.set_in_place();
  Peer peer(mood);
  std::vector<std::byte> staged;
  while (!stream.empty()) {
    const std::size_t n = std::min(chunk, stream.size());
    staged.insert(staged.end(), stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(n));
    stream = stream.subspan(n);
    staged.shrink_to_fit();  // so that nothing after the last byte is readable
    if (receiver.waits() && stream.size() % 2 == 0) receiver.release(peer);
    const std::size_t used = receiver.feed(staged, peer);
    require(used <= staged.size());
    staged.erase(staged.begin(), staged.begin() + static_cast<std::ptrdiff_t>(used));
    require(receiver.mid_fpdu() == (!staged.empty() || receiver.opened()));
    require(receiver.stalled() || receiver.needed() > staged.size());
    require(receiver.needed() <= kMaxFpduSize);
    if (receiver.state() != Receiver::State::kOpen) require(staged.empty());
    if (peer.over()) require(receiver.state() != Receiver::State::kOpen);
    if (receiver.state() == Receiver::State::kFailed) {
      std::byte bytes[kTerminateMaxSize];
      const std::size_t size = encode(receiver.failure(), bytes);
      require(size >= kTerminateMinSize && size <= kTerminateMaxSize);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span in(reinterpret_cast<const std::byte*>(data), size);
  for (const MpaKind kind : {MpaKind::kRequest, MpaKind::kReply}) {
    const MpaDecode d = decode_mpa(in, kind);
    require(d.size >= kMpaFixedSize && d.size <= kMpaMaxFrameSize);
    if (d.error == MpaError::kNone) {
      std::byte again[kMpaMaxFrameSize];
      require(encode(d.frame, again) != 0);
    }
  }
  if (size >= kTerminateMinSize) {
    const Terminate t = decode_terminate(in, false);
    std::byte again[kTerminateMaxSize];
    require(encode(t, again) <= kTerminateMaxSize);
  }
  if (size < 2) return 0;

  const unsigned control = data[0];
  const std::size_t chunk = control >> 3 == 0 ? size * 2 : control >> 3;
  const auto body = in.subspan(2);
  if (control & 1) {
    run(framed(body), control & 2, data[1], chunk, control & 4);
  } else {
    run(body, control & 2, data[1], chunk, control & 4);
  }
  return 0;
}
