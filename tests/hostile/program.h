/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Common code of victim and bystander: checked calls and registered memory. Not thread-safe.
 */
#pragma once

#include <dat/udat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The private data of connection requests that the victim always accepts. */
#define BYSTANDER "bystander"

#define MESSAGE_SIZE 4096

#define CHECK(call) check((call), #call)
static inline void check(DAT_RETURN status, const char* call) {
  const char *major = "?", *minor = "?";
  if (status == DAT_SUCCESS) return;
  dat_strerror(status, &major, &minor);
  fprintf(stderr, "%s: %s, %s\n", call, major, minor);
  exit(1);
}

struct memory {
  unsigned char* address;
  DAT_LMR_HANDLE lmr;
  DAT_LMR_CONTEXT context;
  DAT_RMR_CONTEXT stag;
};

static inline struct memory register_memory(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, size_t size,
                                            DAT_MEM_PRIV_FLAGS privileges) {
  struct memory memory = {.address = calloc(1, size)};
  DAT_REGION_DESCRIPTION region = {.for_va = memory.address};
  DAT_VLEN length;
  DAT_VADDR start;
  if (memory.address == NULL) {
    perror("calloc");
    exit(1);
  }
  CHECK(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, size, pz, privileges, DAT_VA_TYPE_VA,
                       &memory.lmr, &memory.context, &memory.stag, &length, &start));
  return memory;
}

static inline DAT_LMR_TRIPLET segment(const struct memory* memory, size_t offset, size_t size) {
  DAT_LMR_TRIPLET triplet = {.virtual_address = (DAT_VADDR)(size_t)memory->address + offset,
                             .segment_length = (DAT_SEG_LENGTH)size,
                             .lmr_context = memory->context};
  return triplet;
}

static inline double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}
