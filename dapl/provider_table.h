// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/calls.h"
#include "dapl/datapath.h"
#include "dapl/datapath_evd.h"
#include "dapl/ep_calls.h"
#include "dapl/guard.h"
#include "dapl/provider.h"

#include <type_traits>

namespace udapl::dapl {

// The table of a provider whose transport has these final classes, with all 79 slots filled, in
// their order.
template <HotQp Q, CompletionQueue C, HotSrq S, Guard G>
inline constexpr DAT_PROVIDER kProviderTable = {
    .device_name = "",  // the IA name, in a Provider's copy
    .extension = nullptr,
    .ia_open_func = G::kThreadSafe ? calls::ia_open_threadsafe : calls::ia_open_nonthreadsafe,
    .ia_query_func = calls::ia_query,
    .ia_close_func = calls::ia_close,
    .set_consumer_context_func = calls::set_consumer_context,
    .get_consumer_context_func = calls::get_consumer_context,
    .get_handle_type_func = calls::get_handle_type,
    .cno_create_func = calls::cno_create,
    .cno_modify_agent_func = calls::cno_modify_agent,
    .cno_query_func = calls::cno_query,
    .cno_free_func = calls::cno_free,
    .cno_wait_func = calls::cno_wait,
    .cr_query_func = calls::cr_query,
    .cr_accept_func = calls::cr_accept,
    .cr_reject_func = calls::cr_reject,
    .cr_handoff_func = calls::cr_handoff,
    .evd_create_func = calls::evd_create,
    .evd_query_func = calls::evd_query,
    .evd_modify_cno_func = calls::evd_modify_cno,
    .evd_enable_func = calls::evd_enable,
    .evd_disable_func = calls::evd_disable,
    .evd_wait_func = calls::evd_wait,
    .evd_resize_func = calls::evd_resize,
    .evd_post_se_func = calls::evd_post_se,
    .evd_dequeue_func = calls::evd_dequeue<C, G>,
    .evd_free_func = calls::evd_free,
    .ep_create_func = calls::ep_create,
    .ep_query_func = calls::ep_query,
    .ep_modify_func = calls::ep_modify,
    .ep_connect_func = calls::ep_connect,
    .ep_dup_connect_func = calls::ep_dup_connect,
    .ep_disconnect_func = calls::ep_disconnect,
    .ep_post_send_func = calls::ep_post_send<Q, G>,
    .ep_post_recv_func = calls::ep_post_recv<Q, G>,
    .ep_post_rdma_read_func = calls::ep_post_rdma_read<Q, G>,
    .ep_post_rdma_write_func = calls::ep_post_rdma_write<Q, G>,
    .ep_get_status_func = calls::ep_get_status,
    .ep_free_func = calls::ep_free,
    .lmr_create_func = calls::lmr_create,
    .lmr_query_func = calls::lmr_query,
    .lmr_free_func = calls::lmr_free,
    .rmr_create_func = calls::rmr_create,
    .rmr_query_func = calls::rmr_query,
    .rmr_bind_func = calls::rmr_bind<Q, G>,
    .rmr_free_func = calls::rmr_free,
    .psp_create_func = calls::psp_create,
    .psp_query_func = calls::psp_query,
    .psp_free_func = calls::psp_free,
    .rsp_create_func = calls::rsp_create,
    .rsp_query_func = calls::rsp_query,
    .rsp_free_func = calls::rsp_free,
    .pz_create_func = calls::pz_create,
    .pz_query_func = calls::pz_query,
    .pz_free_func = calls::pz_free,
    .psp_create_any_func = calls::psp_create_any,
    .ep_reset_func = calls::ep_reset,
    .evd_set_unwaitable_func = calls::evd_set_unwaitable,
    .evd_clear_unwaitable_func = calls::evd_clear_unwaitable,
    .lmr_sync_rdma_read_func = calls::lmr_sync_rdma_read,
    .lmr_sync_rdma_write_func = calls::lmr_sync_rdma_write,
    .ep_create_with_srq_func = calls::ep_create_with_srq,
    .ep_recv_query_func = calls::ep_recv_query,
    .ep_set_watermark_func = calls::ep_set_watermark,
    .srq_create_func = calls::srq_create,
    .srq_free_func = calls::srq_free,
    .srq_post_recv_func = calls::srq_post_recv<S, G>,
    .srq_query_func = calls::srq_query,
    .srq_resize_func = calls::srq_resize,
    .srq_set_lw_func = calls::srq_set_lw,
    .csp_create_func = calls::csp_create,
    .csp_query_func = calls::csp_query,
    .csp_free_func = calls::csp_free,
    .ep_common_connect_func = calls::ep_common_connect,
    .rmr_create_for_ep_func = calls::rmr_create_for_ep,
    .ep_post_send_with_invalidate_func = calls::ep_post_send_with_invalidate<Q, G>,
    .ep_post_rdma_read_to_rmr_func = calls::ep_post_rdma_read_to_rmr<Q, G>,
    .cno_fd_create_func = calls::cno_fd_create,
    .cno_trigger_func = calls::cno_trigger,
    .ia_ha_related_func = calls::ia_ha_related,
    .handle_extendedop_func = calls::extended_operation,
};

// What a provider library gives to register_provider.
template <HotQp Q, CompletionQueue C, HotSrq S>
[[nodiscard]] ProviderKit make_provider_kit(AdapterFactory open_adapter) noexcept {
  return {&kProviderTable<Q, C, S, TakeLock>, &kProviderTable<Q, C, S, NoLock>, open_adapter};
}

}  // namespace udapl::dapl
