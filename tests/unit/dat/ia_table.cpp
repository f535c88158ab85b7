// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/ia_table.h"

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

using udapl::dat_error;
using udapl::dat::IaTable;

namespace {

constexpr DAT_RETURN kInvalidIa = dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);

DAT_IA_HANDLE number(std::uintptr_t value) { return reinterpret_cast<DAT_IA_HANDLE>(value); }

struct Fixture {
  DAT_IA_HANDLE pointer(std::size_t i) { return &objects[i]; }
  DAT_IA_HANDLE insert(std::size_t i) {
    auto result = table->insert(pointer(i));
    BOOST_TEST_REQUIRE(result.ok());
    return *result;
  }

  std::unique_ptr<IaTable> table = std::make_unique<IaTable>();
  std::vector<std::uint64_t> objects = std::vector<std::uint64_t>(70000);
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(ia_table, Fixture)

BOOST_AUTO_TEST_CASE(numbers_count_from_one) {
  for (std::uintptr_t i = 1; i <= 200; ++i) BOOST_TEST(insert(i) == number(i));
  for (std::uintptr_t i = 1; i <= 200; ++i) {
    BOOST_TEST(table->pointer_of(number(i)) == pointer(i));
    BOOST_TEST(table->number_of(pointer(i)) == number(i));
    BOOST_TEST(table->resolve(number(i)) == pointer(i));
    BOOST_TEST(table->resolve(pointer(i)) == pointer(i));
  }
}

BOOST_AUTO_TEST_CASE(lowest_free_number_is_reused) {
  for (std::size_t i = 1; i <= 130; ++i) insert(i);
  for (const std::uintptr_t freed : {100U, 3U, 65U, 128U}) table->remove(number(freed));
  for (const std::uintptr_t expected : {3U, 65U, 100U, 128U, 131U})
    BOOST_TEST(insert(200 + expected) == number(expected));
}

BOOST_AUTO_TEST_CASE(handles_not_in_the_table) {
  insert(0);
  for (const DAT_IA_HANDLE handle : {number(0), number(2), number(63), number(64), number(65535),
                                     number(65536), number(UINTPTR_MAX), pointer(1)}) {
    BOOST_TEST(table->pointer_of(handle) == nullptr);
    BOOST_TEST(table->resolve(handle) == nullptr);
    BOOST_TEST(table->number_of(handle) == nullptr);
    BOOST_TEST(!table->begin_close(handle));
  }
}

BOOST_AUTO_TEST_CASE(numbers_and_pointers_are_distinguished) {
  BOOST_TEST(IaTable::is_number(nullptr));
  BOOST_TEST(IaTable::is_number(number(1)));
  BOOST_TEST(IaTable::is_number(number(65535)));
  BOOST_TEST(!IaTable::is_number(number(65536)));
  BOOST_TEST(!IaTable::is_number(pointer(0)));
}

// Each clause of dats_get_ia_handle's contract.
BOOST_AUTO_TEST_CASE(translate_both_ways) {
  int marker = 0;
  DAT_IA_HANDLE out = &marker;
  insert(0);
  BOOST_TEST(table->translate(nullptr, &out) == kInvalidIa);
  BOOST_TEST(out == &marker);  // unchanged for null
  BOOST_TEST(table->translate(number(1), &out) == 0U);
  BOOST_TEST(out == pointer(0));
  out = &marker;
  BOOST_TEST(table->translate(number(2), &out) == kInvalidIa);
  BOOST_TEST(out == nullptr);  // null for a free number
  out = &marker;
  BOOST_TEST(table->translate(number(63), &out) == kInvalidIa);
  BOOST_TEST(out == nullptr);
  out = &marker;
  BOOST_TEST(table->translate(number(64), &out) == kInvalidIa);
  BOOST_TEST(out == &marker);  // not less than the table's size, so treated as a pointer
  BOOST_TEST(table->translate(pointer(0), &out) == 0U);
  BOOST_TEST(out == number(1));
  out = &marker;
  BOOST_TEST(table->translate(pointer(1), &out) == kInvalidIa);
  BOOST_TEST(out == &marker);
  BOOST_TEST(table->translate(number(1), nullptr) ==
             dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
}

BOOST_AUTO_TEST_CASE(table_grows_by_blocks) {
  for (std::size_t i = 1; i <= 64; ++i) insert(i);
  int marker = 0;
  DAT_IA_HANDLE out = &marker;
  BOOST_TEST(table->translate(number(127), &out) == kInvalidIa);
  BOOST_TEST(out == nullptr);
  out = &marker;
  BOOST_TEST(table->translate(number(128), &out) == kInvalidIa);
  BOOST_TEST(out == &marker);
}

BOOST_AUTO_TEST_CASE(one_caller_may_close) {
  insert(0);
  BOOST_TEST(table->begin_close(number(1)));
  BOOST_TEST(!table->begin_close(number(1)));
  BOOST_TEST(table->pointer_of(number(1)) == pointer(0));  // the provider may still query it
  BOOST_TEST(table->number_of(pointer(0)) == number(1));
  table->cancel_close(number(1));
  BOOST_TEST(table->begin_close(number(1)));
  table->remove(number(1));
  BOOST_TEST(!table->begin_close(number(1)));
}

// A provider may reuse the memory of an IA before its close has returned.
BOOST_AUTO_TEST_CASE(pointer_reused_while_closing) {
  insert(0);
  BOOST_TEST(table->begin_close(number(1)));
  BOOST_TEST(insert(0) == number(2));
  BOOST_TEST(table->number_of(pointer(0)) == number(2));
  table->remove(number(1));
  BOOST_TEST(table->number_of(pointer(0)) == number(2));
  BOOST_TEST(insert(1) == number(1));
  BOOST_TEST(table->begin_close(number(1)));  // not marked by the earlier close
}

BOOST_AUTO_TEST_CASE(full_table_refuses_until_one_is_removed) {
  for (std::size_t i = 1; i < IaTable::kMaxHandles; ++i)
    BOOST_TEST_REQUIRE(table->insert(pointer(i)).ok());
  BOOST_TEST(table->insert(pointer(0)).status().code() ==
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  table->remove(number(40000));
  BOOST_TEST(insert(0) == number(40000));
}

// A reader runs while other threads insert and remove: a lookup finds the right object or none.
// Each object stores its number, so that a wrong result is noticed.
BOOST_AUTO_TEST_CASE(lookups_while_the_table_changes) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  struct Object {
    std::atomic<DAT_IA_HANDLE> number{nullptr};
  };
  std::array<std::array<Object, 40>, kThreads> owned;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed))
      for (std::uintptr_t i = 1; i < 200; ++i) {
        const DAT_IA_HANDLE object = table->pointer_of(number(i));
        if (object == nullptr) continue;
        const DAT_IA_HANDLE back = table->number_of(object);
        if (back != nullptr && (reinterpret_cast<std::uintptr_t>(back) >= 200)) ++wrong;
      }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t)
    writers.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        for (Object& object : owned[static_cast<std::size_t>(t)]) {
          auto result = table->insert(&object);
          object.number = result.ok() ? *result : nullptr;
          if (table->pointer_of(object.number) != &object) ++wrong;
          if (table->number_of(&object) != object.number.load()) ++wrong;
        }
        for (Object& object : owned[static_cast<std::size_t>(t)]) {
          if (!table->begin_close(object.number)) ++wrong;
          table->remove(object.number);
          if (table->number_of(&object) != nullptr) ++wrong;
        }
      }
    });
  for (std::thread& writer : writers) writer.join();
  stop = true;
  reader.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(insert(0) == number(1));  // all numbers are free again
}

BOOST_AUTO_TEST_SUITE_END()
