// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/udat_redirection.h>

#include <type_traits>

// The entries of the provider table for IAs, events and memory that are not hot. Each has the name
// of its slot, and include/dat/api documents it as the dat_* function of that name; ep_calls.h has
// the entries for EPs. They check their arguments in the order of docs/semantics.md#order-of-checks
// and let no exception out. evd_dequeue and evd_wait are templates: datapath_evd.h.
namespace udapl::dapl::calls {

template <class Slot>
using Entry = std::remove_pointer_t<Slot>;

// open_ia.cpp, attributes.cpp; ia_open is in provider.h
Entry<DAT_IA_QUERY_FUNC> ia_query;
Entry<DAT_IA_CLOSE_FUNC> ia_close;
Entry<DAT_IA_HA_RELATED_FUNC> ia_ha_related;

// context.cpp
Entry<DAT_SET_CONSUMER_CONTEXT_FUNC> set_consumer_context;
Entry<DAT_GET_CONSUMER_CONTEXT_FUNC> get_consumer_context;
Entry<DAT_GET_HANDLE_TYPE_FUNC> get_handle_type;

// cno.cpp
Entry<DAT_CNO_CREATE_FUNC> cno_create;
Entry<DAT_CNO_FD_CREATE_FUNC> cno_fd_create;
Entry<DAT_CNO_MODIFY_AGENT_FUNC> cno_modify_agent;
Entry<DAT_CNO_QUERY_FUNC> cno_query;
Entry<DAT_CNO_WAIT_FUNC> cno_wait;
Entry<DAT_CNO_TRIGGER_FUNC> cno_trigger;
Entry<DAT_CNO_FREE_FUNC> cno_free;

// evd_calls.cpp, service/evd_free.cpp
Entry<DAT_EVD_CREATE_FUNC> evd_create;
Entry<DAT_EVD_QUERY_FUNC> evd_query;
Entry<DAT_EVD_MODIFY_CNO_FUNC> evd_modify_cno;
Entry<DAT_EVD_ENABLE_FUNC> evd_enable;
Entry<DAT_EVD_DISABLE_FUNC> evd_disable;
Entry<DAT_EVD_SET_UNWAITABLE_FUNC> evd_set_unwaitable;
Entry<DAT_EVD_CLEAR_UNWAITABLE_FUNC> evd_clear_unwaitable;
Entry<DAT_EVD_WAIT_FUNC> evd_wait_slow_path;  // the slow path of calls::evd_wait (datapath_evd.h)
Entry<DAT_EVD_RESIZE_FUNC> evd_resize;
Entry<DAT_EVD_POST_SE_FUNC> evd_post_se;
Entry<DAT_EVD_FREE_FUNC> evd_free;

// pz.cpp, lmr.cpp, rmr.cpp, srq.cpp
Entry<DAT_PZ_CREATE_FUNC> pz_create;
Entry<DAT_PZ_QUERY_FUNC> pz_query;
Entry<DAT_PZ_FREE_FUNC> pz_free;
Entry<DAT_LMR_CREATE_FUNC> lmr_create;
Entry<DAT_LMR_QUERY_FUNC> lmr_query;
Entry<DAT_LMR_FREE_FUNC> lmr_free;
Entry<DAT_LMR_SYNC_RDMA_READ_FUNC> lmr_sync_rdma_read;
Entry<DAT_LMR_SYNC_RDMA_WRITE_FUNC> lmr_sync_rdma_write;
Entry<DAT_RMR_CREATE_FUNC> rmr_create;
Entry<DAT_RMR_CREATE_FOR_EP_FUNC> rmr_create_for_ep;
Entry<DAT_RMR_QUERY_FUNC> rmr_query;
Entry<DAT_RMR_FREE_FUNC> rmr_free;
Entry<DAT_SRQ_CREATE_FUNC> srq_create;
Entry<DAT_SRQ_QUERY_FUNC> srq_query;
Entry<DAT_SRQ_RESIZE_FUNC> srq_resize;
Entry<DAT_SRQ_SET_LW_FUNC> srq_set_lw;
Entry<DAT_SRQ_FREE_FUNC> srq_free;

}  // namespace udapl::dapl::calls
