/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Service points: where connection requests arrive. Each request creates a CR (dat/api/cr.h) and an
 * event on the EVD of the service point. The free space of that EVD is the backlog: if it is full,
 * requests are refused (NON_PEER_REJECTED at the peer).
 *
 *     PSP  public    stays until freed; an EP is made or chosen per request
 *     RSP  reserved  takes one request, for an EP chosen in advance
 *     CSP  common    as a PSP, on an IP address and port; for dat_ep_common_connect()
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** Who provides the EP for a request that arrives at a PSP. */
typedef enum dat_psp_flags {
  DAT_PSP_CONSUMER_FLAG = 0, /**< The application, when it accepts. */
  DAT_PSP_PROVIDER_FLAG = 1  /**< The provider: a new EP without PZ and EVDs comes with the CR. */
} DAT_PSP_FLAGS;

/** What dat_psp_query() returns. */
typedef struct dat_psp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_CONN_QUAL conn_qual;
  DAT_EVD_HANDLE evd_handle;
  DAT_PSP_FLAGS psp_flags;
} DAT_PSP_PARAM;

/** Fields of DAT_PSP_PARAM; a set. */
typedef enum dat_psp_param_mask {
  DAT_PSP_FIELD_IA_HANDLE = 0x01,
  DAT_PSP_FIELD_CONN_QUAL = 0x02,
  DAT_PSP_FIELD_EVD_HANDLE = 0x04,
  DAT_PSP_FIELD_PSP_FLAGS = 0x08,
  DAT_PSP_FIELD_ALL = 0x0f
} DAT_PSP_PARAM_MASK;

/**
 * Listen on a connection qualifier: any value of 64 bits, such as a process id or a random one. If
 * the transport has ports, a value above 65535 is mapped to one of them, and two values mapped to
 * the same port cannot be listened on at the same time. Events and queries report the value given
 * here. 0 means any free port, as for dat_psp_create_any(); dat_psp_query() returns which.
 *
 * @param[in]  ia_handle
 * @param[in]  conn_qual   where to listen
 * @param[in]  evd_handle  EVD with DAT_EVD_CR_FLAG for the requests
 * @param[in]  psp_flags   who provides the EPs; ep_creator of DAT_PROVIDER_ATTR says what is
 *                         possible
 * @param[out] psp_handle  receives the PSP; owned by the application
 *
 * Events, on the EVD: DAT_CONNECTION_REQUEST_EVENT for each request.
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`; `evd_handle`, also if it lacks the flag
 *                                     (DAT_INVALID_HANDLE_EVD_CR)
 * @retval DAT_INVALID_PARAMETER       unknown flag, null pointer
 * @retval DAT_CONN_QUAL_IN_USE        a service point of this or another process listens there; if
 *                                     none of this IA does, the code is without class bits
 * @retval DAT_CONN_QUAL_UNAVAILABLE   the system reserves the qualifier for privileged users
 * @retval DAT_INVALID_ADDRESS         this machine no longer has the address of the IA
 * @retval DAT_MODEL_NOT_SUPPORTED     these flags are not supported
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: may wait for the transport. Threads: safe. Spec: uDAPL 2.0 dat_psp_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                             DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                             DAT_PSP_HANDLE* psp_handle);

/**
 * Listen on a connection qualifier that the provider chooses: a free one that needs no privileges.
 *
 * @param[in]  ia_handle
 * @param[out] conn_qual   receives the qualifier
 * @param[in]  evd_handle  EVD with DAT_EVD_CR_FLAG for the requests
 * @param[in]  psp_flags   who provides the EPs
 * @param[out] psp_handle  receives the PSP; owned by the application
 *
 * Events as for dat_psp_create().
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`; `evd_handle`, also if it lacks the flag
 *                                     (DAT_INVALID_HANDLE_EVD_CR)
 * @retval DAT_INVALID_PARAMETER       unknown flag, null pointer
 * @retval DAT_CONN_QUAL_UNAVAILABLE   none is free
 * @retval DAT_INVALID_ADDRESS         this machine no longer has the address of the IA
 * @retval DAT_MODEL_NOT_SUPPORTED     these flags are not supported
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: may wait for the transport. Threads: safe. Spec: uDAPL 2.0 dat_psp_create_any
 */
DAT_EXPORT DAT_RETURN DAT_API dat_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL* conn_qual,
                                                 DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                                                 DAT_PSP_HANDLE* psp_handle);

/**
 * Get the parameters of a PSP.
 *
 * @param[in]  psp_handle
 * @param[in]  psp_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] psp_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `psp_handle`
 * @retval DAT_INVALID_PARAMETER  `psp_param` is null
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_psp_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_psp_query(DAT_PSP_HANDLE psp_handle,
                                            DAT_PSP_PARAM_MASK psp_param_mask,
                                            DAT_PSP_PARAM* psp_param);

/**
 * Stop listening and destroy the PSP. CRs that it created stay valid. A request that arrives during
 * the call either produces its event or is refused (NON_PEER_REJECTED at the peer).
 *
 * @param[in] psp_handle
 *
 * @retval DAT_INVALID_HANDLE  `psp_handle`
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_psp_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_psp_free(DAT_PSP_HANDLE psp_handle);

/** What dat_rsp_query() returns. */
typedef struct dat_rsp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_CONN_QUAL conn_qual;
  DAT_EVD_HANDLE evd_handle;
  DAT_EP_HANDLE ep_handle;
} DAT_RSP_PARAM;

/** Fields of DAT_RSP_PARAM; a set. */
typedef enum dat_rsp_param_mask {
  DAT_RSP_FIELD_IA_HANDLE = 0x01,
  DAT_RSP_FIELD_CONN_QUAL = 0x02,
  DAT_RSP_FIELD_EVD_HANDLE = 0x04,
  DAT_RSP_FIELD_EP_HANDLE = 0x08,
  DAT_RSP_FIELD_ALL = 0x0f
} DAT_RSP_PARAM_MASK;

/**
 * Listen for one request on behalf of an EP, which becomes RESERVED. Without an EP the provider
 * creates one when the request arrives, as a PSP with DAT_PSP_PROVIDER_FLAG does.
 *
 * When the request arrives, the RSP ceases to exist, the EP becomes PASSIVE_CONNECTION_PENDING, and
 * the CR has it as its local EP. Further requests are refused (NON_PEER_REJECTED at the peer).
 *
 * @param[in]  ia_handle
 * @param[in]  conn_qual   where to listen, as for dat_psp_create()
 * @param[in]  ep_handle   EP in state UNCONNECTED, or null. Its PZ and EVDs must be set when the
 *                         request is accepted.
 * @param[in]  evd_handle  EVD with DAT_EVD_CR_FLAG for the request
 * @param[out] rsp_handle  receives the RSP; owned by the application until the request arrives
 *
 * Events, on the EVD: one DAT_CONNECTION_REQUEST_EVENT. Its sp_handle is that of the RSP, which no
 * longer exists then.
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`, `ep_handle`; `evd_handle`, also if it lacks the
 *                                     flag (DAT_INVALID_HANDLE_EVD_CR)
 * @retval DAT_INVALID_PARAMETER       null pointer
 * @retval DAT_INVALID_STATE           the EP is in another state
 * @retval DAT_CONN_QUAL_IN_USE        a service point of this or another process listens there; if
 *                                     none of this IA does, the code is without class bits
 * @retval DAT_CONN_QUAL_UNAVAILABLE   the system reserves the qualifier for privileged users
 * @retval DAT_INVALID_ADDRESS         this machine no longer has the address of the IA
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: may wait for the transport. Threads: safe. Spec: uDAPL 2.0 dat_rsp_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                                             DAT_EP_HANDLE ep_handle, DAT_EVD_HANDLE evd_handle,
                                             DAT_RSP_HANDLE* rsp_handle);

/**
 * Get the parameters of an RSP.
 *
 * @param[in]  rsp_handle
 * @param[in]  rsp_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] rsp_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `rsp_handle`
 * @retval DAT_INVALID_PARAMETER  `rsp_param` is null
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_rsp_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rsp_query(DAT_RSP_HANDLE rsp_handle,
                                            DAT_RSP_PARAM_MASK rsp_param_mask,
                                            DAT_RSP_PARAM* rsp_param);

/**
 * Stop listening and destroy the RSP; its EP is UNCONNECTED again. If its request has arrived, the
 * RSP no longer exists: the call succeeds once, without effect, and the CR must still be accepted
 * or rejected.
 *
 * @param[in] rsp_handle
 *
 * @retval DAT_INVALID_HANDLE  `rsp_handle`
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_rsp_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rsp_free(DAT_RSP_HANDLE rsp_handle);

/** What dat_csp_query() returns. */
typedef struct dat_csp_param {
  DAT_IA_HANDLE ia_handle;
  DAT_COMM* comm;                 /**< Belongs to the CSP. */
  DAT_IA_ADDRESS_PTR address_ptr; /**< With the actual port; belongs to the CSP. */
  DAT_EVD_HANDLE evd_handle;
} DAT_CSP_PARAM;

/** Fields of DAT_CSP_PARAM; a set. */
typedef enum dat_csp_param_mask {
  DAT_CSP_FIELD_IA_HANDLE = 0x01,
  DAT_CSP_FIELD_COMM = 0x02,
  DAT_CSP_FIELD_IA_ADDRESS = 0x04,
  DAT_CSP_FIELD_EVD_HANDLE = 0x08,
  DAT_CSP_FIELD_ALL = 0x0f
} DAT_CSP_PARAM_MASK;

/**
 * Listen on an IP address and port. The application provides the EP when it accepts.
 *
 * @param[in]  ia_handle
 * @param[in]  communicator  protocol to listen with; not kept
 * @param[in]  address       IP address and port; not kept
 * @param[in]  evd_handle    EVD with DAT_EVD_CR_FLAG for the requests
 * @param[out] csp_handle    receives the CSP; owned by the application
 *
 * Events, on the EVD: DAT_CONNECTION_REQUEST_EVENT for each request.
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`; `evd_handle`, also if it lacks the flag
 *                                     (DAT_INVALID_HANDLE_EVD_CR)
 * @retval DAT_INVALID_PARAMETER       address not usable, null pointer
 * @retval DAT_PORT_IN_USE             something listens there
 * @retval DAT_COMM_NOT_SUPPORTED      the provider does not support this protocol with any address
 * @retval DAT_MODEL_NOT_SUPPORTED     the provider has no CSPs
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or transport resources
 *
 * Blocking: may wait for the transport. Threads: serialize. Spec: uDAPL 2.0 dat_csp_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM* communicator,
                                             DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd_handle,
                                             DAT_CSP_HANDLE* csp_handle);

/**
 * Get the parameters of a CSP.
 *
 * @param[in]  csp_handle
 * @param[in]  csp_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] csp_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE       `csp_handle`
 * @retval DAT_INVALID_PARAMETER    `csp_param` is null
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider has no CSPs
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_csp_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_csp_query(DAT_CSP_HANDLE csp_handle,
                                            DAT_CSP_PARAM_MASK csp_param_mask,
                                            DAT_CSP_PARAM* csp_param);

/**
 * Stop listening and destroy the CSP, as dat_psp_free().
 *
 * @param[in] csp_handle
 *
 * @retval DAT_INVALID_HANDLE       `csp_handle`
 * @retval DAT_MODEL_NOT_SUPPORTED  the provider has no CSPs
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_csp_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_csp_free(DAT_CSP_HANDLE csp_handle);

DAT_END_DECLS
