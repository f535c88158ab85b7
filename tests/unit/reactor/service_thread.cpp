// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The stack of the service thread in a program with much thread-local storage, like Fortran's
// COMMON blocks that are private to a thread.
#include "providers/reactor/service_thread.h"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstddef>

namespace udapl::test {

namespace {

// Fits on a stack of 256 KiB, and leaves too little of it.
thread_local std::array<volatile char, std::size_t{200} * 1024> storage_of_the_program{};

// Writes to 128 KiB of stack.
struct Entry {
  bool done = false;

  void run() noexcept {
    std::array<volatile char, std::size_t{128} * 1024> used;
    for (auto at = used.rbegin(); at != used.rend(); ++at) *at = 1;
    storage_of_the_program.front() = used.front();
    done = true;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(service_threads)

BOOST_AUTO_TEST_CASE(thread_local_storage_takes_none_of_the_stack) {
  Entry entry;
  ServiceThread thread;
  BOOST_TEST_REQUIRE(thread.start("udapl-test", Call::to<&Entry::run>(&entry)) == 0);
  thread.join();
  BOOST_TEST(entry.done);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
