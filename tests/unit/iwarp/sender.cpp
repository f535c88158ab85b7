// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The Sender checked by an independent parser: segmentation, numbering, pad, CRC, markers, and that
// no byte is lost if TCP accepts odd amounts.
#include "providers/soft/iwarp/sender.h"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/endpoints.h"
#include "tests/unit/iwarp/stream_parser.h"

using namespace iwarp_test;

namespace {

// Checks the segments of one tagged or untagged message; returns the payload size of the first.
std::size_t check_message(const std::vector<ParsedSegment>& segments,
                          std::span<const std::byte> data, bool tagged, std::uint64_t to,
                          std::uint32_t msn, std::size_t emss) {
  std::size_t offset = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Bytes& u = segments[i].ulpdu;
    const bool last = i + 1 == segments.size();
    BOOST_REQUIRE_EQUAL(load8(&u[0]), (tagged ? 0x81 : 0x01) | (last ? 0x40 : 0));
    const std::size_t header = tagged ? 14 : 18;
    if (tagged) {
      BOOST_REQUIRE_EQUAL(load64(&u[6]), to + offset);
    } else {
      BOOST_REQUIRE_EQUAL(load32(&u[10]), msn);
      BOOST_REQUIRE_EQUAL(load32(&u[14]), offset);
    }
    const std::size_t payload = u.size() - header;
    if (!last) BOOST_REQUIRE_EQUAL((u.size() + 2) % 4, 0U);
    if (data.size() != 0) BOOST_REQUIRE_GT(payload, 0U);
    BOOST_REQUIRE_LE(segments[i].fpdu_bytes, emss);
    BOOST_REQUIRE_LE(offset + payload, data.size());
    BOOST_REQUIRE(std::equal(u.begin() + static_cast<long>(header), u.end(),
                             data.begin() + static_cast<long>(offset)));
    offset += payload;
    if (i == 0) first = payload;
  }
  BOOST_REQUIRE_EQUAL(offset, data.size());
  return first;
}

struct EmssRow {
  std::uint32_t emss;
  std::size_t mulpdu;
  std::size_t untagged;  // largest payload
  std::size_t tagged;
};
// The results of RFC 5044's formula; beyond 16 KiB, segments other than the last are rounded down
// to multiples of 64.
constexpr EmssRow kRows[] = {
    {1448, 1442, 1424, 1428},
    {1460, 1454, 1436, 1440},
    {8948, 8942, 8924, 8928},
    {65483, 64768, 64704, 64704},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sender)

BOOST_AUTO_TEST_CASE(mulpdu_follows_the_formula) {
  for (const EmssRow& row : kRows) BOOST_TEST(mulpdu(row.emss, false) == row.mulpdu);
  BOOST_TEST(mulpdu(65483 - 1000, false) == 64483U - 6 - 3);
  BOOST_TEST(mulpdu(1460, true) == 1460U - (6 + 4 * 3));
  BOOST_TEST(mulpdu(1448, true) == 1448U - (6 + 4 * 3));
  BOOST_TEST(mulpdu(512, true) == 512U - (6 + 4));
  BOOST_TEST(mulpdu(513, true) == 513U - (6 + 8 + 1));
  BOOST_TEST(mulpdu(0, false) == 128U);
  BOOST_TEST(mulpdu(100, true) == 128U);
  BOOST_TEST(mulpdu(1U << 20, false) == 64768U);
  for (std::size_t emss = 134; emss < 70000; ++emss) {
    BOOST_REQUIRE_LE(fpdu_size(mulpdu(emss, false)), std::max<std::size_t>(emss, 136));
  }
}

BOOST_AUTO_TEST_CASE(segmentation_around_every_boundary) {
  for (const EmssRow& row : kRows) {
    for (const bool tagged : {false, true}) {
      const std::size_t room = row.mulpdu - (tagged ? 14 : 18);
      const std::size_t step = tagged ? row.tagged : row.untagged;
      for (const std::size_t size : {std::size_t{0},
                                     std::size_t{1},
                                     std::size_t{2},
                                     std::size_t{3},
                                     std::size_t{4},
                                     std::size_t{5},
                                     Sender::kCopyLimit - 1,
                                     Sender::kCopyLimit,
                                     Sender::kCopyLimit + 1,
                                     step - 1,
                                     step,
                                     step + 1,
                                     room - 1,
                                     room,
                                     room + 1,
                                     2 * step - 1,
                                     2 * step,
                                     2 * step + 1,
                                     2 * step + Sender::kCopyLimit,
                                     3 * room + 7}) {
        BOOST_TEST_CONTEXT("emss " << row.emss << " tagged " << tagged << " size " << size) {
          const Bytes data = pattern(size);
          Tx tx({.crc = true, .markers = false, .emss = row.emss});
          if (tagged) {
            tx.write(5, 0xFFFF0000, data);
          } else {
            tx.send(data);
          }
          const auto segments = parse(tx.out, false);
          const std::size_t first = check_message(segments, data, tagged, 0xFFFF0000, 1, row.emss);
          if (size > room) BOOST_TEST(first == step);
          if (size <= room) BOOST_TEST(segments.size() == 1U);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(markers_at_every_position) {
  for (const std::uint32_t emss : {536U, 1448U, 1460U, 8948U, 65483U}) {
    Tx tx({.crc = true, .markers = true, .emss = emss});
    std::vector<Bytes> messages;
    // Sizes that move FPDU starts and CRC fields across the marker positions.
    for (std::size_t i = 0; i < 400; ++i) {
      messages.push_back(pattern(i < 300 ? i * 4 % 512 : i * 97, static_cast<unsigned>(i)));
      tx.send(messages.back());
    }
    BOOST_TEST((load32(tx.out.data()) == 0U));  // the first thing sent is a marker
    const auto segments = parse(tx.out, true);
    std::size_t next = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      std::vector<ParsedSegment> own;
      do {
        BOOST_REQUIRE_LT(next, segments.size());
        own.push_back(segments[next]);
      } while (!(load8(&segments[next++].ulpdu[0]) & 0x40));
      check_message(own, messages[i], false, 0, static_cast<std::uint32_t>(i + 1),
                    std::max(emss, 536U));
    }
    BOOST_TEST(next == segments.size());
  }
}

BOOST_AUTO_TEST_CASE(numbers_per_queue) {
  Tx tx({});
  BOOST_TEST(tx.sender.begin_read_request({}) == 1U);
  tx.finish();
  BOOST_TEST(tx.sender.begin_send(Opcode::kSend, 0, {}, 0) == 1U);
  tx.finish();
  BOOST_TEST(tx.sender.begin_immediate({}, true) == 2U);  // Immediate Data shares queue 0
  tx.finish();
  BOOST_TEST(tx.sender.begin_atomic_request({}) == 2U);  // Atomic Requests share queue 1
  tx.finish();
  BOOST_TEST(tx.sender.begin_atomic_response({}) == 1U);
  tx.finish();
  tx.write(1, 2, {});
  BOOST_TEST(tx.sender.begin_send(Opcode::kSendSolicited, 0, {}, 0) == 3U);
  tx.finish();
  const auto segments = parse(tx.out, false);
  const std::string expected[] = {"4141", "4143", "4149", "414a", "414b", "c140", "4145"};
  BOOST_REQUIRE_EQUAL(segments.size(), std::size(expected));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    BOOST_TEST(to_hex(std::span(segments[i].ulpdu).first(2)) == expected[i]);
  }
}

BOOST_AUTO_TEST_CASE(no_crc_means_zeros) {
  Tx tx({.crc = false, .markers = false, .emss = 1448});
  tx.send(as_bytes("hello"));
  BOOST_TEST(to_hex(tx.out) == "001741430000000000000000000000010000000068656c6c6f00000000000000");
  const Bytes data = pattern(1000);
  tx.take();
  tx.write(1, 0, data);
  BOOST_TEST(to_hex(std::span(tx.out).last(4)) == "00000000");
}

// Any number of pieces of any size; many tiny ones shorten the segments.
BOOST_AUTO_TEST_CASE(pieces_of_any_size_are_gathered) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::minstd_rand random(seed);
      const bool markers = seed % 3 == 0;
      const std::size_t largest_piece = std::size_t{1} << random() % 13;
      std::vector<Bytes> pieces;
      std::vector<IoSpan> spans;
      Bytes whole;
      for (std::size_t i = random() % 300; i > 0; --i) {
        pieces.push_back(pattern(random() % (largest_piece + 1), static_cast<unsigned>(random())));
        append(whole, pieces.back());
      }
      for (const Bytes& p : pieces) spans.push_back({p.data(), p.size()});
      Tx tx({.crc = true, .markers = markers, .emss = 1448});
      tx.sender.begin_write(1, 77, spans, static_cast<std::uint32_t>(whole.size()));
      tx.finish();
      check_message(parse(tx.out, markers), whole, true, 77, 0, 1448);
    }
  }
}

// TCP accepts any number of bytes, and fill() continues behind the rest: the stream is the same.
BOOST_AUTO_TEST_CASE(partial_sends_give_the_same_stream) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      const bool markers = seed % 2;
      const SenderConfig config{.crc = true, .markers = markers, .emss = 1448};
      std::vector<Bytes> messages;
      std::minstd_rand random(seed);
      for (int i = 0; i < 30; ++i) {
        messages.push_back(pattern(random() % 3 ? random() % 200 : random() % 60000, 5));
      }
      Tx whole(config);
      for (const Bytes& m : messages) whole.send(m);

      Sender sender(config);
      TxBatch batch;
      Bytes out;
      std::vector<std::uint64_t> ends;
      std::vector<IoSpan> pieces;
      for (const Bytes& m : messages) pieces.push_back({m.data(), m.size()});
      const auto tcp_takes = [&](std::size_t bytes) {
        std::size_t left = bytes = std::min(bytes, batch.pending_bytes());
        for (const IoSpan& s : batch.spans()) {
          const std::size_t n = std::min(left, s.size);
          append(out, {static_cast<const std::byte*>(s.data), n});
          left -= n;
        }
        batch.consume(bytes);
        BOOST_REQUIRE_EQUAL(batch.sent(), out.size());
      };
      for (std::size_t i = 0; i < messages.size(); ++i) {
        sender.begin_send(Opcode::kSend, 0, {&pieces[i], 1},
                          static_cast<std::uint32_t>(messages[i].size()));
        while (sender.fill(batch, random() % 5000) != Sender::Fill::kDone) {
          tcp_takes(random() % 4 ? random() % 3000 : random() % 5);
        }
        ends.push_back(batch.appended());
        if (random() % 2) tcp_takes(random() % 2000);
      }
      while (!batch.empty()) tcp_takes(random() % 7 + 1 + (random() % 2) * 1000);
      BOOST_REQUIRE(out == whole.out);
      BOOST_REQUIRE_EQUAL(ends.back(), out.size());
    }
  }
}

BOOST_AUTO_TEST_CASE(emss_change_applies_to_the_next_fpdu) {
  Tx tx({.crc = true, .markers = false, .emss = 1448});
  const Bytes data = pattern(4000);
  const IoSpan piece{data.data(), data.size()};
  tx.sender.begin_write(1, 0, {&piece, 1}, 4000);
  BOOST_TEST((tx.sender.fill(tx.batch, 1) == Sender::Fill::kBudget));
  tx.sender.set_emss(536);
  tx.finish();
  const auto segments = parse(tx.out, false);
  BOOST_TEST(segments[0].fpdu_bytes == 1448U);
  BOOST_TEST(segments[1].fpdu_bytes == 536U);
}

BOOST_AUTO_TEST_CASE(abandoned_message_ends_in_a_terminate) {
  Tx tx({.crc = true, .markers = false, .emss = 1448});
  const Bytes data = pattern(10000);
  const IoSpan piece{data.data(), data.size()};
  tx.sender.begin_read_response(1, 0, {&piece, 1}, 10000);
  BOOST_TEST((tx.sender.fill(tx.batch, 2000) == Sender::Fill::kBudget));
  tx.sender.abandon();
  tx.sender.begin_terminate(make_terminate(TerminateCode::kRdmapLocalCatastrophic));
  tx.finish();
  const auto segments = parse(tx.out, false);
  BOOST_REQUIRE_EQUAL(segments.size(), 3U);
  BOOST_TEST(to_hex(std::span(segments[1].ulpdu).first(2)) == "8142");
  BOOST_TEST(to_hex(std::span(segments[2].ulpdu).first(2)) == "4147");
}

// The bytes covered by the CRC are the bytes sent, even if the memory changes after the frame has
// been built.
BOOST_AUTO_TEST_CASE(memory_that_changes_while_it_is_sent) {
  for (const bool markers : {false, true})
    for (const std::size_t size : {1U, 64U, 65U, 1000U, 1448U, 5000U, 70000U, 400000U})
      for (const int kind : {0, 1, 2}) {
        Tx tx({.crc = true, .markers = markers, .emss = size > 10000 ? 65483U : 1448U});
        Bytes data = pattern(size);
        const std::array<IoSpan, 2> pieces{IoSpan{data.data(), size / 3},
                                           IoSpan{data.data() + size / 3, size - size / 3}};
        const auto length = static_cast<std::uint32_t>(size);
        if (kind == 0) tx.sender.begin_send(Opcode::kSend, 0, pieces, length);
        if (kind == 1) tx.sender.begin_write(1, 0, pieces, length);
        if (kind == 2) tx.sender.begin_read_response(1, 0, pieces, length);
        Sender::Fill fill;
        do {
          fill = tx.sender.fill(tx.batch);
          std::fill(data.begin(), data.end(), static_cast<std::byte>(tx.batch.appended()));
          tx.drain();
        } while (fill != Sender::Fill::kDone);
        // parse() checks the CRC of every frame.
        std::size_t received = 0;
        for (const auto& segment : parse(tx.out, markers))
          received += segment.ulpdu.size() - (kind == 0 ? 18 : 14);
        BOOST_TEST(received == size);
      }
}

// The largest possible message, 4 GiB - 1, from the same 64 KiB of memory repeated.
BOOST_AUTO_TEST_CASE(largest_message_is_segmented) {
  const Bytes block(65536);
  std::vector<IoSpan> pieces(65536, IoSpan{block.data(), block.size()});
  pieces.back().size = 65535;
  Sender sender({.crc = true, .markers = false, .emss = 65483});
  TxBatch batch;
  sender.begin_write(1, 0xFFFFFFFF00000000, pieces, 0xFFFFFFFF);
  Sender::Fill fill;
  do {
    fill = sender.fill(batch);
    batch.consume(batch.pending_bytes());
  } while (fill != Sender::Fill::kDone);
  const std::uint64_t segments = (0xFFFFFFFFULL + 64703) / 64704;
  BOOST_TEST(batch.sent() ==
             0xFFFFFFFFULL + segments * (2 + 14 + 4) + pad_size(14 + 0xFFFFFFFFULL % 64704));
}

BOOST_AUTO_TEST_SUITE_END()
