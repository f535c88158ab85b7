// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/datapath/datapath.h"
#include "dapl/datapath/datapath_evd.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/guard.h"
#include "dapl/objects/traced_call.h"
#include "dapl/table/provider.h"

namespace udapl::dapl {

// For entries in which a thread cannot be cancelled, because they have no cancellation point. The
// entries for LMRs and PZs do make system calls, but verbs calls ioctl, which is not a cancellation
// point; code that waits for the end of accesses defers the cancellation itself.
inline constexpr Defers kNotDeferred = Defers::kNothing;

// The table of a provider whose transport has these final classes; all 79 slots are filled, in
// their order. Calls that are not hot are traced; calls that programs make in loops, only from
// level DETAIL on. Set-up calls report the reason of a refusal at every level.
template <HotQp Q, CompletionQueue C, HotSrq S, Guard G>
inline constexpr DAT_PROVIDER kProviderTable = {
    .device_name = "",  // the IA name, in a Provider's copy
    .extension = nullptr,
    .ia_open_func = G::kThreadSafe ? kTraced<calls::ia_open_threadsafe, "ia_open">
                                   : kTraced<calls::ia_open_nonthreadsafe, "ia_open">,
    .ia_query_func = kTraced<calls::ia_query, "ia_query">,
    .ia_close_func = kTraced<calls::ia_close, "ia_close">,
    .set_consumer_context_func =
        kTraced<calls::set_consumer_context, "set_consumer_context", trace::kDetail, kNotDeferred>,
    .get_consumer_context_func =
        kTraced<calls::get_consumer_context, "get_consumer_context", trace::kDetail, kNotDeferred>,
    .get_handle_type_func =
        kTraced<calls::get_handle_type, "get_handle_type", trace::kDetail, kNotDeferred>,
    .cno_create_func = kTracedSetup<calls::cno_create, "cno_create">,
    .cno_modify_agent_func = kTracedSetup<calls::cno_modify_agent, "cno_modify_agent">,
    .cno_query_func = kTraced<calls::cno_query, "cno_query">,
    .cno_free_func = kTraced<calls::cno_free, "cno_free">,
    .cno_wait_func = kTraced<calls::cno_wait, "cno_wait", trace::kDetail, Defers::kNothing>,
    .cr_query_func = kTraced<calls::cr_query, "cr_query">,
    .cr_accept_func = kTracedSetup<calls::cr_accept, "cr_accept">,
    .cr_reject_func = kTraced<calls::cr_reject, "cr_reject">,
    .cr_handoff_func = kTraced<calls::cr_handoff, "cr_handoff">,
    .evd_create_func = kTracedSetup<calls::evd_create, "evd_create">,
    .evd_query_func = kTraced<calls::evd_query, "evd_query">,
    .evd_modify_cno_func = kTracedSetup<calls::evd_modify_cno, "evd_modify_cno">,
    .evd_enable_func = kTraced<calls::evd_enable, "evd_enable">,
    .evd_disable_func = kTraced<calls::evd_disable, "evd_disable">,
    .evd_wait_func = calls::evd_wait<C>,
    .evd_resize_func = kTracedSetup<calls::evd_resize, "evd_resize">,
    .evd_post_se_func = kTraced<calls::evd_post_se, "evd_post_se", trace::kDetail>,
    .evd_dequeue_func = calls::evd_dequeue<C>,
    .evd_free_func = kTraced<calls::evd_free, "evd_free">,
    .ep_create_func = kTracedSetup<calls::ep_create, "ep_create">,
    .ep_query_func = kTraced<calls::ep_query, "ep_query">,
    .ep_modify_func = kTracedSetup<calls::ep_modify, "ep_modify">,
    .ep_connect_func = kTracedSetup<calls::ep_connect, "ep_connect">,
    .ep_dup_connect_func = kTracedSetup<calls::ep_dup_connect, "ep_dup_connect">,
    .ep_disconnect_func = kTraced<calls::ep_disconnect, "ep_disconnect">,
    .ep_post_send_func = calls::ep_post_send<Q, G>,
    .ep_post_recv_func = calls::ep_post_recv<Q, G>,
    .ep_post_rdma_read_func = calls::ep_post_rdma_read<Q, G>,
    .ep_post_rdma_write_func = calls::ep_post_rdma_write<Q, G>,
    .ep_get_status_func =
        kTraced<calls::ep_get_status, "ep_get_status", trace::kDetail, kNotDeferred>,
    .ep_free_func = kTraced<calls::ep_free, "ep_free">,
    .lmr_create_func = kTracedSetup<calls::lmr_create, "lmr_create", kNotDeferred>,
    .lmr_query_func = kTraced<calls::lmr_query, "lmr_query">,
    .lmr_free_func = kTraced<calls::lmr_free, "lmr_free", trace::kCalls, kNotDeferred>,
    .rmr_create_func = kTracedSetup<calls::rmr_create, "rmr_create">,
    .rmr_query_func = kTraced<calls::rmr_query, "rmr_query">,
    .rmr_bind_func = calls::rmr_bind<Q>,
    .rmr_free_func = kTraced<calls::rmr_free, "rmr_free">,
    .psp_create_func = kTracedSetup<calls::psp_create, "psp_create">,
    .psp_query_func = kTraced<calls::psp_query, "psp_query">,
    .psp_free_func = kTraced<calls::psp_free, "psp_free">,
    .rsp_create_func = kTracedSetup<calls::rsp_create, "rsp_create">,
    .rsp_query_func = kTraced<calls::rsp_query, "rsp_query">,
    .rsp_free_func = kTraced<calls::rsp_free, "rsp_free">,
    .pz_create_func = kTracedSetup<calls::pz_create, "pz_create", kNotDeferred>,
    .pz_query_func = kTraced<calls::pz_query, "pz_query">,
    .pz_free_func = kTraced<calls::pz_free, "pz_free", trace::kCalls, kNotDeferred>,
    .psp_create_any_func = kTracedSetup<calls::psp_create_any, "psp_create_any">,
    .ep_reset_func = kTraced<calls::ep_reset, "ep_reset">,
    .evd_set_unwaitable_func = kTraced<calls::evd_set_unwaitable, "evd_set_unwaitable">,
    .evd_clear_unwaitable_func = kTraced<calls::evd_clear_unwaitable, "evd_clear_unwaitable">,
    .lmr_sync_rdma_read_func = kTraced<calls::lmr_sync_rdma_read, "lmr_sync_rdma_read">,
    .lmr_sync_rdma_write_func = kTraced<calls::lmr_sync_rdma_write, "lmr_sync_rdma_write">,
    .ep_create_with_srq_func = kTracedSetup<calls::ep_create_with_srq, "ep_create_with_srq">,
    .ep_recv_query_func = kTraced<calls::ep_recv_query, "ep_recv_query">,
    .ep_set_watermark_func = kTracedSetup<calls::ep_set_watermark, "ep_set_watermark">,
    .srq_create_func = kTracedSetup<calls::srq_create, "srq_create">,
    .srq_free_func = kTraced<calls::srq_free, "srq_free">,
    .srq_post_recv_func = calls::srq_post_recv<S, G>,
    .srq_query_func = kTraced<calls::srq_query, "srq_query">,
    .srq_resize_func = kTracedSetup<calls::srq_resize, "srq_resize">,
    .srq_set_lw_func = kTracedSetup<calls::srq_set_lw, "srq_set_lw">,
    .csp_create_func = kTracedSetup<calls::csp_create, "csp_create">,
    .csp_query_func = kTraced<calls::csp_query, "csp_query">,
    .csp_free_func = kTraced<calls::csp_free, "csp_free">,
    .ep_common_connect_func = kTracedSetup<calls::ep_common_connect, "ep_common_connect">,
    .rmr_create_for_ep_func = kTracedSetup<calls::rmr_create_for_ep, "rmr_create_for_ep">,
    .ep_post_send_with_invalidate_func = calls::ep_post_send_with_invalidate<Q, G>,
    .ep_post_rdma_read_to_rmr_func = calls::ep_post_rdma_read_to_rmr<Q>,
    .cno_fd_create_func = kTracedSetup<calls::cno_fd_create, "cno_fd_create">,
    .cno_trigger_func = kTraced<calls::cno_trigger, "cno_trigger">,
    .ia_ha_related_func = kTraced<calls::ia_ha_related, "ia_ha_related">,
    .handle_extendedop_func = calls::extended_operation,
};

// The kit that a provider library passes to register_provider.
template <HotQp Q, CompletionQueue C, HotSrq S>
[[nodiscard]] constexpr ProviderKit make_provider_kit(AdapterFactory open_adapter) noexcept {
  return {&kProviderTable<Q, C, S, TakeLock>, &kProviderTable<Q, C, S, NoLock>, open_adapter};
}

}  // namespace udapl::dapl
