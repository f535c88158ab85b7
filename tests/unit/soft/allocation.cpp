// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Posting, transferring, polling and notifying do not allocate once a connection has warmed up, and
// go on without memory for more pins. A separate program, because it replaces the global operator
// new.
#define BOOST_TEST_MODULE soft_allocation
#include <cstdlib>
#include <new>

#include "tests/unit/soft/unsent.h"

namespace {
std::atomic<bool> no_memory{false};  // for code that can do without
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void* counted(std::size_t size, std::size_t alignment = 0) {
  if (counting) ++allocations;
  void* const p = alignment == 0 ? std::malloc(size)
                                 : std::aligned_alloc(
                                       alignment, (size + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size); }
[[gnu::noinline]] void* operator new[](std::size_t size) { return counted(size); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (counting) ++allocations;
  return no_memory ? nullptr : std::malloc(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  if (counting) ++allocations;
  return no_memory ? nullptr : std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace udapl::soft::test {
namespace {

BOOST_AUTO_TEST_CASE(the_counter_counts) {
  counting = true;
  ::operator delete(::operator new(8));  // the compiler may elide a new-expression, but not this
  counting = false;
  BOOST_TEST(allocations.exchange(0) == 1);
}

// Takes `count` completions. False if one of them is no success, or does not come.
bool succeed(Pair& pair, Cq& cq, int count) {
  Completion c{};
  bool good = true;
  const auto end = Clock::now() + kPatience;
  while (count > 0 && Clock::now() < end) {
    pair.a.reactor->progress();
    pair.b.reactor->progress();
    while (count > 0 && cq.poll(&c, 1) == 1) {
      good = good && c.status == DAT_DTO_SUCCESS;
      --count;
    }
  }
  return good && count == 0;
}

BOOST_AUTO_TEST_CASE(steady_state_does_not_allocate) {
  Pair pair;
  const auto data = pattern(300000);
  std::vector<std::byte> room(300000);
  std::vector<std::byte> back(300000);
  alignas(8) std::uint64_t words[2] = {};
  auto data_mr = pair.a.reg(data);
  auto room_mr = pair.b.reg(room);
  auto back_mr = pair.a.reg(back);
  auto word_mr = pair.b.reg(&words[0], 8);
  auto result_mr = pair.a.reg(&words[1], 8);
  auto index = pair.b.memory.create_window(1, transport::WindowScope::kPd);
  BOOST_REQUIRE(index.ok());
  Window window(pair.b.memory, *index);

  bool good = true;
  const auto check = [&](bool right) { good = good && right; };
  const auto round = [&](std::size_t size) {
    const auto source = local(*data_mr, data.data(), size);
    const auto target = local(*room_mr, room.data(), size);
    const auto sink = local(*back_mr, back.data(), size);
    const auto far = remote(room_mr->rmr_context(), room.data(), size);
    pair.a.request_cq->arm();
    pair.b.recv_cq->arm();
    check(pair.b.qp->post_recv(1, &target, 1, kSignalled) == DAT_SUCCESS);
    check(pair.b.qp->post_recv(2, nullptr, 0, kSignalled) == DAT_SUCCESS);
    check(pair.a.qp->post_send(1, &source, 1, kSignalled) == DAT_SUCCESS);
    check(pair.a.qp->post_rdma_write(2, &source, 1, far, kSignalled) == DAT_SUCCESS);
    check(pair.a.qp->post_rdma_read(3, &sink, 1, far, kSignalled) == DAT_SUCCESS);
    check(pair.a.qp->post_write_immediate(4, &source, 1, far, 5, kSignalled) == DAT_SUCCESS);
    check(pair.a.qp->post_fetch_add(5, local(*result_mr, &words[1], 8),
                                    remote(word_mr->rmr_context(), &words[0], 8), 1,
                                    kSignalled) == DAT_SUCCESS);
    DAT_RMR_CONTEXT context = 0;
    check(pair.b.qp->post_bind(
              6, {&window, room_mr.get(), target, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA},
              kSignalled, &context) == DAT_SUCCESS);
    check(succeed(pair, *pair.a.request_cq, 5));
    check(succeed(pair, *pair.b.recv_cq, 2));
    check(succeed(pair, *pair.b.request_cq, 1));
  };
  const auto all_sizes = [&] {
    for (int i = 0; i < 200; ++i) round(static_cast<std::size_t>(i) * 1500 % 300001 + 1);
  };
  for (int i = 0; i < 50; ++i) round(300000);  // the staging buffers reach their final size
  // So do the copies for the CRC. Which sizes both sides need at the same time depends on how the
  // kernel accepts the bytes, so a later round may be the first to need one more copy. There are
  // few copies, and they are kept.
  int last = -1;
  for (int i = 0; i < 20 && last != 0; ++i) {
    allocations = 0;
    counting = true;
    all_sizes();
    counting = false;
    last = allocations;
  }
  BOOST_TEST(good);
  BOOST_TEST(last == 0);
}

// The answers that find no room for their pins are sent after the others.
BOOST_AUTO_TEST_CASE(more_pins_than_there_is_memory_for) {
  constexpr int kReads = 100;
  Unsent unsent(kReads);
  const auto bytes = pattern(Unsent::kSize);
  std::vector<std::unique_ptr<Mr>> mrs;
  for (int i = 0; i < kReads; ++i) {
    mrs.push_back(unsent.side.reg(bytes));
    unsent.read(*mrs.back(), bytes);
  }
  no_memory = true;
  unsent.give();
  REQUIRE_OK(unsent.send(1, *mrs[0], bytes));
  const std::deque<Message> sent = unsent.take(kReads + 1);
  no_memory = false;
  for (const Message& message : sent) BOOST_REQUIRE(message.payload == bytes);
  BOOST_TEST(unsent.done(1) == DAT_DTO_SUCCESS);
  BOOST_TEST(unsent.side.sink.calls() == "established");
}

}  // namespace
}  // namespace udapl::soft::test
