/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Calls that take a handle of any kind: the context, the type, and extended operations.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

typedef enum dat_handle_type {
  DAT_HANDLE_TYPE_CR = 0,
  DAT_HANDLE_TYPE_EP = 1,
  DAT_HANDLE_TYPE_EVD = 2,
  DAT_HANDLE_TYPE_IA = 3,
  DAT_HANDLE_TYPE_LMR = 4,
  DAT_HANDLE_TYPE_PSP = 5,
  DAT_HANDLE_TYPE_PZ = 6,
  DAT_HANDLE_TYPE_RMR = 7,
  DAT_HANDLE_TYPE_RSP = 8,
  DAT_HANDLE_TYPE_CNO = 9,
  DAT_HANDLE_TYPE_SRQ = 10,
  DAT_HANDLE_TYPE_CSP = 11,
  DAT_HANDLE_TYPE_EXTENSION_BASE = 12 /**< First value that belongs to extensions. */
} DAT_HANDLE_TYPE;

/**
 * Attach a value of the application to an object, replacing the previous one.
 *
 * DAT never interprets, copies or frees what the value may point to, and drops it with the object.
 *
 * @param[in] dat_handle  object of any kind
 * @param[in] context     any value; all zero to clear
 *
 * @retval DAT_INVALID_HANDLE  `dat_handle` is null or, where that can be detected, not an object
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_set_consumer_context
 */
DAT_EXPORT DAT_RETURN DAT_API dat_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context);

/**
 * Get the value that dat_set_consumer_context() attached; all zero if it never did.
 *
 * @param[in]  dat_handle  object of any kind
 * @param[out] context     receives the value
 *
 * @retval DAT_INVALID_HANDLE     `dat_handle` is null or, where that can be detected, not an object
 * @retval DAT_INVALID_PARAMETER  `context` is null
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_get_consumer_context
 */
DAT_EXPORT DAT_RETURN DAT_API dat_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT* context);

/**
 * Get the kind of an object.
 *
 * @param[in]  dat_handle   object of any kind
 * @param[out] handle_type  receives the kind
 *
 * @retval DAT_INVALID_HANDLE     `dat_handle` is null or, where that can be detected, not an object
 * @retval DAT_INVALID_PARAMETER  `handle_type` is null
 *
 * Blocking: no. Threads: serialize. Spec: uDAPL 2.0 dat_get_handle_type
 */
DAT_EXPORT DAT_RETURN DAT_API dat_get_handle_type(DAT_HANDLE dat_handle,
                                                  DAT_HANDLE_TYPE* handle_type);

/** Number of an extended operation. Its meaning depends on extension_supported of the IA. */
typedef int DAT_EXTENDED_OP;

/** Bit of operations that take an IA name (as first variable argument) and make a handle. */
#define DAT_OPEN_EXTENSION_BASE 0x1000

/** Bit of operations that close a handle made by such an operation. */
#define DAT_CLOSE_EXTENSION_BASE 0x2000

/**
 * Perform an operation beyond the DAT specification.
 *
 * Applications use the macros of dat_ib_extensions.h or dat_iw_extensions.h, which supply the
 * operation and convert the arguments to what it expects.
 *
 * @param[in] handle     object that the operation acts on; null for an open operation
 * @param[in] operation  a value of DAT_IB_OP or DAT_IW_OP
 * @param[in] ...        as the operation requires
 *
 * @retval DAT_INVALID_HANDLE      `handle` is null; open operation: the name is (DAT_INVALID_ARG3)
 * @retval DAT_INVALID_PARAMETER   an argument of the operation
 * @retval DAT_PROVIDER_NOT_FOUND  open operation: nothing provides that name
 * @retval DAT_NOT_IMPLEMENTED     no provider with extensions is open, or this one does not know
 *                                 the operation
 * @return Anything else: see the operation.
 *
 * Blocking and threads: see the operation. Spec: uDAPL 2.0 dat_extension_op
 */
DAT_EXPORT DAT_RETURN DAT_API dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...);

DAT_END_DECLS
