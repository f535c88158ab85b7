/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What target and initiators have in common. */
#ifndef MW_TARGET_ISER_H
#define MW_TARGET_ISER_H
#define _DEFAULT_SOURCE
#include <dat/udat.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SESSIONS 12
#define DEPTH 8 /* commands that an initiator has outstanding */
#define SRQ_DEPTH 256
#define LOW_WATERMARK 192 /* the SRQ never runs empty: see README.md */
#define BLOCK 40000       /* no multiple of anything */
#define BLOCKS 16         /* on the disk of each initiator */
#define IMMEDIATE 512
#define PARTS 3 /* transfers of a command */
#define WAIT_US (60 * 1000 * 1000)

enum { WRITE_BLOCK = 1, READ_BLOCK, GOOD };

typedef struct {
  uint32_t operation, initiator, tag, block, length, immediate;
  uint64_t address;
  uint32_t context;
  uint32_t sum;
  uint8_t data[IMMEDIATE];
} command_t;

typedef struct {
  const char* ia_name;
  int threadsafe;
  int initiators, sessions, commands; /* sessions of each initiator, commands of each session */
  int no_windows;
} options_t;
extern options_t options;

/* Shared by the processes. */
typedef struct {
  DAT_SOCK_ADDR6 address; /* of the target, of either family */
  DAT_CONN_QUAL qual;
  volatile int ready, left; /* initiators */
} common_t;
extern common_t* common;

#define DIE(...)                            \
  do {                                      \
    fprintf(stderr, "line %d: ", __LINE__); \
    fprintf(stderr, __VA_ARGS__);           \
    fputc('\n', stderr);                    \
    _exit(1);                               \
  } while (0)

#define OK(call)                                                 \
  do {                                                           \
    DAT_RETURN ok_ = (call);                                     \
    if (ok_ != DAT_SUCCESS) {                                    \
      const char *major_ = "?", *minor_ = "?";                   \
      dat_strerror(ok_, &major_, &minor_);                       \
      DIE("%s: %x %s %s", #call, (unsigned)ok_, major_, minor_); \
    }                                                            \
  } while (0)

typedef struct {
  DAT_LMR_HANDLE lmr;
  DAT_LMR_CONTEXT local;
  DAT_RMR_CONTEXT remote;
} region_t;

region_t add(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, void* data, size_t length,
             DAT_MEM_PRIV_FLAGS rights);
DAT_LMR_TRIPLET part_of(const region_t* region, const void* data, uint32_t length);
void attributes(DAT_EP_ATTR* attr, const DAT_IA_ATTR* of_ia);

void* run_target(void* unused);
void* run_initiator(void* number);

#endif
