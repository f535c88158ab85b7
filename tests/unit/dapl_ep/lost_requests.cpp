// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Connection requests that the program can no longer answer, because it has freed the EVD with
// their events or closes the IA: they are rejected, and so release their EPs.
#include "tests/unit/dapl_ep/places.h"

namespace udapl::test {
namespace {

struct Lost : Places {
  template <class T>
  [[nodiscard]] int count() const {
    int found = 0;
    static_cast<dapl::Ia*>(ia.raw)->for_each<T>([&found](const T&) { ++found; });
    return found;
  }
  void check_rejected(const Side& peer) const {
    run();
    BOOST_CHECK_EQUAL(take_connection(peer.connect_evd), DAT_CONNECTION_EVENT_PEER_REJECTED);
    BOOST_CHECK_EQUAL(count<dapl::Cr>(), 0);
  }
};

BOOST_FIXTURE_TEST_SUITE(lost_requests, Lost)

BOOST_AUTO_TEST_CASE(a_freed_evd_rejects_its_queued_requests) {
  const DAT_PSP_HANDLE place = psp();
  const Side first = request();
  const Side second = request();
  const Side third = request();
  const DAT_CR_HANDLE taken = take_cr();
  CHECK_ERROR(ia->evd_free_func(cr_evd), DAT_INVALID_STATE);  // the PSP uses it
  run();
  BOOST_CHECK(empty(second.connect_evd));
  REQUIRE_OK(ia->psp_free_func(place));
  REQUIRE_OK(ia->evd_free_func(cr_evd));
  run();
  for (const Side& peer : {second, third})
    BOOST_CHECK_EQUAL(take_connection(peer.connect_evd), DAT_CONNECTION_EVENT_PEER_REJECTED);
  BOOST_CHECK(empty(first.connect_evd));  // the program has its event, and decides
  const Side passive = side();
  REQUIRE_OK(ia->cr_accept_func(taken, passive.ep, 0, nullptr));
  run();
  BOOST_CHECK_EQUAL(take_connection(first.connect_evd), DAT_CONNECTION_EVENT_ESTABLISHED);
}

BOOST_AUTO_TEST_CASE(a_freed_evd_destroys_the_eps_of_the_provider) {
  const DAT_PSP_HANDLE place = psp(kService, DAT_PSP_PROVIDER_FLAG);
  const Side peer = request();
  BOOST_CHECK_EQUAL(count<dapl::Ep>(), 2);
  REQUIRE_OK(ia->psp_free_func(place));
  REQUIRE_OK(ia->evd_free_func(cr_evd));
  check_rejected(peer);
  BOOST_CHECK_EQUAL(count<dapl::Ep>(), 1);
}

BOOST_AUTO_TEST_CASE(a_freed_evd_returns_the_ep_of_an_rsp) {
  const Side passive = side();
  const DAT_RSP_HANDLE place = rsp(passive.ep);
  const Side peer = request();
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
  REQUIRE_OK(ia->rsp_free_func(place));
  REQUIRE_OK(ia->evd_free_func(cr_evd));
  check_rejected(peer);
  BOOST_CHECK_EQUAL(state(passive.ep), DAT_EP_STATE_UNCONNECTED);
  REQUIRE_OK(ia->ep_free_func(passive.ep));
}

// An EVD with a CQ has completions before and after the request.
BOOST_AUTO_TEST_CASE(an_evd_of_all_streams) {
  cr_evd =
      ia.evd(DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_SOFTWARE_FLAG);
  DAT_EVENT software{};
  software.event_number = DAT_SOFTWARE_EVENT;
  REQUIRE_OK(ia->evd_post_se_func(cr_evd, &software));
  const DAT_PSP_HANDLE place = psp();
  const Side peer = request();
  REQUIRE_OK(ia->evd_post_se_func(cr_evd, &software));
  REQUIRE_OK(ia->psp_free_func(place));
  REQUIRE_OK(ia->evd_free_func(cr_evd));
  check_rejected(peer);
}

// The consumer has made neither the requests nor the provider's EPs.
BOOST_AUTO_TEST_CASE(a_graceful_close_rejects_the_requests) {
  OpenIa server;
  DAT_EVD_HANDLE requests = server.evd(DAT_EVD_CR_FLAG);
  DAT_PSP_HANDLE plain = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE providing = DAT_HANDLE_NULL;
  REQUIRE_OK(
      server->psp_create_func(server.raw, kService, requests, DAT_PSP_CONSUMER_FLAG, &plain));
  REQUIRE_OK(server->psp_create_func(server.raw, kService + 1, requests, DAT_PSP_PROVIDER_FLAG,
                                     &providing));
  const Side first = request(kService);
  const Side second = request(kService + 1);
  DAT_EVENT event{};
  for (int i = 0; i < 2; ++i) REQUIRE_OK(server->evd_dequeue_func(requests, &event));
  REQUIRE_OK(server->psp_free_func(plain));
  REQUIRE_OK(server->psp_free_func(providing));
  CHECK_ERROR(server.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE);  // the EVD
  REQUIRE_OK(server->evd_free_func(requests));
  DAT_EP_HANDLE own = DAT_HANDLE_NULL;
  REQUIRE_OK(server->ep_create_func(server.raw, nullptr, nullptr, nullptr, nullptr, nullptr, &own));
  CHECK_ERROR(server.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE);
  REQUIRE_OK(server->ep_free_func(own));
  REQUIRE_OK(server.close(DAT_CLOSE_GRACEFUL_FLAG));
  run();
  for (const Side& peer : {first, second})
    BOOST_CHECK_EQUAL(take_connection(peer.connect_evd), DAT_CONNECTION_EVENT_PEER_REJECTED);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
