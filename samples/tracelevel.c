/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * tracelevel - shows the vendor attributes of an adapter, and traces only one part of the program.
 *
 *   tracelevel           the adapter "soft"
 *   tracelevel NAME
 *
 * The initial trace levels of libdat2 (DAT) and of the adapter's provider (DAPL) come from the
 * environment (DAT_TRACE_LEVEL, DAPL_TRACE_LEVEL). This program raises them around one call and
 * then restores them, so that only this call is traced on stderr.
 */
#include <dat/dat_trclvl.h>
#include <dat/udat.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program unless a DAT call succeeded. */
static void check(DAT_RETURN status, const char* what) {
  const char *major = "?", *minor = "?";
  if (status == DAT_SUCCESS) {
    return;
  }
  dat_strerror(status, &major, &minor);
  fprintf(stderr, "%s: %s %s\n", what, major, minor);
  exit(1);
}

/* The code to be traced: creates an event queue and frees it. */
static void make_something(DAT_IA_HANDLE ia) {
  DAT_EVD_HANDLE evd;
  check(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd), "dat_evd_create");
  check(dat_evd_free(evd), "dat_evd_free");
}

static void show_levels(DAT_IA_HANDLE ia, DAT_TRCLVL_QUERY_FUNC query) {
  DAT_COUNT dapl, dat;
  check(query(ia, DAT_TRCLVL_DAPL, &dapl), "debug_query");
  check(query(ia, DAT_TRCLVL_DAT, &dat), "debug_query");
  printf("DAPL level %d, DAT level %d\n", dapl, dat);
}

static void set_levels(DAT_IA_HANDLE ia, DAT_TRCLVL_MODIFY_FUNC modify, DAT_COUNT dapl,
                       DAT_COUNT dat) {
  check(modify(ia, DAT_TRCLVL_DAPL, dapl), "debug_modify");
  check(modify(ia, DAT_TRCLVL_DAT, dat), "debug_modify");
  fflush(stdout);
}

int main(int argc, char** argv) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
  static const char usage[] = "usage: tracelevel [NAME]\nNAME is an entry of dat.conf (soft).\n";
  char fallback[] = "soft";
  const int option = getopt_long(argc, argv, "", options, NULL);
  if (option == 'h') {
    fputs(usage, stdout);
    return 0;
  }
  if (option != -1 || argc - optind > 1) {
    fputs(usage, stderr);
    return 2;
  }
  DAT_NAME_PTR name = optind < argc ? argv[optind] : fallback;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia;
  DAT_IA_ATTR attr;
  check(dat_ia_open(name, 8, &async_evd, &ia), "dat_ia_open");
  check(dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL), "dat_ia_query");

  for (DAT_COUNT i = 0; i < attr.num_vendor_attr; ++i) {
    /* The values of debug_query and debug_modify are functions, not text. */
    const DAT_NAMED_ATTR* a = &attr.vendor_attr[i];
    printf("%s = %s\n", a->name, dat_vendor_attr_is_text(a->name) ? a->value : "(function)");
  }

  /* Adapters of other vendors may not have them. */
  const DAT_TRCLVL_QUERY_FUNC query = dat_trclvl_query_func(&attr);
  const DAT_TRCLVL_MODIFY_FUNC modify = dat_trclvl_modify_func(&attr);
  if (query == NULL || modify == NULL) {
    printf("no trace levels\n");
    return 0;
  }
  DAT_COUNT dapl, dat;
  check(query(ia, DAT_TRCLVL_DAPL, &dapl), "debug_query");
  check(query(ia, DAT_TRCLVL_DAT, &dat), "debug_query");

  set_levels(ia, modify, TRC_LVL_OFF, TRC_LVL_OFF);
  show_levels(ia, query);
  make_something(ia); /* not traced */

  set_levels(ia, modify, TRC_LVL_DETAIL, TRC_LVL_DETAIL);
  show_levels(ia, query);
  make_something(ia); /* traced */

  set_levels(ia, modify, TRC_LVL_OFF, TRC_LVL_OFF);
  show_levels(ia, query);
  make_something(ia);

  set_levels(ia, modify, dapl, dat);
  check(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
  return 0;
}
