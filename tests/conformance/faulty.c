/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Preloaded into datconform by program.py: an IA that crashes, hangs or ends the process. */
#include <dat/udat.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE* async_evd, DAT_IA_ATTR_MASK ia_mask,
                        DAT_IA_ATTR* ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                        DAT_PROVIDER_ATTR* provider_attr) {
  const char* fault = getenv("FAULT");
  (void)ia, (void)async_evd, (void)ia_mask, (void)ia_attr, (void)provider_mask, (void)provider_attr;
  while (fault != NULL && strcmp(fault, "hangs") == 0) pause();
  if (fault != NULL && strcmp(fault, "ends") == 0) _exit(0);
  __builtin_trap();
}
