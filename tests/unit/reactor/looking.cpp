// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reactor: a handler that is repeatedly ready while the application polls is called directly,
// without epoll.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "tests/unit/reactor/bell.h"

namespace udapl::test {

namespace {

// A Bell that implements look().
class Looker final : public Handler {
 public:
  explicit Looker(Reactor& reactor) : reactor_(reactor), fd_(::eventfd(0, EFD_NONBLOCK)) {
    BOOST_REQUIRE(reactor_.watch(fd_.get(), EPOLLIN, *this).ok());
  }
  ~Looker() {
    reactor_.unwatch(fd_.get(), *this);
    reactor_.quiesce(*this);
  }
  void ring() {
    const std::uint64_t one = 1;
    BOOST_REQUIRE_EQUAL(::write(fd_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    ++rung;
  }
  void on_ready(std::uint32_t) noexcept override { served += take() ? 1 : 0; }
  Look look() noexcept override {
    ++looks;
    if (!take()) return Look::kNothing;
    ++served;
    ++found;
    return Look::kFound;
  }

  int rung = 0;
  std::atomic<int> served{0};
  std::atomic<int> looks{0};
  std::atomic<int> found{0};

 private:
  bool take() noexcept {
    std::uint64_t value = 0;
    return ::read(fd_.get(), &value, sizeof value) == sizeof value;
  }

  Reactor& reactor_;
  Fd fd_;
};

// Rings repeatedly until the reactor calls look().
void make_habit(Reactor& reactor, Looker& looker) {
  const auto end = Clock::now() + kPatience;
  while (looker.found == 0) {
    BOOST_REQUIRE(Clock::now() < end);
    looker.ring();
    BOOST_REQUIRE(drive_until(reactor, [&] { return looker.served == looker.rung; }));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reactor_looking)

BOOST_AUTO_TEST_CASE(repeatedly_ready_handler_is_called_directly) {
  const auto reactor = make_reactor();
  Looker looker(*reactor);
  make_habit(*reactor, looker);
  for (int i = 0; i < 1000; ++i) {
    looker.ring();
    BOOST_REQUIRE(drive_until(*reactor, [&] { return looker.served == looker.rung; }));
  }
}

BOOST_AUTO_TEST_CASE(other_handlers_are_served_too) {
  const auto reactor = make_reactor();
  Looker looker(*reactor);
  Bell bell(*reactor);
  make_habit(*reactor, looker);
  for (int i = 1; i <= 20; ++i) {
    bell.ring();
    BOOST_REQUIRE(drive_until(*reactor, [&] {
      if (looker.served == looker.rung) looker.ring();  // the looker always has input
      return bell.rung == i;
    }));
  }
}

// look() is no longer called when there is no more input.
BOOST_AUTO_TEST_CASE(handler_without_input_is_not_called_any_more) {
  const auto reactor = make_reactor();
  Looker looker(*reactor);
  make_habit(*reactor, looker);
  for (int i = 0; i < 1000; ++i) reactor->progress();
  const int before = looker.looks;
  for (int i = 0; i < 1000; ++i) reactor->progress();
  BOOST_TEST(looker.looks == before);
  looker.ring();
  BOOST_TEST(drive_until(*reactor, [&] { return looker.served == looker.rung; }));
}

BOOST_AUTO_TEST_CASE(destroyed_handler_is_not_called) {
  const auto reactor = make_reactor();
  auto former = std::make_unique<Looker>(*reactor);
  make_habit(*reactor, *former);
  former.reset();
  for (int i = 0; i < 10; ++i) reactor->progress();
  Looker next(*reactor);  // in the same slot
  next.ring();
  BOOST_TEST(drive_until(*reactor, [&] { return next.served == 1; }));
}

BOOST_AUTO_TEST_CASE(handler_without_look_is_notified) {
  const auto reactor = make_reactor();
  Bell bell(*reactor);
  for (int i = 1; i <= 200; ++i) {
    bell.ring();
    BOOST_REQUIRE(drive_until(*reactor, [&] { return bell.rung == i; }));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
