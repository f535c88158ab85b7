// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Feature test: what the query functions return.
#include "feature_case.h"

namespace dapltest {
namespace {

void query_ia(Case& c) {
  if (!c.open()) return;
  DAT_IA_ATTR attributes{};
  DAT_PROVIDER_ATTR provider{};
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  if (c.success(dat_ia_query(c.ia.get(), &async_evd, DAT_IA_FIELD_ALL, &attributes,
                             DAT_PROVIDER_FIELD_ALL, &provider),
                "dat_ia_query")) {
    c.require(attributes.max_eps > 0 && attributes.max_evds > 0 && async_evd != DAT_HANDLE_NULL,
              "dat_ia_query reports limits and the asynchronous EVD");
  }
}

void query_cno(Case& c) {
  if (!c.open() || !c.success(dat_cno_create(c.ia.get(), DAT_OS_WAIT_PROXY_AGENT_NULL, c.cno.out()),
                              "dat_cno_create")) {
    return;
  }
  DAT_CNO_PARAM param{};
  if (c.success(dat_cno_query(c.cno.get(), DAT_CNO_FIELD_ALL, &param), "dat_cno_query")) {
    c.require(param.ia_handle == c.ia.get(), "dat_cno_query reports its IA");
  }
}

void query_evd(Case& c) {
  if (!c.make_evds()) return;
  DAT_EVD_PARAM param{};
  if (c.success(dat_evd_query(c.dto_evd.get(), DAT_EVD_FIELD_ALL, &param), "dat_evd_query")) {
    c.require(param.evd_qlen >= 16 && param.ia_handle == c.ia.get(),
              "dat_evd_query reports length and IA");
  }
}

void query_psp(Case& c) {
  if (!c.make_evds() || !c.at_free_port("dat_psp_create", [&c] {
        return dat_psp_create(c.ia.get(), c.port, c.cr_evd.get(), DAT_PSP_CONSUMER_FLAG,
                              c.psp.out());
      })) {
    return;
  }
  DAT_PSP_PARAM param{};
  if (c.success(dat_psp_query(c.psp.get(), DAT_PSP_FIELD_ALL, &param), "dat_psp_query")) {
    c.require(param.conn_qual == c.port, "dat_psp_query reports the conn qual");
  }
}

void query_rsp(Case& c) {
  if (!c.make_ep() || !c.at_free_port("dat_rsp_create", [&c] {
        return dat_rsp_create(c.ia.get(), c.port, c.ep.get(), c.cr_evd.get(), c.rsp.out());
      })) {
    return;
  }
  DAT_RSP_PARAM param{};
  if (c.success(dat_rsp_query(c.rsp.get(), DAT_RSP_FIELD_ALL, &param), "dat_rsp_query")) {
    c.require(param.conn_qual == c.port && param.ep_handle == c.ep.get(),
              "dat_rsp_query reports conn qual and EP");
  }
}

// A connection to our own PSP, up to the connection request.
void query_cr(Case& c) {
  if (!c.make_ep() || !c.at_free_port("dat_psp_create", [&c] {
        return dat_psp_create(c.ia.get(), c.port, c.cr_evd.get(), DAT_PSP_CONSUMER_FLAG,
                              c.psp.out());
      })) {
    return;
  }
  DAT_IA_ATTR attributes{};
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  if (!c.success(dat_ia_query(c.ia.get(), nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr),
                 "dat_ia_query") ||
      !c.success(dat_ep_connect(c.ep.get(), attributes.ia_address_ptr, c.port, 10'000'000, 0,
                                nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                 "dat_ep_connect") ||
      !c.success(dat_evd_wait(c.cr_evd.get(), 10'000'000, 1, &event, &more), "dat_evd_wait")) {
    return;
  }
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  DAT_CR_PARAM param{};
  if (c.success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), "dat_cr_query")) {
    c.require(param.remote_ia_address_ptr != nullptr, "dat_cr_query reports the peer");
  }
  c.success(dat_cr_reject(cr, 0, nullptr), "dat_cr_reject");
}

void query_ep(Case& c) {
  if (!c.make_ep()) return;
  DAT_EP_PARAM param{};
  if (c.success(dat_ep_query(c.ep.get(), DAT_EP_FIELD_ALL, &param), "dat_ep_query")) {
    c.require(param.ep_state == DAT_EP_STATE_UNCONNECTED && param.pz_handle == c.pz.get(),
              "dat_ep_query reports state and PZ");
  }
}

void query_pz(Case& c) {
  if (!c.make_pz()) return;
  DAT_PZ_PARAM param{};
  if (c.success(dat_pz_query(c.pz.get(), DAT_PZ_FIELD_ALL, &param), "dat_pz_query")) {
    c.require(param.ia_handle == c.ia.get(), "dat_pz_query reports its IA");
  }
}

void query_lmr(Case& c) {
  if (!c.make_pz() || !c.success(c.enroll(c.pz.get(), kRegion), "dat_lmr_create")) return;
  DAT_LMR_PARAM param{};
  if (c.success(dat_lmr_query(c.lmr.get(), DAT_LMR_FIELD_ALL, &param), "dat_lmr_query")) {
    c.require(param.length == kRegion && param.lmr_context == c.lmr_context,
              "dat_lmr_query reports length and context");
  }
}

void query_rmr(Case& c) {
  if (!c.make_pz()) return;
  const DAT_RETURN status = dat_rmr_create(c.pz.get(), c.rmr.out());
  if (DAT_GET_TYPE(status) == DAT_GET_TYPE(DAT_MODEL_NOT_SUPPORTED)) {
    say("The adapter has no RMRs.");
    return;
  }
  DAT_RMR_PARAM param{};
  if (c.success(status, "dat_rmr_create") &&
      c.success(dat_rmr_query(c.rmr.get(), DAT_RMR_FIELD_ALL, &param), "dat_rmr_query")) {
    c.require(param.pz_handle == c.pz.get(), "dat_rmr_query reports its PZ");
  }
}

void query_ia_invalid(Case& c) {
  if (!c.open()) return;
  c.expect(dat_ia_query(c.ia.get(), nullptr, DAT_IA_FIELD_ALL, nullptr, 0, nullptr),
           DAT_INVALID_PARAMETER, "dat_ia_query with a null result pointer");
}

void query_null_ia(Case& c) {
  DAT_IA_ATTR attributes{};
  c.expect(dat_ia_query(DAT_HANDLE_NULL, nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr),
           DAT_INVALID_HANDLE, "dat_ia_query without a handle");
}

void query_cno_invalid(Case& c) {
  if (!c.open() || !c.success(dat_cno_create(c.ia.get(), DAT_OS_WAIT_PROXY_AGENT_NULL, c.cno.out()),
                              "dat_cno_create")) {
    return;
  }
  c.expect(dat_cno_query(c.cno.get(), DAT_CNO_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER,
           "dat_cno_query with a null result pointer");
}

void query_null_cno(Case& c) {
  DAT_CNO_PARAM param{};
  c.expect(dat_cno_query(DAT_HANDLE_NULL, DAT_CNO_FIELD_ALL, &param), DAT_INVALID_HANDLE,
           "dat_cno_query without a handle");
}

void query_evd_invalid(Case& c) {
  if (!c.make_evds()) return;
  c.expect(dat_evd_query(c.dto_evd.get(), DAT_EVD_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER,
           "dat_evd_query with a null result pointer");
}

void query_null_evd(Case& c) {
  DAT_EVD_PARAM param{};
  c.expect(dat_evd_query(DAT_HANDLE_NULL, DAT_EVD_FIELD_ALL, &param), DAT_INVALID_HANDLE,
           "dat_evd_query without a handle");
}

void query_psp_invalid(Case& c) {
  if (!c.make_evds() || !c.at_free_port("dat_psp_create", [&c] {
        return dat_psp_create(c.ia.get(), c.port, c.cr_evd.get(), DAT_PSP_CONSUMER_FLAG,
                              c.psp.out());
      })) {
    return;
  }
  c.expect(dat_psp_query(c.psp.get(), DAT_PSP_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER,
           "dat_psp_query with a null result pointer");
}

void query_null_psp(Case& c) {
  DAT_PSP_PARAM param{};
  c.expect(dat_psp_query(DAT_HANDLE_NULL, DAT_PSP_FIELD_ALL, &param), DAT_INVALID_HANDLE,
           "dat_psp_query without a handle");
}

constexpr Feature kFeatures[] = {
    {"queryinfo", "IA", query_ia},
    {"queryinfo", "CNO", query_cno},
    {"queryinfo", "EVD", query_evd},
    {"queryinfo", "PSP", query_psp},
    {"queryinfo", "RSP", query_rsp},
    {"queryinfo", "CR", query_cr},
    {"queryinfo", "EP", query_ep},
    {"queryinfo", "PZ", query_pz},
    {"queryinfo", "LMR", query_lmr},
    {"queryinfo", "RMR", query_rmr},
    {"queryinfo", "IA, bad parameter", query_ia_invalid},
    {"queryinfo", "IA, bad handle", query_null_ia},
    {"queryinfo", "CNO, bad parameter", query_cno_invalid},
    {"queryinfo", "CNO, bad handle", query_null_cno},
    {"queryinfo", "EVD, bad parameter", query_evd_invalid},
    {"queryinfo", "EVD, bad handle", query_null_evd},
    {"queryinfo", "PSP, bad parameter", query_psp_invalid},
    {"queryinfo", "PSP, bad handle", query_null_psp},
};

}  // namespace

std::span<const Feature> query_features() { return kFeatures; }

}  // namespace dapltest
