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

// One direction of a connection. One thread sends, one posts and polls receives, and one polls the
// request completions.
class Stream {
 public:
  static constexpr WorkId kCount = 2000 * kScale;

  Stream(Side& from, Side& to)
      : from_(from), to_(to), data_mr_(from.reg(data_)), room_mr_(to.reg(room_)) {
    for (const auto work : {&Stream::send, &Stream::receive, &Stream::complete})
      threads_.push_back(std::async(std::launch::async, [this, work] {
        (this->*work)();
        --running_;
      }));
  }
  [[nodiscard]] bool done() const { return running_ == 0; }
  // Lets the threads end, even if they are not done. Returns how often something failed.
  int finish() {
    posted_ = received_ = completed_ = kCount;
    for (auto& thread : threads_) thread.get();
    return failures_;
  }

 private:
  static constexpr std::size_t kSize = 256;
  static constexpr WorkId kOutstanding = 32;

  void check(bool good) {
    if (!good) ++failures_;
  }
  void send() {
    const auto segment = local(*data_mr_, data_);
    for (WorkId id = 0; id < kCount;) {
      if (id < posted_ && id < completed_ + kOutstanding) {
        check(from_.qp->post_send(id, &segment, 1, kSignalled) == DAT_SUCCESS);
        ++id;
      } else {
        std::this_thread::yield();
      }
    }
  }
  std::byte* place(WorkId id) { return room_.data() + id % kOutstanding * kSize; }
  void receive() {
    while (received_ < kCount) {
      for (; posted_ < kCount && posted_ - received_ < kOutstanding; ++posted_) {
        const auto segment = local(*room_mr_, place(posted_), kSize);
        check(to_.qp->post_recv(posted_, &segment, 1, kSignalled) == DAT_SUCCESS);
      }
      to_.recv_cq->progress();
      poll(*to_.recv_cq, received_,
           [this](WorkId id) { return std::memcmp(place(id), data_.data(), kSize) == 0; });
    }
  }
  void complete() {
    while (completed_ < kCount)
      if (poll(*from_.request_cq, completed_, [](WorkId) { return true; }) == 0)
        std::this_thread::yield();
  }
  template <class Good>
  int poll(Cq& cq, std::atomic<WorkId>& next, Good good) {
    Completion got[8];
    const int count = cq.poll(got, 8);
    for (int i = 0; i < count; ++i) {
      check(got[i].id == next && got[i].status == DAT_DTO_SUCCESS && good(next));
      ++next;
    }
    return count;
  }

  Side& from_;
  Side& to_;
  std::vector<std::byte> data_ = pattern(kSize);
  std::vector<std::byte> room_ = std::vector<std::byte>(kSize * kOutstanding);
  const std::unique_ptr<Mr> data_mr_;
  const std::unique_ptr<Mr> room_mr_;
  std::atomic<WorkId> posted_{0};
  std::atomic<WorkId> received_{0};
  std::atomic<WorkId> completed_{0};
  std::atomic<int> running_{3};
  std::atomic<int> failures_{0};
  std::vector<std::future<void>> threads_;
};

// One thread posts Sends and another one receives, until they are stopped.
class Posts {
 public:
  Posts(Pair& pair, const DAT_LMR_TRIPLET& from, const DAT_LMR_TRIPLET& to) : pair_(pair) {
    sender_ = post(*pair.a.request_cq, sent_, [&pair, from](WorkId id) {
      return pair.a.qp->post_send(id, &from, 1, kSignalled);
    });
    receiver_ = post(*pair.b.recv_cq, posted_, [&pair, to](WorkId id) {
      return pair.b.qp->post_recv(id, &to, 1, kSignalled);
    });
  }
  // Polls the completions, which must come in order.
  void reap() {
    Completion c{};
    while (pair_.a.request_cq->poll(&c, 1) == 1) ordered_ = ordered_ && c.id == requests_++;
    while (pair_.b.recv_cq->poll(&c, 1) == 1) ordered_ = ordered_ && c.id == receives_++;
  }
  // REQUIRES: all that is posted is flushed.
  void stop() {
    stop_ = true;
    for (auto* const thread : {&sender_, &receiver_}) {
      while (thread->wait_for(0s) != std::future_status::ready) reap();
      thread->get();
    }
    reap();
    BOOST_TEST(ordered_);
    BOOST_TEST(requests_ == sent_);
    BOOST_TEST(receives_ == posted_);
  }

 private:
  template <class Post>
  std::future<void> post(Cq& cq, std::atomic<WorkId>& count, Post call) {
    return std::async(std::launch::async, [this, &cq, &count, call] {
      while (!stop_) {
        if (cq.size() > 900) continue;
        if (call(count) == DAT_SUCCESS)
          ++count;
        else
          std::this_thread::yield();
      }
    });
  }

  Pair& pair_;
  std::atomic<bool> stop_{false};
  std::atomic<WorkId> sent_{0};
  std::atomic<WorkId> posted_{0};
  WorkId requests_ = 0;
  WorkId receives_ = 0;
  bool ordered_ = true;
  std::future<void> sender_;
  std::future<void> receiver_;
};

BOOST_AUTO_TEST_SUITE(concurrency)

// The main thread drives the reactors occasionally.
BOOST_AUTO_TEST_CASE(posts_and_polls_from_many_threads) {
  Pair pair;
  Stream there(pair.a, pair.b);
  Stream back(pair.b, pair.a);
  BOOST_TEST(pair.wait([&] { return there.done() && back.done(); }));
  BOOST_TEST(there.finish() == 0);
  BOOST_TEST(back.finish() == 0);
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
    Posts posts(pair, local(*data_mr, data), local(*room_mr, room));
    const auto until = Clock::now() + std::chrono::microseconds(random() % 3000);
    while (Clock::now() < until) {
      pair.a.reactor->progress();
      posts.reap();
    }
    const auto choice = random() % 3;
    if (choice != 0) pair.a.qp->disconnect(transport::DisconnectMode::kAbrupt);
    if (choice != 1) pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    // Ends a side that is still connected; everything is flushed when these calls return.
    pair.a.qp->disconnect(transport::DisconnectMode::kAbrupt);
    pair.b.qp->disconnect(transport::DisconnectMode::kAbrupt);
    posts.stop();
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

// A race with the threads that read the memory, which is intended.
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
