// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What arrives while the system gives no memory to read it into. It is read when there is some
// again.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "common/tracing/trace.h"
#include "tests/unit/soft/raw_peer.h"

namespace {
std::atomic<bool> no_pages{false};
}  // namespace

// Takes precedence over that of the C library.
extern "C" void* mmap(void* address, std::size_t length, int protection, int flags, int fd,
                      off_t offset) noexcept {
  if (no_pages) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(
      ::syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

namespace udapl::soft::test {
namespace {

struct NoPages : RawPeer {
  static constexpr std::size_t kMax = 4096;

  // Without a time limit for the rest of a message, which also makes the QP read.
  NoPages() : RawPeer({.peer_timeout = Clock::duration::zero()}) { trace::set_level(0); }
  ~NoPages() {
    no_pages = false;
    trace::set_level(level);
  }
  const int level = trace::level();

  void send(std::span<const std::byte> part) {
    raw(part);
    for (const auto end = Clock::now() + 15ms; Clock::now() < end;) side.reactor->progress();
  }
  // Sends a message, the first `cut` bytes of its frame apart.
  void receive(WorkId id, std::size_t size, std::size_t cut) {
    const std::vector<std::byte> data = pattern(size, static_cast<unsigned>(id));
    std::vector<std::byte> buffer(size);
    const auto buffer_mr = side.reg(buffer);
    const auto segment = local(*buffer_mr, buffer);
    REQUIRE_OK(side.qp->post_recv(id, &segment, 1, kSignalled));
    const iwarp::IoSpan span{data.data(), data.size()};
    sender.begin_send(iwarp::Opcode::kSend, 0, {&span, 1}, static_cast<std::uint32_t>(span.size));
    build();
    const std::vector<std::byte> frame = bytes();
    batch.consume(frame.size());
    if (cut != 0) send(std::span(frame).first(cut));
    BOOST_TEST(side.sink.calls() == "established");
    if (no_pages)
      send(std::span(frame).subspan(cut));
    else
      raw(std::span(frame).subspan(cut));
    BOOST_TEST(side.sink.calls() == "established");
    if (no_pages) BOOST_TEST(side.recv_cq->size() == 0);
    no_pages = false;
    Completion c{};
    BOOST_REQUIRE(wait([&] { return side.recv_cq->poll(&c, 1) == 1; }));
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST((buffer == data));
  }
  // A message for which there is no memory: another connection has the piece that the pool keeps.
  void starve(WorkId id, std::size_t size) {
    StagingPool::Piece spare = side.staging.take(StagingPool::kMin);
    BOOST_REQUIRE(spare.get() != nullptr);
    no_pages = true;
    receive(id, size, size / 3);
    side.staging.release(std::move(spare));
  }
};

BOOST_AUTO_TEST_SUITE(memory_to_read_into)

BOOST_FIXTURE_TEST_CASE(is_awaited_behind_short_messages, NoPages) {
  WorkId id = 0;
  // Without a long pause, so that they are read in the short way.
  for (int round = 0; round != 4; ++round) {
    for (int i = 0; i != 8; ++i) receive(++id, 600, 0);
    starve(++id, 600);
  }
}

BOOST_FIXTURE_TEST_CASE(is_awaited_behind_large_messages, NoPages) {
  receive(1, kMax, 0);
  starve(2, kMax);
  receive(3, kMax, 1000);
}

BOOST_FIXTURE_TEST_CASE(is_not_awaited_when_the_peer_has_gone, NoPages) {
  receive(1, 600, 0);
  const StagingPool::Piece spare = side.staging.take(StagingPool::kMin);
  no_pages = true;
  send(std::array<std::byte, 10>{});
  BOOST_TEST(side.sink.calls() == "established");
  reset_peer();
  expect_broken(transport::BreakReason::kTransportLost);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
