// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The Sender's short messages: they share an entry of a batch, and are built without fill().
#include "providers/soft/iwarp/sender.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/endpoints.h"
#include "tests/unit/iwarp/stream_parser.h"

using namespace iwarp_test;

BOOST_AUTO_TEST_SUITE(sender)

BOOST_AUTO_TEST_CASE(small_messages_share_one_entry) {
  Sender sender({});
  TxBatch batch;
  const Bytes data = pattern(Sender::kCopyLimit);
  const IoSpan piece{data.data(), data.size()};
  for (int i = 0; i < 20; ++i) {
    sender.begin_send(Opcode::kSend, 0, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
    BOOST_REQUIRE((sender.fill(batch) == Sender::Fill::kDone));
  }
  BOOST_TEST(batch.spans().size() == 1U);
  BOOST_TEST(batch.pending_bytes() == 20 * (2 + 18 + 64 + 4U));
}

// Short messages are pending when a long one follows: the batch changes to a larger arena.
BOOST_AUTO_TEST_CASE(short_and_long_messages_in_one_batch) {
  Tx tx({.crc = true, .markers = false, .emss = 65483});
  std::vector<Bytes> sent;
  for (const std::size_t size : {10U, 4000U, 3900U, 500U, 9000U, 60000U, 20U}) {
    sent.push_back(pattern(size, static_cast<unsigned>(size)));
    const IoSpan piece{sent.back().data(), size};
    tx.sender.begin_send(Opcode::kSend, 0, {&piece, 1}, static_cast<std::uint32_t>(size));
    while (tx.sender.fill(tx.batch) != Sender::Fill::kDone) tx.drain();
  }
  BOOST_TEST(!tx.batch.refers());
  tx.drain();
  tx.batch.shrink();
  const auto segments = parse(tx.out, false);
  BOOST_REQUIRE_EQUAL(segments.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i)
    BOOST_TEST(std::equal(sent[i].begin(), sent[i].end(), segments[i].ulpdu.begin() + 18));
}

// add_short() and write_short_front() build the same frames as fill(), with common message numbers.
BOOST_AUTO_TEST_CASE(short_messages_are_as_others) {
  BOOST_TEST(!Sender({.crc = true, .markers = false}).builds_plainly());
  BOOST_TEST(!Sender({.crc = false, .markers = true}).builds_plainly());
  BOOST_TEST(!Sender({.crc = true, .markers = true}).adds_short());
  for (const bool crc : {false, true}) {
    const SenderConfig config{.crc = crc, .markers = false, .emss = 16448};
    Tx usual(config);
    Tx added(config);
    Sender sender(config);
    Bytes out;
    std::uint64_t to = 0xFFFFFFF0;
    for (const Opcode opcode : {Opcode::kSend, Opcode::kWrite, Opcode::kSendSolicited}) {
      for (const std::size_t size : {0U, 1U, 2U, 3U, 8U, 61U, 64U, 65U, 2047U, 8191U}) {
        const Bytes data = pattern(size, static_cast<unsigned>(size));
        const auto length = static_cast<std::uint32_t>(size);
        const IoSpan piece{data.data(), size};
        const auto begin = [&](Sender& by) {
          if (opcode == Opcode::kWrite)
            by.begin_write(9, to, {&piece, 1}, length);
          else
            by.begin_send(opcode, 0, {&piece, 1}, length);
        };
        ++to;
        begin(usual.sender);
        usual.finish();
        if (size > Sender::kCopyLimit) {
          begin(added.sender);
          added.finish();
        } else {
          BOOST_TEST(added.sender.add_short(added.batch, {opcode, 9, to}, data));
          added.drain();
        }
        BOOST_TEST(!added.sender.busy());
        BOOST_REQUIRE((added.out == usual.out));
        if (crc) continue;
        std::array<std::byte, 20> front;
        const std::byte* const end =
            sender.write_short_front(front.data(), {opcode, 9, to}, length);
        BOOST_TEST(!sender.busy());
        const auto header = static_cast<std::size_t>(end - front.data());
        append(out, std::span(front).first(header));
        append(out, data);
        out.resize(out.size() + pad_size(header - 2 + size) + 4);
        BOOST_REQUIRE((out == usual.out));
      }
    }
  }
}

// More short messages than the first arena holds, until no arena has room.
BOOST_AUTO_TEST_CASE(many_short_messages_in_one_batch) {
  Tx tx({.crc = true, .markers = false, .emss = 1448});
  const Bytes data = pattern(40, 1);
  std::size_t count = 0;
  while (tx.sender.add_short(tx.batch, {Opcode::kSend, 0, 0}, data)) ++count;
  BOOST_TEST(count > 500U);
  tx.drain();
  BOOST_TEST(parse(tx.out, false).size() == count);
  BOOST_TEST(tx.sender.add_short(tx.batch, {Opcode::kSend, 0, 0}, data));
}

BOOST_AUTO_TEST_SUITE_END()
