// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Connection qualifiers whose TCP ports are reserved for root, in programs of ordinary users.
#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include "every_fault.h"
#include "tests/child/in_child.h"

namespace {

using faults::End;
using faults::Pair;
using faults::Run;
using udapl::test::in_child;

constexpr DAT_TIMEOUT kConnectTime = 5'000'000;  // us

DAT_CONN_QUAL low_qualifier() { return 600 + static_cast<DAT_CONN_QUAL>(::getpid()) % 400; }

// Call it when the IA is open: an ordinary user may not be able to load the library from here.
bool become_ordinary_user() {
  constexpr uid_t kNobody = 65534;
  return ::geteuid() != 0 || ::setresuid(kNobody, kNobody, kNobody) == 0;
}

DAT_RETURN listen(Pair& pair, DAT_CONN_QUAL qualifier, DAT_PSP_HANDLE* psp) {
  const DAT_RETURN made =
      dat_psp_create(pair.run.ia, qualifier, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, psp);
  if (made == DAT_SUCCESS)
    pair.run.on_finish("dat_psp_free", [psp = *psp] { return dat_psp_free(psp); });
  return made;
}

bool connect(Pair& pair, const End& end, DAT_CONN_QUAL qualifier) {
  return dat_ep_connect(end.ep, pair.run.attr.ia_address_ptr, qualifier, kConnectTime, 0, nullptr,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS;
}

// Returns 0, or the number of what went wrong first.
int meet(Pair& pair, DAT_CONN_QUAL qualifier, const End& active, const End& passive) {
  if (!connect(pair, active, qualifier)) return 10;
  DAT_EVENT event{};
  if (!pair.run.expect(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT, &event)) return 11;
  const DAT_CR_ARRIVAL_EVENT_DATA& arrival = event.event_data.cr_arrival_event_data;
  if (arrival.conn_qual != qualifier) return 12;
  if (dat_cr_accept(arrival.cr_handle, passive.ep, 0, nullptr) != DAT_SUCCESS) return 13;
  if (!pair.run.expect(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event)) return 14;
  if (!pair.run.expect(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event)) return 15;
  DAT_EP_PARAM param{};
  if (dat_ep_query(active.ep, DAT_EP_FIELD_ALL, &param) != DAT_SUCCESS) return 16;
  if (param.remote_port_qual != qualifier) return 17;
  if (dat_ep_query(passive.ep, DAT_EP_FIELD_ALL, &param) != DAT_SUCCESS) return 18;
  return param.local_port_qual == qualifier ? 0 : 19;
}

int listen_and_meet(const char* adapter) {
  Run run(adapter);
  Pair pair(run);
  End active;
  End passive;
  const DAT_CONN_QUAL before = low_qualifier();
  const DAT_CONN_QUAL after = before + 1;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  if (!pair.create() || !pair.make_end(active) || !pair.make_end(passive)) return 1;
  if (listen(pair, before, &psp) != DAT_SUCCESS) return 2;
  if (!become_ordinary_user()) return 3;
  if (listen(pair, after, &psp) != DAT_SUCCESS) return 4;
  DAT_PSP_PARAM param{};
  if (dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param) != DAT_SUCCESS) return 5;
  if (param.conn_qual != after) return 6;
  if (DAT_GET_TYPE(listen(pair, after, &psp)) != DAT_CONN_QUAL_IN_USE) return 7;
  if (const int failed = meet(pair, before, active, passive); failed != 0) return failed;
  if (const int failed = meet(pair, after, pair.active, pair.passive); failed != 0)
    return failed + 10;
  if (!faults::send(pair)) return 8;
  run.finish();
  return 0;
}

BOOST_AUTO_TEST_SUITE(low_qualifiers)

BOOST_AUTO_TEST_CASE(ordinary_users_listen_and_are_reached) {
  for (const char* const adapter : {"mock", "tcp"}) BOOST_TEST_CONTEXT(adapter)
  in_child([adapter] { return listen_and_meet(adapter); });
}

BOOST_AUTO_TEST_CASE(without_a_listener_the_connect_is_refused) {
  in_child([] {
    Run run;
    Pair pair(run);
    if (!pair.create() || !connect(pair, pair.active, low_qualifier())) return 1;
    DAT_EVENT event{};
    if (!run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, &event))
      return 2;
    run.finish();
    return 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
