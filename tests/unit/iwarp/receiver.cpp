// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The Receiver with correct input: what it delivers, however TCP divides the stream; the end of a
// stream; and that no input whatever can do harm.
#include "providers/soft/iwarp/receiver.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/endpoints.h"

using namespace iwarp_test;

namespace {

// A stream with every kind of message; the long ones have several segments.
Bytes conversation(bool crc) {
  Tx tx({.crc = crc, .markers = false, .emss = 1448});
  tx.write(1, 0, {});
  tx.send(as_bytes("hello"));
  tx.write(0xa1b2c3d4, 0x1000, pattern(5000, 2));
  tx.send(pattern(3000, 3), Opcode::kSendSolicited);
  tx.sender.begin_read_request({0x11, 0x2000, 4000, 0x22, 0x3000});
  tx.finish();
  tx.read_response(0x33, 0x4000, pattern(2900, 4));
  tx.read_response(1, 0, {});
  tx.send({}, Opcode::kSendInvalidate, 0x77);
  tx.sender.begin_immediate(encode(WriteImmediate{1, 5000}), true);
  tx.finish();
  tx.sender.begin_atomic_request(AtomicRequest::compare_swap(3, 4, 8, 5, 6));
  tx.finish();
  tx.sender.begin_atomic_response({3, 5});
  tx.finish();
  tx.send(as_bytes("bye"), Opcode::kSendSolicitedInvalidate, 0x78);
  return tx.take();
}

std::vector<ReadSink> outstanding() { return {{0x33, 0x4000, 2900}, {0, 0, 0}}; }

std::string heard(std::span<const std::byte> stream, bool crc) {
  Rx rx(crc);
  rx.inbound.reads = outstanding();
  rx.arrive(stream);
  BOOST_TEST((rx.receiver.state() == Receiver::State::kOpen));
  return joined(rx.inbound.log);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(receiver)

BOOST_AUTO_TEST_CASE(everything_in_order) {
  const std::string log = heard(conversation(true), true);
  const Bytes write = pattern(5000, 2);
  const auto part = [](const Bytes& all, std::size_t offset, std::size_t size) {
    const auto span = std::span(all).subspan(offset, size);
    return std::to_string(size) + "/" + std::to_string(reference_crc(span));
  };
  const Bytes send = pattern(3000, 3);
  const Bytes read = pattern(2900, 4);
  BOOST_TEST(log ==
             "place 3 first last msn 1 at 0 68656c6c6f\n"
             "sent 3 length 5 0\n"
             "write a1b2c3d4 1000 " +
                 part(write, 0, 1428) + "\n" + "write a1b2c3d4 1594 " + part(write, 1428, 1428) +
                 "\n" + "write a1b2c3d4 1b28 " + part(write, 2856, 1428) + "\n" +
                 "write a1b2c3d4 20bc " + part(write, 4284, 716) + "\n" +
                 "place 5 first msn 2 at 0 " + part(send, 0, 1424) + "\n" +
                 "place 5 msn 2 at 1424 " + part(send, 1424, 1424) + "\n" +
                 "place 5 last msn 2 at 2848 " + part(send, 2848, 152) + "\n" +
                 "sent 5 length 3000 solicited 0\n"
                 "read 4000 msn 1 from 22 3000 to 11 2000\n"
                 "response at 0 " +
                 part(read, 0, 1428) + "\n" + "response at 1428 " + part(read, 1428, 1428) + "\n" +
                 "response at 2856 " + part(read, 2856, 44) + "\n" +
                 "read done\n"
                 "read done\n"
                 "place 4 first last msn 3 at 0 \n"
                 "invalidate 77\n"
                 "sent 4 length 0 invalidated 77\n"
                 "immediate 0000000100001388 solicited\n"
                 "atomic 2 id 3 at 4 8: 6 ffffffffffffffff 5 ffffffffffffffff\n"
                 "atomic response id 3: 5\n"
                 "place 6 first last msn 5 at 0 627965\n"
                 "invalidate 78\n"
                 "sent 6 length 3 solicited invalidated 78\n");
  BOOST_TEST(heard(conversation(false), false) == log);
}

BOOST_AUTO_TEST_CASE(one_byte_at_a_time) {
  for (const bool crc : {true, false}) {
    const Bytes stream = conversation(crc);
    const std::string expected = heard(stream, crc);
    Rx rx(crc);
    rx.inbound.reads = outstanding();
    std::size_t boundaries = 0;
    for (const std::byte& b : stream) {
      rx.arrive({&b, 1});
      BOOST_REQUIRE_EQUAL(rx.receiver.mid_fpdu(), !rx.staged.empty());
      BOOST_REQUIRE_GT(rx.receiver.needed(), rx.staged.size());
      BOOST_REQUIRE_LE(rx.receiver.needed(), kMaxFpduSize);
      boundaries += !rx.receiver.mid_fpdu();
    }
    BOOST_TEST(joined(rx.inbound.log) == expected);
    BOOST_TEST(boundaries == rx.receiver.fpdus());
  }
}

// feed_plain() and feed() in alternation deliver the same as feed() alone, however the stream is
// divided.
BOOST_AUTO_TEST_CASE(plain_messages_are_as_others) {
  const Bytes stream = conversation(false);
  const std::string expected = heard(stream, false);
  for (const std::size_t chunk : {1U, 7U, 40U, 1000U, 1448U, 100'000U}) {
    Rx rx(false);
    rx.inbound.reads = outstanding();
    std::size_t plain = 0;
    for (std::size_t at = 0; at < stream.size(); at += chunk) {
      append(rx.staged, std::span(stream).subspan(at, std::min(chunk, stream.size() - at)));
      const std::size_t used = rx.receiver.feed_plain(rx.staged, rx.inbound);
      plain += used;
      rx.staged.erase(rx.staged.begin(), rx.staged.begin() + static_cast<std::ptrdiff_t>(used));
      if (used != 0) BOOST_REQUIRE_EQUAL(rx.receiver.mid_fpdu(), !rx.staged.empty());
      rx.arrive({});
    }
    BOOST_TEST(joined(rx.inbound.log) == expected);
    BOOST_TEST(rx.staged.empty());
    BOOST_TEST(!rx.receiver.mid_fpdu());
    BOOST_TEST(plain != 0U);
  }
}

// An error in a plain message ends the stream as in feed(), and consumes all input.
BOOST_AUTO_TEST_CASE(plain_messages_that_are_refused) {
  Tx tx({.crc = false, .markers = false, .emss = 1448});
  tx.write(1, 0, as_bytes("into memory"));
  tx.send(as_bytes("after it"));
  const Bytes stream = tx.take();
  for (const Verdict verdict : {Verdict::kInvalidStag, Verdict::kBaseBounds, Verdict::kAccess}) {
    Rx usual(false);
    Rx plain(false);
    usual.inbound.on_write = plain.inbound.on_write = verdict;
    usual.arrive(stream);
    BOOST_TEST(plain.receiver.feed_plain(stream, plain.inbound) == stream.size());
    BOOST_TEST((plain.receiver.state() == Receiver::State::kFailed));
    BOOST_TEST(plain.failure() == usual.failure());
    BOOST_TEST(joined(plain.inbound.log) == joined(usual.inbound.log));
    BOOST_TEST(plain.receiver.feed_plain(stream, plain.inbound) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(chunks_of_any_size_give_the_same_calls) {
  const Bytes stream = conversation(true);
  const std::string expected = heard(stream, true);
  const unsigned first_seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << first_seed);
  for (unsigned seed = first_seed; seed < first_seed + 300; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::minstd_rand random(seed);
      Rx rx;
      rx.inbound.reads = outstanding();
      for (std::size_t at = 0; at < stream.size();) {
        const std::size_t size =
            std::min<std::size_t>(random() % (random() % 2 ? 40 : 4000), stream.size() - at);
        rx.arrive(std::span(stream).subspan(at, size));
        at += size;
      }
      BOOST_REQUIRE_EQUAL(joined(rx.inbound.log), expected);
    }
  }
}

// The stream may be in memory that the peer shares: headers are checked and used from one copy.
BOOST_AUTO_TEST_CASE(headers_that_change_while_they_are_used) {
  const Bytes stream = conversation(false);
  const std::string expected = heard(stream, false);
  Rx rx(false);
  rx.inbound.reads = outstanding();
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t size = fpdu_size(load16(&stream[at]));
    Bytes frame(stream.begin() + static_cast<long>(at),
                stream.begin() + static_cast<long>(at + size));
    rx.inbound.scribbled = frame;
    BOOST_REQUIRE_EQUAL(rx.receiver.feed(frame, rx.inbound), size);
    at += size;
  }
  rx.inbound.scribbled = {};
  BOOST_TEST((rx.receiver.state() == Receiver::State::kOpen));
  BOOST_TEST(joined(rx.inbound.log) == expected);
}

// ... and a refusal is reported with the header that was refused.
BOOST_AUTO_TEST_CASE(header_of_a_refused_segment_that_changes) {
  Bytes frame = make_fpdu(tagged_ulpdu(0, true, 0x12, 0x3400, pattern(200)));
  Rx steady(false);
  steady.inbound.on_write = Verdict::kInvalidStag;
  steady.arrive(frame);
  Rx rx(false);
  rx.inbound.on_write = Verdict::kInvalidStag;
  rx.inbound.scribbled = frame;
  rx.receiver.feed(frame, rx.inbound);
  BOOST_TEST(rx.failure() == steady.failure());
}

BOOST_AUTO_TEST_CASE(needed_names_the_fpdu_at_the_front) {
  Rx rx;
  BOOST_TEST(rx.receiver.needed() == 2U);
  rx.arrive(hex("ffff"));
  BOOST_TEST(rx.receiver.needed() == kMaxFpduSize);
  BOOST_TEST(rx.receiver.mid_fpdu());
}

BOOST_AUTO_TEST_CASE(largest_fpdu_is_placed) {
  const Bytes data = pattern(65535 - 14);
  Rx rx;
  rx.arrive(make_fpdu(tagged_ulpdu(0, true, 1, 0, data)));
  BOOST_TEST(rx.inbound.log.size() == 1U);
  BOOST_TEST((rx.receiver.state() == Receiver::State::kOpen));
}

// The work of one call is limited by the number of frames, too, however few bytes they have.
BOOST_AUTO_TEST_CASE(work_is_limited_by_frames_not_only_by_bytes) {
  Bytes stream;
  const Bytes frame = make_fpdu(tagged_ulpdu(0, true, 1, 0, {}));
  for (int i = 0; i < 100; ++i) stream.insert(stream.end(), frame.begin(), frame.end());
  Rx rx;
  std::size_t work = 10 * (frame.size() + Receiver::kFpduWork);
  BOOST_TEST(rx.receiver.feed(stream, rx.inbound, work) == 10 * frame.size());
  BOOST_TEST(work == 0U);
  BOOST_TEST(rx.receiver.fpdus() == 10U);
  BOOST_TEST(rx.receiver.mid_fpdu());  // more input is left
  const auto rest = std::span(stream).subspan(10 * frame.size());
  BOOST_TEST(rx.receiver.feed(rest, rx.inbound) == rest.size());
  BOOST_TEST(rx.receiver.fpdus() == 100U);
}

BOOST_AUTO_TEST_CASE(mid_fpdu_after_a_part_of_one) {
  Rx rx;
  const Bytes part = make_fpdu(untagged_ulpdu(3, false, 0, 1, 0, pattern(8)));
  rx.arrive(part);
  BOOST_TEST(!rx.receiver.mid_fpdu());
  rx.arrive(std::span(part).first(5));
  BOOST_TEST(rx.receiver.mid_fpdu());
}

// The kernel's siw sends tagged messages inside untagged ones and vice versa.
BOOST_AUTO_TEST_CASE(tagged_inside_untagged) {
  Rx rx;
  rx.arrive(make_fpdu(untagged_ulpdu(3, false, 0, 1, 0, as_bytes("ab"))));
  rx.arrive(make_fpdu(tagged_ulpdu(0, false, 9, 16, as_bytes("wx"))));
  rx.arrive(make_fpdu(untagged_ulpdu(3, true, 0, 1, 2, as_bytes("cd"))));
  rx.arrive(make_fpdu(tagged_ulpdu(0, true, 9, 18, as_bytes("yz"))));
  BOOST_TEST(joined(rx.inbound.log) ==
             "place 3 first msn 1 at 0 6162\nwrite 9 10 7778\n"
             "place 3 last msn 1 at 2 6364\nsent 3 length 4 0\nwrite 9 12 797a\n");
  BOOST_TEST((rx.receiver.state() == Receiver::State::kOpen));
}

BOOST_AUTO_TEST_CASE(last_segment_may_be_empty) {
  Rx rx;
  rx.inbound.reads = {{5, 100, 2}};
  rx.arrive(make_fpdu(untagged_ulpdu(3, false, 0, 1, 0, as_bytes("ab"))));
  rx.arrive(make_fpdu(untagged_ulpdu(3, true, 0, 1, 2)));
  rx.arrive(make_fpdu(tagged_ulpdu(2, false, 5, 100, as_bytes("ab"))));
  rx.arrive(make_fpdu(tagged_ulpdu(2, true, 5, 102)));
  BOOST_TEST(joined(rx.inbound.log) ==
             "place 3 first msn 1 at 0 6162\nplace 3 last msn 1 at 2 \nsent 3 length 2 0\n"
             "response at 0 6162\nread done\n");
}

// The STag and offset of zero-length tagged messages are not checked (RFC 5040 §5.1).
BOOST_AUTO_TEST_CASE(zero_length_tagged_is_not_checked) {
  Rx rx;
  rx.inbound.on_write = Verdict::kInvalidStag;
  rx.inbound.on_place_read = Verdict::kInvalidStag;
  rx.inbound.reads = {{5, 100, 0}};
  rx.arrive(make_fpdu(tagged_ulpdu(0, true, 0xBAD, ~std::uint64_t{0})));
  rx.arrive(make_fpdu(tagged_ulpdu(2, true, 0xBAD, ~std::uint64_t{0})));
  BOOST_TEST(joined(rx.inbound.log) == "read done\n");
  BOOST_TEST((rx.receiver.state() == Receiver::State::kOpen));
}

BOOST_AUTO_TEST_CASE(reserved_bits_are_ignored) {
  Rx rx;
  Bytes ulpdu = untagged_ulpdu(3, true, 0, 1, 0, as_bytes("x"));
  ulpdu[0] |= std::byte{0x3C};
  ulpdu[1] |= std::byte{0x30};
  rx.arrive(make_fpdu(ulpdu));
  BOOST_TEST(rx.inbound.log.size() == 2U);
}

BOOST_AUTO_TEST_CASE(crc_field_is_ignored_when_off) {
  Rx rx(false);
  Bytes fpdu = make_fpdu(untagged_ulpdu(3, true, 0, 1, 0, as_bytes("x")));
  std::fill(fpdu.end() - 4, fpdu.end(), std::byte{0xEE});
  rx.arrive(fpdu);
  BOOST_TEST(rx.inbound.log.size() == 2U);
}

// The peer abandons a message in the middle: its Terminate is processed, the rest is dropped.
BOOST_AUTO_TEST_CASE(terminate_in_the_middle_of_a_message) {
  Rx rx;
  rx.arrive(make_fpdu(untagged_ulpdu(3, false, 0, 1, 0, as_bytes("ab"))));
  rx.arrive(make_fpdu(untagged_ulpdu(7, true, 2, 1, 0, hex("02020000"))));
  BOOST_TEST((rx.receiver.state() == Receiver::State::kTerminated));
  BOOST_TEST(rx.inbound.log.back() == "terminated: MPA: CRC error");
  rx.arrive(make_fpdu(untagged_ulpdu(3, true, 0, 1, 2, as_bytes("cd"))));
  rx.arrive(pattern(100));
  BOOST_TEST(rx.inbound.log.size() == 2U);
  BOOST_TEST(rx.staged.empty());
}

BOOST_AUTO_TEST_CASE(failure_from_outside_stops_input) {
  Rx rx;
  rx.receiver.fail(make_read_terminate(TerminateCode::kRdmapInvalidStag, {}, 1, 0));
  rx.arrive(make_fpdu(untagged_ulpdu(3, true, 0, 1, 0)));
  rx.receiver.fail(make_terminate(TerminateCode::kMpaCrc));
  BOOST_TEST(rx.inbound.log.empty());
  BOOST_TEST((rx.receiver.failure().code == TerminateCode::kRdmapInvalidStag));
}

BOOST_AUTO_TEST_CASE(message_numbers_count_on) {
  Tx tx({});
  Rx rx;
  for (int i = 0; i < 3000; ++i) tx.send({});
  rx.arrive(tx.out);
  BOOST_TEST(rx.inbound.log.size() == 6000U);
}

// Garbage, and valid streams with changed bytes (mostly without CRC, so that the changes get
// through).
BOOST_AUTO_TEST_CASE(hostile_input_is_harmless) {
  const unsigned first_seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << first_seed);
  const Bytes good = conversation(false);
  for (unsigned seed = first_seed; seed < first_seed + 3000; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::minstd_rand random(seed);
      Bytes stream = random() % 4 ? good : pattern(random() % 3000, seed);
      for (int i = static_cast<int>(random() % 8); i > 0 && !stream.empty(); --i) {
        stream[random() % std::min<std::size_t>(stream.size(), 400)] =
            static_cast<std::byte>(random() % 2 ? random() : random() % 16 | 0x40);
      }
      Rx rx(random() % 8 == 0);
      rx.inbound.reads = outstanding();
      for (std::size_t at = 0; at < stream.size();) {
        const std::size_t size = std::min<std::size_t>(random() % 2000 + 1, stream.size() - at);
        // In memory of exactly this size, so that the sanitizer sees any access beyond it.
        const Bytes chunk(stream.begin() + static_cast<long>(at),
                          stream.begin() + static_cast<long>(at + size));
        rx.arrive(chunk);
        at += size;
      }
      if (rx.receiver.state() != Receiver::State::kOpen) BOOST_REQUIRE(rx.staged.empty());
      if (rx.receiver.state() == Receiver::State::kFailed) BOOST_REQUIRE(!rx.failure().empty());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
