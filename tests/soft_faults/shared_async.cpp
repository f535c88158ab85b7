// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A program opens all its adapters with one variable for the async EVD, which the first open fills.
#include <boost/test/unit_test.hpp>

#include "every_fault.h"
#include "tests/child/in_child.h"

namespace {

using faults::Pair;
using faults::Run;
using udapl::test::in_child;

constexpr DAT_TIMEOUT kPatience = 4'000'000;  // us

// The connection of an EP with an SRQ ends. Takes the async event that this causes from
// `async_evd`.
bool end_connection(Pair& pair, DAT_EVD_HANDLE async_evd) {
  pair.run.async_evd = DAT_HANDLE_NULL;  // expect() leaves its events alone
  if (!pair.connect() || !pair.disconnect(DAT_CLOSE_ABRUPT_FLAG)) return false;
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  return dat_evd_wait(async_evd, kPatience, 1, &event, &more) == DAT_SUCCESS &&
         event.event_number == DAT_ASYNC_ERROR_EP_BROKEN &&
         event.event_data.asynch_error_event_data.dat_handle == pair.passive.ep;
}

BOOST_AUTO_TEST_SUITE(shared_async)

BOOST_AUTO_TEST_CASE(one_evd_serves_two_adapters) {
  in_child([] {
    Run first("mock");
    if (!first.open()) return 1;
    const DAT_EVD_HANDLE shared = first.async_evd;
    Run second("tcp");
    second.async_evd = shared;
    Pair pair(second);
    if (!pair.create(true)) return 2;
    DAT_EVD_HANDLE reported = DAT_HANDLE_NULL;
    if (dat_ia_query(second.ia, &reported, DAT_IA_FIELD_NONE, nullptr, 0, nullptr) != DAT_SUCCESS)
      return 3;
    if (second.async_evd != shared || reported != shared) return 4;
    if (!end_connection(pair, shared)) return 5;
    second.finish();
    if (!second.complaints().empty()) return 6;
    DAT_EVD_PARAM param{};
    if (dat_evd_query(shared, DAT_EVD_FIELD_ALL, &param) != DAT_SUCCESS) return 7;
    first.finish();
    return first.complaints().empty() ? 0 : 8;
  });
}

BOOST_AUTO_TEST_CASE(its_adapter_may_be_closed_first) {
  in_child([] {
    Run first("mock");
    if (!first.open()) return 1;
    Run second("tcp");
    second.async_evd = first.async_evd;
    Pair pair(second);
    if (!pair.create()) return 2;
    second.async_evd = DAT_HANDLE_NULL;
    first.finish();
    if (!first.complaints().empty()) return 3;
    if (!pair.connect() || !faults::send(pair)) return 4;
    second.finish();
    return second.complaints().empty() ? 0 : 5;
  });
}

BOOST_AUTO_TEST_CASE(an_evd_of_no_open_adapter_is_refused) {
  in_child([] {
    Run first("mock");
    if (!first.open()) return 1;
    const DAT_EVD_HANDLE stale = first.async_evd;
    first.finish();
    Run second("tcp");
    second.async_evd = stale;
    return second.open() ? 2 : 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
