// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A QP with messages that its link has built and cannot hand over.
#pragma once

#include "tests/unit/soft/support.h"

#include <deque>

namespace udapl::soft::test {

// The peer is the test: it puts messages into the row to the QP, and takes the QP's from the other
// row. The link reads the memory of a message only when there is room for it in that row.
struct Unsent {
  static constexpr std::size_t kSize = 1000;
  static Side::Options options(int depth) {
    return {.max_request = 512, .read_in = depth, .cq_depth = 2048};
  }

  explicit Unsent(int depth) : side(options(depth)) {
    attach_memory(side, wire, 0,
                  negotiated(true, iwarp::kRtrNone, static_cast<std::uint16_t>(depth), 4), true);
    BOOST_REQUIRE(wait([&] { return side.sink.calls() == "established"; }));
    for (std::size_t i = 0; i < Wire::kRoom; ++i) REQUIRE_OK(side.qp->post_send(0, nullptr, 0, 0));
    BOOST_REQUIRE(wait([&] { return row(1) == Wire::kRoom; }));
  }
  template <class Condition>
  [[nodiscard]] bool wait(Condition condition) {
    return eventually(condition, {&side});
  }
  [[nodiscard]] std::size_t row(std::size_t to) {
    const std::scoped_lock guard(wire->lock);
    return wire->to[to].row.size();
  }
  // Puts a Read Request into the row to the QP; give() lets the QP see it.
  void read(const Mr& mr, const std::vector<std::byte>& source) {
    const iwarp::ReadRequest request{1, reads++, static_cast<std::uint32_t>(source.size()),
                                     mr.rmr_context(),
                                     reinterpret_cast<std::uintptr_t>(source.data())};
    const std::scoped_lock guard(wire->lock);
    wire->to[0].row.push_back({.opcode = iwarp::Opcode::kReadRequest, .read = request});
  }
  void give() {
    wire->ring(0);
    BOOST_REQUIRE(wait([&] { return row(0) == 0; }));
    for (int i = 0; i < 3; ++i) side.reactor->progress();
  }
  // Takes the QP's messages until there are `count`, without the first empty Sends.
  [[nodiscard]] std::deque<Message> take(std::size_t count) {
    std::deque<Message> all;
    BOOST_REQUIRE(wait([&] {
      const std::scoped_lock guard(wire->lock);
      auto& from = wire->to[1].row;
      if (!from.empty()) wire->ring(0);
      for (; !from.empty(); from.pop_front()) all.push_back(std::move(from.front()));
      return all.size() == count + Wire::kRoom;
    }));
    all.erase(all.begin(), all.begin() + Wire::kRoom);
    return all;
  }
  DAT_RETURN send(WorkId id, const Mr& mr, const std::vector<std::byte>& bytes) {
    const auto segment = local(mr, bytes);
    return side.qp->post_send(id, &segment, 1, kSignalled);
  }
  [[nodiscard]] DAT_DTO_COMPLETION_STATUS done(WorkId id) {
    Completion c{};
    BOOST_REQUIRE(wait([&] { return side.request_cq->poll(&c, 1) == 1; }));
    BOOST_TEST(c.id == id);
    return c.status;
  }

  Side side;
  std::shared_ptr<Wire> wire = std::make_shared<Wire>();
  std::uint64_t reads = 0;
};

}  // namespace udapl::soft::test
