// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How the Sender fills a batch: what it copies, what it refers to, and when it stops.
#include "providers/soft/iwarp/sender.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/unit/iwarp/endpoints.h"

using namespace iwarp_test;

BOOST_AUTO_TEST_SUITE(sender)

BOOST_AUTO_TEST_CASE(payload_without_a_crc_stays_where_it_is) {
  const Bytes data = pattern(70 * 1428 - 5);
  Sender sender({.crc = false, .markers = false, .emss = 1448});
  TxBatch batch;
  const IoSpan piece{data.data(), data.size()};
  sender.begin_write(1, 0, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
  std::size_t referenced = 0;
  BOOST_TEST((sender.fill(batch) == Sender::Fill::kDone));
  for (const IoSpan& s : batch.spans()) {
    const auto* p = static_cast<const std::byte*>(s.data);
    if (p >= data.data() && p < data.data() + data.size()) {
      BOOST_REQUIRE((p == data.data() + referenced));
      referenced += s.size;
    }
  }
  BOOST_TEST(referenced == data.size());
  // Header, then {payload, trailer and next header} per FPDU.
  BOOST_TEST(batch.spans().size() == 2 * 70 + 1U);
}

BOOST_AUTO_TEST_CASE(payload_at_a_slow_distance_is_copied_late) {
  const Bytes memory = pattern(4096 + 10'000, 7);
  const std::size_t page = -reinterpret_cast<std::uintptr_t>(memory.data()) % 4096;
  for (const std::size_t offset : {0U, 16U, 19U, 20U, 100U}) {
    Tx tx({.crc = false, .markers = false, .emss = 16448});
    tx.sender.copy_below(9000);
    const IoSpan piece{memory.data() + page + offset, 8000};
    std::vector<bool> refers;
    for (int message = 0; message < 3; ++message) {
      tx.sender.begin_send(Opcode::kSend, 0, {&piece, 1}, 8000);
      BOOST_REQUIRE((tx.sender.fill(tx.batch) == Sender::Fill::kDone));
      refers.push_back(tx.batch.refers());
    }
    // A frame has 8024 bytes, so the payload of the second would be copied to place 3948.
    BOOST_TEST(refers[0] == (offset >= 20));
    BOOST_TEST(refers[1] == true);
    tx.drain();
    BOOST_REQUIRE_EQUAL(tx.out.size(), 3U * 8024);
    const std::byte* const payload = memory.data() + page + offset;
    for (std::size_t frame = 0; frame != 3; ++frame)
      BOOST_TEST(std::equal(payload, payload + 8000, tx.out.data() + frame * 8024 + 20));
  }
}

// Payload that is copied begins a cache line, whatever precedes it, also while the batch has few
// entries. Smaller frames follow each other closely, in one entry.
BOOST_AUTO_TEST_CASE(large_copied_payload_begins_a_cache_line) {
  const Bytes data = pattern(80'000);
  const IoSpan piece{data.data(), data.size()};
  Sender sender({.crc = true, .markers = false, .emss = 8300});
  TxBatch batch(0, 0);
  sender.begin_send(Opcode::kSend, 0, {&piece, 1}, 80'000);
  BOOST_REQUIRE((sender.fill(batch) == Sender::Fill::kDone));
  BOOST_REQUIRE_EQUAL(batch.spans().size(), TxBatch::kMinSpans - 1);
  for (const IoSpan& span : batch.spans())
    BOOST_TEST((reinterpret_cast<std::uintptr_t>(span.data) + 20) % TxBatch::kLine == 0U);
  batch.consume(batch.pending_bytes());
  const IoSpan small{data.data(), 1000};
  for (int message = 0; message != 4; ++message) {
    sender.begin_write(7, 0, {&small, 1}, 1000);
    BOOST_REQUIRE((sender.fill(batch) == Sender::Fill::kDone));
  }
  BOOST_TEST(batch.spans().size() == 1U);
}

// A batch that starts small grows when the first payload is referred to, behind the pending bytes,
// and sends the same stream.
BOOST_AUTO_TEST_CASE(entries_come_when_payload_is_referred_to) {
  const Bytes data = pattern(20000);
  Bytes streams[2];
  for (const bool small : {false, true}) {
    TxBatch batch(small ? 0 : TxBatch::kReferringSpans, small ? 0 : 8192);
    Sender sender(SenderConfig{.crc = false});
    sender.set_emss(1448);
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{8}, data.size()}) {
      if (small && bytes == 8) BOOST_TEST(batch.max_spans() == TxBatch::kMinSpans);
      const IoSpan piece{data.data(), bytes};
      sender.begin_write(1, 0, {&piece, 1}, static_cast<std::uint32_t>(bytes));
      BOOST_TEST((sender.fill(batch, SIZE_MAX) == Sender::Fill::kDone));
    }
    BOOST_TEST(batch.max_spans() == TxBatch::kReferringSpans);
    for (const IoSpan& span : batch.spans()) {
      const auto* const from = static_cast<const std::byte*>(span.data);
      streams[small].insert(streams[small].end(), from, from + span.size);
    }
  }
  BOOST_TEST((streams[0] == streams[1]));
}

BOOST_AUTO_TEST_CASE(budget_and_full_batch) {
  Sender sender({.crc = true, .markers = false, .emss = 1448});
  TxBatch batch;
  const Bytes data = pattern(1000000);
  const IoSpan piece{data.data(), data.size()};
  sender.begin_send(Opcode::kSend, 0, {&piece, 1}, static_cast<std::uint32_t>(data.size()));
  BOOST_TEST((sender.fill(batch, 1) == Sender::Fill::kBudget));
  BOOST_TEST(batch.appended() == 1448U);  // one full FPDU, never a smaller one
  BOOST_TEST((sender.fill(batch, 2000) == Sender::Fill::kBudget));
  BOOST_TEST(batch.appended() == 3 * 1448U);
  BOOST_TEST((sender.fill(batch) == Sender::Fill::kBatchFull));
  BOOST_TEST((sender.fill(batch) == Sender::Fill::kBatchFull));
  BOOST_TEST(sender.busy());
  BOOST_TEST(sender.remaining() == data.size() - batch.appended() / 1448 * 1424);
  batch.consume(batch.pending_bytes());
  BOOST_TEST(batch.empty());
  BOOST_TEST((sender.fill(batch, 1) == Sender::Fill::kBudget));
}

BOOST_AUTO_TEST_SUITE_END()
