// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Every operation between two QPs: data, lengths, completions.
#include "tests/unit/soft/support.h"

#include <sys/mman.h>

#include <numeric>

namespace udapl::soft::test {
namespace {

constexpr std::size_t kSizes[] = {0,    1,    7,     63,    64,     65,     255,     1023,
                                  4096, 4097, 65000, 65536, 262144, 500001, 1048576, 4194304};

void check_success(const Completion& c, WorkId id, DAT_DTOS operation, std::size_t length) {
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST(c.id == id);
  BOOST_TEST(c.operation == operation);
  BOOST_TEST(c.length == length);
}

BOOST_AUTO_TEST_SUITE(transfer)

BOOST_AUTO_TEST_CASE(connection_is_reported_once_on_both_sides) {
  for (const iwarp::RtrSet rtr : {iwarp::kRtrRead, iwarp::kRtrWrite, iwarp::kRtrNone}) {
    Pair pair({}, {}, rtr);
    BOOST_TEST(pair.a.sink.calls() == "established");
    BOOST_TEST(pair.b.sink.calls() == "established");
    BOOST_TEST(pair.quiet(*pair.a.request_cq));
    BOOST_TEST(pair.quiet(*pair.b.recv_cq));
    BOOST_TEST(pair.a.sink.calls() == "established");
  }
}

BOOST_AUTO_TEST_CASE(sends_of_all_sizes_arrive) {
  for (const bool crc : {true, false}) {
    Pair pair({}, {}, iwarp::kRtrRead, crc);
    for (const std::size_t size : kSizes) {
      const auto data = pattern(size + 1);
      std::vector<std::byte> room(size + 1);
      auto from = pair.a.reg(data);
      auto to = pair.b.reg(room);
      const auto receive = local(*to, room.data(), size);
      const auto send = local(*from, data.data(), size);
      REQUIRE_OK(pair.b.qp->post_recv(11, &receive, 1, kSignalled));
      REQUIRE_OK(pair.a.qp->post_send(22, &send, 1, kSignalled));
      check_success(pair.next(*pair.a.request_cq), 22, DAT_DTO_SEND, size);
      const Completion c = pair.next(*pair.b.recv_cq);
      check_success(c, 11, DAT_DTO_RECEIVE, size);
      BOOST_TEST(c.qp_context == &pair.b);
      BOOST_TEST((std::memcmp(data.data(), room.data(), size) == 0));
      BOOST_TEST((room[size] == std::byte{0}));
    }
  }
}

// A QP keeps what it uses again and again pinned; freeing such memory must not wait for it.
BOOST_AUTO_TEST_CASE(memory_of_earlier_messages_can_be_freed) {
  Pair pair;
  for (int round = 0; round < 20; ++round) {
    const auto data = pattern(64, static_cast<unsigned>(round));
    std::vector<std::byte> inbox(64);
    std::vector<std::byte> target(64);
    std::vector<std::byte> copy(64);
    auto from = pair.a.reg(data);
    auto to = pair.b.reg(inbox);
    auto there = pair.b.reg(target);
    auto back = pair.a.reg(copy);
    const auto send = local(*from, data.data(), 64);
    const auto receive = local(*to, inbox.data(), 64);
    const auto read = local(*back, copy.data(), 64);
    for (WorkId id = 1; id <= 4; ++id) {
      REQUIRE_OK(pair.b.qp->post_recv(id, &receive, 1, kSignalled));
      REQUIRE_OK(pair.a.qp->post_rdma_write(id, &send, 1, remote(*there, target), kSignalled));
      REQUIRE_OK(pair.a.qp->post_send(id, &send, 1, kSignalled));
      REQUIRE_OK(pair.a.qp->post_rdma_read(id, &read, 1, remote(*there, target), kSignalled));
      check_success(pair.next(*pair.a.request_cq), id, DAT_DTO_RDMA_WRITE, 64);
      check_success(pair.next(*pair.a.request_cq), id, DAT_DTO_SEND, 64);
      check_success(pair.next(*pair.a.request_cq), id, DAT_DTO_RDMA_READ, 64);
      check_success(pair.next(*pair.b.recv_cq), id, DAT_DTO_RECEIVE, 64);
    }
    BOOST_TEST((inbox == data && target == data && copy == data));
  }
}

// ... nor does it afterwards touch memory that another thread has freed meanwhile.
BOOST_AUTO_TEST_CASE(memory_is_freed_while_the_queue_is_used) {
  Pair pair;
  const auto data = pattern(64);
  std::vector<std::byte> inbox(64);
  auto from = pair.a.reg(data);
  auto to = pair.b.reg(inbox);
  const auto receive = local(*to, inbox.data(), 64);
  std::atomic<bool> over{false};
  std::atomic<int> freed{0};
  std::atomic<int> posted{0};  // from memory that was then freed
  std::jthread other([&] {
    while (!over) {
      void* const pages =
          ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages == MAP_FAILED) return;
      {
        auto mr = pair.a.reg(pages, 64);
        const auto send = local(*mr, static_cast<const std::byte*>(pages), 64);
        for (int i = 0; i < 3; ++i)
          if (pair.a.qp->post_send(2, &send, 1, 0) == DAT_SUCCESS) ++posted;
      }
      ::munmap(pages, 4096);  // a thread that reads it now crashes
      ++freed;
      std::this_thread::yield();
    }
  });
  const auto send = local(*from, data.data(), 64);
  int ended = 0;
  const auto end = Clock::now() + kPatience;
  for (int i = 0; i < 2000 || freed < 50 || posted < 50 || ended < 50; ++i) {
    (void)pair.b.qp->post_recv(1, &receive, 1, kSignalled);
    (void)pair.a.qp->post_send(1, &send, 1, 0);
    pair.a.reactor->progress();
    pair.b.reactor->progress();
    Completion c{};
    while (pair.b.recv_cq->poll(&c, 1) == 1) ++ended;
    if (Clock::now() > end) break;
  }
  over = true;
  other.join();
  BOOST_TEST(freed >= 50);
  BOOST_TEST(posted >= 50);
  BOOST_TEST(ended >= 50);
  BOOST_TEST(pair.a.sink.calls() == "established");
}

BOOST_AUTO_TEST_CASE(sends_in_the_other_direction) {
  Pair pair;
  const auto data = pattern(100000);
  std::vector<std::byte> room(100000);
  auto from = pair.b.reg(data);
  auto to = pair.a.reg(room);
  const auto receive = local(*to, room);
  const auto send = local(*from, data);
  REQUIRE_OK(pair.a.qp->post_recv(1, &receive, 1, kSignalled));
  REQUIRE_OK(pair.b.qp->post_send(2, &send, 1, kSignalled));
  check_success(pair.next(*pair.a.recv_cq), 1, DAT_DTO_RECEIVE, 100000);
  BOOST_TEST((data == room));
}

void writes_and_reads_of_all_sizes(bool crc) {
  Pair pair({}, {}, iwarp::kRtrRead, crc);
  for (const std::size_t size : kSizes) {
    const auto data = pattern(size + 1);
    std::vector<std::byte> target(size + 1);
    std::vector<std::byte> back(size + 1);
    auto from = pair.a.reg(data);
    auto to = pair.b.reg(target);
    auto back_mr = pair.a.reg(back);
    const auto source = local(*from, data.data(), size);
    const auto sink = local(*back_mr, back.data(), size);
    REQUIRE_OK(pair.a.qp->post_rdma_write(
        1, &source, 1, remote(to->rmr_context(), target.data(), size), kSignalled));
    // A Read is executed after the Write (docs/semantics.md#iwarp-peers).
    REQUIRE_OK(pair.a.qp->post_rdma_read(
        2, &sink, 1, remote(to->rmr_context(), target.data(), size), kSignalled));
    check_success(pair.next(*pair.a.request_cq), 1, DAT_DTO_RDMA_WRITE, size);
    check_success(pair.next(*pair.a.request_cq), 2, DAT_DTO_RDMA_READ, size);
    BOOST_TEST((std::memcmp(data.data(), back.data(), size) == 0));
    BOOST_TEST((back[size] == std::byte{0}));
    BOOST_TEST((target[size] == std::byte{0}));
  }
  BOOST_TEST(pair.b.recv_cq->size() == 0);
}
BOOST_AUTO_TEST_CASE(writes_and_reads_of_all_sizes_with_crc) {
  writes_and_reads_of_all_sizes(true);
}
BOOST_AUTO_TEST_CASE(writes_and_reads_of_all_sizes_without_crc) {
  writes_and_reads_of_all_sizes(false);
}

// The segment lists are divided differently on both sides, with empty segments in between whose
// address and context are garbage.
void segment_lists_are_gathered_and_scattered(bool crc) {
  Pair pair({}, {}, iwarp::kRtrRead, crc);
  const auto data = pattern(200000);
  std::vector<std::byte> room(200000);
  auto from = pair.a.reg(data);
  auto to = pair.b.reg(room);
  const auto cut = [](const Mr& mr, const std::byte* base,
                      std::initializer_list<std::size_t> sizes) {
    std::vector<DAT_LMR_TRIPLET> list;
    for (const std::size_t size : sizes) {
      if (size == 0)
        list.push_back({0xDEADBEEF, 0, 0x12345678});
      else
        list.push_back(local(mr, base, size));
      base += size;
    }
    return list;
  };
  const auto sends = cut(*from, data.data(), {1, 0, 99999, 3, 64, 0, 65, 99868});
  const auto receives = cut(*to, room.data(), {0, 50000, 1, 2, 60000, 0, 89997});
  const auto total = [](const std::vector<DAT_LMR_TRIPLET>& list) {
    return std::accumulate(list.begin(), list.end(), std::size_t{0},
                           [](std::size_t n, const auto& s) { return n + s.segment_length; });
  };
  BOOST_REQUIRE_EQUAL(total(sends), 200000U);
  BOOST_REQUIRE_EQUAL(total(receives), 200000U);
  const auto count = [](const auto& list) { return static_cast<DAT_COUNT>(list.size()); };

  REQUIRE_OK(pair.b.qp->post_recv(1, receives.data(), count(receives), kSignalled));
  REQUIRE_OK(pair.a.qp->post_send(2, sends.data(), count(sends), kSignalled));
  check_success(pair.next(*pair.b.recv_cq), 1, DAT_DTO_RECEIVE, 200000);
  BOOST_TEST((data == room));

  std::fill(room.begin(), room.end(), std::byte{0});
  REQUIRE_OK(
      pair.a.qp->post_rdma_write(3, sends.data(), count(sends), remote(*to, room), kSignalled));
  std::vector<std::byte> back(200000);
  auto back_mr = pair.a.reg(back);
  const auto sinks = cut(*back_mr, back.data(), {7, 0, 100000, 1, 99992});
  REQUIRE_OK(
      pair.a.qp->post_rdma_read(4, sinks.data(), count(sinks), remote(*to, room), kSignalled));
  check_success(pair.next(*pair.a.request_cq), 2, DAT_DTO_SEND, 200000);
  check_success(pair.next(*pair.a.request_cq), 3, DAT_DTO_RDMA_WRITE, 200000);
  check_success(pair.next(*pair.a.request_cq), 4, DAT_DTO_RDMA_READ, 200000);
  BOOST_TEST((data == back));
}
BOOST_AUTO_TEST_CASE(segment_lists_are_transferred_with_crc) {
  segment_lists_are_gathered_and_scattered(true);
}
BOOST_AUTO_TEST_CASE(segment_lists_are_transferred_without_crc) {
  segment_lists_are_gathered_and_scattered(false);
}

BOOST_AUTO_TEST_CASE(no_segments_at_all) {
  Pair pair;
  REQUIRE_OK(pair.b.qp->post_recv(1, nullptr, 0, kSignalled));
  REQUIRE_OK(pair.a.qp->post_send(2, nullptr, 0, kSignalled));
  REQUIRE_OK(pair.a.qp->post_rdma_write(3, nullptr, 0, {0, 0, 99}, kSignalled));
  REQUIRE_OK(pair.a.qp->post_rdma_read(4, nullptr, 0, {0, 0, 99}, kSignalled));
  check_success(pair.next(*pair.b.recv_cq), 1, DAT_DTO_RECEIVE, 0);
  check_success(pair.next(*pair.a.request_cq), 2, DAT_DTO_SEND, 0);
  check_success(pair.next(*pair.a.request_cq), 3, DAT_DTO_RDMA_WRITE, 0);
  check_success(pair.next(*pair.a.request_cq), 4, DAT_DTO_RDMA_READ, 0);
}

BOOST_AUTO_TEST_CASE(message_shorter_than_the_buffers) {
  Pair pair;
  const auto data = pattern(1000);
  std::vector<std::byte> room(5000);
  auto from = pair.a.reg(data);
  auto to = pair.b.reg(room);
  const auto receive = local(*to, room);
  const auto send = local(*from, data);
  REQUIRE_OK(pair.b.qp->post_recv(1, &receive, 1, kSignalled));
  REQUIRE_OK(pair.a.qp->post_send(2, &send, 1, kSignalled));
  check_success(pair.next(*pair.b.recv_cq), 1, DAT_DTO_RECEIVE, 1000);
  BOOST_TEST((std::memcmp(data.data(), room.data(), 1000) == 0));
  BOOST_TEST((room[1000] == std::byte{0}));
}

BOOST_AUTO_TEST_CASE(read_of_less_than_the_local_segments_hold) {
  Pair pair;
  const auto data = pattern(1000);
  std::vector<std::byte> room(3000);
  auto source = pair.b.reg(data);
  auto to = pair.a.reg(room);
  const DAT_LMR_TRIPLET sinks[] = {local(*to, room.data(), 600),
                                   local(*to, room.data() + 600, 2400)};
  REQUIRE_OK(pair.a.qp->post_rdma_read(1, sinks, 2, remote(*source, data), kSignalled));
  check_success(pair.next(*pair.a.request_cq), 1, DAT_DTO_RDMA_READ, 1000);
  BOOST_TEST((std::memcmp(data.data(), room.data(), 1000) == 0));
  BOOST_TEST((room[1000] == std::byte{0}));
}

BOOST_AUTO_TEST_CASE(zero_based_memory_in_lists_and_as_target) {
  Pair pair;
  const auto data = pattern(1000);
  std::vector<std::byte> target(1000);
  auto from = pair.a.reg(data.data(), data.size(), kAll, DAT_VA_TYPE_ZB);
  auto to = pair.b.reg(target.data(), target.size(), kAll, DAT_VA_TYPE_ZB);
  const DAT_LMR_TRIPLET source{100, 900, from->lmr_context()};
  REQUIRE_OK(pair.a.qp->post_rdma_write(1, &source, 1, {50, 900, to->rmr_context()}, kSignalled));
  REQUIRE_OK(pair.b.qp->post_recv(2, nullptr, 0, kSignalled));
  REQUIRE_OK(pair.a.qp->post_send(3, nullptr, 0, kSignalled));
  check_success(pair.next(*pair.b.recv_cq), 2, DAT_DTO_RECEIVE, 0);
  BOOST_TEST((std::memcmp(data.data() + 100, target.data() + 50, 900) == 0));
}

BOOST_AUTO_TEST_CASE(receives_posted_before_the_connection_are_used) {
  Side::Options options;
  Pair pair(options, options);
  // Connects the same QPs again, with receives posted in between.
  pair.a.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_REQUIRE(pair.wait([&] { return pair.b.sink.ended(); }));
  REQUIRE_OK(pair.a.qp->reset().code());
  REQUIRE_OK(pair.b.qp->reset().code());
  auto data = pattern(500);
  std::vector<std::byte> room(500);
  auto from = pair.a.reg(data);
  auto to = pair.b.reg(room);
  const auto receive = local(*to, room);
  const auto send = local(*from, data);
  REQUIRE_OK(pair.b.qp->post_recv(5, &receive, 1, kSignalled));
  pair.connect();
  REQUIRE_OK(pair.a.qp->post_send(6, &send, 1, kSignalled));
  check_success(pair.next(*pair.b.recv_cq), 5, DAT_DTO_RECEIVE, 500);
  BOOST_TEST((data == room));
}

BOOST_AUTO_TEST_CASE(shared_receive_queue_feeds_qps_in_order) {
  Side::Options with_srq;
  with_srq.srq = true;
  Pair pair({}, with_srq);
  std::vector<std::byte> room(16);
  auto to = pair.b.reg(room);
  std::vector<std::byte> data = pattern(16);
  auto from = pair.a.reg(data);
  BOOST_TEST(pair.b.qp->post_recv(1, nullptr, 0, kSignalled) == dat_error(DAT_INVALID_STATE));
  for (WorkId id = 0; id < 8; ++id) {
    const auto one = local(*to, room.data() + id * 2, 2);
    REQUIRE_OK(pair.b.srq->post_recv(id, &one, 1));
  }
  for (WorkId id = 0; id < 8; ++id) {
    const auto one = local(*from, data.data() + id * 2, 2);
    REQUIRE_OK(pair.a.qp->post_send(100 + id, &one, 1, kSignalled));
  }
  for (WorkId id = 0; id < 8; ++id)
    check_success(pair.next(*pair.b.recv_cq), id, DAT_DTO_RECEIVE, 2);
  BOOST_TEST((room == data));
  BOOST_TEST(pair.b.srq->available() == 0);
}

// The application drives neither side: the service threads do.
BOOST_AUTO_TEST_CASE(progress_without_the_application) {
  Pair pair;
  const auto data = pattern(300000);
  std::vector<std::byte> target(300000);
  auto from = pair.a.reg(data);
  auto to = pair.b.reg(target);
  const auto source = local(*from, data);
  REQUIRE_OK(pair.a.qp->post_rdma_write(1, &source, 1, remote(*to, target), 0));
  std::vector<std::byte> back(300000);
  auto back_mr = pair.a.reg(back);
  const auto sink = local(*back_mr, back);
  REQUIRE_OK(pair.a.qp->post_rdma_read(2, &sink, 1, remote(*to, target), kSignalled));
  Completion c{};
  BOOST_REQUIRE(eventually([&] { return pair.a.request_cq->poll(&c, 1) == 1; }));
  check_success(c, 2, DAT_DTO_RDMA_READ, 300000);
  BOOST_TEST((back == data));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
