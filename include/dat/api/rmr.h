/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * RMR, the remote memory region: a window that gives peers access to part of an LMR, and can be
 * moved or closed without a new registration.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** The EPs on which the context of an RMR is valid. */
typedef enum dat_rmr_scope {
  DAT_RMR_SCOPE_EP = 0, /**< The EP of the latest bind. A peer can invalidate only these RMRs. */
  DAT_RMR_SCOPE_PZ = 1, /**< All EPs of its zone. */
  DAT_RMR_SCOPE_ANY = 2 /**< In rmr_scope_supported: both. */
} DAT_RMR_SCOPE;

/** What dat_rmr_query() returns. The fields marked B are undefined while the RMR is not bound. */
typedef struct dat_rmr_param {
  DAT_IA_HANDLE ia_handle;
  DAT_PZ_HANDLE pz_handle;
  DAT_LMR_TRIPLET lmr_triplet; /**< B: the memory. */
  DAT_MEM_PRIV_FLAGS mem_priv; /**< B: what peers may do. */
  DAT_RMR_CONTEXT rmr_context; /**< B: the name for peers. */
  DAT_RMR_SCOPE rmr_scope;
  DAT_VA_TYPE va_type; /**< B. */
} DAT_RMR_PARAM;

/** Fields of DAT_RMR_PARAM; a set. */
typedef enum dat_rmr_param_mask {
  DAT_RMR_FIELD_IA_HANDLE = 0x01,
  DAT_RMR_FIELD_PZ_HANDLE = 0x02,
  DAT_RMR_FIELD_LMR_TRIPLET = 0x04,
  DAT_RMR_FIELD_MEM_PRIV = 0x08,
  DAT_RMR_FIELD_RMR_CONTEXT = 0x10,
  DAT_RMR_FIELD_RMR_SCOPE = 0x20,
  DAT_RMR_FIELD_VA_TYPE = 0x40,
  DAT_RMR_FIELD_ALL = 0x7f
} DAT_RMR_PARAM_MASK;

/**
 * Create an RMR of scope PZ, not bound.
 *
 * @param[in]  pz_handle
 * @param[out] rmr_handle  receives the RMR; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `pz_handle`
 * @retval DAT_INVALID_PARAMETER       `rmr_handle` is null
 * @retval DAT_MODEL_NOT_SUPPORTED     the provider has no RMRs of this scope (rmr_scope_supported)
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device windows; also from some providers
 *                                     that have no RMRs at all
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_rmr_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE* rmr_handle);

/**
 * Create an RMR of scope EP, not bound. Everything else as dat_rmr_create().
 *
 * @param[in]  pz_handle
 * @param[out] rmr_handle  receives the RMR; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `pz_handle`
 * @retval DAT_INVALID_PARAMETER       `rmr_handle` is null
 * @retval DAT_MODEL_NOT_SUPPORTED     the provider has no RMRs of this scope (rmr_scope_supported)
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device windows
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_rmr_create_for_ep
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rmr_create_for_ep(DAT_PZ_HANDLE pz_handle,
                                                    DAT_RMR_HANDLE* rmr_handle);

/**
 * Get the parameters of an RMR.
 *
 * @param[in]  rmr_handle
 * @param[in]  rmr_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] rmr_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `rmr_handle`
 * @retval DAT_INVALID_PARAMETER  `rmr_param` is null; from some providers also LMR_TRIPLET of
 *                                an RMR that is not bound
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_rmr_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rmr_query(DAT_RMR_HANDLE rmr_handle,
                                            DAT_RMR_PARAM_MASK rmr_param_mask,
                                            DAT_RMR_PARAM* rmr_param);

/**
 * Bind an RMR to memory, or unbind it: post the operation on the request queue of an EP.
 *
 * When the bind completes, the old context of the RMR becomes invalid and the new one valid.
 * Requests posted afterwards on the same EP wait for that, so the new context may be sent to the
 * peer over this EP at once, but over any other EP only after the completion. From this call on,
 * the bind prevents the LMR from being freed.
 *
 * @param[in]  rmr_handle
 * @param[in]  lmr_handle        region with the memory; may be null when unbinding
 * @param[in]  lmr_triplet       the part to open, within the region; length 0 to unbind
 * @param[in]  mem_priv          what peers may do; only remote privileges count
 * @param[in]  va_type           meaning of the addresses that peers use
 * @param[in]  ep_handle         EP of the same zone, in a state that allows requests
 * @param[in]  user_cookie       for the completion event
 * @param[in]  completion_flags  as for any request: SUPPRESS, UNSIGNALLED, BARRIER_FENCE
 * @param[out] context           receives the new context; undefined when unbinding
 *
 * Events, on the request EVD: DAT_RMR_BIND_COMPLETION_EVENT, FLUSHED if the EP is DISCONNECTED. If
 * the bind fails, the connection is broken.
 *
 * @retval DAT_INVALID_HANDLE          `rmr_handle`, `lmr_handle` or `ep_handle`
 * @retval DAT_INVALID_PARAMETER       part not within the region, unknown privilege, null pointer;
 *                                     unknown completion flags are ignored
 * @retval DAT_INVALID_STATE           the EP is in another state
 * @retval DAT_PROTECTION_VIOLATION    the zones of RMR, LMR and EP differ
 * @retval DAT_PRIVILEGES_VIOLATION    the LMR lacks the local privilege that the remote one needs
 * @retval DAT_MODEL_NOT_SUPPORTED     no DAT_VA_TYPE_ZB
 * @retval DAT_INSUFFICIENT_RESOURCES  the request queue is full (max_request_dtos)
 *
 * Blocking: no, except over TCP on a full queue: some 0.4 s at most (see dat/api/dto.h).
 * Threads: serialize with other calls on the RMR and the EP. Spec: uDAPL 2.0 dat_rmr_bind
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                                           const DAT_LMR_TRIPLET* lmr_triplet,
                                           DAT_MEM_PRIV_FLAGS mem_priv, DAT_VA_TYPE va_type,
                                           DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
                                           DAT_COMPLETION_FLAGS completion_flags,
                                           DAT_RMR_CONTEXT* context);

/**
 * Destroy an RMR. If it is bound, its context is invalid from then on: a peer that uses it gets
 * REMOTE_ACCESS and loses its connection.
 *
 * @param[in] rmr_handle
 *
 * @retval DAT_INVALID_HANDLE  `rmr_handle`
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_rmr_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_rmr_free(DAT_RMR_HANDLE rmr_handle);

DAT_END_DECLS
