/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * PZ, the protection zone: an EP may access only memory regions of its own zone.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** What dat_pz_query() returns. */
typedef struct dat_pz_param {
  DAT_IA_HANDLE ia_handle;
} DAT_PZ_PARAM;

/** Fields of DAT_PZ_PARAM; a set. */
typedef enum dat_pz_param_mask {
  DAT_PZ_FIELD_IA_HANDLE = 0x01,
  DAT_PZ_FIELD_ALL = 0x01
} DAT_PZ_PARAM_MASK;

/**
 * Create a PZ.
 *
 * @param[in]  ia_handle
 * @param[out] pz_handle  receives the PZ; owned by the application
 *
 * @retval DAT_INVALID_HANDLE          `ia_handle`
 * @retval DAT_INVALID_PARAMETER       `pz_handle` is null
 * @retval DAT_INSUFFICIENT_RESOURCES  out of memory or device objects
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_pz_create
 */
DAT_EXPORT DAT_RETURN DAT_API dat_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE* pz_handle);

/**
 * Get the parameters of a PZ.
 *
 * @param[in]  pz_handle
 * @param[in]  pz_param_mask  fields wanted
 * @param[out] pz_param       structure to fill
 *
 * @retval DAT_INVALID_HANDLE     `pz_handle`
 * @retval DAT_INVALID_PARAMETER  `pz_param` is null
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_pz_query
 */
DAT_EXPORT DAT_RETURN DAT_API dat_pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask,
                                           DAT_PZ_PARAM* pz_param);

/**
 * Destroy a PZ.
 *
 * @param[in] pz_handle
 *
 * @retval DAT_INVALID_HANDLE  `pz_handle`
 * @retval DAT_INVALID_STATE   an EP, LMR, RMR or SRQ uses it (DAT_INVALID_STATE_PZ_IN_USE)
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_pz_free
 */
DAT_EXPORT DAT_RETURN DAT_API dat_pz_free(DAT_PZ_HANDLE pz_handle);

DAT_END_DECLS
