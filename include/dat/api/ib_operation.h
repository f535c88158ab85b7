/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * InfiniBand extensions: the numbers of the operations. Part of dat/dat_ib_extensions.h.
 */
#pragma once

#include <dat/api/types.h>

DAT_BEGIN_DECLS

/** Operations of dat_extension_op() where extension_supported is DAT_EXTENSION_IB. */
typedef enum dat_ib_op {
  /* Posts on an EP: dat/dat_ib_extensions.h. */
  DAT_IB_FETCH_AND_ADD_OP = 0,
  DAT_IB_CMP_AND_SWAP_OP = 1,
  DAT_IB_RDMA_WRITE_IMMED_OP = 2,
  DAT_IB_UD_SEND_OP = 3,

  /* dat/api/ib_counters.h. */
  DAT_IB_QUERY_COUNTERS_OP = 4,
  DAT_IB_PRINT_COUNTERS_OP = 5,

  /* dat/api/ib_collective.h. */
  DAT_IB_COLLECTIVE_CREATE_MEMBER_OP = 6,
  DAT_IB_COLLECTIVE_FREE_MEMBER_OP = 7,
  DAT_IB_COLLECTIVE_CREATE_GROUP_OP = 8,
  DAT_IB_COLLECTIVE_FREE_GROUP_OP = 9,
  DAT_IB_COLLECTIVE_SET_CLOCK_OP = 10,
  DAT_IB_COLLECTIVE_READ_CLOCK_OP = 11,
  DAT_IB_COLLECTIVE_SCATTER_OP = 12,
  DAT_IB_COLLECTIVE_SCATTERV_OP = 13,
  DAT_IB_COLLECTIVE_GATHER_OP = 14,
  DAT_IB_COLLECTIVE_GATHERV_OP = 15,
  DAT_IB_COLLECTIVE_ALLGATHER_OP = 16,
  DAT_IB_COLLECTIVE_ALLGATHERV_OP = 17,
  DAT_IB_COLLECTIVE_ALLTOALL_OP = 18,
  DAT_IB_COLLECTIVE_ALLTOALLV_OP = 19,
  DAT_IB_COLLECTIVE_REDUCE_OP = 20,
  DAT_IB_COLLECTIVE_ALLREDUCE_OP = 21,
  DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP = 22,
  DAT_IB_COLLECTIVE_SCAN_OP = 23,
  DAT_IB_COLLECTIVE_BROADCAST_OP = 24,
  DAT_IB_COLLECTIVE_BARRIER_OP = 25,

  /* dat/api/ib_counters.h. */
  DAT_IB_START_COUNTERS_OP = 26,
  DAT_IB_STOP_COUNTERS_OP = 27,

  /* Datagrams: dat/dat_ib_extensions.h. */
  DAT_IB_UD_CM_FREE_OP = 28,
  DAT_IB_UD_AH_FREE_OP = 29,

  /* Attributes without opening an IA: dat/dat_ib_extensions.h. */
  DAT_IB_OPEN_QUERY_OP = 0x1000,
  DAT_IB_CLOSE_QUERY_OP = 0x2000
} DAT_IB_OP;

/** Converts a macro argument to a DAT_CONTEXT; in C it may be a value of any of its members. */
#ifdef __cplusplus
#define DAT_IB_AS_CONTEXT(x) (x)
#else
#define DAT_IB_AS_CONTEXT(x) (__extension__((DAT_CONTEXT)(x)))
#endif

DAT_END_DECLS
