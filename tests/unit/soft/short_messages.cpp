// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Short messages among others. A ring accepts a short message directly if nothing is queued before
// it.
#include <random>

#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

namespace udapl::soft::test {
namespace {

constexpr std::size_t kRoom = 32 * 1024;

Side::Options deep() {
  Side::Options o;
  o.max_recv = o.max_request = 512;
  o.cq_depth = 2048;
  return o;
}

// Many messages from a to b, one after the other, each with different bytes.
struct Fixture : Pair {
  explicit Fixture(const Side::Options& options = deep()) : Pair(options, options) {
    BOOST_REQUIRE(pattern_of(7) != pattern_of(8));
  }

  static std::vector<std::byte> pattern_of(WorkId id) {
    return pattern(kRoom, static_cast<unsigned>(id) + 1);
  }
  // Where message `id` is stored on each side.
  std::byte* near_of(WorkId id) { return near.data() + id % kMessages * kRoom; }
  std::byte* far_of(WorkId id) { return far.data() + id % kMessages * kRoom; }

  // Sends `pieces` segments of about the same size.
  DAT_RETURN send(WorkId id, std::size_t length, std::size_t pieces, WorkFlags flags = kSignalled) {
    const std::vector<std::byte> bytes = pattern_of(id);
    std::copy_n(bytes.data(), length, near_of(id));
    std::vector<DAT_LMR_TRIPLET> list;
    std::size_t at = 0;
    for (std::size_t i = 1; i <= pieces; ++i) {
      const std::size_t end = length * i / pieces;
      list.push_back(local(*near_mr, near_of(id) + at, end - at));
      at = end;
    }
    return a.qp->post_send(id, list.data(), static_cast<DAT_COUNT>(list.size()), flags);
  }
  DAT_RETURN receive(WorkId id) {
    const auto segment = local(*far_mr, far_of(id), kRoom);
    return b.srq != nullptr ? b.srq->post_recv(id, &segment, 1)
                            : b.qp->post_recv(id, &segment, 1, kSignalled);
  }
  void arrives(WorkId id, std::size_t length) {
    const Completion c = next(*b.recv_cq);
    BOOST_REQUIRE_EQUAL(c.id, id);
    BOOST_REQUIRE_EQUAL(c.length, length);
    BOOST_REQUIRE(std::memcmp(far_of(id), pattern_of(id).data(), length) == 0);
  }

  static constexpr std::size_t kMessages = 512;
  std::vector<std::byte> near = std::vector<std::byte>(kMessages * kRoom);
  std::vector<std::byte> far = std::vector<std::byte>(kMessages * kRoom);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);
};

Side::Options one_read() {
  Side::Options o = deep();
  o.read_in = o.read_out = 1;
  return o;
}

Side::Options with_srq() {
  Side::Options o = deep();
  o.srq = true;
  return o;
}

struct WithSrq : Fixture {
  WithSrq() : Fixture(with_srq()) {}
};

struct OneRead : Fixture {
  OneRead() : Fixture(one_read()) {}
};

void send_each_size(Fixture& pair) {
  WorkId id = 0;
  for (const std::size_t length : {0U, 1U, 3U, 7U, 8U, 20U, 63U, 64U, 65U, 255U, 2047U, 2048U,
                                   4096U, 8191U, 8192U, 8193U, 20000U}) {
    for (const std::size_t pieces : {1U, 2U, 5U}) {
      REQUIRE_OK(pair.receive(id));
      REQUIRE_OK(pair.send(id, length, pieces));
      pair.arrives(id, length);
      const Completion c = pair.next(*pair.a.request_cq);
      BOOST_TEST(c.id == id);
      BOOST_TEST(c.length == length);
      BOOST_TEST(c.status == DAT_DTO_SUCCESS);
      ++id;
    }
  }
}

void send_among_others(Fixture& pair) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> lengths;
    const auto first = static_cast<WorkId>(round * 20);
    for (WorkId id = first; id < first + 20; ++id) {
      lengths.push_back(random() % 4 != 0 ? random() % 200 : random() % kRoom);
      REQUIRE_OK(pair.receive(id));
      if (random() % 8 == 0) {
        const auto sink = local(*pair.near_mr, pair.near_of(Fixture::kMessages - 1), 100);
        REQUIRE_OK(pair.a.qp->post_rdma_read(
            1000, &sink, 1, remote(pair.far_mr->rmr_context(), pair.far_of(id), 100), 0));
      }
      REQUIRE_OK(pair.send(id, lengths.back(), 1 + random() % 3,
                           random() % 8 == 0 ? kSignalled | kFence : kSignalled));
      if (random() % 4 == 0) pair.a.reactor->progress();
      if (random() % 4 == 0) pair.b.reactor->progress();
    }
    for (WorkId id = first; id < first + 20; ++id) {
      pair.arrives(id, lengths[id - first]);
      BOOST_REQUIRE_EQUAL(pair.next(*pair.a.request_cq).id, id);
    }
  }
  BOOST_TEST(pair.a.sink.calls() == "established");
}

BOOST_AUTO_TEST_SUITE(short_messages)

BOOST_FIXTURE_TEST_CASE(each_size_arrives, Fixture) { send_each_size(*this); }
BOOST_FIXTURE_TEST_CASE(each_size_arrives_in_an_srq, WithSrq) { send_each_size(*this); }

BOOST_FIXTURE_TEST_CASE(they_do_not_pass_what_was_posted_before_them, Fixture) {
  send_among_others(*this);
}
BOOST_FIXTURE_TEST_CASE(their_order_with_an_srq, WithSrq) { send_among_others(*this); }

// Receives in one segment and in two, of one registration and of another, one after the other.
BOOST_FIXTURE_TEST_CASE(receives_of_an_srq_of_all_kinds, WithSrq) {
  constexpr std::size_t kLength = 100;
  std::vector<std::byte> other(kRoom);
  const auto other_mr = b.reg(other);
  for (WorkId id = 0; id < 200; ++id) {
    const std::array pieces{local(*far_mr, far_of(id), id % 50),
                            local(*far_mr, far_of(id) + id % 50, kLength - id % 50)};
    const auto elsewhere = local(*other_mr, other.data(), kLength);
    const bool apart = id % 5 == 4;
    if (apart)
      REQUIRE_OK(b.srq->post_recv(id, &elsewhere, 1));
    else if (id % 3 == 0)
      REQUIRE_OK(b.srq->post_recv(id, pieces.data(), 2));
    else
      REQUIRE_OK(receive(id));
    REQUIRE_OK(send(id, kLength, 1));
    if (apart) {
      BOOST_REQUIRE_EQUAL(next(*b.recv_cq).id, id);
      BOOST_REQUIRE(std::memcmp(other.data(), pattern_of(id).data(), kLength) == 0);
    } else {
      arrives(id, kLength);
    }
  }
  const auto short_one = local(*far_mr, far_of(200), kLength - 1);
  REQUIRE_OK(b.srq->post_recv(200, &short_one, 1));
  REQUIRE_OK(send(200, kLength, 1));
  const Completion c = next(*b.recv_cq);
  BOOST_TEST(c.id == 200U);
  BOOST_TEST(c.status == DAT_DTO_ERR_LOCAL_LENGTH);
}

// The peer does not read until more has been posted than a ring or a socket buffers.
BOOST_FIXTURE_TEST_CASE(more_than_there_is_room_for, Fixture) {
  constexpr WorkId kCount = 500;
  constexpr std::size_t kLength = 8000;
  for (WorkId id = 0; id < kCount; ++id) REQUIRE_OK(receive(id));
  for (WorkId id = 0; id < kCount; ++id) REQUIRE_OK(send(id, id % 3 == 0 ? 8 : kLength, 1));
  for (WorkId id = 0; id < kCount; ++id) {
    arrives(id, id % 3 == 0 ? 8 : kLength);
    BOOST_REQUIRE_EQUAL(next(*a.request_cq).id, id);
  }
}

// The memory of a Send may be reused as soon as the Send has completed.
BOOST_FIXTURE_TEST_CASE(memory_may_be_reused_after_completion, Fixture) {
  for (WorkId id = 0; id < 200; ++id) REQUIRE_OK(receive(id));
  for (WorkId id = 0; id < 200; ++id) {
    REQUIRE_OK(send(id, 40, id % 2 + 1));
    BOOST_REQUIRE_EQUAL(next(*a.request_cq).id, id);
    std::fill_n(near_of(id), 40, std::byte{0xEE});
  }
  for (WorkId id = 0; id < 200; ++id) arrives(id, 40);
}

// A registration that is used for one message after the other is looked up once.
struct UsedAgain : Fixture {
  UsedAgain() {
    for (WorkId id = 0; id < 5; ++id) exchange(id);
  }
  void exchange(WorkId id) {
    REQUIRE_OK(receive(id));
    REQUIRE_OK(send(id, 8, 1));
    arrives(id, 8);
    BOOST_REQUIRE_EQUAL(next(*a.request_cq).id, id);
  }
};

BOOST_FIXTURE_TEST_CASE(memory_that_is_no_longer_registered_is_refused, UsedAgain) {
  const auto source = local(*near_mr, near_of(9), 8);
  const auto sink = local(*far_mr, far_of(9), 8);
  near_mr.reset();
  far_mr.reset();
  BOOST_TEST(DAT_GET_TYPE(a.qp->post_send(9, &source, 1, kSignalled)) == DAT_PRIVILEGES_VIOLATION);
  BOOST_TEST(DAT_GET_TYPE(b.qp->post_recv(9, &sink, 1, kSignalled)) == DAT_PRIVILEGES_VIOLATION);
  near_mr = a.reg(near);
  far_mr = b.reg(far);
  for (WorkId id = 10; id < 15; ++id) exchange(id);
}

BOOST_FIXTURE_TEST_CASE(each_segment_is_checked, UsedAgain) {
  const auto before = local(*near_mr, near.data() - 1, 8);
  const auto behind = local(*near_mr, near.data() + near.size() - 7, 8);
  for (const DAT_LMR_TRIPLET& segment : {before, behind})
    BOOST_TEST(DAT_GET_TYPE(a.qp->post_send(9, &segment, 1, kSignalled)) == DAT_INVALID_PARAMETER);
  const auto sink = local(*far_mr, far.data() - 1, 8);
  BOOST_TEST(DAT_GET_TYPE(b.qp->post_recv(9, &sink, 1, kSignalled)) == DAT_INVALID_PARAMETER);
  // A receive may reach beyond its memory; a message may not.
  const auto cut = local(*far_mr, far.data() + far.size() - 7, 8);
  REQUIRE_OK(b.qp->post_recv(10, &cut, 1, kSignalled));
  REQUIRE_OK(send(10, 8, 1));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_LOCAL_PROTECTION);
}

BOOST_FIXTURE_TEST_CASE(a_message_of_the_size_of_its_receive_fits, UsedAgain) {
  const auto sink = local(*far_mr, far_of(10), 8);
  REQUIRE_OK(b.qp->post_recv(10, &sink, 1, kSignalled));
  REQUIRE_OK(send(10, 8, 1));
  arrives(10, 8);
  REQUIRE_OK(b.qp->post_recv(11, &sink, 1, kSignalled));
  REQUIRE_OK(send(11, 9, 1));
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_ERR_LOCAL_LENGTH);
}

// Regression: what was overwritten after the post arrived, because only messages that waited for
// room, or to be gathered, were copied.
BOOST_FIXTURE_TEST_CASE(message_behind_a_read_is_copied, OneRead) {
  constexpr std::uint32_t kLength = 64;
  const auto sink = local(*near_mr, near_of(100), 8);
  const auto source = remote(far_mr->rmr_context(), far_of(100), 8);
  for (const WorkId id : {2, 4}) REQUIRE_OK(receive(id));
  {
    const Standstill b_stands(*b.reactor);
    for (WorkId id = 0; id < 2; ++id)
      REQUIRE_OK(a.qp->post_rdma_read(id, &sink, 1, source, kSignalled));
    REQUIRE_OK(send(2, kLength, 2));
    for (const WorkId id : {3, 4}) {
      std::copy_n(pattern_of(id).data(), kLength, near_of(id));
      const auto segment = local(*near_mr, near_of(id), kLength);
      const auto target = remote(far_mr->rmr_context(), far_of(id), kLength);
      REQUIRE_OK(id == 3 ? a.qp->post_rdma_write(id, &segment, 1, target, kSignalled)
                         : a.qp->post_write_immediate(id, &segment, 1, target, 7, kSignalled));
    }
    for (const WorkId id : {2, 3, 4}) std::fill_n(near_of(id), kLength, std::byte{0xEE});
  }
  arrives(2, kLength);
  BOOST_TEST(next(*b.recv_cq).id == 4U);
  for (const WorkId id : {3, 4})
    BOOST_TEST(std::memcmp(far_of(id), pattern_of(id).data(), kLength) == 0);
  for (WorkId id = 0; id < 5; ++id) BOOST_TEST(next(*a.request_cq).id == id);
}

// With a fence, the data may come from the Read.
BOOST_FIXTURE_TEST_CASE(fenced_message_has_the_data_read_before, OneRead) {
  REQUIRE_OK(receive(2));
  std::copy_n(pattern_of(2).data(), 40, far_of(100));
  const auto sink = local(*near_mr, near_of(2), 40);
  {
    const Standstill b_stands(*b.reactor);
    REQUIRE_OK(a.qp->post_rdma_read(1, &sink, 1, remote(far_mr->rmr_context(), far_of(100), 40),
                                    kSignalled));
    REQUIRE_OK(a.qp->post_send(2, &sink, 1, kSignalled | kFence));
  }
  arrives(2, 40);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
