/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file Providers and error texts. */
#pragma once

#include <dat/api/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dat_provider_info {
  char ia_name[256];
  DAT_UINT32 dapl_version_major;
  DAT_UINT32 dapl_version_minor;
  DAT_BOOLEAN is_thread_safe;
} DAT_PROVIDER_INFO;

DAT_EXPORT DAT_RETURN DAT_API dat_registry_list_providers(DAT_COUNT max_to_return,
                                                          DAT_COUNT* entries_returned,
                                                          DAT_PROVIDER_INFO* dat_provider_list[]);

DAT_EXPORT DAT_RETURN DAT_API dat_strerror(DAT_RETURN value, const char** major_message,
                                           const char** minor_message);

#ifdef __cplusplus
}
#endif
