/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * For providers: the interface between them and the registry, libdat2.
 *
 * A provider library exports dat_provider_init() and dat_provider_fini(). When an IA that dat.conf
 * assigns to the library is opened for the first time, the registry loads it and calls the former;
 * when the last IA of the name has been closed, the registry calls the latter.
 */
#pragma once

#include <dat/udat.h>
#include <dat/udat_redirection.h>

DAT_BEGIN_DECLS

/** @name Functions that a provider library exports. @{ */

/**
 * Begin to provide an IA name: call dat_registry_add_provider() for it, once. The only way to fail
 * is not to register.
 *
 * Runs under a lock of the registry, so it must not open or close an IA.
 *
 * @param[in] provider_info  what to register; copy it to keep it
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
 * Register a provider for an IA name. An application may also do so for a provider that is linked
 * into it; the name then needs no entry in dat.conf.
 *
 * @param[in] provider       its table; owned by the provider, must be valid until it is removed
 * @param[in] provider_info  the name, version and thread safety; copied. dat_ia_query() must report
 *                           the same.
 *
 * @retval DAT_INVALID_PARAMETER            `provider` is null or has no ia_open_func
 *                                          (DAT_INVALID_ARG1); `provider_info` is null or its name
 *                                          is not terminated (DAT_INVALID_ARG2)
 * @retval DAT_PROVIDER_ALREADY_REGISTERED  a provider with the same info is registered
 * @retval DAT_INSUFFICIENT_RESOURCES       out of memory; or no file descriptor was available to
 *                                          read dat.conf, which a later call will do
 * @retval DAT_INVALID_STATE                the process is exiting, the registry no longer exists
 *
 * Blocking: no. Threads: safe. Spec: uDAPL 2.0 dat_registry_add_provider
 */
DAT_EXPORT DAT_RETURN DAT_API dat_registry_add_provider(const DAT_PROVIDER* provider,
                                                        const DAT_PROVIDER_INFO* provider_info);

/**
 * Unregister a provider. It can no longer be opened.
 *
 * @param[in] provider       its table; must not be null, otherwise ignored
 * @param[in] provider_info  as registered
 *
 * @retval DAT_INVALID_PARAMETER   null pointer (DAT_INVALID_ARG1, DAT_INVALID_ARG2)
 * @retval DAT_PROVIDER_NOT_FOUND  no provider with this info exists (DAT_NAME_NOT_REGISTERED)
 * @retval DAT_PROVIDER_IN_USE     it has open IAs
 * @retval DAT_INVALID_STATE       the process is exiting, the registry no longer exists
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
 * Translate in either direction between the IA handle of an application, a small number, and the
 * pointer that the provider returned from its open function. A provider that reports an IA handle
 * uses this to translate its pointer.
 *
 * @param[in]  handle     one of the two
 * @param[out] ia_handle  receives the other; null if `handle` is a number but no open IA has it,
 *                        and unchanged on any other failure
 *
 * @retval DAT_INVALID_HANDLE  `handle` is neither (DAT_INVALID_HANDLE_IA)
 *
 * Blocking: no. Threads: safe. Not part of the specification; all providers of libdat2 rely on it.
 */
DAT_EXPORT DAT_RETURN DAT_API dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE* ia_handle);

DAT_END_DECLS
