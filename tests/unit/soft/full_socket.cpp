// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Short Sends, each of which is sent by its post, until the socket takes no more.
#include "tests/unit/soft/raw_peer.h"

#include <cstring>

namespace udapl::soft::test {
namespace {

constexpr WorkId kMost = 1'000'000;

// Sends whose payload is their number. The memory is the same for all.
struct Numbered : RawPeer {
  // Without polls in a row, so that each post is sent at once.
  void post() {
    std::memcpy(bytes.data(), &posted, bytes.size());
    const auto segment = local(*bytes_mr, bytes);
    REQUIRE_OK(side.qp->post_send(posted, &segment, 1, kSignalled));
    const iwarp::IoSpan span{bytes.data(), bytes.size()};
    sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, static_cast<std::uint32_t>(span.size));
    build();
    const std::vector<std::byte> frame = RawPeer::bytes();
    batch.consume(frame.size());
    expected.insert(expected.end(), frame.begin(), frame.end());
    ++posted;
    take();
  }
  // Takes completions.
  void take() {
    side.reactor->progress();
    for (Completion c{}; side.request_cq->poll(&c, 1) == 1; ++done) {
      BOOST_REQUIRE_EQUAL(c.id, done);
      BOOST_REQUIRE(c.status == DAT_DTO_SUCCESS);
    }
  }
  // Reads until everything that is expected has arrived.
  [[nodiscard]] std::vector<std::byte> read_all() {
    std::vector<std::byte> all(expected.size() + 1);
    std::size_t size = 0;
    BOOST_REQUIRE(wait([&] {
      const ssize_t n = ::recv(peer.get(), all.data() + size, all.size() - size, MSG_DONTWAIT);
      if (n > 0) size += static_cast<std::size_t>(n);
      take();
      return size >= expected.size();
    }));
    all.resize(size);
    return all;
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(sizeof(WorkId));
  std::unique_ptr<Mr> bytes_mr = side.reg(bytes);
  std::vector<std::byte> expected;
  WorkId posted = 0;
  WorkId done = 0;
};

BOOST_AUTO_TEST_SUITE(full_socket)

BOOST_FIXTURE_TEST_CASE(short_sends_that_it_does_not_take_wait_in_order, Numbered) {
  constexpr WorkId kMore = 20;
  while (done == posted && posted != kMost) post();
  BOOST_REQUIRE_LT(done, posted);
  for (WorkId i = 0; i != kMore; ++i) post();
  BOOST_TEST((read_all() == expected));
  BOOST_REQUIRE(wait([&] {
    take();
    return done == posted;
  }));
  BOOST_TEST(side.sink.calls() == "established");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
