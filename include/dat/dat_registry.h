/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file The registry, as seen by providers. */
#pragma once

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO* provider_info,
                                       const char* instance_data);
typedef void (*DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO* provider_info);

#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini
#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

DAT_EXPORT DAT_RETURN DAT_API dat_registry_add_provider(const DAT_PROVIDER* provider,
                                                        const DAT_PROVIDER_INFO* provider_info);

DAT_EXPORT DAT_RETURN DAT_API dat_registry_remove_provider(const DAT_PROVIDER* provider,
                                                           const DAT_PROVIDER_INFO* provider_info);

typedef enum dat_ha_relationship {
  DAT_HA_FALSE = 0,
  DAT_HA_TRUE = 1,
  DAT_HA_UNKNOWN = 2,
  DAT_HA_CONFLICTING = 3,
  DAT_HA_EXTENSION_BASE = 4
} DAT_HA_RELATIONSHIP;

DAT_EXPORT DAT_RETURN DAT_API dat_registry_providers_related(const DAT_NAME_PTR ia_name_a,
                                                             const DAT_NAME_PTR ia_name_b,
                                                             DAT_HA_RELATIONSHIP* relationship);

DAT_EXPORT DAT_RETURN DAT_API dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE* ia_handle);

#ifdef __cplusplus
}
#endif
