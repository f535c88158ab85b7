// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <type_traits>

// The 79 slots of a provider table, for code that fills or walks all of them.
// clang-format off
#define UDAPL_FOR_EACH_SLOT(use) \
  use(ia_open_func) \
  use(ia_query_func) \
  use(ia_close_func) \
  use(set_consumer_context_func) \
  use(get_consumer_context_func) \
  use(get_handle_type_func) \
  use(cno_create_func) \
  use(cno_modify_agent_func) \
  use(cno_query_func) \
  use(cno_free_func) \
  use(cno_wait_func) \
  use(cr_query_func) \
  use(cr_accept_func) \
  use(cr_reject_func) \
  use(cr_handoff_func) \
  use(evd_create_func) \
  use(evd_query_func) \
  use(evd_modify_cno_func) \
  use(evd_enable_func) \
  use(evd_disable_func) \
  use(evd_wait_func) \
  use(evd_resize_func) \
  use(evd_post_se_func) \
  use(evd_dequeue_func) \
  use(evd_free_func) \
  use(ep_create_func) \
  use(ep_query_func) \
  use(ep_modify_func) \
  use(ep_connect_func) \
  use(ep_dup_connect_func) \
  use(ep_disconnect_func) \
  use(ep_post_send_func) \
  use(ep_post_recv_func) \
  use(ep_post_rdma_read_func) \
  use(ep_post_rdma_write_func) \
  use(ep_get_status_func) \
  use(ep_free_func) \
  use(lmr_create_func) \
  use(lmr_query_func) \
  use(lmr_free_func) \
  use(rmr_create_func) \
  use(rmr_query_func) \
  use(rmr_bind_func) \
  use(rmr_free_func) \
  use(psp_create_func) \
  use(psp_query_func) \
  use(psp_free_func) \
  use(rsp_create_func) \
  use(rsp_query_func) \
  use(rsp_free_func) \
  use(pz_create_func) \
  use(pz_query_func) \
  use(pz_free_func) \
  use(psp_create_any_func) \
  use(ep_reset_func) \
  use(evd_set_unwaitable_func) \
  use(evd_clear_unwaitable_func) \
  use(lmr_sync_rdma_read_func) \
  use(lmr_sync_rdma_write_func) \
  use(ep_create_with_srq_func) \
  use(ep_recv_query_func) \
  use(ep_set_watermark_func) \
  use(srq_create_func) \
  use(srq_free_func) \
  use(srq_post_recv_func) \
  use(srq_query_func) \
  use(srq_resize_func) \
  use(srq_set_lw_func) \
  use(csp_create_func) \
  use(csp_query_func) \
  use(csp_free_func) \
  use(ep_common_connect_func) \
  use(rmr_create_for_ep_func) \
  use(ep_post_send_with_invalidate_func) \
  use(ep_post_rdma_read_to_rmr_func) \
  use(cno_fd_create_func) \
  use(cno_trigger_func) \
  use(ia_ha_related_func) \
  use(handle_extendedop_func)
// clang-format on

namespace stub_slots {

// One function per slot, which refuses the call as a provider without that operation does. Each
// slot has its own, so that a call of the wrong one is visible in a backtrace.
template <auto Slot, class Function = std::remove_reference_t<decltype(DAT_PROVIDER{}.*Slot)>>
struct Unsupported;

template <auto Slot, class... Args>
struct Unsupported<Slot, DAT_RETURN (*)(Args...)> {
  static DAT_RETURN call(Args...) { return DAT_CLASS_ERROR | DAT_MODEL_NOT_SUPPORTED; }
};

inline void fill_unsupported(DAT_PROVIDER& table) {
#define UDAPL_FILL(slot) table.slot = &Unsupported<&DAT_PROVIDER::slot>::call;
  UDAPL_FOR_EACH_SLOT(UDAPL_FILL)
#undef UDAPL_FILL
}

}  // namespace stub_slots
