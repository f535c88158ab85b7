/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * SRQ, the shared receive queue: receive buffers that several EPs draw from.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** No watermark: never fires. */
#define DAT_WATERMARK_INFINITE ((DAT_COUNT)~0)

/** Initial high watermark of an EP. */
#define DAT_HW_DEFAULT DAT_WATERMARK_INFINITE

/** Initial low watermark of an SRQ: never fires. */
#define DAT_SRQ_LW_DEFAULT 0

/** Reported in place of a count that the provider cannot determine cheaply. */
#define DAT_VALUE_UNKNOWN ((DAT_COUNT)~1)

/** Requested properties of an SRQ. */
typedef struct dat_srq_attr {
  DAT_COUNT max_recv_dtos; /**< Buffers it must be able to hold, 1 to max_recv_per_srq. */
  DAT_COUNT max_recv_iov;  /**< Segments per buffer. */
  DAT_COUNT low_watermark; /**< DAT_SRQ_LW_DEFAULT; dat_srq_set_lw() changes it. */
} DAT_SRQ_ATTR;

typedef enum dat_srq_state {
  DAT_SRQ_STATE_ERROR = 0,
  DAT_SRQ_STATE_OPERATIONAL = 1,
  DAT_SRQ_STATE_SHUTDOWN = 2
} DAT_SRQ_STATE;

/** What dat_srq_query() returns. */
typedef struct dat_srq_param {
  DAT_IA_HANDLE ia_handle;
  DAT_SRQ_STATE srq_state;
  DAT_PZ_HANDLE pz_handle;
  DAT_COUNT max_recv_dtos; /**< At least the number requested. */
  DAT_COUNT max_recv_iov;  /**< At least the number requested. */
  DAT_COUNT low_watermark;
  DAT_COUNT available_dto_count;   /**< Buffers not taken yet, or DAT_VALUE_UNKNOWN. */
  DAT_COUNT outstanding_dto_count; /**< Buffers whose completion has not been dequeued, those
                                        available included; or DAT_VALUE_UNKNOWN. */
} DAT_SRQ_PARAM;

/** Fields of DAT_SRQ_PARAM; a set. */
typedef enum dat_srq_param_mask {
  DAT_SRQ_FIELD_IA_HANDLE = 0x01,
  DAT_SRQ_FIELD_SRQ_STATE = 0x02,
  DAT_SRQ_FIELD_PZ_HANDLE = 0x04,
  DAT_SRQ_FIELD_MAX_RECV_DTO = 0x08,
  DAT_SRQ_FIELD_MAX_RECV_IOV = 0x10,
  DAT_SRQ_FIELD_LOW_WATERMARK = 0x20,
  DAT_SRQ_FIELD_AVAILABLE_DTO_COUNT = 0x40,
  DAT_SRQ_FIELD_OUTSTANDING_DTO_COUNT = 0x80,
  DAT_SRQ_FIELD_ALL = 0xff
} DAT_SRQ_PARAM_MASK;

/**
 * Create an SRQ, empty and operational.
 *
 * @param[in]  ia_handle
 * @param[in]  pz_handle   zone of its buffers
 * @param[in]  srq_attr    requested properties; not kept. low_watermark is only reported:
 *                         dat_srq_set_lw() sets it.
 * @param[out] srq_handle  receives the SRQ; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle` or `pz_handle`
 * @retval DAT_INVALID_PARAMETER       null pointer, max_recv_dtos not positive, a number negative
 *                                     or beyond the IA's limit
 * @retval DAT_MODEL_NOT_SUPPORTED     the provider has no SRQs (srq_supported)
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device objects
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_srq_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                             DAT_SRQ_ATTR* srq_attr, DAT_SRQ_HANDLE* srq_handle);

/**
 * Get the parameters and the fill level of an SRQ.
 *
 * @param[in]  srq_handle
 * @param[in]  srq_param_mask  fields wanted; others may be filled as well, unknown bits are ignored
 * @param[out] srq_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `srq_handle`
 * @retval DAT_INVALID_PARAMETER  `srq_param` is null
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_srq_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_srq_query(DAT_SRQ_HANDLE srq_handle,
                                            DAT_SRQ_PARAM_MASK srq_param_mask,
                                            DAT_SRQ_PARAM* srq_param);

/**
 * Change how many buffers an SRQ can hold. No buffer is lost; it may stay larger than requested.
 *
 * @param[in] srq_handle
 * @param[in] srq_max_recv_dto  number of buffers it must be able to hold
 *
 * @retval DAT_INVALID_HANDLE          `srq_handle`
 * @retval DAT_INVALID_PARAMETER       not positive, or beyond max_recv_per_srq
 * @retval DAT_INVALID_STATE           below the number outstanding or below the low watermark
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device space
 *
 * Blocking: may wait for the adapter. Threads: serialize. Spec: uDAPL 2.0 dat_srq_resize
 */
DAT_EXPORT DAT_RETURN DAT_API dat_srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT srq_max_recv_dto);

/**
 * Request one asynchronous event (reason DAT_SRQ_LOW_WATERMARK_EVENT) when fewer buffers are
 * available than the watermark. It may be due at once. After it, set the watermark again to get
 * another one.
 *
 * @param[in] srq_handle
 * @param[in] low_watermark  number of buffers, up to max_recv_dtos; 0 for none
 *
 * @retval DAT_INVALID_HANDLE          `srq_handle`
 * @retval DAT_INVALID_PARAMETER       negative, or beyond max_recv_dtos
 * @retval DAT_MODEL_NOT_SUPPORTED     no low watermarks (srq_watermarks_supported)
 * @retval DAT_NOT_IMPLEMENTED         the same, from some providers
 * @retval DAT_INSUFFICIENT_RESOURCES  the adapter refuses it; no watermark is set then
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_srq_set_lw
 */
DAT_EXPORT DAT_RETURN DAT_API dat_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark);

/**
 * Post a receive buffer, for whichever EP of the SRQ receives the next message. Buffers and
 * segments are as in dat_ep_post_recv(); the completion goes to the receive EVD of that EP.
 *
 * @param[in] srq_handle    in any state
 * @param[in] num_segments  number of segments, up to max_recv_iov
 * @param[in] local_iov     segments, filled front to back; null if there are none
 * @param[in] user_cookie   for the completion event
 *
 * @retval DAT_INVALID_HANDLE          `srq_handle`
 * @retval DAT_INVALID_PARAMETER       number of segments, null array, or a segment that begins
 *                                     outside its LMR
 * @retval DAT_PROTECTION_VIOLATION    an LMR of another zone than the SRQ
 * @retval DAT_PRIVILEGES_VIOLATION    no such LMR, or one that may not be written locally
 * @retval DAT_INSUFFICIENT_RESOURCES  the SRQ is full
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_srq_post_recv
 */
DAT_EXPORT DAT_RETURN DAT_API dat_srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments,
                                                DAT_LMR_TRIPLET* local_iov,
                                                DAT_DTO_COOKIE user_cookie);

/**
 * Destroy an SRQ. Buffers still posted on it return to the application without completions.
 *
 * @param[in] srq_handle
 *
 * @retval DAT_INVALID_HANDLE  `srq_handle`
 * @retval DAT_INVALID_STATE   an EP was created with it and not freed yet
 *                             (DAT_INVALID_STATE_SRQ_IN_USE)
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_srq_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_srq_free(DAT_SRQ_HANDLE srq_handle);

DAT_END_DECLS
