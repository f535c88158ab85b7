// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "ep_subject.h"

#include <netinet/in.h>

namespace conformance {

namespace {

void check_ok(DAT_RETURN rc) { BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS, describe(rc)); }

}  // namespace

Subject::Subject(DAT_EP_STATE state)
    : pair(with_process.pair),
      buffer(pair.ia, pair.pz, kSize),
      other_pz(make_pz(pair.ia)),
      other_evd(make_evd(pair.ia, DAT_EVD_DTO_FLAG)) {
  reach(state);
  reached = ep != DAT_HANDLE_NULL && ep_state(ep) == state;
}

Subject::~Subject() {
  with_process.peer.reset();
  if (cr != DAT_HANDLE_NULL) check_ok(dat_cr_reject(cr, 0, nullptr));
  if (rsp != DAT_HANDLE_NULL) check_ok(dat_rsp_free(rsp.release()));
  // Free the EPs first, because they may use objects of the Subject, which are freed before the
  // pair.
  for (End* const one : {&pair.active, &pair.passive})
    if (one->ep != DAT_HANDLE_NULL) check_ok(dat_ep_free(one->ep.release()));
  if (accepted_ep != DAT_HANDLE_NULL) check_ok(dat_ep_free(accepted_ep.release()));
}

DAT_COMM Subject::comm() const { return {pair.ia.attr.ia_address_ptr->sa_family, SOCK_STREAM, 0}; }

void Subject::configure_comm(DAT_EP_HANDLE of) const {
  DAT_EP_PARAM param{};
  param.comm = comm();
  dat_ep_modify(of, DAT_EP_FIELD_COMM, &param);
}

DAT_CR_HANDLE Subject::take_cr() const {
  return expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
      .event_data.cr_arrival_event_data.cr_handle;
}

DAT_RETURN Subject::connect(DAT_EP_HANDLE from, DAT_CONN_QUAL to) const {
  return dat_ep_connect(from, pair.ia.attr.ia_address_ptr, to, kPatience, 0, nullptr,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

void Subject::connect_others() {
  other_active.create(pair.ia, pair.pz, nullptr);
  other_passive.create(pair.ia, pair.pz, nullptr);
  REQUIRE_OK(connect(other_active.ep, pair.conn_qual));
  REQUIRE_OK(dat_cr_accept(take_cr(), other_passive.ep, 0, nullptr));
  expect_event(other_active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(other_passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void Subject::use(End& one) {
  end = &one;
  ep = one.ep;
}

void Subject::reach(DAT_EP_STATE state) {
  use(pair.passive);
  switch (state) {
    case DAT_EP_STATE_RESERVED:
      reserve();
      break;
    case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING: {
      const DAT_CONN_QUAL conn_qual = reserve();
      REQUIRE_OK(connect(pair.active.ep, conn_qual));
      cr = take_cr();
      rsp.release();  // an RSP ends with its request
      break;
    }
    case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
      ep = DAT_HANDLE_NULL;
      take_provider_ep();
      break;
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
      use(pair.active);
      cr = pair.connect_and_take_cr();
      break;
    case DAT_EP_STATE_COMPLETION_PENDING: {
      const DAT_CR_HANDLE request = with_process.start_and_take_cr();
      with_process.peer->stop();  // it cannot answer the acceptance
      REQUIRE_OK(dat_cr_accept(request, pair.passive.ep, 0, nullptr));
      break;
    }
    case DAT_EP_STATE_CONNECTED:
      use(pair.active);
      pair.connect();
      break;
    case DAT_EP_STATE_DISCONNECT_PENDING:
      with_process.connect_stalled();
      REQUIRE_OK(with_process.post_stalled_send(0));  // so that the EP never drains
      REQUIRE_OK(dat_ep_disconnect(pair.passive.ep, DAT_CLOSE_GRACEFUL_FLAG));
      break;
    case DAT_EP_STATE_DISCONNECTED:
      use(pair.active);
      pair.connect();
      pair.disconnect();
      break;
    default:
      break;
  }
}

DAT_CONN_QUAL Subject::reserve() {
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  REQUIRE_OK(dat_rsp_create(pair.ia, conn_qual, pair.passive.ep, pair.cr_evd, rsp.out()));
  return conn_qual;
}

void Subject::take_provider_ep() {
  if (pair.ia.provider().ep_creator == DAT_PSP_CREATES_EP_NEVER) return;
  const DAT_CONN_QUAL conn_qual = fresh_conn_qual();
  REQUIRE_OK(
      dat_psp_create(pair.ia, conn_qual, pair.cr_evd, DAT_PSP_PROVIDER_FLAG, provider_psp.out()));
  REQUIRE_OK(connect(pair.active.ep, conn_qual));
  cr = take_cr();
  DAT_CR_PARAM cr_param{};
  REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &cr_param));
  ep = cr_param.local_ep_handle;
  DAT_EP_PARAM param = query();
  param.pz_handle = pair.pz;
  param.recv_evd_handle = pair.passive.recv_evd;
  param.request_evd_handle = pair.passive.request_evd;
  param.connect_evd_handle = pair.passive.connect_evd;
  param.ep_attr = default_ep_attr(pair.ia);
  REQUIRE_OK(
      dat_ep_modify(ep,
                    DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                        DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE |
                        DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
                        DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
                    &param));
}

}  // namespace conformance
