// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "tests/unit/soft/attach.h"
#include "tests/unit/soft/side.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace udapl::soft::test {

using transport::Completion;
using transport::kFence;
using transport::kQuiet;
using transport::kSignalled;
using transport::kSolicited;
using transport::kUnseen;
using transport::WorkFlags;
using transport::WorkId;
using namespace std::chrono_literals;

inline constexpr auto kPatience = 20s;  // only a hang takes longer, on any machine
inline constexpr auto kLocalOnly =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);

// Pseudo-random bytes, the same for the same seed.
inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte& b : bytes) {
    state = state * 1664525U + 1013904223U;
    b = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// Whether the first `length` bytes are equal. The peer's thread may be writing some of them at the
// same time, so this data race is intended.
[[nodiscard]] __attribute__((no_sanitize("thread"))) inline bool same_bytes(
    const std::vector<std::byte>& one, const std::vector<std::byte>& other, std::size_t length) {
  const volatile std::byte* const here = one.data();
  const volatile std::byte* const there = other.data();
  for (std::size_t i = 0; i != length; ++i)
    if (here[i] != there[i]) return false;
  return true;
}

// Drives the reactors of `sides` until condition() holds. Without sides, waits for their service
// threads. Returns false when kPatience has passed.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, std::initializer_list<Side*> sides = {}) {
  const auto end = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    for (Side* const side : sides) side->reactor->progress();
    if (sides.size() == 0) std::this_thread::sleep_for(100us);
  }
  return true;
}

// Two connected processes: a is the initiator.
struct Pair {
  explicit Pair(const Side::Options& a_options = {}, const Side::Options& b_options = {},
                iwarp::RtrSet rtr = iwarp::kRtrRead, bool crc = true)
      : a(a_options), b(b_options) {
    connect(rtr, crc);
  }
  void connect(iwarp::RtrSet rtr = iwarp::kRtrRead, bool crc = true) {
    const auto depth = [](int n) { return static_cast<std::uint16_t>(n); };
    const Negotiated passive = negotiated(false, rtr, depth(b.serves_reads()),
                                          depth(std::min(b.has_reads(), a.serves_reads())), crc);
    const Negotiated active = negotiated(true, rtr, depth(a.serves_reads()),
                                         depth(std::min(a.has_reads(), b.serves_reads())), crc);
    if (kPath == Path::kInProcess) {
      auto wire = std::make_shared<Wire>();
      attach_memory(b, wire, 1, passive);
      attach_memory(a, wire, 0, active);
    } else if (has_rings()) {
      auto [active_socket, passive_socket] = tcp_pair();
      auto [active_rings, passive_rings] = ring_pair(passive_socket.get());
      attach_rings(b, std::move(passive_socket), std::move(passive_rings), passive);
      attach_rings(a, std::move(active_socket), std::move(active_rings), active);
    } else {
      auto [active_socket, passive_socket] = tcp_pair();
      attach_responder(b, std::move(passive_socket), passive);
      attach_initiator(a, std::move(active_socket), active);
    }
    BOOST_REQUIRE(wait([this] {
      return a.sink.calls().ends_with("established") && b.sink.calls().ends_with("established");
    }));
  }
  template <class Condition>
  [[nodiscard]] bool wait(Condition condition) {
    return eventually(condition, {&a, &b});
  }
  // Waits for the next completion of `cq`; fails the test if there is none.
  [[nodiscard]] Completion next(Cq& cq) {
    Completion c{};
    BOOST_REQUIRE_MESSAGE(wait([&] { return cq.poll(&c, 1) == 1; }), "no completion came");
    see_placed();
    return c;
  }
  // Takes the locks under which the QPs place data. The rings' pages are mapped twice in this
  // process, so ThreadSanitizer does not see the ordering that goes through them.
  void see_placed() const {
    for (const Side* const side : {&a, &b})
      if (side->qp != nullptr) static_cast<void>(side->qp->receive_counts());
  }
  // Returns whether `cq` stays empty while both sides are driven for a while.
  [[nodiscard]] bool quiet(Cq& cq) {
    for (int i = 0; i < 50; ++i) {
      a.reactor->progress();
      b.reactor->progress();
      std::this_thread::sleep_for(200us);
      if (cq.size() != 0) return false;
    }
    return true;
  }

  Side a;
  Side b;
};

inline DAT_LMR_TRIPLET local(const Mr& mr, const void* address, std::size_t length) {
  return {reinterpret_cast<DAT_VADDR>(address), static_cast<DAT_SEG_LENGTH>(length),
          mr.lmr_context()};
}
inline DAT_LMR_TRIPLET local(const Mr& mr, const std::vector<std::byte>& bytes) {
  return local(mr, bytes.data(), bytes.size());
}
inline DAT_RMR_TRIPLET remote(DAT_RMR_CONTEXT context, const void* address, std::size_t length) {
  return {reinterpret_cast<DAT_VADDR>(address), static_cast<DAT_SEG_LENGTH>(length), context};
}
inline DAT_RMR_TRIPLET remote(const Mr& mr, const std::vector<std::byte>& bytes) {
  return remote(mr.rmr_context(), bytes.data(), bytes.size());
}

#define CHECK_OK(expression) BOOST_CHECK_EQUAL((expression), static_cast<DAT_RETURN>(DAT_SUCCESS))
#define REQUIRE_OK(expression) \
  BOOST_REQUIRE_EQUAL((expression), static_cast<DAT_RETURN>(DAT_SUCCESS))

}  // namespace udapl::soft::test
