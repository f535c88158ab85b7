// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <deque>

// 200 EPs in one process, all connected and all exchanging at the same time.
namespace conformance {

namespace {

constexpr int kPairs = 100;
constexpr int kRounds = 20;
constexpr std::size_t kSize = 3000;

struct Link {
  Link(const Ia& ia, DAT_PZ_HANDLE pz)
      : active_out(ia, pz, kSize), active_in(ia, pz, kSize), passive_in(ia, pz, kSize) {
    active.create(ia, pz, nullptr);
    passive.create(ia, pz, nullptr);
  }
  Buffer active_out;
  Buffer active_in;
  Buffer passive_in;
  End active;
  End passive;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(endpoints)

BOOST_AUTO_TEST_CASE(two_hundred_all_exchanging) {
  Ia ia;
  const Pz pz = make_pz(ia);
  const Evd cr_evd = make_evd(ia, DAT_EVD_CR_FLAG, kPairs);
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  Psp psp;
  REQUIRE_OK(dat_psp_create(ia, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));

  std::deque<Link> links;
  for (int i = 0; i < kPairs; ++i) {
    Link& link = links.emplace_back(ia, pz);
    REQUIRE_OK(dat_ep_connect(link.active.ep, ia.attr.ia_address_ptr, conn_qual, kPatience, 0,
                              nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  }
  // Requests arrive in any order: which passive EP serves which active one does not matter to the
  // exchange, but each link must know its partner. The first message identifies it.
  for (Link& link : links) {
    const DAT_EVENT event = expect_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    REQUIRE_OK(link.passive.post_recv(link.passive_in, kSize, 1));
    REQUIRE_OK(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, link.passive.ep, 0,
                             nullptr));
  }
  for (Link& link : links) {
    expect_event(link.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    expect_event(link.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  }

  for (int round = 0; round < kRounds; ++round) {
    std::uint8_t seed = static_cast<std::uint8_t>(round);
    for (Link& link : links) {
      link.active_out.fill(seed);
      REQUIRE_OK(link.active.post_recv(link.active_in, kSize, 2));
      REQUIRE_OK(link.active.post_send(link.active_out, kSize, 3));
    }
    for (Link& link : links) {  // each passive EP echoes what it got
      const auto received = expect_dto(link.passive.recv_evd, DAT_DTO_SUCCESS, 1);
      BOOST_REQUIRE_EQUAL(received.transfered_length, kSize);
      BOOST_REQUIRE(link.passive_in.holds(seed, kSize));
      REQUIRE_OK(link.passive.post_send(link.passive_in, kSize, 4));
      expect_dto(link.passive.request_evd, DAT_DTO_SUCCESS, 4);
    }
    for (Link& link : links) {
      expect_dto(link.active.request_evd, DAT_DTO_SUCCESS, 3);
      expect_dto(link.active.recv_evd, DAT_DTO_SUCCESS, 2);
      BOOST_REQUIRE(link.active_in.holds(seed, kSize));
      REQUIRE_OK(link.passive.post_recv(link.passive_in, kSize, 1));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
