/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Makes a call that fails and prints why, like an application that uses dat_last_cause().
 *
 *   open_ia NAME             open the adapter
 *   open_ia NAME port N      and listen at connection qualifier N
 *   open_ia NAME events N    and create an EVD for N events
 *   open_ia NAME memory N    and register N bytes
 *
 * Prints "ok" and exits with 0, or prints the cause and exits with 1.
 */
#include <dat/dat_diagnosis_extensions.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int report(DAT_RETURN status) {
  const char* cause = NULL;
  dat_last_cause(status, &cause);
  puts(status == DAT_SUCCESS ? "ok" : cause);
  return status == DAT_SUCCESS ? 0 : 1;
}

static DAT_RETURN do_more(DAT_IA_HANDLE ia, const char* what, unsigned long long value) {
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  if (strcmp(what, "events") == 0)
    return dat_evd_create(ia, (DAT_COUNT)value, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd);
  if (strcmp(what, "memory") == 0) {
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context;
    DAT_REGION_DESCRIPTION region;
    DAT_RETURN status = dat_pz_create(ia, &pz);
    if (status != DAT_SUCCESS) return status;
    region.for_va = calloc(1, value);
    return dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, value, pz, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, &lmr, &context, NULL, NULL, NULL);
  }
  if (strcmp(what, "port") == 0) {
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_RETURN status = dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &evd);
    if (status != DAT_SUCCESS) return status;
    return dat_psp_create(ia, value, evd, DAT_PSP_CONSUMER_FLAG, &psp);
  }
  fprintf(stderr, "open_ia: %s?\n", what);
  exit(2);
}

int main(int argc, char** argv) {
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_RETURN status;
  int result;
  if (argc != 2 && argc != 4) return 2;
  status = dat_ia_openv(argv[1], 8, &async_evd, &ia, 2, 0, DAT_FALSE);
  if (status == DAT_SUCCESS && argc == 4) status = do_more(ia, argv[2], strtoull(argv[3], NULL, 0));
  result = report(status);
  if (ia != DAT_HANDLE_NULL) dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
  return result;
}
