/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * For providers: what the registry, libdat2, offers to them, and what it expects of them.
 *
 * A provider library exports dat_provider_init() and dat_provider_fini(). The registry loads it
 * when an IA that dat.conf assigns to it is opened for the first time, and calls the former; it
 * calls the latter when the last IA of the name has been closed.
 */
#pragma once

#include <dat/udat.h>
#include <dat/udat_redirection.h>

DAT_BEGIN_DECLS

/** @name Functions that a provider library exports. @{ */

/**
 * Begin to provide an IA name: call dat_registry_add_provider() for it, once. There is no way to
 * fail but not to register.
 *
 * Runs under a lock of the registry, so it may not open or close an IA.
 *
 * @param[in] provider_info  what to register; copy what is to be kept
 * @param[in] instance_data  the provider's own parameters, the 7th field of dat.conf; never null;
 *                           copy it to keep it
 */
void dat_provider_init(const DAT_PROVIDER_INFO* provider_info, const char* instance_data);

/**
 * Stop providing an IA name: call dat_registry_remove_provider(). None of its IAs is open.
 *
 * @param[in] provider_info  as given to dat_provider_init()
 */
void dat_provider_fini(const DAT_PROVIDER_INFO* provider_info);

typedef void (*DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO* provider_info,
                                       const char* instance_data);
typedef void (*DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO* provider_info);

#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini
#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"
/** @} */

/**
 * Announce that a provider serves an IA name. An application may do it too, for a provider that is
 * linked to it: then the name needs no entry in dat.conf.
 *
 * @param[in] provider       its table; stays the provider's and must last until it is removed
 * @param[in] provider_info  the name, version and thread safety; copied. dat_ia_query() must report
 *                           the same.
 *
 * @retval DAT_INVALID_PARAMETER            null pointer (DAT_INVALID_ARG1, DAT_INVALID_ARG2)
 * @retval DAT_PROVIDER_ALREADY_REGISTERED  there is one with the same info
 * @retval DAT_INSUFFICIENT_RESOURCES       out of memory; no file descriptor was left to read
 *                                          dat.conf: a later call does that
 * @retval DAT_INVALID_STATE                the process is ending, the registry is gone
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_registry_add_provider
 */
DAT_EXPORT DAT_RETURN DAT_API dat_registry_add_provider(const DAT_PROVIDER* provider,
                                                        const DAT_PROVIDER_INFO* provider_info);

/**
 * Withdraw a provider. It cannot be opened any more.
 *
 * @param[in] provider       its table; not null, otherwise it does not matter
 * @param[in] provider_info  as registered
 *
 * @retval DAT_INVALID_PARAMETER   null pointer (DAT_INVALID_ARG1, DAT_INVALID_ARG2)
 * @retval DAT_PROVIDER_NOT_FOUND  there is none with this info (DAT_NAME_NOT_REGISTERED)
 * @retval DAT_PROVIDER_IN_USE     IAs of it are open
 * @retval DAT_INVALID_STATE       the process is ending, the registry is gone
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_registry_remove_provider
 */
DAT_EXPORT DAT_RETURN DAT_API dat_registry_remove_provider(const DAT_PROVIDER* provider,
                                                           const DAT_PROVIDER_INFO* provider_info);

/** Whether two IAs belong to one high-availability group. */
typedef enum dat_ha_relationship {
  DAT_HA_FALSE = 0,
  DAT_HA_TRUE = 1,
  DAT_HA_UNKNOWN = 2,       /**< Neither provider knows. */
  DAT_HA_CONFLICTING = 3,   /**< The providers disagree. */
  DAT_HA_EXTENSION_BASE = 4 /**< First value that belongs to extensions. */
} DAT_HA_RELATIONSHIP;

/**
 * Ask the providers of two IA names whether they belong to one high-availability group.
 *
 * @param[in]  ia_name_a
 * @param[in]  ia_name_b
 * @param[out] relationship  receives the answer
 *
 * @retval DAT_INVALID_PARAMETER    null pointer
 * @retval DAT_PROVIDER_NOT_FOUND   one of the names is unknown
 * @retval DAT_MODEL_NOT_SUPPORTED  the providers have no high availability
 *
 * Blocking: see the providers. Threads: safe. Spec: uDAPL 2.0 dat_registry_providers_related
 */
DAT_EXPORT DAT_RETURN DAT_API dat_registry_providers_related(DAT_NAME_PTR ia_name_a,
                                                             DAT_NAME_PTR ia_name_b,
                                                             DAT_HA_RELATIONSHIP* relationship);

/**
 * Translate between the IA handle of an application, a small number, and the pointer that the
 * provider returned from its open function; either way. A provider that reports an IA handle
 * translates its pointer with it.
 *
 * @param[in]  handle     one of the two
 * @param[out] ia_handle  receives the other; null if `handle` is a number of no open IA, and
 *                        unchanged in other cases of failure
 *
 * @retval DAT_INVALID_HANDLE  `handle` is neither (DAT_INVALID_HANDLE_IA)
 *
 * Blocking: no. Threads: safe. No part of the specification; all providers of libdat2 rely on it.
 */
DAT_EXPORT DAT_RETURN DAT_API dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE* ia_handle);

DAT_END_DECLS
