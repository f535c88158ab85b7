// SPDX-License-Identifier: MIT OR GPL-2.0-only
// An IA for the tests of service points: makes RSPs, queries CRs and delivers a peer's requests.
#pragma once

#include "dapl/service/cr.h"
#include "dapl/service/rsp.h"
#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {

struct Places : Rig {
  DAT_RSP_HANDLE rsp(DAT_EP_HANDLE ep, DAT_CONN_QUAL conn_qual = kService) const {
    DAT_RSP_HANDLE made = DAT_HANDLE_NULL;
    REQUIRE_OK(ia->rsp_create_func(ia.raw, conn_qual, ep, cr_evd, &made));
    return made;
  }
  DAT_CR_PARAM query(DAT_CR_HANDLE cr) const {
    DAT_CR_PARAM param{};
    REQUIRE_OK(ia->cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    return param;
  }
  // Delivers a peer's request and returns the peer's side.
  Side request(DAT_CONN_QUAL conn_qual = kService) const {
    Side active = side();
    REQUIRE_OK(connect(active.ep, conn_qual));
    run();
    return active;
  }
};

}  // namespace udapl::test
