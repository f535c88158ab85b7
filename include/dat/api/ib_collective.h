/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * InfiniBand extensions: collective operations of a group of processes, for MPI libraries that
 * offload them. Part of dat/dat_ib_extensions.h.
 *
 * Each process creates a member and exchanges its data with the others, then creates the group from
 * all members; an event returns the group's handle. The operations have the meaning of the MPI
 * functions of the same names. Sizes and displacements are in bytes; sizes of reductions are in
 * elements. Each operation is asynchronous: an event DAT_IB_COLLECTIVE_EVENT with the user context,
 * of type DAT_CONTEXT, reports its end. A provider without collectives returns DAT_NOT_IMPLEMENTED.
 */
#pragma once

#include <dat/api/handle.h>
#include <dat/api/ib_operation.h>

DAT_BEGIN_DECLS

/** @name Provider attributes that say which of the operations there are. @{ */
#define DAT_IB_COLL_SET_CLOCK "DAT_COLL_SET_CLOCK"
#define DAT_IB_COLL_READ_CLOCK "DAT_COLL_READ_CLOCK"
#define DAT_IB_COLL_BROADCAST "DAT_COLL_BROADCAST"
#define DAT_IB_COLL_BARRIER "DAT_COLL_BARRIER"
#define DAT_IB_COLL_SCATTER "DAT_COLL_SCATTER"
#define DAT_IB_COLL_SCATTERV "DAT_COLL_SCATTERV"
#define DAT_IB_COLL_GATHER "DAT_COLL_GATHER"
#define DAT_IB_COLL_GATHERV "DAT_COLL_GATHERV"
#define DAT_IB_COLL_ALLGATHER "DAT_COLL_ALLGATHER"
#define DAT_IB_COLL_ALLGATHERV "DAT_COLL_ALLGATHERV"
#define DAT_IB_COLL_ALLTOALL "DAT_COLL_ALLTOALL"
#define DAT_IB_COLL_ALLTOALLV "DAT_COLL_ALLTOALLV"
#define DAT_IB_COLL_REDUCE "DAT_COLL_REDUCE"
#define DAT_IB_COLL_ALLREDUCE "DAT_COLL_ALLREDUCE"
#define DAT_IB_COLL_REDUCE_SCATTER "DAT_COLL_REDUCE_SCATTER"
#define DAT_IB_COLL_SCAN "DAT_COLL_SCAN"
/** @} */

typedef DAT_HANDLE DAT_IB_COLLECTIVE_HANDLE; /**< A group. */
typedef unsigned int DAT_IB_COLLECTIVE_RANK; /**< A process in a group, from 0. */
typedef unsigned int DAT_IB_COLLECTIVE_ID;   /**< Name of a group, chosen by the application. */
typedef void* DAT_IB_COLLECTIVE_MEMBER;      /**< Data of a member, to be sent to the others. */

/** How the processes of a group are spread over nodes. */
typedef struct dat_ib_collective_group {
  int local_size;       /**< Processes on this node. */
  int local_rank;       /**< This process among them. */
  int* local_ranks;     /**< Array of local_size: their ranks in the group. */
  int external_size;    /**< Nodes. */
  int external_rank;    /**< This node among them. */
  int* external_ranks;  /**< Array of external_size: rank of the first process of each node. */
  int* intranode_table; /**< Array of all ranks: number within the node. */
  int* internode_table; /**< Array of all ranks: number of the node. */
  int is_comm_world;    /**< Non-zero if the group is all processes. */
} DAT_IB_COLLECTIVE_GROUP;

/** Types of elements of reductions. */
typedef enum dat_ib_collective_data_type {
  DAT_IB_COLLECTIVE_TYPE_INT8 = 0,
  DAT_IB_COLLECTIVE_TYPE_UINT8 = 1,
  DAT_IB_COLLECTIVE_TYPE_INT16 = 2,
  DAT_IB_COLLECTIVE_TYPE_UINT16 = 3,
  DAT_IB_COLLECTIVE_TYPE_INT32 = 4,
  DAT_IB_COLLECTIVE_TYPE_UINT32 = 5,
  DAT_IB_COLLECTIVE_TYPE_INT64 = 6,
  DAT_IB_COLLECTIVE_TYPE_UINT64 = 7,
  DAT_IB_COLLECTIVE_TYPE_FLOAT = 8,
  DAT_IB_COLLECTIVE_TYPE_DOUBLE = 9,
  DAT_IB_COLLECTIVE_TYPE_LONG_DOUBLE = 10,
  DAT_IB_COLLECTIVE_TYPE_SHORT_INT = 11, /**< Pairs of a value and an int, for MAXLOC and MINLOC. */
  DAT_IB_COLLECTIVE_TYPE_2INT = 12,
  DAT_IB_COLLECTIVE_TYPE_FLOAT_INT = 13,
  DAT_IB_COLLECTIVE_TYPE_LONG_INT = 14,
  DAT_IB_COLLECTIVE_TYPE_DOUBLE_INT = 15
} DAT_IB_COLLECTIVE_DATA_TYPE;

/** Operations of reductions. */
typedef enum dat_ib_collective_reduce_data_op {
  DAT_IB_COLLECTIVE_REDUCE_OP_MAX = 0,
  DAT_IB_COLLECTIVE_REDUCE_OP_MIN = 1,
  DAT_IB_COLLECTIVE_REDUCE_OP_SUM = 2,
  DAT_IB_COLLECTIVE_REDUCE_OP_PROD = 3,
  DAT_IB_COLLECTIVE_REDUCE_OP_LAND = 4, /**< L: logical. */
  DAT_IB_COLLECTIVE_REDUCE_OP_BAND = 5, /**< B: bitwise. */
  DAT_IB_COLLECTIVE_REDUCE_OP_LOR = 6,
  DAT_IB_COLLECTIVE_REDUCE_OP_BOR = 7,
  DAT_IB_COLLECTIVE_REDUCE_OP_LXOR = 8,
  DAT_IB_COLLECTIVE_REDUCE_OP_BXOR = 9,
  DAT_IB_COLLECTIVE_REDUCE_OP_MAXLOC = 10, /**< Maximum and its owner. */
  DAT_IB_COLLECTIVE_REDUCE_OP_MINLOC = 11  /**< Minimum and its owner. */
} DAT_IB_COLLECTIVE_REDUCE_DATA_OP;

/**
 * @name Members and groups.
 *
 * ia_handle      in: the IA
 * progress_func  in: function that the provider calls while it waits
 * member         create: out, DAT_IB_COLLECTIVE_MEMBER*; free: in
 * member_size    out, DAT_UINT32*: bytes of the member
 * members        in, DAT_IB_COLLECTIVE_MEMBER*: all members by rank
 * group_size     in: their number
 * self           in: rank of this process
 * group_info     in, DAT_IB_COLLECTIVE_GROUP*
 * evd            in: EVD for the events of the group
 * pd             in: PZ
 * @{
 */
#define dat_ib_collective_create_member(ia_handle, progress_func, member, member_size)           \
  dat_extension_op((DAT_HANDLE)(ia_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_CREATE_MEMBER_OP, \
                   (void*)(progress_func), (DAT_IB_COLLECTIVE_MEMBER*)(member),                  \
                   (DAT_UINT32*)(member_size))
#define dat_ib_collective_free_member(ia_handle, member)                                       \
  dat_extension_op((DAT_HANDLE)(ia_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_FREE_MEMBER_OP, \
                   (DAT_IB_COLLECTIVE_MEMBER)(member))
#define dat_ib_collective_create_group(members, group_size, self, group_id, group_info, evd, pd, \
                                       user_context)                                             \
  dat_extension_op((DAT_HANDLE)(evd), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_CREATE_GROUP_OP,        \
                   (DAT_IB_COLLECTIVE_MEMBER*)(members), (DAT_COUNT)(group_size),                \
                   (DAT_IB_COLLECTIVE_RANK)(self), (DAT_IB_COLLECTIVE_ID)(group_id),             \
                   (DAT_IB_COLLECTIVE_GROUP*)(group_info), (DAT_PZ_HANDLE)(pd),                  \
                   DAT_IB_AS_CONTEXT(user_context))
#define dat_ib_collective_free_group(coll_handle) \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_FREE_GROUP_OP)
/** @} */

/** @name The clock of a group, common to its processes; in, or out through a DAT_UINT64*. @{ */
#define dat_ib_collective_set_clock(coll_handle, clock_value, user_context)                    \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_SET_CLOCK_OP, \
                   (DAT_UINT64)(clock_value), DAT_IB_AS_CONTEXT(user_context))
#define dat_ib_collective_read_clock(coll_handle, clock_value)                                  \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_READ_CLOCK_OP, \
                   (DAT_UINT64*)(clock_value))
/** @} */

/** @name One process sends to all, or receives from all; `root` is its rank. @{ */
#define dat_ib_collective_scatter(coll_handle, sendbuf, sendsize, recvbuf, recvsize, root,   \
                                  user_context, flags)                                       \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_SCATTER_OP, \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),        \
                   (DAT_COUNT)(recvsize), (DAT_IB_COLLECTIVE_RANK)(root),                    \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_scatterv(coll_handle, sendbuf, sendsizes, displs, recvbuf, recvsize,  \
                                   root, user_context, flags)                                   \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_SCATTERV_OP,   \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT*)(sendsizes), (DAT_COUNT*)(displs),         \
                   (DAT_PVOID)(recvbuf), (DAT_COUNT)(recvsize), (DAT_IB_COLLECTIVE_RANK)(root), \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_gather(coll_handle, sendbuf, sendsize, recvbuf, recvsize, root,   \
                                 user_context, flags)                                       \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_GATHER_OP, \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),       \
                   (DAT_COUNT)(recvsize), (DAT_IB_COLLECTIVE_RANK)(root),                   \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_gatherv(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, displs,     \
                                  root, user_context, flags)                                      \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_GATHERV_OP,      \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),             \
                   (DAT_COUNT*)(recvsizes), (DAT_COUNT*)(displs), (DAT_IB_COLLECTIVE_RANK)(root), \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_broadcast(coll_handle, buf, size, root, user_context, flags)         \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_BROADCAST_OP, \
                   (DAT_PVOID)(buf), (DAT_COUNT)(size), (DAT_IB_COLLECTIVE_RANK)(root),        \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
/** @} */

/** @name All processes send to all. @{ */
#define dat_ib_collective_allgather(coll_handle, sendbuf, sendsize, recvbuf, recvsize,         \
                                    user_context, flags)                                       \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_ALLGATHER_OP, \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),          \
                   (DAT_COUNT)(recvsize), DAT_IB_AS_CONTEXT(user_context),                     \
                   (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_allgatherv(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, displs,   \
                                     user_context, flags)                                          \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_ALLGATHERV_OP,    \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),              \
                   (DAT_COUNT*)(recvsizes), (DAT_COUNT*)(displs), DAT_IB_AS_CONTEXT(user_context), \
                   (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_alltoall(coll_handle, sendbuf, sendsize, recvbuf, recvsize,         \
                                   user_context, flags)                                       \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_ALLTOALL_OP, \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),         \
                   (DAT_COUNT)(recvsize), DAT_IB_AS_CONTEXT(user_context),                    \
                   (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_alltoallv(coll_handle, sendbuf, sendsizes, senddispls, recvbuf,      \
                                    recvsizes, recvdispls, user_context, flags)                \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_ALLTOALLV_OP, \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT*)(sendsizes), (DAT_COUNT*)(senddispls),    \
                   (DAT_PVOID)(recvbuf), (DAT_COUNT*)(recvsizes), (DAT_COUNT*)(recvdispls),    \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
/** @} */

/** @name Reductions: `op` and `type` are of the enumerations above. @{ */
#define dat_ib_collective_reduce(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, type, \
                                 root, user_context, flags)                                   \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_REDUCE_OP,   \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),         \
                   (DAT_COUNT)(recvsize), (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(op),             \
                   (DAT_IB_COLLECTIVE_DATA_TYPE)(type), (DAT_IB_COLLECTIVE_RANK)(root),       \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_allreduce(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, type, \
                                    user_context, flags)                                         \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_ALLREDUCE_OP,   \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),            \
                   (DAT_COUNT)(recvsize), (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(op),                \
                   (DAT_IB_COLLECTIVE_DATA_TYPE)(type), DAT_IB_AS_CONTEXT(user_context),         \
                   (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_reduce_scatter(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, op, \
                                         type, user_context, flags)                              \
  dat_extension_op((DAT_HANDLE)(coll_handle),                                                    \
                   (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP, (DAT_PVOID)(sendbuf),   \
                   (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf), (DAT_COUNT*)(recvsizes),         \
                   (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(op), (DAT_IB_COLLECTIVE_DATA_TYPE)(type),  \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_scan(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, type, \
                               user_context, flags)                                         \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_SCAN_OP,   \
                   (DAT_PVOID)(sendbuf), (DAT_COUNT)(sendsize), (DAT_PVOID)(recvbuf),       \
                   (DAT_COUNT)(recvsize), (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(op),           \
                   (DAT_IB_COLLECTIVE_DATA_TYPE)(type), DAT_IB_AS_CONTEXT(user_context),    \
                   (DAT_COMPLETION_FLAGS)(flags))
/** @} */

/** No process continues before all have arrived. */
#define dat_ib_collective_barrier(coll_handle, user_context, flags)                          \
  dat_extension_op((DAT_HANDLE)(coll_handle), (DAT_EXTENDED_OP)DAT_IB_COLLECTIVE_BARRIER_OP, \
                   DAT_IB_AS_CONTEXT(user_context), (DAT_COMPLETION_FLAGS)(flags))

DAT_END_DECLS
