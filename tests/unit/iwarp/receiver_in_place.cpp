// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Large segments without a CRC are placed as they arrive. However the stream is divided, and
// whichever part of it is staged, the memory and the calls are the same; the end of each segment is
// placed last; and access is checked each time.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>

#include "tests/unit/iwarp/endpoints.h"

using namespace iwarp_test;

namespace {

// Memory in pieces of `piece` bytes, the target of all kinds of messages, which are placed by
// offset.
class Memory final : public Inbound {
 public:
  explicit Memory(std::size_t size, std::size_t piece = ~std::size_t{0})
      : bytes(size), piece_(piece) {}

  Verdict place_write(std::uint32_t, std::uint64_t to,
                      std::span<const std::byte> payload) override {
    return place(to, payload);
  }
  Verdict fill_write(std::uint32_t, std::uint64_t to, std::uint32_t length,
                     Payload& payload) override {
    return fill(to, length, payload);
  }
  Verdict place_send(const SendSegment& s) override {
    if (s.first) ++taken;
    return place(s.offset, s.payload);
  }
  Verdict fill_send(const SendSegment& s, std::uint32_t length, Payload& payload) override {
    if (s.first && !receives) return Verdict::kWait;
    BOOST_TEST(!s.last);
    if (s.first) ++taken;
    return fill(s.offset, length, payload);
  }
  Verdict invalidate(std::uint32_t) override { return Verdict::kOk; }
  void send_done(const SendDone& done) override { sent += done.length; }
  Verdict immediate(const ImmediateBytes&, bool) override { return Verdict::kOk; }
  Verdict read_request(const ReadRequest&, std::uint32_t) override { return Verdict::kOk; }
  bool oldest_read(ReadSink& sink) override {
    sink = {7, 0, static_cast<std::uint32_t>(bytes.size())};
    return true;
  }
  Verdict place_read(std::uint32_t offset, std::span<const std::byte> payload) override {
    return place(offset, payload);
  }
  Verdict fill_read(std::uint32_t offset, std::uint32_t length, Payload& payload) override {
    return fill(offset, length, payload);
  }
  void read_done() override { ++reads_done; }
  Verdict atomic_request(const AtomicRequest&) override { return Verdict::kOk; }
  Verdict atomic_response(const AtomicResponse&) override { return Verdict::kOk; }
  void terminated(const Terminate&) override {}

  Bytes bytes;
  bool receives = true;
  bool refuses = false;
  int taken = 0;
  int reads_done = 0;
  int fills = 0;
  std::size_t filled = 0;
  std::uint64_t sent = 0;

 private:
  Verdict place(std::uint64_t to, std::span<const std::byte> payload) {
    if (refuses) return Verdict::kInvalidStag;
    if (to + payload.size() > bytes.size()) return Verdict::kBaseBounds;
    std::copy(payload.begin(), payload.end(), bytes.begin() + static_cast<std::ptrdiff_t>(to));
    return Verdict::kOk;
  }
  Verdict fill(std::uint64_t to, std::uint32_t length, Payload& payload) {
    ++fills;
    if (refuses) return Verdict::kInvalidStag;
    if (to + length > bytes.size()) return Verdict::kBaseBounds;
    const std::size_t at = static_cast<std::size_t>(to);
    const std::size_t room = std::min<std::size_t>(length, piece_ - at % piece_);
    filled += payload.put(std::span(bytes).subspan(at, room));
    return Verdict::kOk;
  }
  std::size_t piece_;
};

// The rest of a stream, of which put() reads at most `most` bytes.
class Arriving final : public Payload {
 public:
  Arriving(std::span<const std::byte> stream, std::size_t most) : stream_(stream), most_(most) {}
  std::size_t put(std::span<std::byte> room) noexcept override {
    const std::size_t n = std::min({room.size(), stream_.size(), most_});
    std::memcpy(room.data(), stream_.data(), n);
    return moved = n;
  }
  std::size_t moved = 0;

 private:
  std::span<const std::byte> stream_;
  std::size_t most_;
};

// Receives like IwarpLink, with reads of at most `most()` bytes.
template <class Size>
void receive(Receiver& receiver, Memory& memory, std::span<const std::byte> stream, Size most) {
  Bytes staged;
  while (!stream.empty() && receiver.state() == Receiver::State::kOpen) {
    const std::size_t n = std::min(stream.size(), most());
    if (receiver.open_bytes() != 0 && staged.empty()) {
      Arriving arriving(stream, n);
      receiver.fill(memory, arriving);
      stream = stream.subspan(arriving.moved);
      if (arriving.moved != 0) BOOST_TEST(receiver.mid_fpdu());
      continue;
    }
    append(staged, stream.first(n));
    stream = stream.subspan(n);
    const std::size_t used = receiver.feed(staged, memory);
    staged.erase(staged.begin(), staged.begin() + static_cast<std::ptrdiff_t>(used));
    BOOST_TEST((receiver.needed() > staged.size() || receiver.open_bytes() != 0));
  }
  BOOST_TEST(staged.empty());
}

Bytes message(int kind, const Bytes& data) {
  Tx tx({.crc = false, .markers = false, .emss = 65483});
  if (kind == 0) tx.write(7, 0, data);
  if (kind == 1) tx.send(data, Opcode::kSendSolicited);
  if (kind == 2) tx.read_response(7, 0, data);
  tx.write(7, 0, {});
  return tx.take();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(receiver_in_place)

BOOST_AUTO_TEST_CASE(every_kind_cut_anywhere) {
  std::minstd_rand random(1);
  for (int round = 0; round < 200; ++round) {
    const int kind = round % 3;
    const Bytes data = pattern(1 + random() % 200000, round);
    const std::size_t step = std::size_t{1} << random() % 18;
    const std::size_t pieces[] = {~std::size_t{0}, 50000, 5000, 100};
    Memory memory(data.size(), pieces[random() % 4]);
    Receiver receiver(false);
    receiver.set_in_place();
    receive(receiver, memory, message(kind, data), [&] { return 1 + random() % step; });
    BOOST_TEST((receiver.state() == Receiver::State::kOpen));
    BOOST_TEST(!receiver.mid_fpdu());
    BOOST_TEST((memory.bytes == data));
    BOOST_TEST(memory.taken == (kind == 1 ? 1 : 0));
    BOOST_TEST(memory.sent == (kind == 1 ? data.size() : 0));
    BOOST_TEST(memory.reads_done == (kind == 2 ? 1 : 0));
    BOOST_TEST(receiver.fpdus() == (data.size() + 64703) / 64704 + 1);
  }
}

BOOST_AUTO_TEST_CASE(the_last_bytes_of_a_segment_are_not_filled) {
  const Bytes data = pattern(60000);
  Memory memory(data.size());
  Receiver receiver(false);
  receiver.set_in_place();
  const Bytes stream = message(0, data);
  receive(receiver, memory, std::span<const std::byte>(stream).first(20),
          [] { return std::size_t{20}; });
  BOOST_TEST(receiver.open_bytes() == data.size() - Receiver::kClosingBytes - 4);
  Arriving all(std::span<const std::byte>(stream).subspan(20), data.size());
  receiver.fill(memory, all);
  BOOST_TEST(memory.filled == data.size() - Receiver::kClosingBytes);
  BOOST_TEST(receiver.open_bytes() == 0U);
  BOOST_TEST((memory.bytes.back() == std::byte{0}));
  const auto rest = std::span<const std::byte>(stream).subspan(20 + all.moved);
  BOOST_TEST(receiver.feed(rest, memory) == rest.size());
  BOOST_TEST((memory.bytes == data));
}

BOOST_AUTO_TEST_CASE(crc_or_no_request_fills_nothing_in_place) {
  const Bytes data = pattern(60000);
  for (const bool crc : {false, true}) {
    Tx tx({.crc = crc, .markers = false, .emss = 65483});
    tx.write(7, 0, data);
    Memory memory(data.size());
    Receiver receiver(crc);
    if (crc) receiver.set_in_place();
    receive(receiver, memory, tx.take(), [] { return std::size_t{1000}; });
    BOOST_TEST(memory.fills == 0);
    BOOST_TEST((memory.bytes == data));
  }
}

BOOST_AUTO_TEST_CASE(a_send_without_a_receive_is_staged) {
  const Bytes data = pattern(60000);
  Memory memory(data.size());
  memory.receives = false;
  Receiver receiver(false);
  receiver.set_in_place();
  receive(receiver, memory, message(1, data), [] { return std::size_t{7000}; });
  BOOST_TEST(memory.fills == 0);
  BOOST_TEST(memory.taken == 1);
  BOOST_TEST((memory.bytes == data));
}

// No byte of a segment is placed unless all of it is within bounds.
BOOST_AUTO_TEST_CASE(segment_beyond_the_end_places_nothing) {
  const Bytes data = pattern(60000);
  Memory memory(data.size() - 1);
  Receiver receiver(false);
  receiver.set_in_place();
  receive(receiver, memory, std::span<const std::byte>(message(0, data)).first(40000),
          [] { return std::size_t{1000}; });
  BOOST_TEST((receiver.state() == Receiver::State::kFailed));
  BOOST_TEST((receiver.failure().code == TerminateCode::kDdpTaggedBaseBounds));
  BOOST_TEST(memory.filled == 0U);
}

BOOST_AUTO_TEST_CASE(memory_freed_within_a_segment_fails_it) {
  const Bytes data = pattern(60000);
  Memory memory(data.size());
  Receiver receiver(false);
  receiver.set_in_place();
  const Bytes stream = message(0, data);
  receive(receiver, memory, std::span<const std::byte>(stream).first(30000),
          [] { return std::size_t{1000}; });
  BOOST_TEST(memory.filled != 0U);
  BOOST_TEST(receiver.mid_fpdu());
  memory.refuses = true;
  const Bytes before = memory.bytes;
  Arriving more(std::span<const std::byte>(stream).subspan(30000), 1000);
  receiver.fill(memory, more);
  BOOST_TEST((receiver.state() == Receiver::State::kFailed));
  BOOST_TEST((receiver.failure().code == TerminateCode::kDdpTaggedInvalidStag));
  BOOST_TEST(more.moved == 0U);
  BOOST_TEST((memory.bytes == before));
  BOOST_TEST(receiver.open_bytes() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
