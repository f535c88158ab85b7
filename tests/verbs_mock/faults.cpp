// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Every fault while adapters, objects and connections are created and destroyed.
#include <boost/test/unit_test.hpp>

#include <cstdlib>

#include "every_fault.h"

namespace {

using faults::for_every_fault;
using faults::Pair;
using faults::send;

BOOST_AUTO_TEST_SUITE(faults_)

BOOST_AUTO_TEST_CASE(open_and_close) {
  for_every_fault([](Pair& pair) { return pair.run.open(); });
}

BOOST_AUTO_TEST_CASE(creation_fails_cleanly) {
  for_every_fault([](Pair& pair) { return pair.create(true); });
}

BOOST_AUTO_TEST_CASE(graceful_disconnect_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    return pair.create() && pair.connect() && pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG);
  });
}

BOOST_AUTO_TEST_CASE(abrupt_disconnect_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    return pair.create() && pair.connect() && pair.disconnect(DAT_CLOSE_ABRUPT_FLAG);
  });
}

BOOST_AUTO_TEST_CASE(free_while_connected) {
  for_every_fault([](Pair& pair) { return pair.create() && pair.connect(); });
}

BOOST_AUTO_TEST_CASE(rejection_fails_cleanly) {
  for_every_fault([](Pair& pair) { return pair.create() && pair.reject(); });
}

// No private data, and the largest possible amount.
BOOST_AUTO_TEST_CASE(private_data_of_any_size_fails_cleanly) {
  for_every_fault([](Pair& pair) { return pair.create() && pair.connect(0); });
  for_every_fault([](Pair& pair) { return pair.create() && pair.connect(56); });
}

BOOST_AUTO_TEST_CASE(reset_and_connect_again) {
  for_every_fault([](Pair& pair) {
    return pair.create() && pair.connect() && send(pair) &&
           pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG) &&
           FAULTS_OK(pair.run, dat_ep_reset(pair.active.ep)) &&
           FAULTS_OK(pair.run, dat_ep_reset(pair.passive.ep)) && pair.connect() && send(pair);
  });
}

// A port without an IP address, and a partition that is not the first.
BOOST_AUTO_TEST_CASE(connection_by_gid_fails_cleanly) {
  verbs_mock_set_fabric(VERBS_MOCK_INFINIBAND);
  ::setenv("DAPL_IB_PKEY", "0x8001", 1);
  for_every_fault(
      [](Pair& pair) {
        return pair.create() && pair.connect(92) && send(pair) &&
               pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG);
      },
      "device");
  ::unsetenv("DAPL_IB_PKEY");
  verbs_mock_set_fabric(VERBS_MOCK_ROCE);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
