// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Addresses that appear and disappear, with a kernel that notifies too early.
#include "providers/soft/io/address_watch.h"

#include <sys/socket.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "tests/unit/soft_io/raw_socket.h"

namespace udapl::soft::test {
namespace {

// Whether the address exists; changes after `looks_until_change` calls of is_here().
std::atomic<bool> here{true};
std::atomic<int> looks_until_change{0};
std::atomic<int> looks{0};

bool is_here(const transport::SocketAddress&) noexcept {
  ++looks;
  if (looks_until_change > 0 && --looks_until_change == 0) here = !here;
  return here;
}

class CountingSink final : public transport::AdapterSink {
 public:
  void on_catastrophic() noexcept override {}
  void on_internal_error() noexcept override { ++losses; }
  std::atomic<int> losses{0};
};

template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 20'000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

struct Fixture {
  Fixture() {
    here = true;
    looks = 0;
    looks_until_change = 0;
    auto made = Reactor::create("udapl-test");
    BOOST_REQUIRE(made.ok());
    reactor = *std::move(made);
    watch.emplace(*reactor, ipv4("127.0.0.1"), sink, &is_here);
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) == 0);
    kernel = Fd(ends[0]);
    watch->start(Fd(ends[1]));
  }
  // Sends the kernel's notification of a change.
  void notify() { BOOST_REQUIRE(::send(kernel.get(), "", 1, 0) == 1); }
  CountingSink sink;
  std::unique_ptr<Reactor> reactor;
  std::optional<AddressWatch> watch;
  Fd kernel;
};

BOOST_AUTO_TEST_SUITE(address_watch)

BOOST_FIXTURE_TEST_CASE(address_gone_soon_after_the_notification, Fixture) {
  looks_until_change = 2;
  notify();
  BOOST_TEST(soon([&] { return sink.losses == 1; }));
  BOOST_TEST(looks >= 2);
}

BOOST_FIXTURE_TEST_CASE(address_gone_long_after_the_notification, Fixture) {
  looks_until_change = 3;
  notify();
  BOOST_TEST(soon([&] { return sink.losses == 1; }));
}

BOOST_FIXTURE_TEST_CASE(address_back_after_the_notification, Fixture) {
  here = false;
  notify();
  BOOST_TEST(soon([&] { return sink.losses == 1; }));
  BOOST_TEST(soon([&] { return looks == 3; }));
  looks_until_change = 2;
  notify();
  BOOST_TEST(soon([&] { return looks == 6; }));
  here = false;
  notify();
  BOOST_TEST(soon([&] { return sink.losses == 2; }));
}

BOOST_FIXTURE_TEST_CASE(ends_while_looks_are_to_follow, Fixture) {
  notify();
  BOOST_TEST(soon([&] { return looks >= 1; }));
  watch.reset();
  const int before = looks;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BOOST_TEST(looks == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
