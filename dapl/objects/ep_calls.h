// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/udat_redirection.h>

// The entries of the provider table for EPs, service points and connection requests that are not
// hot (the posts are in datapath.h). Each implements the DAT function of its name, checks its
// arguments in the order of docs/semantics.md#order-of-checks, and lets no exception out.
namespace udapl::dapl::calls {

DAT_RETURN ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                     DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                     const DAT_EP_ATTR* attributes, DAT_EP_HANDLE* ep) noexcept;
DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                              DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                              DAT_SRQ_HANDLE srq, const DAT_EP_ATTR* attributes,
                              DAT_EP_HANDLE* ep) noexcept;
DAT_RETURN ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM* param) noexcept;
DAT_RETURN ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM* param) noexcept;
DAT_RETURN ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL conn_qual,
                      DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                      const DAT_PVOID private_data, DAT_QOS qos, DAT_CONNECT_FLAGS flags) noexcept;
DAT_RETURN ep_common_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR remote, DAT_TIMEOUT timeout,
                             DAT_COUNT private_data_size, const DAT_PVOID private_data) noexcept;
DAT_RETURN ep_dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE dup, DAT_TIMEOUT timeout,
                          DAT_COUNT private_data_size, const DAT_PVOID private_data,
                          DAT_QOS qos) noexcept;
DAT_RETURN ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS flags) noexcept;
DAT_RETURN ep_get_status(DAT_EP_HANDLE ep, DAT_EP_STATE* state, DAT_BOOLEAN* recv_idle,
                         DAT_BOOLEAN* request_idle) noexcept;
DAT_RETURN ep_reset(DAT_EP_HANDLE ep) noexcept;
DAT_RETURN ep_free(DAT_EP_HANDLE ep) noexcept;
DAT_RETURN ep_recv_query(DAT_EP_HANDLE ep, DAT_COUNT* buffers, DAT_COUNT* span) noexcept;
DAT_RETURN ep_set_watermark(DAT_EP_HANDLE ep, DAT_COUNT soft, DAT_COUNT hard) noexcept;

DAT_RETURN psp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL conn_qual, DAT_EVD_HANDLE evd,
                      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE* psp) noexcept;
DAT_RETURN psp_create_any(DAT_IA_HANDLE ia, DAT_CONN_QUAL* conn_qual, DAT_EVD_HANDLE evd,
                          DAT_PSP_FLAGS flags, DAT_PSP_HANDLE* psp) noexcept;
DAT_RETURN psp_query(DAT_PSP_HANDLE psp, DAT_PSP_PARAM_MASK mask, DAT_PSP_PARAM* param) noexcept;
DAT_RETURN psp_free(DAT_PSP_HANDLE psp) noexcept;

DAT_RETURN rsp_create(DAT_IA_HANDLE ia, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep,
                      DAT_EVD_HANDLE evd, DAT_RSP_HANDLE* rsp) noexcept;
DAT_RETURN rsp_query(DAT_RSP_HANDLE rsp, DAT_RSP_PARAM_MASK mask, DAT_RSP_PARAM* param) noexcept;
DAT_RETURN rsp_free(DAT_RSP_HANDLE rsp) noexcept;

DAT_RETURN csp_create(DAT_IA_HANDLE ia, DAT_COMM* comm, DAT_IA_ADDRESS_PTR address,
                      DAT_EVD_HANDLE evd, DAT_CSP_HANDLE* csp) noexcept;
DAT_RETURN csp_query(DAT_CSP_HANDLE csp, DAT_CSP_PARAM_MASK mask, DAT_CSP_PARAM* param) noexcept;
DAT_RETURN csp_free(DAT_CSP_HANDLE csp) noexcept;

DAT_RETURN cr_query(DAT_CR_HANDLE cr, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM* param) noexcept;
DAT_RETURN cr_accept(DAT_CR_HANDLE cr, DAT_EP_HANDLE ep, DAT_COUNT private_data_size,
                     const DAT_PVOID private_data) noexcept;
DAT_RETURN cr_reject(DAT_CR_HANDLE cr, DAT_COUNT private_data_size,
                     const DAT_PVOID private_data) noexcept;
DAT_RETURN cr_handoff(DAT_CR_HANDLE cr, DAT_CONN_QUAL conn_qual) noexcept;

// The handle_extendedop slot: IB extension operations on an EP, and the open/close query on an IA.
DAT_RETURN extended_operation(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list args) noexcept;

}  // namespace udapl::dapl::calls
