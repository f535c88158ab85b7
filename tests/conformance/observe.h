// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

// Records which function returned which code in which test (--observe FILE). Every call of an API
// function in the suite goes through here: macros replace the names below by functions of the same
// type, which record the code and return it.
namespace conformance {

// From now on, appends the codes seen to this file at the end of each test, as lines
// "FUNCTION<tab>CODE<tab>TEST". Returns false, with errno set, if the file cannot be opened. Call
// it once, before the first test.
bool observe_into(const char* file);
void end_observed_test(const char* test);
// The errno with which writing has failed, or 0.
int observe_error();

// Any thread. Returns `rc`.
DAT_RETURN observed(const char* function, DAT_RETURN rc);

namespace observe {

template <auto kFunction>
inline constexpr const char* kName = nullptr;

template <auto kFunction>
struct Call;
template <class... Arguments, DAT_RETURN (*kFunction)(Arguments...)>
struct Call<kFunction> {
  static DAT_RETURN with(Arguments... arguments) {
    return observed(kName<kFunction>, kFunction(arguments...));
  }
};

#define CONFORMANCE_OBSERVE(function)                          \
  template <>                                                  \
  inline constexpr const char* kName<&::function> = #function; \
  inline constexpr auto function = &Call<&::function>::with

CONFORMANCE_OBSERVE(dat_cno_create);
CONFORMANCE_OBSERVE(dat_cno_free);
CONFORMANCE_OBSERVE(dat_cno_modify_agent);
CONFORMANCE_OBSERVE(dat_cno_query);
CONFORMANCE_OBSERVE(dat_cno_wait);
CONFORMANCE_OBSERVE(dat_cr_accept);
CONFORMANCE_OBSERVE(dat_cr_handoff);
CONFORMANCE_OBSERVE(dat_cr_query);
CONFORMANCE_OBSERVE(dat_cr_reject);
CONFORMANCE_OBSERVE(dat_ep_connect);
CONFORMANCE_OBSERVE(dat_ep_create);
CONFORMANCE_OBSERVE(dat_ep_create_with_srq);
CONFORMANCE_OBSERVE(dat_ep_disconnect);
CONFORMANCE_OBSERVE(dat_ep_dup_connect);
CONFORMANCE_OBSERVE(dat_ep_free);
CONFORMANCE_OBSERVE(dat_ep_get_status);
CONFORMANCE_OBSERVE(dat_ep_modify);
CONFORMANCE_OBSERVE(dat_ep_post_rdma_read);
CONFORMANCE_OBSERVE(dat_ep_post_rdma_write);
CONFORMANCE_OBSERVE(dat_ep_post_recv);
CONFORMANCE_OBSERVE(dat_ep_post_send);
CONFORMANCE_OBSERVE(dat_ep_query);
CONFORMANCE_OBSERVE(dat_ep_recv_query);
CONFORMANCE_OBSERVE(dat_ep_reset);
CONFORMANCE_OBSERVE(dat_ep_set_watermark);
CONFORMANCE_OBSERVE(dat_evd_clear_unwaitable);
CONFORMANCE_OBSERVE(dat_evd_create);
CONFORMANCE_OBSERVE(dat_evd_dequeue);
CONFORMANCE_OBSERVE(dat_evd_disable);
CONFORMANCE_OBSERVE(dat_evd_enable);
CONFORMANCE_OBSERVE(dat_evd_free);
CONFORMANCE_OBSERVE(dat_evd_modify_cno);
CONFORMANCE_OBSERVE(dat_evd_post_se);
CONFORMANCE_OBSERVE(dat_evd_query);
CONFORMANCE_OBSERVE(dat_evd_resize);
CONFORMANCE_OBSERVE(dat_evd_set_unwaitable);
CONFORMANCE_OBSERVE(dat_evd_wait);
CONFORMANCE_OBSERVE(dat_get_consumer_context);
CONFORMANCE_OBSERVE(dat_get_handle_type);
CONFORMANCE_OBSERVE(dat_ia_close);
CONFORMANCE_OBSERVE(dat_ia_openv);
CONFORMANCE_OBSERVE(dat_ia_query);
CONFORMANCE_OBSERVE(dat_lmr_create);
CONFORMANCE_OBSERVE(dat_lmr_free);
CONFORMANCE_OBSERVE(dat_lmr_query);
CONFORMANCE_OBSERVE(dat_lmr_sync_rdma_read);
CONFORMANCE_OBSERVE(dat_lmr_sync_rdma_write);
CONFORMANCE_OBSERVE(dat_psp_create);
CONFORMANCE_OBSERVE(dat_psp_create_any);
CONFORMANCE_OBSERVE(dat_psp_free);
CONFORMANCE_OBSERVE(dat_psp_query);
CONFORMANCE_OBSERVE(dat_pz_create);
CONFORMANCE_OBSERVE(dat_pz_free);
CONFORMANCE_OBSERVE(dat_pz_query);
CONFORMANCE_OBSERVE(dat_registry_list_providers);
CONFORMANCE_OBSERVE(dat_rmr_bind);
CONFORMANCE_OBSERVE(dat_rmr_create);
CONFORMANCE_OBSERVE(dat_rmr_free);
CONFORMANCE_OBSERVE(dat_rmr_query);
CONFORMANCE_OBSERVE(dat_rsp_create);
CONFORMANCE_OBSERVE(dat_rsp_free);
CONFORMANCE_OBSERVE(dat_rsp_query);
CONFORMANCE_OBSERVE(dat_set_consumer_context);
CONFORMANCE_OBSERVE(dat_srq_create);
CONFORMANCE_OBSERVE(dat_srq_free);
CONFORMANCE_OBSERVE(dat_srq_post_recv);
CONFORMANCE_OBSERVE(dat_srq_query);
CONFORMANCE_OBSERVE(dat_srq_resize);
CONFORMANCE_OBSERVE(dat_srq_set_lw);
CONFORMANCE_OBSERVE(dat_strerror);
CONFORMANCE_OBSERVE(dat_cno_fd_create);
CONFORMANCE_OBSERVE(dat_cno_trigger);
CONFORMANCE_OBSERVE(dat_csp_create);
CONFORMANCE_OBSERVE(dat_csp_free);
CONFORMANCE_OBSERVE(dat_csp_query);
CONFORMANCE_OBSERVE(dat_ep_common_connect);
CONFORMANCE_OBSERVE(dat_ep_post_rdma_read_to_rmr);
CONFORMANCE_OBSERVE(dat_ep_post_send_with_invalidate);
CONFORMANCE_OBSERVE(dat_rmr_create_for_ep);

#undef CONFORMANCE_OBSERVE

}  // namespace observe

}  // namespace conformance

#define dat_cno_create ::conformance::observe::dat_cno_create
#define dat_cno_free ::conformance::observe::dat_cno_free
#define dat_cno_modify_agent ::conformance::observe::dat_cno_modify_agent
#define dat_cno_query ::conformance::observe::dat_cno_query
#define dat_cno_wait ::conformance::observe::dat_cno_wait
#define dat_cr_accept ::conformance::observe::dat_cr_accept
#define dat_cr_handoff ::conformance::observe::dat_cr_handoff
#define dat_cr_query ::conformance::observe::dat_cr_query
#define dat_cr_reject ::conformance::observe::dat_cr_reject
#define dat_ep_connect ::conformance::observe::dat_ep_connect
#define dat_ep_create ::conformance::observe::dat_ep_create
#define dat_ep_create_with_srq ::conformance::observe::dat_ep_create_with_srq
#define dat_ep_disconnect ::conformance::observe::dat_ep_disconnect
#define dat_ep_dup_connect ::conformance::observe::dat_ep_dup_connect
#define dat_ep_free ::conformance::observe::dat_ep_free
#define dat_ep_get_status ::conformance::observe::dat_ep_get_status
#define dat_ep_modify ::conformance::observe::dat_ep_modify
#define dat_ep_post_rdma_read ::conformance::observe::dat_ep_post_rdma_read
#define dat_ep_post_rdma_write ::conformance::observe::dat_ep_post_rdma_write
#define dat_ep_post_recv ::conformance::observe::dat_ep_post_recv
#define dat_ep_post_send ::conformance::observe::dat_ep_post_send
#define dat_ep_query ::conformance::observe::dat_ep_query
#define dat_ep_recv_query ::conformance::observe::dat_ep_recv_query
#define dat_ep_reset ::conformance::observe::dat_ep_reset
#define dat_ep_set_watermark ::conformance::observe::dat_ep_set_watermark
#define dat_evd_clear_unwaitable ::conformance::observe::dat_evd_clear_unwaitable
#define dat_evd_create ::conformance::observe::dat_evd_create
#define dat_evd_dequeue ::conformance::observe::dat_evd_dequeue
#define dat_evd_disable ::conformance::observe::dat_evd_disable
#define dat_evd_enable ::conformance::observe::dat_evd_enable
#define dat_evd_free ::conformance::observe::dat_evd_free
#define dat_evd_modify_cno ::conformance::observe::dat_evd_modify_cno
#define dat_evd_post_se ::conformance::observe::dat_evd_post_se
#define dat_evd_query ::conformance::observe::dat_evd_query
#define dat_evd_resize ::conformance::observe::dat_evd_resize
#define dat_evd_set_unwaitable ::conformance::observe::dat_evd_set_unwaitable
#define dat_evd_wait ::conformance::observe::dat_evd_wait
#define dat_get_consumer_context ::conformance::observe::dat_get_consumer_context
#define dat_get_handle_type ::conformance::observe::dat_get_handle_type
#define dat_ia_close ::conformance::observe::dat_ia_close
#define dat_ia_openv ::conformance::observe::dat_ia_openv
#define dat_ia_query ::conformance::observe::dat_ia_query
#define dat_lmr_create ::conformance::observe::dat_lmr_create
#define dat_lmr_free ::conformance::observe::dat_lmr_free
#define dat_lmr_query ::conformance::observe::dat_lmr_query
#define dat_lmr_sync_rdma_read ::conformance::observe::dat_lmr_sync_rdma_read
#define dat_lmr_sync_rdma_write ::conformance::observe::dat_lmr_sync_rdma_write
#define dat_psp_create ::conformance::observe::dat_psp_create
#define dat_psp_create_any ::conformance::observe::dat_psp_create_any
#define dat_psp_free ::conformance::observe::dat_psp_free
#define dat_psp_query ::conformance::observe::dat_psp_query
#define dat_pz_create ::conformance::observe::dat_pz_create
#define dat_pz_free ::conformance::observe::dat_pz_free
#define dat_pz_query ::conformance::observe::dat_pz_query
#define dat_registry_list_providers ::conformance::observe::dat_registry_list_providers
#define dat_rmr_bind ::conformance::observe::dat_rmr_bind
#define dat_rmr_create ::conformance::observe::dat_rmr_create
#define dat_rmr_free ::conformance::observe::dat_rmr_free
#define dat_rmr_query ::conformance::observe::dat_rmr_query
#define dat_rsp_create ::conformance::observe::dat_rsp_create
#define dat_rsp_free ::conformance::observe::dat_rsp_free
#define dat_rsp_query ::conformance::observe::dat_rsp_query
#define dat_set_consumer_context ::conformance::observe::dat_set_consumer_context
#define dat_srq_create ::conformance::observe::dat_srq_create
#define dat_srq_free ::conformance::observe::dat_srq_free
#define dat_srq_post_recv ::conformance::observe::dat_srq_post_recv
#define dat_srq_query ::conformance::observe::dat_srq_query
#define dat_srq_resize ::conformance::observe::dat_srq_resize
#define dat_srq_set_lw ::conformance::observe::dat_srq_set_lw
#define dat_strerror ::conformance::observe::dat_strerror
#define dat_cno_fd_create ::conformance::observe::dat_cno_fd_create
#define dat_cno_trigger ::conformance::observe::dat_cno_trigger
#define dat_csp_create ::conformance::observe::dat_csp_create
#define dat_csp_free ::conformance::observe::dat_csp_free
#define dat_csp_query ::conformance::observe::dat_csp_query
#define dat_ep_common_connect ::conformance::observe::dat_ep_common_connect
#define dat_ep_post_rdma_read_to_rmr ::conformance::observe::dat_ep_post_rdma_read_to_rmr
#define dat_ep_post_send_with_invalidate ::conformance::observe::dat_ep_post_send_with_invalidate
#define dat_rmr_create_for_ep ::conformance::observe::dat_rmr_create_for_ep
// A variadic macro, because dat_extension_op takes any number of arguments.
#define dat_extension_op(...) \
  ::conformance::observed("dat_extension_op", (dat_extension_op)(__VA_ARGS__))
