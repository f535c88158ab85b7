// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Windows, remote invalidation, reads into windows, immediate data, atomics.
#include <dat/dat_ib_extensions.h>

#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

using transport::WindowScope;

struct Fixture : Pair {
  std::vector<std::byte> near = pattern(4096, 3);
  std::vector<std::byte> far = pattern(4096, 4);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far, kLocalOnly);

  std::unique_ptr<Window> window(Side& side, WindowScope scope) {
    auto index = side.memory.create_window(side.pd.id(), scope);
    BOOST_REQUIRE(index.ok());
    return std::make_unique<Window>(side.memory, *index);
  }
  DAT_RMR_CONTEXT bind(WorkId id, Window& w, std::size_t offset, std::uint32_t length,
                       WorkFlags flags = kSignalled) {
    DAT_RMR_CONTEXT context = 0;
    REQUIRE_OK(b.qp->post_bind(
        id,
        {&w,
         length == 0 ? nullptr : far_mr.get(),
         {reinterpret_cast<DAT_VADDR>(far.data()) + offset, length, far_mr->lmr_context()},
         static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG |
                                         DAT_MEM_PRIV_REMOTE_WRITE_FLAG),
         DAT_VA_TYPE_VA},
        flags, &context));
    return context;
  }
  void write(WorkId id, DAT_RMR_CONTEXT context, std::size_t offset, std::size_t length) {
    const auto segment = local(*near_mr, near.data(), length);
    REQUIRE_OK(a.qp->post_rdma_write(id, &segment, 1, remote(context, far.data() + offset, length),
                                     kSignalled));
  }
  void read(WorkId id, DAT_RMR_CONTEXT context, std::size_t offset, std::size_t length) {
    const auto segment = local(*near_mr, near.data(), length);
    REQUIRE_OK(a.qp->post_rdma_read(id, &segment, 1, remote(context, far.data() + offset, length),
                                    kSignalled));
  }
  // Waits until b has executed everything that a has sent before.
  void sync() {
    REQUIRE_OK(a.qp->post_rdma_read(999, nullptr, 0, {0, 0, 1}, kSignalled));
    while (next(*a.request_cq).id != 999) {
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(rdma_extensions, Fixture)

BOOST_AUTO_TEST_CASE(bound_window_can_be_written_and_read) {
  auto w = window(b, WindowScope::kPd);
  const auto context = bind(7, *w, 1000, 100);
  const Completion c = next(*b.request_cq);
  BOOST_TEST(c.id == 7U);
  BOOST_TEST(c.operation == DAT_DTO_BIND_MW);
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST(c.length == 0U);
  write(1, context, 1000, 100);
  sync();
  BOOST_TEST((std::memcmp(near.data(), far.data() + 1000, 100) == 0));
  std::fill(near.begin(), near.end(), std::byte{0});
  read(2, context, 1000, 100);
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
  BOOST_TEST((std::memcmp(near.data(), far.data() + 1000, 100) == 0));
}

BOOST_AUTO_TEST_CASE(context_sent_right_behind_the_bind_is_usable) {
  auto w = window(b, WindowScope::kQp);
  REQUIRE_OK(a.qp->post_recv(1, nullptr, 0, kSignalled));
  const auto context = bind(7, *w, 0, 100, 0);
  REQUIRE_OK(b.qp->post_send(8, nullptr, 0, kSignalled));
  BOOST_TEST(next(*a.recv_cq).id == 1U);
  write(2, context, 0, 100);
  sync();
  BOOST_TEST((std::memcmp(near.data(), far.data(), 100) == 0));
  BOOST_TEST(a.sink.calls() == "established");
}

BOOST_AUTO_TEST_CASE(binds_keep_their_place_among_requests) {
  auto w = window(b, WindowScope::kPd);
  std::vector<std::byte> big(2000000);
  auto big_mr = b.reg(big);
  auto sink_mr = a.reg(big);
  std::vector<std::byte> sink(2000000);
  auto room_mr = a.reg(sink);
  const auto receive = local(*room_mr, sink);
  const auto send = local(*big_mr, big);
  for (WorkId id = 0; id < 3; ++id) REQUIRE_OK(a.qp->post_recv(id, &receive, 1, kSignalled));
  for (WorkId id = 0; id < 6; id += 2) {
    REQUIRE_OK(b.qp->post_send(id, &send, 1, kSignalled));
    bind(id + 1, *w, 0, static_cast<std::uint32_t>(100 + id));
  }
  for (WorkId id = 0; id < 6; ++id) BOOST_TEST(next(*b.request_cq).id == id);
  BOOST_REQUIRE(w->binding().has_value());
  BOOST_TEST(w->binding()->range.segment_length == 104U);
}

BOOST_AUTO_TEST_CASE(use_after_unbind_breaks_the_connection) {
  auto w = window(b, WindowScope::kPd);
  const auto context = bind(1, *w, 0, 100);
  BOOST_TEST(bind(2, *w, 0, 0) == 0U);
  BOOST_REQUIRE(wait([&] { return b.request_cq->size() == 2; }));
  BOOST_TEST(!far_mr->has_windows());
  const auto before = far;
  read(3, context, 0, 10);
  const Completion c = next(*a.request_cq);
  BOOST_TEST(c.status == DAT_DTO_ERR_REMOTE_ACCESS);
  BOOST_TEST(c.length == 0U);
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  BOOST_TEST(a.sink.calls() == "established broken");
  BOOST_TEST((a.sink.reason == transport::BreakReason::kRemoteFault));
  BOOST_TEST((far == before));
}

BOOST_AUTO_TEST_CASE(send_with_invalidate_ends_the_binding) {
  auto w = window(b, WindowScope::kQp);
  const auto context = bind(1, *w, 0, 100);
  REQUIRE_OK(b.qp->post_recv(5, nullptr, 0, kSignalled));
  BOOST_REQUIRE(wait([&] { return b.request_cq->size() == 1; }));
  REQUIRE_OK(a.qp->post_send_invalidate(2, nullptr, 0, context, kSignalled));
  const Completion c = next(*b.recv_cq);
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST(c.operation == DAT_DTO_RECEIVE_WITH_INVALIDATE);
  BOOST_TEST(c.rmr_context == context);
  BOOST_TEST(next(*a.request_cq).operation == DAT_DTO_SEND);
  BOOST_TEST(!w->binding().has_value());
  BOOST_TEST(!far_mr->has_windows());
  read(3, context, 0, 10);
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_ERR_REMOTE_ACCESS);
}

BOOST_AUTO_TEST_CASE(shared_contexts_cannot_be_invalidated) {
  auto w = window(b, WindowScope::kPd);
  const auto context = bind(1, *w, 0, 100);
  REQUIRE_OK(b.qp->post_recv(5, nullptr, 0, kSignalled));
  BOOST_REQUIRE(wait([&] { return b.request_cq->size() == 1; }));
  REQUIRE_OK(a.qp->post_send_invalidate(2, nullptr, 0, context, kSignalled));
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  BOOST_TEST(b.sink.calls() == "established broken");
  BOOST_TEST(w->binding().has_value());
  const Completion c = next(*b.recv_cq);
  BOOST_TEST(c.id == 5U);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(qp_scoped_binding_dies_with_its_connection) {
  auto own = window(b, WindowScope::kQp);
  auto shared = window(b, WindowScope::kPd);
  bind(1, *own, 0, 100);
  bind(2, *shared, 0, 100);
  BOOST_REQUIRE(wait([&] { return b.request_cq->size() == 2; }));
  b.qp->disconnect(transport::DisconnectMode::kAbrupt);
  BOOST_TEST(!own->binding().has_value());
  BOOST_TEST(shared->binding().has_value());
}

BOOST_AUTO_TEST_CASE(bind_in_error_is_flushed_and_changes_nothing) {
  auto w = window(b, WindowScope::kPd);
  bind(1, *w, 0, 100);
  BOOST_REQUIRE(wait([&] { return b.request_cq->size() == 1; }));
  static_cast<void>(next(*b.request_cq));
  b.qp->disconnect(transport::DisconnectMode::kAbrupt);
  bind(2, *w, 0, 50);
  const Completion c = next(*b.request_cq);
  BOOST_TEST(c.id == 2U);
  BOOST_TEST(c.status == DAT_DTO_ERR_FLUSHED);
  BOOST_TEST(c.operation == DAT_DTO_BIND_MW);
  BOOST_TEST(w->binding()->range.segment_length == 100U);
}

BOOST_AUTO_TEST_CASE(read_into_a_window_or_registration_of_our_own) {
  auto source = b.reg(far, kAll);
  const DAT_RMR_TRIPLET from = remote(*source, far);
  const DAT_RMR_TRIPLET into = remote(*near_mr, near);
  REQUIRE_OK(a.qp->post_rdma_read_to_rmr(1, into, from, kSignalled));
  const Completion c = next(*a.request_cq);
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST(c.operation == DAT_DTO_RDMA_READ);
  BOOST_TEST(c.length == 4096U);
  BOOST_TEST((near == far));

  auto local_only = a.reg(near, kLocalOnly);
  BOOST_TEST(a.qp->post_rdma_read_to_rmr(2, remote(12345, near.data(), 10),
                                         remote(source->rmr_context(), far.data(), 10),
                                         kSignalled) == dat_error(DAT_PRIVILEGES_VIOLATION));
  DAT_RMR_TRIPLET outside = into;
  outside.virtual_address += 1;
  BOOST_TEST(a.qp->post_rdma_read_to_rmr(2, outside, from, kSignalled) ==
             dat_error(DAT_INVALID_PARAMETER));
  DAT_RMR_TRIPLET shorter = into;
  shorter.segment_length = 10;
  BOOST_TEST(a.qp->post_rdma_read_to_rmr(2, shorter, from, kSignalled) ==
             dat_error(DAT_LENGTH_ERROR));
  auto foreign = a.reg(near.data(), near.size(), kAll, DAT_VA_TYPE_VA, 55);
  BOOST_TEST(a.qp->post_rdma_read_to_rmr(2, remote(*foreign, near), from, kSignalled) ==
             dat_error(DAT_PROTECTION_VIOLATION));
}

BOOST_AUTO_TEST_CASE(write_with_immediate_completes_one_receive) {
  auto target = b.reg(far, kAll);
  for (const std::size_t length : {0U, 1U, 4096U}) {
    REQUIRE_OK(b.qp->post_recv(5, nullptr, 0, kSignalled));
    const auto segment = local(*near_mr, near.data(), length);
    REQUIRE_OK(a.qp->post_write_immediate(
        6, &segment, 1, remote(target->rmr_context(), far.data(), length),
        0xCAFE0000 + static_cast<std::uint32_t>(length), kSignalled | kSolicited));
    Completion c = next(*b.recv_cq);
    BOOST_TEST(c.id == 5U);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST(static_cast<int>(c.operation) == static_cast<int>(DAT_IB_DTO_RECV_IMMED));
    BOOST_TEST(c.immediate == 0xCAFE0000 + length);
    BOOST_TEST(c.length == length);
    BOOST_TEST((std::memcmp(near.data(), far.data(), length) == 0));
    c = next(*a.request_cq);
    BOOST_TEST(c.id == 6U);
    BOOST_TEST(static_cast<int>(c.operation) == static_cast<int>(DAT_IB_DTO_RDMA_WRITE_IMMED));
    BOOST_TEST(c.length == length);
  }
}

BOOST_AUTO_TEST_CASE(atomics_return_the_old_value) {
  alignas(8) std::uint64_t words[2] = {40, 7};
  alignas(8) std::uint64_t results[3] = {};
  auto target = b.reg(words, sizeof words);
  auto result_mr = a.reg(results, sizeof results);
  const auto result = [&](int i) { return local(*result_mr, &results[i], 8); };
  REQUIRE_OK(a.qp->post_fetch_add(1, result(0), remote(target->rmr_context(), &words[0], 8), 2,
                                  kSignalled));
  REQUIRE_OK(a.qp->post_compare_swap(2, result(1), remote(target->rmr_context(), &words[1], 8), 7,
                                     99, kSignalled));
  REQUIRE_OK(a.qp->post_compare_swap(3, result(2), remote(target->rmr_context(), &words[1], 8), 7,
                                     100, kSignalled));
  const int operations[] = {DAT_IB_DTO_FETCH_ADD, DAT_IB_DTO_CMP_SWAP, DAT_IB_DTO_CMP_SWAP};
  for (WorkId id = 1; id <= 3; ++id) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    BOOST_TEST(static_cast<int>(c.operation) == operations[id - 1]);
    BOOST_TEST(c.length == 8U);
  }
  BOOST_TEST(results[0] == 40U);
  BOOST_TEST(results[1] == 7U);
  BOOST_TEST(results[2] == 99U);
  BOOST_TEST(std::atomic_ref(words[0]).load() == 42U);
  BOOST_TEST(std::atomic_ref(words[1]).load() == 99U);
}

BOOST_AUTO_TEST_CASE(atomics_and_reads_share_depth_and_order) {
  alignas(8) std::uint64_t word = 0;
  std::vector<std::uint64_t> results(60);
  auto target = b.reg(&word, 8);
  auto result_mr = a.reg(results.data(), results.size() * 8);
  for (WorkId id = 0; id < 60; ++id) {
    const auto result = local(*result_mr, &results[id], 8);
    if (id % 2 == 0)
      REQUIRE_OK(
          a.qp->post_fetch_add(id, result, remote(target->rmr_context(), &word, 8), 1, kSignalled));
    else
      REQUIRE_OK(a.qp->post_rdma_read(id, &result, 1, remote(target->rmr_context(), &word, 8),
                                      kSignalled));
  }
  for (WorkId id = 0; id < 60; ++id) {
    BOOST_TEST(next(*a.request_cq).id == id);
    BOOST_TEST(results[id] >= (id + 1) / 2);
  }
  BOOST_TEST(std::atomic_ref(word).load() == 30U);
}

// Two peers, each served by a thread of its own, and the program itself add to one word.
BOOST_AUTO_TEST_CASE(atomics_of_peers_and_of_the_program_are_all_counted) {
  static constexpr std::uint64_t kEach = 20'000;
  static constexpr std::uint64_t kDepth = 4;
  alignas(8) std::uint64_t word = 0;
  struct Peer {
    Peer(Pair& connected, std::uint64_t& target)
        : pair(connected),
          old_mr(pair.a.reg(&old, sizeof old)),
          word_mr(pair.b.reg(&target, sizeof target)),
          segment(local(*old_mr, &old, sizeof old)),
          word(remote(word_mr->rmr_context(), &target, sizeof target)) {}
    void add() {
      std::uint64_t posted = 0;
      Completion c{};
      for (auto end = Clock::now() + kPatience; done != kEach && Clock::now() < end;) {
        if (posted != kEach && posted - done < kDepth &&
            pair.a.qp->post_fetch_add(posted, segment, word, 1, kSignalled) == DAT_SUCCESS)
          ++posted;
        pair.a.reactor->progress();
        pair.b.reactor->progress();
        for (; pair.a.request_cq->poll(&c, 1) == 1 && c.status == DAT_DTO_SUCCESS; ++done)
          end = Clock::now() + kPatience;
      }
      over = true;
    }
    Pair& pair;
    alignas(8) std::uint64_t old = 0;
    std::unique_ptr<Mr> old_mr;
    std::unique_ptr<Mr> word_mr;
    DAT_LMR_TRIPLET segment;
    DAT_RMR_TRIPLET word;
    std::uint64_t done = 0;
    std::atomic<bool> over{false};
  };
  Pair second;
  Peer one(*this, word);
  Peer other(second, word);
  std::thread one_adds(&Peer::add, &one);
  std::thread other_adds(&Peer::add, &other);
  std::uint64_t own = 0;
  for (; !one.over || !other.over; ++own) std::atomic_ref(word).fetch_add(1);
  one_adds.join();
  other_adds.join();
  BOOST_TEST(one.done == kEach);
  BOOST_TEST(other.done == kEach);
  BOOST_TEST(std::atomic_ref(word).load() == 2 * kEach + own);
}

BOOST_AUTO_TEST_CASE(bad_atomics_are_refused) {
  alignas(8) std::uint64_t words[2] = {1, 2};
  std::uint64_t result_word = 0;
  auto target = b.reg(words, sizeof words, DAT_MEM_PRIV_ALL_FLAG);  // without the atomic privilege
  auto result_mr = a.reg(&result_word, 8);
  const auto result = local(*result_mr, &result_word, 8);
  auto misaligned = remote(target->rmr_context(), words, 8);
  misaligned.virtual_address += 4;
  BOOST_TEST(a.qp->post_fetch_add(1, result, misaligned, 1, kSignalled) ==
             dat_error(DAT_INVALID_PARAMETER));
  auto short_result = result;
  short_result.segment_length = 4;
  BOOST_TEST(a.qp->post_fetch_add(1, short_result, remote(target->rmr_context(), words, 8), 1,
                                  kSignalled) == dat_error(DAT_INVALID_PARAMETER));
  REQUIRE_OK(
      a.qp->post_fetch_add(1, result, remote(target->rmr_context(), words, 8), 1, kSignalled));
  BOOST_TEST(next(*a.request_cq).status != DAT_DTO_SUCCESS);
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  BOOST_TEST(words[0] == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
