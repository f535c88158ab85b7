// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "connecting.h"
#include "harness.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

// A thread polls memory and makes no DAT call: if it sees the last byte of a Write, of a receive
// buffer or of the sink of a Read, it must see all of it.
namespace conformance {

namespace {

constexpr std::size_t kMax = 100000;  // large enough to be received directly into place
constexpr std::size_t kOften = 16384;
constexpr int kBurst = 40;  // less than 256: a byte identifies an operation
constexpr auto kTime = std::chrono::seconds(6);

enum class Path { kWrite, kSend, kRead };

std::uint8_t load(const std::uint8_t& byte) {
  return std::atomic_ref<std::uint8_t>(const_cast<std::uint8_t&>(byte))
      .load(std::memory_order_acquire);
}

// Polls a piece of memory continuously.
class Poller {
 public:
  explicit Poller(std::span<const std::uint8_t> memory)
      : memory_(memory), thread_([this] { run(); }) {}
  ~Poller() {
    over_ = true;
    thread_.join();
  }
  // Starts to poll other bytes, which all have the same value.
  void watch(std::size_t offset, std::size_t size) { where_ = std::uint64_t{offset} << 32 | size; }
  void look_away() {
    where_ = 0;
    wait_for_looks();
  }
  void wait_for_looks() const {
    const std::uint64_t until = looks_ + 2;
    while (looks_ < until) std::this_thread::yield();
  }
  [[nodiscard]] std::uint64_t stale() const { return stale_; }
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  void run() {
    for (; !over_; ++looks_) {
      const std::uint64_t now = where_;
      const auto size = static_cast<std::uint32_t>(now);
      if (size == 0) {
        std::this_thread::yield();
        continue;
      }
      const std::uint8_t* const bytes = memory_.data() + (now >> 32);
      const std::uint8_t last = load(bytes[size - 1]);
      bool old = false;
      for (std::size_t i = 0; i + 1 < size; ++i)
        old = old || static_cast<std::int8_t>(load(bytes[i]) - last) < 0;
      if (old) ++stale_;
    }
  }

  std::span<const std::uint8_t> memory_;
  std::atomic<std::uint64_t> where_{0};
  std::atomic<std::uint64_t> looks_{0};
  std::atomic<std::uint64_t> stale_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

struct Deep : DAT_EP_ATTR {
  Deep() : DAT_EP_ATTR(attr()) {}
  static DAT_EP_ATTR attr() {
    const Ia ia;
    DAT_EP_ATTR a = default_ep_attr(ia);
    a.max_recv_dtos = a.max_request_dtos = 2 * kBurst;
    return a;
  }
};

struct Run : private Deep, Pair {
  Run() : Pair(this), target(ia, pz, kMax + 64) {
    for (int i = 0; i < kBurst; ++i) sources.push_back(std::make_unique<Buffer>(ia, pz, kMax));
    connect();
  }

  // Makes one burst to `offset`; every operation writes the next value to all its bytes.
  void burst(Path path, std::size_t offset, std::size_t size) {
    for (int i = 0; i < kBurst; ++i) {
      Buffer& from = *sources[static_cast<std::size_t>(i)];
      std::fill_n(from.bytes.begin(), size, ++value);
      const auto number = static_cast<std::uint64_t>(i);
      DAT_LMR_TRIPLET here = from.local(size);
      DAT_LMR_TRIPLET there = target.local(size, offset);
      DAT_RMR_TRIPLET remote =
          path == Path::kWrite ? target.remote(size, offset) : from.remote(size);
      switch (path) {
        case Path::kWrite:
          REQUIRE_OK(dat_ep_post_rdma_write(active.ep, 1, &here, cookie(number), &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG));
          break;
        case Path::kSend:
          REQUIRE_OK(
              dat_ep_post_recv(passive.ep, 1, &there, cookie(number), DAT_COMPLETION_DEFAULT_FLAG));
          REQUIRE_OK(
              dat_ep_post_send(active.ep, 1, &here, cookie(number), DAT_COMPLETION_DEFAULT_FLAG));
          break;
        case Path::kRead:
          REQUIRE_OK(dat_ep_post_rdma_read(active.ep, 1, &there, cookie(number), &remote,
                                           DAT_COMPLETION_DEFAULT_FLAG));
          break;
      }
    }
    for (std::uint64_t i = 0; i < kBurst; ++i) {
      expect_dto(active.request_evd, DAT_DTO_SUCCESS, i);
      if (path == Path::kSend) expect_dto(passive.recv_evd, DAT_DTO_SUCCESS, i);
    }
    // The last Write has been placed when a Read that was posted after it completes.
    if (path != Path::kWrite) return;
    DAT_RMR_TRIPLET nothing = target.remote(0);
    REQUIRE_OK(dat_ep_post_rdma_read(active.ep, 0, nullptr, cookie(99), &nothing,
                                     DAT_COMPLETION_DEFAULT_FLAG));
    expect_dto(active.request_evd, DAT_DTO_SUCCESS, 99);
  }

  std::uint64_t poll(Path path) {
    Poller poller(target.bytes);
    std::minstd_rand random(5);
    std::uint64_t operations = 0;
    const auto end = std::chrono::steady_clock::now() + kTime;
    while (std::chrono::steady_clock::now() < end) {
      const std::size_t offset = random() % 64;
      const unsigned kind = random() % 64;
      const std::size_t most = kind == 0 ? kMax : kind < 16 ? kOften : 600;
      const std::size_t size = 1 + random() % most;
      poller.look_away();
      std::fill(target.bytes.begin(), target.bytes.end(), value);
      poller.watch(offset, size);
      for (int i = 0; i < 8; ++i) {
        burst(path, offset, size);
        poller.wait_for_looks();
        operations += kBurst;
      }
    }
    std::printf("%llu operations, %llu looks\n", static_cast<unsigned long long>(operations),
                static_cast<unsigned long long>(poller.looks()));
    return poller.stale();
  }

  Buffer target;
  std::vector<std::unique_ptr<Buffer>> sources;
  std::uint8_t value = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(polled_memory)

BOOST_AUTO_TEST_CASE(the_end_of_a_write_comes_last) {
  BOOST_CHECK_EQUAL(Run().poll(Path::kWrite), 0U);
}
BOOST_AUTO_TEST_CASE(the_end_of_a_receive_buffer_comes_last) {
  BOOST_CHECK_EQUAL(Run().poll(Path::kSend), 0U);
}
BOOST_AUTO_TEST_CASE(the_end_of_a_read_comes_last) {
  BOOST_CHECK_EQUAL(Run().poll(Path::kRead), 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
