// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A listener that gets no memory for a connection. A separate program, because it replaces the
// global operator new.
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "providers/connecting/socket_address.h"
#include "tests/unit/soft_io/cm_fixture.h"
#include "tests/unit/soft_io/errors_of.h"

namespace {

std::atomic<bool> no_memory{false};  // for code that checks
std::atomic<int> refusals{0};

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (!no_memory) return std::malloc(size != 0 ? size : 1);
  ++refusals;
  return nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace udapl::soft::test {

BOOST_FIXTURE_TEST_SUITE(cm_memory, CmFixture)

BOOST_AUTO_TEST_CASE(connection_that_gets_no_memory_is_closed_and_named) {
  Desk desk;
  const auto listener = listen(desk);
  RawSocket peer;
  const std::string said = errors_of([&] {
    no_memory = true;
    BOOST_CHECK(peer.connect(listener->address()));
    BOOST_CHECK(eventually([] { return refusals.load() > 0; }));
    BOOST_CHECK(peer.closed());
    no_memory = false;
  });
  BOOST_TEST(said.find("no memory for a connection from 127.0.0.1:") != std::string::npos);
  check_service(*listener, desk);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
