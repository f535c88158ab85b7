// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Each possible error in an FPDU causes exactly one Terminate, with exactly these headers; the
// first error wins, and nothing is delivered after it.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/unit/iwarp/endpoints.h"

using namespace iwarp_test;

namespace {

enum Headers { kNone, kDdp, kDdpAndRead };

using Setup = std::function<void(Recorder&)>;

struct Failure {
  const char* what;
  const char* code;  // layer, type and code, as the first two bytes have them
  Headers headers;
  Bytes ulpdu;                     // fails
  std::vector<Bytes> before = {};  // are accepted before it
  Setup setup = [](Recorder&) {};
  bool crc_damaged = false;
};

std::string expected_terminate(const Failure& f) {
  std::string out = f.code;
  if (f.headers == kNone) return out + "0000";
  out += f.headers == kDdp ? "c000" : "e000";
  Bytes length;
  append_be(length, f.ulpdu.size(), 2);
  out += to_hex(length);
  const bool tagged = (load8(&f.ulpdu[0]) & 0x80) != 0;
  const std::size_t header = tagged ? 14 : 18;
  out += to_hex(std::span(f.ulpdu).first(header));
  if (f.headers == kDdpAndRead) out += to_hex(std::span(f.ulpdu).subspan(18, 28));
  return out;
}

Bytes with_byte(Bytes ulpdu, std::size_t at, unsigned value) {
  ulpdu[at] = static_cast<std::byte>(value);
  return ulpdu;
}
Bytes cut(Bytes ulpdu, std::size_t size) {
  ulpdu.resize(size);
  return ulpdu;
}

const Bytes kData = hex("0102030405060708");
Bytes write() { return tagged_ulpdu(0, true, 9, 16, kData); }
Bytes send(unsigned opcode = 3) { return untagged_ulpdu(opcode, true, 0, 1, 0, kData); }
Bytes read_request(std::size_t extra = 0) {
  Bytes body(28 + extra);
  encode(ReadRequest{1, 2, 300, 4, 5}, body.data());
  return untagged_ulpdu(1, true, 1, 1, 0, body);
}
Bytes atomic_request(unsigned op = 0, std::uint64_t to = 8) {
  Bytes body(52);
  AtomicRequest r = AtomicRequest::fetch_add(1, 2, to, 3);
  r.op = static_cast<AtomicOp>(op);
  encode(r, body.data());
  return untagged_ulpdu(10, true, 1, 1, 0, body);
}
Bytes atomic_response() { return untagged_ulpdu(11, true, 3, 1, 0, pattern(12)); }
Bytes immediate() { return untagged_ulpdu(8, true, 0, 1, 0, kData); }
Bytes response(bool last, std::uint32_t stag, std::uint64_t to, std::size_t size) {
  return tagged_ulpdu(2, last, stag, to, pattern(size));
}

Setup write_is(Verdict v) {
  return [v](Recorder& r) { r.on_write = v; };
}
Setup send_is(Verdict v) {
  return [v](Recorder& r) { r.on_send = v; };
}
Setup invalidate_is(Verdict v) {
  return [v](Recorder& r) { r.on_invalidate = v; };
}
Setup read_is(Verdict v) {
  return [v](Recorder& r) { r.on_read_request = v; };
}
Setup atomic_is(Verdict v) {
  return [v](Recorder& r) { r.on_atomic_request = v; };
}
void reading(Recorder& r) { r.reads = {{5, 100, 8}}; }

using Failures = std::vector<Failure>;

Failures of_framing() {
  return {
      {"length 0", "2003", kNone, {}},
      {"length 1", "2003", kNone, cut(write(), 1)},
      {"length 2", "2003", kNone, cut(write(), 2)},
      {"CRC", "2002", kNone, write(), {}, [](Recorder&) {}, true},
      {"length before CRC", "2003", kNone, cut(write(), 13), {}, [](Recorder&) {}, true},
      {"CRC before version",
       "2002",
       kNone,
       with_byte(write(), 0, 0xC0),
       {},
       [](Recorder&) {},
       true},
  };
}

// A length one byte below the header size of its opcode.
Failures of_short_headers() {
  Failures all;
  constexpr std::size_t kMin[] = {14, 46, 14, 18, 18, 18, 18, 22, 26, 26, 70, 30};
  for (unsigned opcode = 0; opcode < 12; ++opcode) {
    const bool tagged = opcode == 0 || opcode == 2;
    Bytes whole = tagged ? tagged_ulpdu(opcode, true, 1, 0, pattern(80))
                         : untagged_ulpdu(opcode, true, 0, 1, 0, pattern(80));
    all.push_back({"one byte short of the header", "2003", kNone, cut(whole, kMin[opcode] - 1)});
  }
  return all;
}

Failures of_versions_and_opcodes() {
  Failures all = {
      {"DDP version 0, tagged", "1104", kNone, with_byte(write(), 0, 0xC0)},
      {"DDP version 2, tagged", "1104", kNone, with_byte(write(), 0, 0xC2)},
      {"DDP version 3, untagged", "1206", kNone, with_byte(send(), 0, 0x43)},
      {"RDMAP version 0", "0205", kNone, with_byte(send(), 1, 0x03)},
      {"RDMAP version 2", "0205", kNone, with_byte(write(), 1, 0x80)},
      {"DDP version before RDMAP version", "1206", kNone,
       with_byte(with_byte(send(), 0, 0x40), 1, 3)},
      {"T with a Send", "0206", kNone, with_byte(send(), 0, 0xC1)},
      {"no T with a Write", "0206", kNone, with_byte(send(), 1, 0x40)},
      {"no T with a Read Response", "0206", kNone, with_byte(send(), 1, 0x42)},
  };
  for (unsigned opcode = 12; opcode < 16; ++opcode) {
    all.push_back({"unknown opcode", "0206", kNone, with_byte(send(), 1, 0x40 | opcode)});
    all.push_back({"unknown tagged opcode", "0206", kNone, with_byte(write(), 1, 0x40 | opcode)});
  }
  return all;
}

Failures of_continuity() {
  const Bytes send_part = untagged_ulpdu(3, false, 0, 1, 0, kData);
  const Bytes write_part = tagged_ulpdu(0, false, 9, 16, kData);
  return {
      {"Write: other STag", "1101", kDdp, tagged_ulpdu(0, true, 8, 24, kData), {write_part}},
      {"Write: gap", "1101", kDdp, tagged_ulpdu(0, true, 9, 25, kData), {write_part}},
      {"Write: repeated", "1101", kDdp, write_part, {write_part}},
      {"Read Response inside a Write",
       "1101",
       kDdp,
       response(true, 9, 24, 8),
       {write_part},
       reading},
      {"Send: gap", "1204", kDdp, untagged_ulpdu(3, true, 0, 1, 9, kData), {send_part}},
      {"Send: repeated", "1204", kDdp, send_part, {send_part}},
      {"Send: next before the last segment",
       "1203",
       kDdp,
       untagged_ulpdu(3, true, 0, 2, 8),
       {send_part}},
      {"Send: other opcode", "1203", kDdp, untagged_ulpdu(5, true, 0, 1, 8), {send_part}},
      {"Read Request inside a Send", "1203", kDdp, read_request(), {send_part}},
      {"first segment with an offset", "1204", kDdp, untagged_ulpdu(3, true, 0, 1, 4, kData)},
      {"Terminate with an offset",
       "1204",
       kDdp,
       untagged_ulpdu(7, true, 2, 1, 8, kData),
       {send_part}},
  };
}

Failures of_queues_and_message_numbers() {
  return {
      {"Send on queue 1", "1201", kDdp, untagged_ulpdu(3, true, 1, 1, 0, kData)},
      {"Send on queue 7", "1201", kDdp, untagged_ulpdu(3, true, 7, 1, 0, kData)},
      {"Send on a huge queue", "1201", kDdp, untagged_ulpdu(3, true, 0xFFFFFFFF, 1, 0, kData)},
      {"Terminate on queue 0", "1201", kDdp, untagged_ulpdu(7, true, 0, 1, 0, kData)},
      {"Immediate on queue 2", "1201", kDdp, untagged_ulpdu(8, true, 2, 1, 0, kData)},
      {"Send number 0", "1203", kDdp, untagged_ulpdu(3, true, 0, 0, 0, kData)},
      {"Send number 2", "1203", kDdp, untagged_ulpdu(3, true, 0, 2, 0, kData)},
      {"Send number repeated", "1203", kDdp, send(), {send()}},
      {"Read Request number", "1203", kDdp, with_byte(read_request(), 13, 2)},
  };
}

Failures of_sends() {
  const Bytes invalidating = untagged_ulpdu(4, true, 0, 1, 0, kData, 0x77);
  return {
      {"Send: none posted", "1202", kDdp, send(), {}, send_is(Verdict::kNoBuffer)},
      {"Send: too long", "1205", kDdp, send(), {}, send_is(Verdict::kTooLong)},
      {"Immediate: none posted",
       "1202",
       kDdp,
       immediate(),
       {},
       [](Recorder& r) { r.on_immediate = Verdict::kNoBuffer; }},
      {"invalidate: other zone",
       "0109",
       kDdp,
       invalidating,
       {},
       invalidate_is(Verdict::kNotThisStream)},
      {"invalidate: not allowed", "0209", kDdp, invalidating, {}, invalidate_is(Verdict::kAccess)},
      {"invalidate: unknown", "0209", kDdp, invalidating, {}, invalidate_is(Verdict::kInvalidStag)},
  };
}

Failures of_writes() {
  return {
      {"Write: STag", "1100", kDdp, write(), {}, write_is(Verdict::kInvalidStag)},
      {"Write: other zone", "1102", kDdp, write(), {}, write_is(Verdict::kNotThisStream)},
      {"Write: wrap", "1103", kDdp, write(), {}, write_is(Verdict::kToWrap)},
      {"Write: bounds", "1101", kDdp, write(), {}, write_is(Verdict::kBaseBounds)},
      {"Write: access", "1100", kDdp, write(), {}, write_is(Verdict::kAccess)},
      {"Write: local trouble", "0000", kNone, write(), {}, write_is(Verdict::kCatastrophic)},
  };
}

Failures of_read_requests() {
  return {
      {"Read: STag", "0100", kDdpAndRead, read_request(), {}, read_is(Verdict::kInvalidStag)},
      {"Read: other zone",
       "0103",
       kDdpAndRead,
       read_request(),
       {},
       read_is(Verdict::kNotThisStream)},
      {"Read: wrap", "0104", kDdpAndRead, read_request(), {}, read_is(Verdict::kToWrap)},
      {"Read: bounds", "0101", kDdpAndRead, read_request(), {}, read_is(Verdict::kBaseBounds)},
      {"Read: access", "0102", kDdpAndRead, read_request(), {}, read_is(Verdict::kAccess)},
      {"Read: beyond IRD", "0207", kDdp, read_request(), {}, read_is(Verdict::kTooManyReads)},
      {"Read Request too long", "1205", kDdp, read_request(4)},
      {"Read Request not last", "1205", kDdp, with_byte(read_request(), 0, 0x01)},
  };
}

Failures of_read_responses() {
  return {
      {"Response: none outstanding", "0206", kDdp, response(true, 5, 100, 8)},
      {"Response: empty, none outstanding", "0206", kDdp, response(true, 5, 100, 0)},
      {"Response: STag", "1100", kDdp, response(true, 6, 100, 8), {}, reading},
      {"Response: offset", "1101", kDdp, response(true, 5, 101, 8), {}, reading},
      {"Response: too long", "1101", kDdp, response(true, 5, 100, 9), {}, reading},
      {"Response: too long, not last", "1101", kDdp, response(false, 5, 100, 9), {}, reading},
      {"Response: too short", "1101", kDdp, response(true, 5, 100, 7), {}, reading},
      {"Response: empty to a Read of 8", "1101", kDdp, response(true, 5, 100, 0), {}, reading},
      {"Response: second part too long",
       "1101",
       kDdp,
       response(true, 5, 104, 5),
       {response(false, 5, 100, 4)},
       reading},
      {"Response: gap",
       "1101",
       kDdp,
       response(true, 5, 105, 3),
       {response(false, 5, 100, 4)},
       reading},
      {"Response: buffer gone",
       "1100",
       kDdp,
       response(true, 5, 100, 8),
       {},
       [](Recorder& r) {
         r.reads = {{5, 100, 8}};
         r.on_place_read = Verdict::kInvalidStag;
       }},
  };
}

Failures of_atomics_and_immediates() {
  return {
      {"Atomic: unaligned", "0207", kDdp, atomic_request(0, 12)},
      {"Atomic: sub-opcode 1", "0207", kDdp, atomic_request(1)},
      {"Atomic: sub-opcode 15", "0207", kDdp, atomic_request(15)},
      {"Atomic: target unaligned",
       "0207",
       kDdp,
       atomic_request(),
       {},
       atomic_is(Verdict::kMisaligned)},
      {"Atomic: STag", "0100", kDdp, atomic_request(), {}, atomic_is(Verdict::kInvalidStag)},
      {"Atomic: access", "0102", kDdp, atomic_request(), {}, atomic_is(Verdict::kAccess)},
      {"Atomic: beyond IRD", "0207", kDdp, atomic_request(), {}, atomic_is(Verdict::kTooManyReads)},
      {"Atomic Response: none outstanding",
       "0206",
       kDdp,
       atomic_response(),
       {},
       [](Recorder& r) { r.on_atomic_response = Verdict::kNothingOutstanding; }},
      {"Immediate too long", "1205", kDdp, untagged_ulpdu(9, true, 0, 1, 0, pattern(9))},
  };
}

Failures failures() {
  Failures all;
  for (const auto& kind : {of_framing, of_short_headers, of_versions_and_opcodes, of_continuity,
                           of_queues_and_message_numbers, of_sends, of_writes, of_read_requests,
                           of_read_responses, of_atomics_and_immediates}) {
    Failures some = kind();
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

void check(const Failure& f, std::size_t chunk) {
  Rx rx;
  f.setup(rx.inbound);
  Bytes stream;
  for (const Bytes& b : f.before) append(stream, make_fpdu(b));
  const std::size_t good = stream.size();
  Bytes bad = make_fpdu(f.ulpdu);
  if (f.crc_damaged) bad.back() ^= std::byte{1};
  append(stream, bad);
  append(stream, make_fpdu(send()));  // must be ignored
  for (std::size_t at = 0; at < stream.size(); at += chunk) {
    if (at + chunk <= good) BOOST_REQUIRE((rx.receiver.state() == Receiver::State::kOpen));
    rx.arrive(std::span(stream).subspan(at, std::min(chunk, stream.size() - at)));
  }
  BOOST_REQUIRE((rx.receiver.state() == Receiver::State::kFailed));
  BOOST_TEST(rx.failure() == expected_terminate(f));
  BOOST_TEST(rx.staged.empty());
  BOOST_TEST(!rx.receiver.mid_fpdu());
  const std::string log = joined(rx.inbound.log);
  BOOST_TEST(log.find("terminated") == std::string::npos);
  BOOST_TEST(rx.receiver.fpdus() == f.before.size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(receiver_errors)

BOOST_AUTO_TEST_CASE(each_failure_gives_its_terminate) {
  const std::vector<Failure> all = failures();
  BOOST_TEST_MESSAGE(all.size() << " failures");
  for (const Failure& f : all) {
    for (const std::size_t chunk : {std::size_t{100000}, std::size_t{1}, std::size_t{7}}) {
      BOOST_TEST_CONTEXT(f.what << ", chunks of " << chunk) { check(f, chunk); }
    }
  }
}

// With a message offset near 2^32, offset plus payload length must not wrap around.
BOOST_AUTO_TEST_CASE(send_offset_does_not_wrap) {
  struct Endless final : Accepting {
    Verdict place_send(const SendSegment& s) override {
      BOOST_REQUIRE_GE(s.offset, last);
      last = s.offset;
      return Verdict::kOk;
    }
    std::uint32_t last = 0;
  } inbound;
  Receiver receiver(false);
  Bytes fpdu = make_fpdu(untagged_ulpdu(3, false, 0, 1, 0, Bytes(65000)));
  std::uint64_t offset = 0;
  while (receiver.state() == Receiver::State::kOpen && offset < 0x1'1000'0000) {
    store32(&fpdu[16], static_cast<std::uint32_t>(offset));
    BOOST_REQUIRE_EQUAL(receiver.feed(fpdu, inbound), fpdu.size());
    offset += 65000;
  }
  BOOST_REQUIRE((receiver.state() == Receiver::State::kFailed));
  BOOST_TEST((receiver.failure().code == TerminateCode::kDdpUntaggedTooLong));
  BOOST_TEST(offset > 0xFFFFFFFFU);
}

BOOST_AUTO_TEST_SUITE_END()
