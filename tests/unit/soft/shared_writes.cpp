// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Large RDMA Writes that are shared: the peer on the same host places one part, and this side the
// other (docs/adr/0076).
#include "tests/unit/soft/driven.h"
#include "tests/unit/soft/standstill.h"
#include "tests/unit/soft/support.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace udapl::soft::test {
namespace {

constexpr std::size_t kLarge = 600'000;
constexpr std::size_t kFront = 590'000;  // without the last part

struct Fixture : Pair {
  std::vector<std::byte> near = pattern(kLarge, 3);
  std::vector<std::byte> far = std::vector<std::byte>(kLarge);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);
  // How the Write to a peer that stood was done, which depends on timing.
  bool late = false;    // not at once
  bool shared = false;  // both sides had a part
  Completion early{};   // its completion if it was done at once

  void write(WorkId id) {
    const auto segment = local(*near_mr, near.data(), kLarge);
    REQUIRE_OK(a.qp->post_rdma_write(
        id, &segment, 1, remote(far_mr->rmr_context(), far.data(), kLarge), kSignalled));
  }
  // The first Write needs a grant, and all of the peer.
  void acquaint() {
    write(1);
    BOOST_REQUIRE(next(*a.request_cq).id == 1);
    BOOST_REQUIRE((near == far));
    std::ranges::fill(far, std::byte{0});
  }
  // Runs `body` while a thread drives b, or, if b `stands`, was driving it just before: its rings
  // are awake.
  template <class Body>
  void with_b_awake(bool stands, Body body) {
    const Driven b_is_driven(b, a);
    if (!stands) return body();
    const Standstill b_stands(*b.reactor);
    for (int i = 0; i < 10'000; ++i) a.reactor->progress();
    body();
  }
  // Posts a Write and calls `then` while b stands.
  template <class Then>
  void write_to_standing_b(Then then) {
    acquaint();
    with_b_awake(true, [&] {
      write(5);
      late = a.request_cq->poll(&early, 1) == 0;
      shared = late && std::memcmp(near.data(), far.data(), kFront) == 0;
      if (shared) BOOST_TEST((far.back() == std::byte{0}));
      then();
    });
  }
  void expect(DAT_DTO_COMPLETION_STATUS if_late) {
    const Completion c = late ? next(*a.request_cq) : early;
    BOOST_TEST(c.id == 5U);
    BOOST_TEST(c.status == (late ? if_late : DAT_DTO_SUCCESS));
  }
};

// The pages between two offsets of the target cannot be written, by the kernel either.
struct RefusedFixture : Fixture {
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kRoom = (kLarge / kPage + 1) * kPage;
  // The part of this side and a frame of the peer's, as ring_stream.cpp divides the Write.
  static constexpr std::size_t kOurs = 404'864;
  static constexpr std::size_t kFrame = 64'704;

  ~RefusedFixture() { ::munmap(pages, kRoom); }
  void write_refused(std::size_t begin, std::size_t end) {
    BOOST_REQUIRE(::mprotect(pages + begin, end - begin, PROT_READ) == 0);
    const auto segment = local(*near_mr, near.data(), kLarge);
    REQUIRE_OK(a.qp->post_rdma_write(5, &segment, 1, remote(pages_mr->rmr_context(), pages, kLarge),
                                     kSignalled));
    late = a.request_cq->poll(&early, 1) == 0;
    BOOST_REQUIRE(::mprotect(pages + begin, end - begin, PROT_READ | PROT_WRITE) == 0);
  }
  // Whether the bytes up to `offset` have been written, and not the next ones.
  [[nodiscard]] bool ends_at(std::size_t offset) const {
    return std::memcmp(pages, near.data(), offset) == 0 &&
           std::all_of(pages + offset, pages + offset + kPage,
                       [](std::byte byte) { return byte == std::byte{0}; });
  }
  void acquaint_with_pages() {
    const auto segment = local(*near_mr, near.data(), kLarge);
    const auto to = remote(pages_mr->rmr_context(), pages, kLarge);
    REQUIRE_OK(a.qp->post_rdma_write(1, &segment, 1, to, kSignalled));
    BOOST_REQUIRE(next(*a.request_cq).id == 1);
    std::fill_n(pages, kLarge, std::byte{0});
  }

  std::byte* const pages = static_cast<std::byte*>(
      ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::unique_ptr<Mr> pages_mr = b.reg(pages, kLarge);
};

BOOST_AUTO_TEST_SUITE(shared_writes)

BOOST_AUTO_TEST_CASE(what_the_peer_does_not_place_is_written) {
  bool any = false;
  for (int i = 0; i < 50 && !any; ++i) {
    Fixture pair;
    pair.near.back() = std::byte{1};
    pair.write_to_standing_b([] {});
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST((pair.near == pair.far));
    any = pair.shared;
  }
  BOOST_TEST(any);
}

BOOST_FIXTURE_TEST_CASE(memory_that_the_peer_frees_meanwhile, Fixture) {
  write_to_standing_b([&] { far_mr.reset(); });
  expect(DAT_DTO_ERR_REMOTE_ACCESS);
  BOOST_TEST(wait([&] { return !late || (a.sink.ended() && b.sink.ended()); }));
}

BOOST_FIXTURE_TEST_CASE(an_abrupt_end_meanwhile, Fixture) {
  write_to_standing_b([&] { a.qp->disconnect(transport::DisconnectMode::kAbrupt); });
  expect(DAT_DTO_ERR_FLUSHED);
  BOOST_TEST(wait([&] { return b.sink.ended(); }));
}

BOOST_FIXTURE_TEST_CASE(source_that_is_freed_meanwhile, Fixture) {
  write_to_standing_b([&] { near_mr.reset(); });
  const DAT_DTO_COMPLETION_STATUS status = late ? next(*a.request_cq).status : early.status;
  BOOST_TEST((status == DAT_DTO_SUCCESS || status == DAT_DTO_ERR_LOCAL_PROTECTION));
}

// The first page has been written, so that the Write is shared; the next one is refused.
BOOST_AUTO_TEST_CASE(our_part_is_refused_by_the_kernel) {
  bool any = false;
  for (int i = 0; i < 50 && !any; ++i) {
    RefusedFixture pair;
    pair.near[0] = pair.near[RefusedFixture::kPage] = std::byte{1};
    pair.acquaint_with_pages();
    bool begun = false;
    pair.with_b_awake(true, [&] {
      pair.write_refused(RefusedFixture::kPage,
                         RefusedFixture::kOurs / RefusedFixture::kPage * RefusedFixture::kPage);
      begun = pair.ends_at(RefusedFixture::kPage);
    });
    const Completion c = pair.late ? pair.next(*pair.a.request_cq) : pair.early;
    BOOST_TEST(c.id == 5U);
    any = c.status != DAT_DTO_SUCCESS;
    if (!any) continue;  // it was not shared
    BOOST_TEST(begun);
    BOOST_TEST(pair.wait([&] { return pair.a.sink.ended() && pair.b.sink.ended(); }));
    BOOST_TEST(pair.a.sink.calls() == "established broken");
    BOOST_TEST(pair.a.sink.detail.load() ==
               std::string_view("its memory cannot be reached any more"));
  }
  BOOST_TEST(any);
}

// This side takes the last two of the peer's three frames, and can write one page of them. Then it
// leaves them to the peer.
BOOST_AUTO_TEST_CASE(some_of_the_peers_part_is_refused_by_the_kernel) {
  constexpr std::size_t kPage = RefusedFixture::kPage;
  constexpr std::size_t kTaken = RefusedFixture::kOurs + RefusedFixture::kFrame;
  bool any = false;
  for (int i = 0; i < 50 && !any; ++i) {
    RefusedFixture pair;
    pair.near[RefusedFixture::kOurs] = pair.near[kTaken] = pair.near[kTaken + 2 * kPage] =
        std::byte{1};
    pair.acquaint_with_pages();
    pair.with_b_awake(true, [&] {
      pair.write_refused((kTaken / kPage + 2) * kPage, kLarge / kPage * kPage);
      any = pair.late && pair.pages[RefusedFixture::kOurs] == std::byte{0} &&
            pair.pages[kTaken] == std::byte{1} && pair.pages[kTaken + 2 * kPage] == std::byte{0};
    });
    pair.expect(DAT_DTO_SUCCESS);
    BOOST_TEST(std::memcmp(pair.pages, pair.near.data(), kLarge) == 0);
    BOOST_TEST(pair.a.sink.calls() == "established");
  }
  BOOST_TEST(any);
}

// The requests behind it take effect in their order, and see all of it.
BOOST_FIXTURE_TEST_CASE(order_with_what_follows, Fixture) {
  std::vector<std::byte> in(8);
  const auto in_mr = b.reg(in);
  std::vector<std::byte> back(kLarge);
  const auto back_mr = a.reg(back);
  write_to_standing_b([&] {
    const auto sink = local(*back_mr, back);
    REQUIRE_OK(a.qp->post_rdma_read(6, &sink, 1, remote(far_mr->rmr_context(), far.data(), kLarge),
                                    kSignalled));
    const auto segment = local(*near_mr, near.data(), 8);
    REQUIRE_OK(a.qp->post_send(7, &segment, 1, kSignalled));
    const auto receive = local(*in_mr, in);
    REQUIRE_OK(b.qp->post_recv(8, &receive, 1, kSignalled));
  });
  expect(DAT_DTO_SUCCESS);
  for (const WorkId id : {6, 7}) BOOST_TEST(next(*a.request_cq).id == id);
  BOOST_TEST((near == back));
  BOOST_TEST(next(*b.recv_cq).id == 8);
}

BOOST_FIXTURE_TEST_CASE(both_sides_place_it, Fixture) {
  acquaint();
  for (unsigned round = 0; round < 40; ++round) {
    std::ranges::copy(pattern(kLarge, round), near.begin());
    with_b_awake(false, [&] {
      write(5);
      Completion c{};
      BOOST_REQUIRE(eventually([&] { return a.request_cq->poll(&c, 1) == 1; }, {&a}));
      BOOST_TEST(c.status == DAT_DTO_SUCCESS);
    });
    BOOST_TEST((near == far));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
