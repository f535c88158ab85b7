// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// usage: iwarp_write_frames FILE.pcap FILE.json
//
// Writes TCP connections that contain every frame that the iWARP encoder can produce, and the
// counts that an independent decoder must find in them: check_frames.py compares these with
// tshark's output.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "providers/soft/iwarp/mpa_frame.h"
#include "providers/soft/iwarp/mpa_negotiation.h"
#include "tests/unit/iwarp/endpoints.h"

using namespace iwarp_test;

namespace {

void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// What the decoder must find in all connections together.
struct Expected {
  unsigned requests = 0;
  unsigned replies = 0;
  unsigned fpdus = 0;
  unsigned good_crcs = 0;
  std::map<unsigned, unsigned> opcodes;
};

// A classic pcap file of Ethernet frames.
class Pcap {
 public:
  explicit Pcap(const char* path) : file_(std::fopen(path, "wb"), &std::fclose) {
    if (!file_) fail("cannot create the pcap file");
    const std::uint32_t header[] = {0xa1b2c3d4, 0x00040002, 0, 0, 262144, 1};
    put(header, sizeof header);
  }
  void frame(std::span<const std::byte> bytes) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    ++microseconds_;
    const std::uint32_t header[] = {1, microseconds_, size, size};
    put(header, sizeof header);
    put(bytes.data(), bytes.size());
  }

 private:
  void put(const void* data, std::size_t size) {
    if (std::fwrite(data, 1, size, file_.get()) != size) fail("cannot write the pcap file");
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::uint32_t microseconds_ = 0;
};

enum Side { kInitiator = 0, kResponder = 1 };

// One TCP connection, its three-way handshake and the sequence numbers.
class Tcp {
 public:
  Tcp(Pcap& pcap, std::uint16_t client_port) : pcap_(pcap), ports_{client_port, 7174} {
    segment(kInitiator, kSyn, {});
    segment(kResponder, kSyn | kAck, {});
    segment(kInitiator, kAck, {});
  }
  ~Tcp() {
    segment(kInitiator, kFin | kAck, {});
    segment(kResponder, kFin | kAck, {});
    segment(kInitiator, kAck, {});
  }
  Tcp(const Tcp&) = delete;
  Tcp& operator=(const Tcp&) = delete;

  void data(Side from, std::span<const std::byte> bytes) { segment(from, kPush | kAck, bytes); }

 private:
  static constexpr unsigned kFin = 1, kSyn = 2, kPush = 8, kAck = 16;

  static std::uint16_t checksum(std::span<const std::byte> bytes, std::uint32_t sum = 0) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 ? 0 : 8);
    }
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
  }

  void segment(Side from, unsigned flags, std::span<const std::byte> payload) {
    const Side to = from == kInitiator ? kResponder : kInitiator;
    Bytes f;
    append_be(f, 0x020000000001 + to, 6);
    append_be(f, 0x020000000001 + from, 6);
    append_be(f, 0x0800, 2);
    append_be(f, 0x4500, 2);
    append_be(f, 40 + payload.size(), 2);
    append_be(f, 0x00004000, 4);  // do not fragment
    append_be(f, 0x4006, 2);      // TTL 64, TCP
    append_be(f, 0, 2);
    append_be(f, 0xC0000201 + from, 4);  // 192.0.2.1 and .2
    append_be(f, 0xC0000201 + to, 4);
    store16(&f[24], checksum(std::span(f).subspan(14, 20)));
    append_be(f, ports_[from], 2);
    append_be(f, ports_[to], 2);
    append_be(f, next_[from], 4);
    append_be(f, flags & kAck ? next_[to] : 0, 4);
    append_be(f, 0x5000 | flags, 2);
    append_be(f, 0xFFFF, 2);
    append_be(f, 0, 4);
    append(f, payload);
    pcap_.frame(f);
    next_[from] += static_cast<std::uint32_t>(payload.size()) + ((flags & (kSyn | kFin)) != 0);
  }

  Pcap& pcap_;
  std::uint16_t ports_[2];
  std::uint32_t next_[2] = {1000, 500000};
};

// Both ends of an iWARP connection.
class Connection {
 public:
  Connection(Pcap& pcap, Expected& expected, std::uint16_t port)
      : tcp_(pcap, port), expected_(expected) {}

  // Exchanges the start-up frames. `cut` = 0: one TCP segment per FPDU; otherwise segments of `cut`
  // bytes, regardless of FPDU boundaries.
  // `markers`: both sides request them. (tshark 4.0 expects them in both directions or in none.)
  void open(const MpaConfig& initiator, const MpaConfig& responder, std::uint32_t emss,
            std::size_t cut, bool markers = false) {
    MpaFrame request = make_request(initiator, as_bytes("private data"));
    request.markers = markers;
    ReplyDecision decision = make_reply(responder, request, as_bytes("accepted"));
    decision.reply.markers = markers;
    startup(kInitiator, request);
    startup(kResponder, decision.reply);
    const ReplyResult result = evaluate_reply(initiator, request, decision.reply);
    if (result.outcome != ReplyOutcome::kAccepted) fail("the start-up failed");
    cut_ = cut;
    crc_ = result.agreed.crc;
    sides_[kInitiator] =
        std::make_unique<Tx>(SenderConfig{crc_, result.agreed.markers_to_send, emss});
    sides_[kResponder] =
        std::make_unique<Tx>(SenderConfig{crc_, decision.agreed.markers_to_send, emss});
  }

  void reject(const MpaConfig& config, std::string_view reason) {
    const MpaFrame request = make_request(config, as_bytes("please"));
    startup(kInitiator, request);
    startup(kResponder, make_reject(config, request, as_bytes(reason)));
  }

  Sender& sender(Side side) { return sides_[side]->sender; }

  // Sends the message that was begun on `side`.
  void go(Side side, Opcode opcode) {
    Tx& tx = *sides_[side];
    Sender::Fill fill;
    do {
      starts_.push_back(tx.out.size());
      fill = tx.sender.fill(tx.batch, 1);  // one FPDU at a time
      tx.drain();
      ++expected_.fpdus;
      ++expected_.opcodes[static_cast<unsigned>(opcode)];
      expected_.good_crcs += crc_;
      if (cut_ == 0) tcp_.data(side, tx.take());
    } while (fill != Sender::Fill::kDone);
  }
  void payload(Side side, Opcode opcode, std::span<const std::byte> data, std::uint32_t stag = 0) {
    const IoSpan piece{data.data(), data.size()};
    const auto size = static_cast<std::uint32_t>(data.size());
    if (opcode == Opcode::kWrite) sender(side).begin_write(stag, 0x10000, {&piece, 1}, size);
    if (opcode == Opcode::kReadResponse) {
      sender(side).begin_read_response(stag, 0x20000, {&piece, 1}, size);
    }
    if (is_send(opcode)) sender(side).begin_send(opcode, stag, {&piece, 1}, size);
    go(side, opcode);
  }
  // Sends what go() has gathered, in pieces that ignore FPDU boundaries, with one exception: tshark
  // 4.0 loses track if a segment ends with fewer than 8 bytes of an FPDU.
  void flush(Side side) {
    const Bytes all = sides_[side]->take();
    for (std::size_t at = 0; at < all.size();) {
      std::size_t end = std::min(at + cut_, all.size());
      const auto next = std::lower_bound(starts_.begin(), starts_.end(), end);
      if (next != starts_.begin() && end - *(next - 1) < 8) end = *(next - 1) + 8;
      tcp_.data(side, std::span(all).subspan(at, end - at));
      at = end;
    }
    starts_.clear();
  }

 private:
  void startup(Side side, const MpaFrame& frame) {
    std::array<std::byte, kMpaMaxFrameSize> bytes;
    tcp_.data(side, std::span(bytes).first(encode(frame, bytes)));
    ++(side == kInitiator ? expected_.requests : expected_.replies);
  }

  Tcp tcp_;
  Expected& expected_;
  std::size_t cut_ = 0;
  bool crc_ = true;
  std::unique_ptr<Tx> sides_[2];
  std::vector<std::size_t> starts_;  // of the FPDUs that flush() will send
};

// Every kind of message from one side, with a few payload sizes around pads and segment boundaries.
void every_message(Connection& c, Side side, std::size_t large) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                                 std::size_t{4}, std::size_t{64}, std::size_t{65}, large}) {
    const Bytes data = pattern(size);
    c.payload(side, Opcode::kWrite, data, 0xa1b2c3d4);
    c.payload(side, Opcode::kSend, data);
    c.payload(side, Opcode::kSendInvalidate, data, 0x12345678);
    c.payload(side, Opcode::kSendSolicited, data);
    c.payload(side, Opcode::kSendSolicitedInvalidate, data, 0x12345678);
    c.payload(side, Opcode::kReadResponse, data, 0x55667788);
  }
  c.sender(side).begin_read_request({1, 2, 3, 4, 5});
  c.go(side, Opcode::kReadRequest);
  c.sender(side).begin_immediate(encode(WriteImmediate{1, 2}), false);
  c.go(side, Opcode::kImmediate);
  c.sender(side).begin_immediate(encode(WriteImmediate{1, 2}), true);
  c.go(side, Opcode::kImmediateSolicited);
  c.sender(side).begin_atomic_request(AtomicRequest::fetch_add(7, 1, 8, 5));
  c.go(side, Opcode::kAtomicRequest);
  c.sender(side).begin_atomic_request(AtomicRequest::compare_swap(8, 1, 8, 5, 6));
  c.go(side, Opcode::kAtomicRequest);
  c.sender(side).begin_atomic_response({7, 41});
  c.go(side, Opcode::kAtomicResponse);
}

void terminate(Connection& c, Side side, const Terminate& reason) {
  c.sender(side).begin_terminate(reason);
  c.go(side, Opcode::kTerminate);
}

void write_all(Pcap& pcap, Expected& expected) {
  MpaConfig usual;
  usual.ird = usual.ord = 8;
  const Bytes tagged = tagged_ulpdu(0, true, 0xdeadbe00, 0, pattern(8));
  const Bytes untagged = untagged_ulpdu(3, true, 0, 9, 0, pattern(8));
  const Terminate reasons[] = {
      make_terminate(TerminateCode::kMpaCrc),
      make_terminate(TerminateCode::kRdmapAccess),
      make_terminate(TerminateCode::kDdpTaggedInvalidStag, tagged.data(), 22, false),
      make_terminate(TerminateCode::kDdpUntaggedNoBuffer, untagged.data(), 26, false),
      make_read_terminate(TerminateCode::kRdmapInvalidStag, {1, 2, 3, 4, 5}, 6, 1),
  };

  std::uint16_t port = 40000;
  for (const std::uint32_t emss : {536U, 1448U, 1460U, 8948U, 65483U}) {
    for (const std::size_t cut : {std::size_t{0}, std::size_t{1000}}) {
      Connection c(pcap, expected, port);
      c.open(usual, usual, emss, cut);
      c.sender(kInitiator).begin_read_request({1, 0, 0, 1, 0});  // the RTR
      c.go(kInitiator, Opcode::kReadRequest);
      if (cut) c.flush(kInitiator);
      c.payload(kResponder, Opcode::kReadResponse, {}, 1);
      every_message(c, kResponder, 3 * emss + 1);
      if (cut) c.flush(kResponder);
      every_message(c, kInitiator, 70000);
      terminate(c, kInitiator, reasons[port++ % std::size(reasons)]);
      if (cut) c.flush(kInitiator);
    }
  }
  {
    MpaConfig off = usual;
    off.crc = false;
    Connection c(pcap, expected, port++);
    c.open(off, off, 1448, 0);
    every_message(c, kInitiator, 5000);
    every_message(c, kResponder, 5000);
  }
  {
    MpaConfig old = usual;
    old.revision = 1;
    Connection c(pcap, expected, port++);
    c.open(old, usual, 1448, 0);
    c.payload(kInitiator, Opcode::kSend, as_bytes("hello"));
    c.payload(kResponder, Opcode::kSend, as_bytes("hello"));
  }
  for (const std::uint32_t emss : {1448U, 1460U, 8948U}) {
    Connection c(pcap, expected, port++);
    c.open(usual, usual, emss, 0, true);
    c.sender(kInitiator).begin_read_request({1, 0, 0, 1, 0});
    c.go(kInitiator, Opcode::kReadRequest);
    c.payload(kResponder, Opcode::kReadResponse, {}, 1);
    every_message(c, kResponder, 20000);
    for (std::size_t size = 0; size < 512; size += 4) {
      c.payload(kResponder, Opcode::kSend, pattern(size));
    }
  }
  Connection(pcap, expected, port++).reject(usual, "no");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("usage: iwarp_write_frames FILE.pcap FILE.json");
  Expected expected;
  {
    Pcap pcap(argv[1]);
    write_all(pcap, expected);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(argv[2], "w"), &std::fclose);
  if (!out) fail("cannot create the list of expectations");
  std::fprintf(out.get(), "{\"requests\": %u, \"replies\": %u, \"fpdus\": %u, \"good_crcs\": %u,\n",
               expected.requests, expected.replies, expected.fpdus, expected.good_crcs);
  std::fprintf(out.get(), " \"opcodes\": {");
  const char* separator = "";
  for (const auto& [opcode, count] : expected.opcodes) {
    std::fprintf(out.get(), "%s\"%u\": %u", separator, opcode, count);
    separator = ", ";
  }
  std::fprintf(out.get(), "}}\n");
  return 0;
}
