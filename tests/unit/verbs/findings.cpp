// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/findings.h"

#include "providers/verbs/unserved_reads.h"

#include <boost/test/unit_test.hpp>

namespace udapl::verbs {

BOOST_AUTO_TEST_SUITE(findings)

BOOST_AUTO_TEST_CASE(the_first_failure_stays) {
  Findings findings;
  BOOST_CHECK(!findings.has_failure());
  BOOST_CHECK(!findings.failure().has_value());
  BOOST_CHECK(findings.add_failure(IBV_WC_RETRY_EXC_ERR));
  BOOST_CHECK(!findings.add_failure(IBV_WC_WR_FLUSH_ERR));
  BOOST_CHECK(findings.has_failure());
  BOOST_CHECK(findings.failure() == IBV_WC_RETRY_EXC_ERR);
}

BOOST_AUTO_TEST_CASE(one_request_reports_the_loss_of_the_peer) {
  Findings findings;
  BOOST_CHECK(!findings.take_loss());
  findings.set_lost(true);
  BOOST_CHECK(findings.take_loss());
  BOOST_CHECK(!findings.take_loss());
}

BOOST_AUTO_TEST_CASE(a_set_up_begins_without_findings) {
  Findings findings;
  findings.add_failure(IBV_WC_RETRY_EXC_ERR);
  findings.set_drained();
  findings.set_lost(true);
  findings.clear();
  BOOST_CHECK(!findings.failure().has_value());
  BOOST_CHECK(!findings.drained());
  BOOST_CHECK(!findings.take_loss());
}

BOOST_AUTO_TEST_CASE(only_the_first_unserved_read_gets_another_status) {
  UnservedReads reads;
  reads.set_served(false);
  BOOST_CHECK(!reads.served());
  reads.add(8);
  reads.add(16);
  BOOST_CHECK_EQUAL(reads.meaning_of(8, IBV_WC_LOC_PROT_ERR), IBV_WC_REM_OP_ERR);
  BOOST_CHECK_EQUAL(reads.meaning_of(16, IBV_WC_LOC_PROT_ERR), IBV_WC_LOC_PROT_ERR);
}

BOOST_AUTO_TEST_CASE(a_flushed_unserved_read_stays_flushed) {
  UnservedReads reads;
  reads.add(8);
  BOOST_CHECK_EQUAL(reads.meaning_of(8, IBV_WC_WR_FLUSH_ERR), IBV_WC_WR_FLUSH_ERR);
}

BOOST_AUTO_TEST_CASE(a_set_up_begins_with_reads_served) {
  UnservedReads reads;
  reads.set_served(false);
  reads.add(8);
  reads.clear();
  BOOST_CHECK(reads.served());
  BOOST_CHECK_EQUAL(reads.meaning_of(8, IBV_WC_LOC_PROT_ERR), IBV_WC_LOC_PROT_ERR);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
