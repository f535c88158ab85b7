// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Many threads on the same QPs. Most failures would be found by the thread sanitizer.
#include <future>
#include <random>

#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kScale = 1;
#else
constexpr int kScale = 4;
#endif

BOOST_AUTO_TEST_SUITE(concurrency)

// On each side one thread sends, one posts and polls receives, and one polls the request
// completions; the main thread drives the reactors occasionally.
BOOST_AUTO_TEST_CASE(posts_and_polls_from_many_threads) {
  Pair pair;
  constexpr WorkId kCount = 2000 * kScale;
  constexpr std::size_t kSize = 256;
  std::atomic<int> running{0};
  std::atomic<int> failures{0};
  std::vector<std::future<void>> threads;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::unique_ptr<Mr>> registrations;
  struct Counters {
    std::atomic<WorkId> posted{0};
    std::atomic<WorkId> received{0};
    std::atomic<WorkId> completed{0};
  };
  std::array<Counters, 2> streams;
  memory.reserve(4);
  for (int direction = 0; direction < 2; ++direction) {
    Side& from = direction == 0 ? pair.a : pair.b;
    Side& to = direction == 0 ? pair.b : pair.a;
    auto& data = memory.emplace_back(pattern(kSize));
    auto& room = memory.emplace_back(kSize * 32);
    const Mr* const data_mr = registrations.emplace_back(from.reg(data)).get();
    const Mr* const room_mr = registrations.emplace_back(to.reg(room)).get();
    Counters& c = streams[direction];
    running += 3;
    threads.push_back(std::async(std::launch::async, [&, data_mr] {  // sends
      const auto segment = local(*data_mr, data);
      for (WorkId id = 0; id < kCount;) {
        if (id < c.posted && id - c.completed < 32) {
          if (from.qp->post_send(id, &segment, 1, kSignalled) != DAT_SUCCESS) ++failures;
          ++id;
        } else {
          std::this_thread::yield();
        }
      }
      --running;
    }));
    threads.push_back(std::async(std::launch::async, [&, room_mr] {  // receives
      while (c.received < kCount) {
        while (c.posted < kCount && c.posted - c.received < 32) {
          const auto segment = local(*room_mr, room.data() + c.posted % 32 * kSize, kSize);
          if (to.qp->post_recv(c.posted, &segment, 1, kSignalled) != DAT_SUCCESS) ++failures;
          ++c.posted;
        }
        Completion got[8];
        to.recv_cq->progress();
        const int n = to.recv_cq->poll(got, 8);
        for (int i = 0; i < n; ++i) {
          if (got[i].id != c.received || got[i].status != DAT_DTO_SUCCESS ||
              std::memcmp(room.data() + c.received % 32 * kSize, data.data(), kSize) != 0)
            ++failures;
          ++c.received;
        }
      }
      --running;
    }));
    threads.push_back(std::async(std::launch::async, [&] {  // request completions
      while (c.completed < kCount) {
        Completion got[8];
        const int n = from.request_cq->poll(got, 8);
        for (int i = 0; i < n; ++i) {
          if (got[i].id != c.completed || got[i].status != DAT_DTO_SUCCESS) ++failures;
          ++c.completed;
        }
        if (n == 0) std::this_thread::yield();
      }
      --running;
    }));
  }
  BOOST_TEST(pair.wait([&] { return running == 0; }));
  if (running != 0) {  // lets the threads end
    for (Counters& c : streams) c.posted = c.received = c.completed = kCount;
  }
  for (auto& t : threads) t.get();
  BOOST_TEST(failures == 0);
}

// Traffic of all kinds while memory is registered and deregistered: a Read or Write may be refused,
// which breaks the connection, but no byte is copied after a deregistration has returned.
BOOST_AUTO_TEST_CASE(registrations_that_go_under_traffic) {
  std::mt19937 random(5);
  for (int round = 0; round < 10 * kScale; ++round) {
    Pair pair;
    std::vector<std::byte> target(65536);
    auto target_mr = pair.b.reg(target);
    const auto context = target_mr->rmr_context();
    const auto data = pattern(65536);
    auto data_mr = pair.a.reg(data);
    std::vector<std::byte> back(65536);
    auto back_mr = pair.a.reg(back);
    const auto source = local(*data_mr, data);
    const auto sink = local(*back_mr, back);
    for (WorkId id = 0; id < 20; id += 2) {
      REQUIRE_OK(pair.a.qp->post_rdma_write(id, &source, 1, remote(context, target.data(), 65536),
                                            kSignalled));
      REQUIRE_OK(pair.a.qp->post_rdma_read(id + 1, &sink, 1, remote(context, target.data(), 65536),
                                           kSignalled));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    const bool at_target = random() % 2 == 0;
    if (at_target) {
      target_mr.reset();
      std::memset(target.data(), 0, target.size());  // unsynchronised on purpose
    } else {
      back_mr.reset();
      std::memset(back.data(), 0, back.size());
    }
    WorkId next = 0;
    Completion c{};
    BOOST_REQUIRE(pair.wait([&] {
      while (pair.a.request_cq->poll(&c, 1) == 1) BOOST_REQUIRE_EQUAL(c.id, next++);
      return next == 20;
    }));
    for (const std::byte b : at_target ? target : back) BOOST_REQUIRE(b == std::byte{0});
  }
}

// Disconnects of one side or both, from a thread other than those that post.
BOOST_AUTO_TEST_CASE(disconnects_under_traffic) {
  std::mt19937 random(6);
  Pair pair;
  std::vector<std::byte> room(4096);
  const auto data = pattern(4096);
  auto room_mr = pair.b.reg(room);
  auto data_mr = pair.a.reg(data);
  for (int round = 0; round < 20 * kScale; ++round) {
    std::atomic<bool> stop{false};
    std::atomic<WorkId> sent{0};
    std::atomic<WorkId> posted{0};
    auto sender = std::async(std::launch::async, [&] {
      const auto segment = local(*data_mr, data);
      while (!stop) {
        if (pair.a.request_cq->size() > 900) continue;
        if (pair.a.qp->post_send(sent, &segment, 1, kSignalled) == DAT_SUCCESS)
          ++sent;
        else
          std::this_thread::yield();
      }
    });
    auto receiver = std::async(std::launch::async, [&] {
      const auto segment = local(*room_mr, room);
      while (!stop) {
        if (pair.b.recv_cq->size() > 900) continue;
        if (pair.b.qp->post_recv(posted, &segment, 1, kSignalled) == DAT_SUCCESS)
          ++posted;
        else
          std::this_thread::yield();
      }
    });
    const auto until = Clock::now() + std::chrono::microseconds(random() % 3000);
    WorkId requests = 0;
    WorkId receives = 0;
    bool ordered = true;
    const auto reap = [&] {
      Completion c{};
      while (pair.a.request_cq->poll(&c, 1) == 1) ordered = ordered && c.id == requests++;
      while (pair.b.recv_cq->poll(&c, 1) == 1) ordered = ordered && c.id == receives++;
    };
    while (Clock::now() < until) {
      pair.a.reactor->progress();
      reap();
    }
    const auto choice = random() % 3;
    if (choice != 0) pair.a.qp->disconnect(transport::DisconnectMode::kAbrupt);
    if (choice != 1) pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    // Ends a side that is still connected; everything is flushed when these calls return.
    pair.a.qp->disconnect(transport::DisconnectMode::kAbrupt);
    pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt);
    stop = true;
    for (auto* const thread : {&sender, &receiver}) {
      while (thread->wait_for(0s) != std::future_status::ready) reap();
      thread->get();
    }
    reap();
    BOOST_TEST(ordered);
    BOOST_TEST(requests == sent);
    BOOST_TEST(receives == posted);
    REQUIRE_OK(pair.a.qp->reset().code());
    REQUIRE_OK(pair.b.qp->reset().code());
    pair.connect();
  }
}

BOOST_AUTO_TEST_CASE(destruction_under_traffic) {
  std::mt19937 random(8);
  for (int round = 0; round < 20 * kScale; ++round) {
    Pair pair;
    const auto data = pattern(100000);
    std::vector<std::byte> room(100000);
    auto data_mr = pair.a.reg(data);
    auto room_mr = pair.b.reg(room);
    const auto segment = local(*data_mr, data);
    pair.b.recv_cq->arm();
    pair.a.request_cq->arm();
    for (WorkId id = 0; id < 30; ++id) {
      REQUIRE_OK(pair.b.qp->post_recv(id, nullptr, 0, kSignalled));
      REQUIRE_OK(pair.a.qp->post_rdma_write(id, &segment, 1, remote(*room_mr, room), kSignalled));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    if (random() % 2 == 0) {
      pair.a.qp.reset();
      BOOST_TEST(pair.a.request_cq->size() == 0);
    } else {
      pair.b.qp.reset();
      BOOST_TEST(pair.b.recv_cq->size() == 0);
    }
  }
}

// A race with whoever reads the memory, which is intended.
__attribute__((no_sanitize("thread"))) void change(std::vector<std::byte>& memory,
                                                   std::byte value) {
  volatile std::byte* const bytes = memory.data();
  const std::size_t size = memory.size();
  for (std::size_t at = 0; at < size; at += 8) bytes[at] = value;
}

// Changing memory while it is sent or read by the peer must not break the connection. It once did:
// the bytes of a frame changed after its CRC had been computed.
BOOST_AUTO_TEST_CASE(memory_that_changes_while_it_is_sent) {
  constexpr std::size_t kSize = 1 << 20;
  Pair pair;
  std::vector<std::byte> memory(kSize);
  std::vector<std::byte> room(kSize);
  auto memory_mr = pair.a.reg(memory);
  auto room_mr = pair.b.reg(room);
  std::atomic<bool> over{false};
  std::thread changer([&] {
    for (std::uint8_t value = 1; !over.load(); ++value) change(memory, std::byte{value});
  });
  const auto from = local(*memory_mr, memory);
  const auto to = local(*room_mr, room);
  for (WorkId id = 0; id < 100U * kScale; ++id) {
    REQUIRE_OK(pair.b.qp->post_recv(id, &to, 1, kSignalled));
    REQUIRE_OK(pair.a.qp->post_send(id, &from, 1, kSignalled));
    REQUIRE_OK(pair.a.qp->post_rdma_write(id, &from, 1, remote(*room_mr, room), kSignalled));
    REQUIRE_OK(pair.b.qp->post_rdma_read(id, &to, 1, remote(*memory_mr, memory), kSignalled));
    const Completion received = pair.next(*pair.b.recv_cq);
    const Completion read = pair.next(*pair.b.request_cq);
    if (received.status != DAT_DTO_SUCCESS || read.status != DAT_DTO_SUCCESS) break;
    BOOST_TEST(pair.next(*pair.a.request_cq).status == DAT_DTO_SUCCESS);
    BOOST_TEST(pair.next(*pair.a.request_cq).status == DAT_DTO_SUCCESS);
  }
  over.store(true);
  changer.join();
  BOOST_TEST(pair.a.sink.calls() == "established");
  BOOST_TEST(pair.b.sink.calls() == "established");
}

// Several QPs of one process bind windows over the same registration and use them concurrently.
BOOST_AUTO_TEST_CASE(binds_and_accesses_from_several_qps) {
  Pair pair;
  std::vector<std::byte> memory(4096);
  auto mr = pair.b.reg(memory);
  auto index = pair.b.memory.create_window(1, transport::WindowScope::kPd);
  BOOST_REQUIRE(index.ok());
  Window window(pair.b.memory, *index);
  for (WorkId id = 0; id < 500U * kScale; ++id) {
    DAT_RMR_CONTEXT context = 0;
    const transport::BindRequest bind{&window, mr.get(), local(*mr, memory),
                                      DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA};
    REQUIRE_OK(pair.b.qp->post_bind(id, bind, kSignalled, &context));
    std::vector<std::byte> sink(4096);
    auto sink_mr = pair.a.reg(sink);
    const auto segment = local(*sink_mr, sink);
    BOOST_REQUIRE(pair.next(*pair.b.request_cq).status == DAT_DTO_SUCCESS);
    REQUIRE_OK(pair.a.qp->post_rdma_read(id, &segment, 1, remote(context, memory.data(), 4096),
                                         kSignalled));
    BOOST_REQUIRE(pair.next(*pair.a.request_cq).status == DAT_DTO_SUCCESS);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
