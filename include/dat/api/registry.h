/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Queries that need no open IA: the providers configured, and the meaning of a DAT_RETURN.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** Identity of a provider; all four fields together are the key in the registry. */
typedef struct dat_provider_info {
  char ia_name[DAT_NAME_MAX_LENGTH]; /**< Name for dat_ia_open(), NUL-terminated. */
  DAT_UINT32 dapl_version_major;     /**< Version of the DAT interface it implements. */
  DAT_UINT32 dapl_version_minor;
  DAT_BOOLEAN is_thread_safe; /**< Whether it serializes calls on one object itself. */
} DAT_PROVIDER_INFO;

/**
 * List the providers that the configuration (dat.conf) names, in the order of the file. Nothing is
 * loaded, so an entry need not work. If no dat.conf can be read, the list is empty and the call
 * succeeds.
 *
 * To size the list, call it with `max_to_return` 0: the call fails and sets `*entries_returned` to
 * the total.
 *
 * @param[in]  max_to_return      number of elements of `dat_provider_list`
 * @param[out] entries_returned   receives the number of structures filled
 * @param[out] dat_provider_list  array of pointers to structures of the caller, to be filled; may
 *                                be null if `max_to_return` is 0
 *
 * If the list is too short it is filled, if its length is negative it is left unchanged; in both
 * cases the call succeeds.
 *
 * @retval DAT_INVALID_PARAMETER  `max_to_return` is 0 (DAT_INVALID_ARG1);
 *                                `entries_returned` is null (DAT_INVALID_ARG2);
 *                                `dat_provider_list` or one of its elements is null
 *                                (DAT_INVALID_ARG3)
 * @retval DAT_INVALID_STATE      the process is exiting, the registry no longer exists
 *
 * Blocking: no, except that a first call may read the configuration. Threads: safe.
 * Spec: uDAPL 2.0 dat_registry_list_providers
 */
DAT_EXPORT DAT_RETURN DAT_API dat_registry_list_providers(DAT_COUNT max_to_return,
                                                          DAT_COUNT* entries_returned,
                                                          DAT_PROVIDER_INFO* dat_provider_list[]);

/**
 * Name the type and the subtype of a DAT_RETURN. Class bits are ignored.
 *
 * @param[in]  value          what a DAT function returned
 * @param[out] major_message  receives the name of the type, such as "DAT_INVALID_HANDLE". Must not
 *                            be null. For an unknown type "unknown error".
 * @param[out] minor_message  receives the name of the subtype, "" if there is none. May be null.
 *                            For an unknown subtype "unknown minor error"; not written if the type
 *                            is unknown.
 *
 * The strings are constants of the library.
 *
 * @retval DAT_INVALID_PARAMETER  the type or the subtype is unknown (result without class bits);
 *                                `major_message` is null (DAT_INVALID_ARG2)
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_strerror
 */
DAT_EXPORT DAT_RETURN DAT_API dat_strerror(DAT_RETURN value, const char** major_message,
                                           const char** minor_message);

DAT_END_DECLS
