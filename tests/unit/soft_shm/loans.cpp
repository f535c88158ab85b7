// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Payload that is lent instead of written into a ring. Here memcpy stands for the kernel's copy.
#include "providers/soft/shm/loans.h"

#include "tests/unit/soft_shm/ring.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace udapl::soft::shm::test {
namespace {

struct Fixture {
  std::unique_ptr<LoanControl> control = std::make_unique<LoanControl>();
  std::unique_ptr<LoanEnds> ends = std::make_unique<LoanEnds>();
  Bytes spare = Bytes(kSpareSize);
  Lender lender{*control, *ends, spare};
  Borrower borrower{*control, *ends, spare};
  Bytes ours = pattern(kMaxLent);
  Bytes room = Bytes(kMaxLent);
  bool reaches = true;  // whether the borrower can access our memory
  int fetches = 0;

  Fixture() { borrower.welcome(Lender::kMinLent); }

  bool lend(std::size_t size, std::uint64_t position = 0) {
    if (!lender.may_lend(size)) return false;
    lender.lend(position, position, std::span(ours).first(size));
    return true;
  }
  template <class Meanwhile>
  bool take(std::size_t size, Meanwhile meanwhile) {
    const auto fetch = [&](std::uint64_t address) {
      ++fetches;
      if (!reaches) return false;
      std::memcpy(room.data(), reinterpret_cast<const void*>(address), size);
      meanwhile();
      return true;
    };
    return borrower.take(size, fetch, [&](std::span<const std::byte> copy) {
      BOOST_TEST(copy.size() == size);
      std::ranges::copy(copy, room.begin());
    });
  }
  bool take(std::size_t size) {
    return take(size, [] {});
  }
  [[nodiscard]] bool same(std::size_t from, std::size_t size) const {
    const Bytes right = pattern(kMaxLent);
    return std::memcmp(room.data(), right.data() + from, size) == 0;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(loans, Fixture)

BOOST_AUTO_TEST_CASE(nothing_is_lent_unless_it_is_welcome) {
  borrower.welcome(0);
  BOOST_TEST(!lender.may_lend(kMaxLent));
  borrower.welcome(16384);
  BOOST_TEST(!lender.may_lend(16383));
  BOOST_TEST(lender.may_lend(16384));
  BOOST_TEST(!lender.may_lend(kMaxLent + 1));
  control->welcome = 1;  // a peer that asks for tiny loans
  BOOST_TEST(!lender.may_lend(Lender::kMinLent - 1));
}

BOOST_AUTO_TEST_CASE(what_is_lent_is_taken_in_its_place_and_returned) {
  BOOST_TEST(borrower.before_next(0) > 1U << 30);
  BOOST_REQUIRE(lend(4096, 100));
  BOOST_TEST(borrower.before_next(60) == 40U);
  BOOST_TEST(borrower.is_next(100));
  BOOST_TEST(borrower.left() == 4096U);
  BOOST_TEST(take(1000));
  BOOST_TEST(same(0, 1000));
  BOOST_TEST(lender.any());
  BOOST_TEST(!lender.needs_collect());
  BOOST_TEST(borrower.is_next(100));
  BOOST_TEST(take(3096));
  BOOST_TEST(same(1000, 3096));
  BOOST_TEST(!borrower.is_next(100));
  BOOST_TEST(lender.needs_collect());
  BOOST_TEST(!lender.collect());
  BOOST_TEST(!lender.any());
}

BOOST_AUTO_TEST_CASE(number_of_slots_is_limited) {
  for (std::size_t i = 0; i < kLoanSlots; ++i) BOOST_REQUIRE(lend(4096, i));
  BOOST_TEST(!lend(4096, 99));
  BOOST_TEST(lender.oldest() == 0U);
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(take(4096));
  BOOST_TEST(!lender.collect());
  BOOST_TEST(lender.oldest() == 1U);
  BOOST_TEST(lend(4096, 99));
}

BOOST_AUTO_TEST_CASE(loans_called_in_are_copied_and_released) {
  BOOST_REQUIRE(lend(4096));
  lender.call_in();
  BOOST_TEST(lender.needs_collect());
  BOOST_TEST(lender.collect());
  BOOST_TEST(!lender.any());
  std::ranges::fill(ours, std::byte{0});
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(take(4096));
  BOOST_TEST(fetches == 0);
  BOOST_TEST(same(0, 4096));
}

// The lender calls the loan in and overwrites the memory while the borrower is copying.
BOOST_AUTO_TEST_CASE(copy_of_a_loan_called_in_is_not_used) {
  BOOST_REQUIRE(lend(4096));
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(take(4096, [&] {
    lender.call_in();
    BOOST_TEST(!lender.needs_collect());  // waits, but not for ever
    for (int i = 0; i < 100; ++i) lender.call_in();
    BOOST_TEST(lender.needs_collect());
    BOOST_TEST(lender.collect());
    std::ranges::fill(ours, std::byte{0});
    std::ranges::fill(room, std::byte{0});
  }));
  BOOST_TEST(fetches == 1);
  BOOST_TEST(same(0, 4096));
}

BOOST_AUTO_TEST_CASE(waiting_for_long_calls_a_loan_in) {
  BOOST_REQUIRE(lend(4096));
  int looks = 0;
  while (!lender.needs_collect() && looks < 1'000'000) ++looks;
  BOOST_TEST(looks > 1000);
  BOOST_TEST(lender.collect());
  BOOST_TEST(!lender.any());
  // Nothing is lent to such a peer for some time.
  BOOST_TEST(!lender.worthwhile());
  BOOST_TEST(!lender.may_lend(4096));
  for (int i = 0; i < 10'000 && !lender.worthwhile(); ++i) static_cast<void>(lender.may_lend(4096));
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(take(4096));
  BOOST_TEST(lend(4096, 1));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_reached_is_refused_and_copied) {
  reaches = false;
  BOOST_REQUIRE(lend(4096));
  BOOST_REQUIRE(lend(8192));
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(!take(4096));
  BOOST_TEST(!borrower.ready());
  BOOST_TEST(!lender.worthwhile());
  BOOST_TEST(lender.needs_collect());
  BOOST_TEST(lender.collect());
  BOOST_TEST(borrower.ready());
  BOOST_TEST(take(4096));
  BOOST_TEST(same(0, 4096));
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(take(8192));
  BOOST_TEST(same(0, 8192));
  BOOST_TEST(fetches == 1);
}

// Freed places for copies are reused, starting with the first ones.
BOOST_AUTO_TEST_CASE(copies_find_room_while_others_wait) {
  const auto turn = [&](std::uint64_t first) {
    for (std::uint64_t i = 0; i < kLoanSlots / 2; ++i) {
      while (!lender.worthwhile()) static_cast<void>(lender.may_lend(kMaxLent));
      BOOST_REQUIRE(lend(kMaxLent, first + i));
    }
    lender.call_in();
    BOOST_TEST(lender.collect());
    BOOST_TEST(!lender.any());
  };
  turn(0);
  for (std::uint64_t round = 1; round < 8; ++round) {
    turn(round * kLoanSlots / 2);
    for (std::uint64_t i = 0; i < kLoanSlots / 2; ++i) {
      BOOST_REQUIRE(borrower.is_next((round - 1) * kLoanSlots / 2 + i));
      BOOST_TEST(take(kMaxLent));
      BOOST_TEST(same(0, kMaxLent));
    }
    static_cast<void>(lender.collect());
    lender.call_in();
  }
}

// ---- loans that the lender writes to their destination ------------------------------------------

// Four loans of contiguous bytes, and the destination of all of them.
struct WrittenFixture : Fixture {
  static constexpr std::size_t kSize = 4096;
  static constexpr std::size_t kLoans = 4;
  Bytes target = Bytes(kLoans * kSize);
  std::vector<std::size_t> writes;  // sizes
  bool writable = true;

  explicit WrittenFixture(std::size_t left_to_borrower = kLoans) {
    for (std::size_t i = 0; i < kLoans; ++i) {
      BOOST_REQUIRE(lender.may_lend(kSize));
      lender.lend(i, i * kSize, std::span(ours).subspan(i * kSize, kSize), i >= left_to_borrower);
    }
  }
  template <class Meanwhile>
  bool assist(std::size_t loans, Meanwhile meanwhile) {
    return lender.assist({0, loans * kSize}, [&](std::span<const std::byte> bytes) {
      meanwhile();
      writes.push_back(bytes.size());
      const std::ptrdiff_t from = bytes.data() - ours.data();
      if (writable) std::ranges::copy(bytes, target.begin() + from);
      return writable;
    });
  }
  void take_plainly(std::uint64_t position) {
    BOOST_REQUIRE(borrower.is_next(position));
    BOOST_TEST(!borrower.written());
    BOOST_TEST(take(kSize));
    BOOST_TEST(same(position * kSize, kSize));
  }
  void take_written(std::uint64_t position, std::size_t size) {
    BOOST_REQUIRE(borrower.is_next(position));
    BOOST_REQUIRE(borrower.written());
    Bytes end(size);
    borrower.take_written(end);
    BOOST_TEST(std::memcmp(end.data(), ours.data() + (position + 1) * kSize - size, size) == 0);
    BOOST_TEST(
        std::memcmp(target.data() + position * kSize, ours.data() + position * kSize, kSize) == 0);
  }
};

BOOST_FIXTURE_TEST_CASE(lender_writes_the_last_ones, WrittenFixture) {
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(take(100));  // this one is taken, then
  BOOST_TEST(assist(kLoans - 1, [] {}));
  BOOST_TEST((writes == std::vector{kSize, kSize}));  // half of what is left each time
  BOOST_TEST(take(kSize - 100));
  take_written(1, 8);
  take_written(2, 8);
  take_plainly(3);  // it is behind that part
  BOOST_TEST(!lender.collect());
  BOOST_TEST(lender.all_returned());
}

BOOST_FIXTURE_TEST_CASE(loan_that_is_being_written_is_not_taken, WrittenFixture) {
  bool first = true;
  BOOST_TEST(assist(kLoans, [&] {
    if (!std::exchange(first, false)) return;
    take_plainly(0);
    take_plainly(1);
    BOOST_REQUIRE(borrower.is_next(2));
    BOOST_TEST(!borrower.ready());
    BOOST_TEST(!take(kSize));
    BOOST_TEST(!borrower.broken());
  }));
  BOOST_TEST((writes == std::vector{2 * kSize}));
  BOOST_TEST(borrower.ready());
  take_written(2, 0);
  take_written(3, 3);
}

BOOST_FIXTURE_TEST_CASE(loans_that_cannot_be_written_are_taken, WrittenFixture) {
  writable = false;
  BOOST_TEST(assist(kLoans, [] {}));
  BOOST_TEST(writes.size() == 1U);
  for (std::uint64_t i = 0; i < kLoans; ++i) take_plainly(i);
}

// What is not received in place can be taken as well, and survives that the lender calls it in.
BOOST_FIXTURE_TEST_CASE(written_loan_is_still_lent, WrittenFixture) {
  BOOST_TEST(assist(kLoans, [] {}));
  BOOST_REQUIRE(borrower.is_next(0));
  BOOST_TEST(borrower.written());
  BOOST_TEST(take(kSize));
  BOOST_TEST(same(0, kSize));
  for (int i = 0; i < 100; ++i) lender.call_in();
  BOOST_TEST(lender.collect());
  std::ranges::fill(ours, std::byte{0});
  take_plainly(1);
  BOOST_TEST(fetches == 1);
}

BOOST_FIXTURE_TEST_CASE(other_parts_are_not_written, WrittenFixture) {
  BOOST_TEST(!lender.assist({kLoans * kSize, (kLoans + 1) * kSize},
                            [](std::span<const std::byte>) { return true; }));
  BOOST_TEST(!assist(0, [] {}));
  for (std::uint64_t i = 0; i < kLoans; ++i) take_plainly(i);
}

struct ClaimedFixture : WrittenFixture {
  ClaimedFixture() : WrittenFixture(2) {}
};

// Loans that the lender claims from the beginning are not taken before it has written them.
BOOST_FIXTURE_TEST_CASE(claimed_loans_are_written_first, ClaimedFixture) {
  take_plainly(0);
  take_plainly(1);
  BOOST_REQUIRE(borrower.is_next(2));
  BOOST_TEST(!borrower.ready());
  BOOST_TEST(!take(kSize));
  BOOST_TEST(assist(kLoans, [] {}));
  BOOST_TEST((writes == std::vector{2 * kSize}));
  take_written(2, 8);
  take_written(3, 8);
  BOOST_TEST(!lender.collect());
  BOOST_TEST(lender.all_returned());
}

BOOST_FIXTURE_TEST_CASE(claimed_loans_that_cannot_be_written_are_taken, ClaimedFixture) {
  writable = false;
  BOOST_TEST(assist(kLoans, [] {}));
  for (std::uint64_t i = 0; i < kLoans; ++i) take_plainly(i);
}

// A lender that has to wait before it can write them may call all loans in.
BOOST_FIXTURE_TEST_CASE(claimed_loans_are_called_in, ClaimedFixture) {
  lender.call_in();
  BOOST_TEST(lender.collect());
  std::ranges::fill(ours, std::byte{0});
  BOOST_TEST(!assist(kLoans, [] {}));
  for (std::uint64_t i = 0; i < kLoans; ++i) {
    BOOST_REQUIRE(borrower.is_next(i));
    BOOST_TEST(take(kSize));
  }
  BOOST_TEST(fetches == 0);
  lender.reclaim();
  BOOST_TEST(lender.all_returned());
  BOOST_TEST(!assist(kLoans, [] {}));
  BOOST_TEST(writes.empty());
}

// ---- lies ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(slots_that_cannot_be_break_the_stream) {
  const auto lies = [&](auto lie) {
    control = std::make_unique<LoanControl>();
    Borrower fresh(*control, *ends, spare);
    control->slots[0].position = 50;
    control->slots[0].length = 4096;
    control->lent = 1;
    lie();
    BOOST_TEST(fresh.is_next(50));
    const bool taken = !fresh.broken() && fresh.take(
                                              1, [](std::uint64_t) { return true; },
                                              [](std::span<const std::byte>) {});
    BOOST_TEST(!taken);
    BOOST_TEST(fresh.broken());
  };
  lies([&] { control->slots[0].position = 49; });
  lies([&] { control->slots[0].length = 0; });
  lies([&] { control->slots[0].length = kMaxLent + 1; });
  lies([&] { control->slots[0].copied_to = kLoanSlots + 1; });
  lies([&] { control->slots[0].copied_to = kTaken + 1; });
  lies([&] { control->slots[0].copied_to = kWritten + 1; });
  lies([&] { control->lent = kLoanSlots + 1; });
  lies([&] { control->lent = ~0U; });
}

BOOST_AUTO_TEST_CASE(returns_of_what_was_not_lent_break_the_stream) {
  for (const std::uint32_t lie : {2U, 33U, ~0U}) {
    control = std::make_unique<LoanControl>();
    Lender fresh(*control, *ends, spare);
    control->welcome = 1;
    BOOST_REQUIRE(fresh.may_lend(4096));
    fresh.lend(0, 0, std::span(ours).first(4096));
    control->returned = lie;
    BOOST_TEST(fresh.needs_collect());
    BOOST_TEST(!fresh.collect());
    BOOST_TEST(fresh.broken());
    BOOST_TEST(!fresh.may_lend(4096));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::shm::test
