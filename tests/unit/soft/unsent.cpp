// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The memory of messages that are built and not handed over yet.
#include "tests/unit/soft/unsent.h"

#include "providers/soft/pin_set.h"
#include "tests/unit/soft/standstill.h"

#include <algorithm>

namespace udapl::soft::test {
namespace {

// The peer reads two registrations in turn, while Sends of these wait as well. So the answers are
// built among our requests, but pinned again behind them.
void alternate(int before) {
  constexpr int kBehind = 12;
  Unsent unsent(before + kBehind + 1);
  const std::array bytes{pattern(Unsent::kSize, 1), pattern(Unsent::kSize, 2)};
  const std::array mrs{unsent.side.reg(bytes[0]), unsent.side.reg(bytes[1])};
  const auto other = pattern(Unsent::kSize, 3);
  const auto other_mr = unsent.side.reg(other);
  REQUIRE_OK(unsent.send(1, *other_mr, other));
  const auto read = [&](int count) {
    for (int i = 0; i < count; ++i) unsent.read(*mrs[unsent.reads % 2], bytes[unsent.reads % 2]);
    unsent.give();
  };
  for (int left = before; left != 0; left -= std::min(left, 100)) read(std::min(left, 100));
  REQUIRE_OK(unsent.send(2, *mrs[1], bytes[1]));
  REQUIRE_OK(unsent.send(3, *mrs[0], bytes[0]));
  read(kBehind);
  read(1);
  std::size_t answers = 0;
  std::vector<std::vector<std::byte>> sent;
  for (const Message& message : unsent.take(unsent.reads + 3)) {
    if (message.opcode == iwarp::Opcode::kSend) {
      sent.push_back(message.payload);
      continue;
    }
    BOOST_REQUIRE(message.opcode == iwarp::Opcode::kReadResponse);
    BOOST_REQUIRE(message.to == answers);
    BOOST_REQUIRE(message.payload == bytes[answers++ % 2]);
  }
  BOOST_TEST((sent == std::vector{other, bytes[1], bytes[0]}));
  for (WorkId id = 1; id < 4; ++id) BOOST_TEST(unsent.done(id) == DAT_DTO_SUCCESS);
  BOOST_TEST(unsent.side.sink.calls() == "established");
}

BOOST_AUTO_TEST_SUITE(unsent)

// Regression: the pins that were needed again were more than when the messages were built, and were
// stored behind the end of the set.
BOOST_AUTO_TEST_CASE(pins_that_are_needed_again_fit_a_small_set) {
  for (int before = 24; before < 42; ++before) alternate(before);
}

BOOST_AUTO_TEST_CASE(pins_that_are_needed_again_fit_a_large_set) {
  for (int before = 304; before < 322; ++before) alternate(before);
}

BOOST_AUTO_TEST_CASE(more_registrations_than_a_set_holds) {
  constexpr std::size_t kCount = PinSet::kMany + 50;
  Unsent unsent(static_cast<int>(kCount));
  const auto bytes = pattern(Unsent::kSize);
  std::vector<std::unique_ptr<Mr>> mrs;
  for (std::size_t i = 0; i < kCount; ++i) {
    mrs.push_back(unsent.side.reg(bytes));
    unsent.read(*mrs.back(), bytes);
    if (i % 100 == 99 || i + 1 == kCount) unsent.give();
  }
  const std::deque<Message> answers = unsent.take(kCount);
  BOOST_TEST(std::ranges::all_of(answers, [&](const Message& m) { return m.payload == bytes; }));
  BOOST_TEST(unsent.side.sink.calls() == "established");
}

BOOST_AUTO_TEST_CASE(memory_of_a_short_message_may_be_reused) {
  Unsent unsent(4);
  auto bytes = pattern(64);
  const auto mr = unsent.side.reg(bytes);
  REQUIRE_OK(unsent.send(1, *mr, bytes));
  std::ranges::fill(bytes, std::byte{0xEE});
  BOOST_TEST((unsent.take(1).front().payload == pattern(64)));
  BOOST_TEST(unsent.done(1) == DAT_DTO_SUCCESS);
}

// Regression: between the two messages of an RDMA Write with immediate data, no pin was held for
// the first, so the memory could be freed and was read nevertheless.
BOOST_AUTO_TEST_CASE(memory_freed_between_messages_is_not_read) {
  constexpr std::size_t kMoreThanAPass = 300'000;
  Unsent unsent(4);
  auto bytes = pattern(kMoreThanAPass, 1);
  auto mr = unsent.side.reg(bytes);
  const auto source = pattern(kMoreThanAPass, 2);
  const auto source_mr = unsent.side.reg(source);
  const auto segment = local(*mr, bytes);
  {
    const Standstill nothing_is_sent(*unsent.side.reactor);
    REQUIRE_OK(unsent.side.qp->post_write_immediate(
        1, &segment, 1, remote(77, nullptr, bytes.size()), 5, kSignalled));
    mr.reset();
    std::ranges::fill(bytes, std::byte{0xEE});
    unsent.read(*source_mr, source);  // the answer has its turn before the second message
    const std::scoped_lock guard(unsent.wire->lock);
    unsent.wire->to[1].row.clear();
  }
  std::deque<Message> sent;
  BOOST_REQUIRE(unsent.wait([&] {
    const std::scoped_lock guard(unsent.wire->lock);
    auto& from = unsent.wire->to[1].row;
    for (; !from.empty(); from.pop_front()) sent.push_back(std::move(from.front()));
    unsent.wire->ring(0);
    return unsent.side.sink.ended();
  }));
  for (const Message& message : sent)
    BOOST_TEST((message.payload.empty() || message.payload == source));
  BOOST_TEST(unsent.done(1) == DAT_DTO_ERR_LOCAL_PROTECTION);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
