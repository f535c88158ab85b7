// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Settings in an entry of dat.conf hold for the connections of its adapter.
#include <boost/test/unit_test.hpp>

#include <cstring>

#include "every_fault.h"
#include "tests/child/in_child.h"

namespace {

using faults::cookie;
using faults::Pair;
using faults::Run;
using udapl::test::in_child;

// Returns the value of the EP's attribute, or "".
const char* delayed_ack_of(DAT_EP_HANDLE ep) {
  DAT_EP_PARAM param{};
  if (dat_ep_query(ep, DAT_EP_FIELD_ALL, &param) != DAT_SUCCESS) return "";
  for (DAT_COUNT i = 0; i < param.ep_attr.ep_provider_specific_count; ++i) {
    const DAT_NAMED_ATTR& attribute = param.ep_attr.ep_provider_specific[i];
    if (std::strcmp(attribute.name, "delayed_ack") == 0) return attribute.value;
  }
  return "";
}

// Returns the value of the adapter's attribute, or "".
const char* shown(const Run& run, const char* name) {
  DAT_PROVIDER_ATTR attr{};
  if (dat_ia_query(run.ia, nullptr, DAT_IA_FIELD_NONE, nullptr, DAT_PROVIDER_FIELD_ALL, &attr) !=
      DAT_SUCCESS)
    return "";
  for (DAT_COUNT i = 0; i < attr.num_provider_specific_attr; ++i) {
    const DAT_NAMED_ATTR& attribute = attr.provider_specific_attr[i];
    if (std::strcmp(attribute.name, name) == 0) return attribute.value;
  }
  return "";
}

int check_shown(const char* adapter, const char* no_receive, const char* delayed_ack) {
  Run run(adapter);
  Pair pair(run);
  if (!pair.create()) return 1;
  if (std::strcmp(shown(run, "SOFT_NO_RECEIVE"), no_receive) != 0) return 2;
  return std::strcmp(shown(run, "SOFT_DELAYED_ACK"), delayed_ack) == 0 ? 0 : 3;
}

int check_delayed_ack(const char* adapter, const char* value) {
  Run run(adapter);
  Pair pair(run);
  if (!pair.create() || !pair.connect()) return 1;
  if (std::strcmp(delayed_ack_of(pair.active.ep), value) != 0) return 2;
  if (!faults::send(pair)) return 3;
  run.finish();
  return run.complaints().empty() ? 0 : 4;
}

BOOST_AUTO_TEST_SUITE(entries)

BOOST_AUTO_TEST_CASE(no_receive_breaks) {
  in_child([] {
    Run run("strict");
    Pair pair(run);
    DAT_EVENT event{};
    if (!pair.create() || !pair.connect()) return 1;
    DAT_LMR_TRIPLET from = pair.local(0, 32);
    if (dat_ep_post_send(pair.active.ep, 1, &from, cookie(1), DAT_COMPLETION_DEFAULT_FLAG) !=
        DAT_SUCCESS)
      return 2;
    return run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN, &event) ? 0 : 3;
  });
}

BOOST_AUTO_TEST_CASE(delayed_ack_is_on) {
  in_child([] { return check_delayed_ack("acked", "true"); });
  in_child([] { return check_delayed_ack("tcp", "false"); });
}

// datinfo prints them. These two were missing.
BOOST_AUTO_TEST_CASE(attributes_show_the_settings) {
  in_child([] { return check_shown("strict", "break", "writes"); });
  in_child([] { return check_shown("acked", "wait", "on"); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
