// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The effect of the DAPL_* variables on connections, as described in docs/environment.md.
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "every_fault.h"

namespace {

using faults::both_ends;
using faults::Pair;
using faults::Run;

// Sets variables for the duration of a test.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, std::string>> values) {
    for (const auto& [name, value] : values) {
      ::setenv(name, value.c_str(), 1);
      names_.push_back(name);
    }
  }
  ~Variables() {
    for (const char* const name : names_) ::unsetenv(name);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<const char*> names_;
};

void check_clean(Run& run) {
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
  for (const std::string& complaint : run.complaints()) BOOST_ERROR(complaint);
}

BOOST_AUTO_TEST_SUITE(environment)

BOOST_AUTO_TEST_CASE(unset_variables_leave_the_devices_defaults) {
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  for (const verbs_mock_connection& qp : both_ends()) {
    BOOST_CHECK_EQUAL(qp.retry_count, 7U);
    BOOST_CHECK_EQUAL(qp.rnr_retry, 7U);
    BOOST_CHECK_EQUAL(qp.min_rnr_timer, 12U);
    BOOST_CHECK_EQUAL(qp.timeout, 14U);  // the double's rdma_cm
    BOOST_CHECK_EQUAL(qp.path_mtu, 1024U);
    BOOST_CHECK_EQUAL(qp.max_inline, 64U);
  }
  check_clean(run);
}

BOOST_AUTO_TEST_CASE(timers_and_retries) {
  const Variables set{{"DAPL_ACK_RETRY", "3"},
                      {"DAPL_RNR_RETRY", "5"},
                      {"DAPL_ACK_TIMER", "18"},
                      {"DAPL_RNR_TIMER", "20"},
                      {"DAPL_CM_TOS", "0x60"}};
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  BOOST_CHECK_EQUAL(verbs_mock_tos(), 0x60U);
  for (const verbs_mock_connection& qp : both_ends()) {
    BOOST_CHECK_EQUAL(qp.retry_count, 3U);
    BOOST_CHECK_EQUAL(qp.rnr_retry, 5U);
    BOOST_CHECK_EQUAL(qp.timeout, 18U);
    BOOST_CHECK_EQUAL(qp.min_rnr_timer, 20U);
  }
  check_clean(run);
}

// Both ends must use the same MTU, and rdma_cm does not let one of them choose it.
BOOST_AUTO_TEST_CASE(mtu_is_the_paths) {
  const Variables set{{"DAPL_IB_MTU", "512"}};
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect());
  for (const verbs_mock_connection& qp : both_ends()) BOOST_CHECK_EQUAL(qp.path_mtu, 1024U);
  check_clean(run);
}

// The double supports 256 bytes, and refuses more.
BOOST_AUTO_TEST_CASE(inline_room_is_what_the_device_allows) {
  for (const auto& [wanted, had] : std::map<std::string, unsigned>{
           {"0", 0}, {"17", 17}, {"256", 256}, {"1000", 250}, {"65536", 256}}) {
    const Variables set{{"DAPL_MAX_INLINE", wanted}};
    Run run;
    Pair pair(run);
    BOOST_REQUIRE_MESSAGE(pair.create() && pair.connect() && faults::send(pair), wanted);
    for (const verbs_mock_connection& qp : both_ends()) BOOST_CHECK_EQUAL(qp.max_inline, had);
    check_clean(run);
  }
}

BOOST_AUTO_TEST_CASE(depth_of_queues) {
  const Variables set{{"DAPL_WR_MAX", "24"}};
  Run run;
  BOOST_REQUIRE(run.open());
  BOOST_CHECK_EQUAL(run.attr.max_dto_per_ep, 24);
  check_clean(run);
}

// As many retries as the variables say, then the peer is unreachable.
BOOST_AUTO_TEST_CASE(lost_resolutions_are_retried_as_often_as_set) {
  const Variables set{{"DAPL_CM_ARP_RETRY_COUNT", "2"}, {"DAPL_CM_ROUTE_RETRY_COUNT", "2"}};
  {
    Run run;
    Pair pair(run);
    BOOST_REQUIRE(pair.create());
    verbs_mock_lose_resolutions(2);
    BOOST_CHECK(pair.connect());
    check_clean(run);
  }
  Run run;
  Pair pair(run);
  BOOST_REQUIRE(pair.create());
  verbs_mock_lose_resolutions(3);
  BOOST_REQUIRE_EQUAL(
      dat_ep_connect(pair.active.ep, run.attr.ia_address_ptr, faults::conn_qual(), 5000000, 0,
                     nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
      DAT_SUCCESS);
  DAT_EVENT event{};
  BOOST_CHECK(run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE, &event));
  verbs_mock_lose_resolutions(0);
  check_clean(run);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
