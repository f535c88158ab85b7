// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What a peer that always has input costs another descriptor of the same adapter: counted in
// messages, not in time.
#include <sys/eventfd.h>

#include <algorithm>

#include "tests/unit/soft/raw_peer.h"

namespace udapl::soft::test {
namespace {

// Messages of a flood, each a Write of one byte to the next place.
constexpr std::size_t kFlood = 2000;
// A pass over a connection ends after 256 KB of work, where a frame counts as 1 KB more than its
// bytes. A turn makes at most three over one connection: before it asks epoll, when the socket is
// ready, and after all descriptors. epoll reports the two descriptors in either order, so between
// two calls of the neighbour are at most the socket and what follows it in one turn, and what
// precedes the neighbour in the next.
constexpr std::size_t kMostBetweenCalls = 4 * 256;

// A descriptor that is always ready, like a connection with input. Notes how many messages of a
// flood were placed from one of its calls to the next.
class Neighbour final : public Handler {
 public:
  Neighbour(Reactor& reactor, const std::vector<std::byte>& places)
      : reactor_(reactor), places_(places), fd_(::eventfd(1, EFD_NONBLOCK)) {
    BOOST_REQUIRE(reactor_.watch(fd_.get(), EPOLLIN, *this).ok());
  }
  ~Neighbour() {
    held = false;
    reactor_.unwatch(fd_.get(), *this);
    reactor_.quiesce(*this);
  }
  void on_ready(std::uint32_t) noexcept override {
    ++calls;
    while (held) std::this_thread::sleep_for(100us);
    std::size_t now = placed;
    while (now != places_.size() && places_[now] != std::byte{}) ++now;
    most = std::max(most.load(), now - placed);
    placed = now;
  }

  std::atomic<bool> held{true};  // the driving thread waits in a call
  std::atomic<int> calls{0};
  std::atomic<std::size_t> placed{0};
  std::atomic<std::size_t> most{0};  // placed between two calls

 private:
  Reactor& reactor_;
  const std::vector<std::byte>& places_;
  Fd fd_;
};

BOOST_FIXTURE_TEST_SUITE(fairness, RawPeer)

BOOST_AUTO_TEST_CASE(flood_of_tiny_frames_leaves_turns_to_others) {
  std::vector<std::byte> places(kFlood);
  const auto places_mr = side.reg(places);
  std::vector<std::byte> flood;
  const std::byte one{1};
  const iwarp::IoSpan span{&one, 1};
  for (std::size_t i = 0; i < kFlood; ++i) {
    sender.begin_write(places_mr->rmr_context(), reinterpret_cast<DAT_VADDR>(&places[i]),
                       {&span, 1}, 1);
    build();
    const auto frame = bytes();
    flood.insert(flood.end(), frame.begin(), frame.end());
    batch.consume(batch.pending_bytes());
  }
  Neighbour neighbour(*side.reactor, places);
  const auto end = Clock::now() + kPatience;
  while (neighbour.calls == 0 && Clock::now() < end) std::this_thread::sleep_for(1ms);
  BOOST_REQUIRE(neighbour.calls == 1);
  BOOST_REQUIRE(raw(flood));  // all of it is there before the next turn
  neighbour.held = false;
  BOOST_REQUIRE(wait([&] { return neighbour.placed == kFlood; }));
  BOOST_TEST(neighbour.most <= kMostBetweenCalls);
  BOOST_TEST(neighbour.most > 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
