/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * DAT_RETURN, the result of every DAT function, and all its values.
 *
 * A result is 32 bits: a class (bits 31-30), a type (29-16) and a subtype (15-0).
 *
 *     DAT_RETURN status = dat_ep_connect(...);
 *     if (status != DAT_SUCCESS) {
 *       switch (DAT_GET_TYPE(status)) { case DAT_INVALID_STATE: ... }
 *     }
 *
 * Success is exactly DAT_SUCCESS. The enumerators of DAT_RETURN_TYPE hold the type bits alone, so
 * compare them with DAT_GET_TYPE(status), never with the status itself. The subtype, where there is
 * one, gives more detail; a program should not depend on it.
 */
#pragma once

#include <dat/dat_platform_specific.h>

DAT_BEGIN_DECLS

typedef DAT_UINT32 DAT_RETURN;

/** @name Class bits. Some third-party providers return failures without any. @{ */
#define DAT_CLASS_ERROR 0x80000000
#define DAT_CLASS_WARNING 0x40000000
#define DAT_CLASS_SUCCESS 0x00000000
/** @} */

#define DAT_TYPE_MASK 0x3fff0000    /**< Bits of the type. */
#define DAT_SUBTYPE_MASK 0x0000ffff /**< Bits of the subtype. */

/** Non-zero if the warning bit of `status` is set. */
#define DAT_IS_WARNING(status) ((DAT_UINT32)(status)&DAT_CLASS_WARNING)

/** The type of `status`, without class and subtype: a value of DAT_RETURN_TYPE. */
#define DAT_GET_TYPE(status) ((DAT_UINT32)(status)&DAT_TYPE_MASK)

/** The subtype of `status`: a value of DAT_RETURN_SUBTYPE. */
#define DAT_GET_SUBTYPE(status) ((DAT_UINT32)(status)&DAT_SUBTYPE_MASK)

/** What went wrong. */
typedef enum dat_return_type {
  DAT_SUCCESS = 0x00000000,                     /**< Done. */
  DAT_ABORT = 0x00010000,                       /**< Aborted: IA closed or object destroyed. */
  DAT_CONN_QUAL_IN_USE = 0x00020000,            /**< A service point listens there already. */
  DAT_INSUFFICIENT_RESOURCES = 0x00030000,      /**< Out of memory, device objects or slots. */
  DAT_INTERNAL_ERROR = 0x00040000,              /**< A fault of the provider. */
  DAT_INVALID_HANDLE = 0x00050000,              /**< Null, destroyed, or of the wrong kind. */
  DAT_INVALID_PARAMETER = 0x00060000,           /**< An argument is out of its range. */
  DAT_INVALID_STATE = 0x00070000,               /**< Not allowed in the object's present state. */
  DAT_LENGTH_ERROR = 0x00080000,                /**< Lengths are inconsistent. */
  DAT_MODEL_NOT_SUPPORTED = 0x00090000,         /**< The provider lacks this capability. */
  DAT_PROVIDER_NOT_FOUND = 0x000a0000,          /**< No provider of this name and version. */
  DAT_PRIVILEGES_VIOLATION = 0x000b0000,        /**< No such LMR, or it lacks a privilege. */
  DAT_PROTECTION_VIOLATION = 0x000c0000,        /**< Protection zones differ. */
  DAT_QUEUE_EMPTY = 0x000d0000,                 /**< Nothing to dequeue, or nothing in time. */
  DAT_QUEUE_FULL = 0x000e0000,                  /**< No room for another software event. */
  DAT_TIMEOUT_EXPIRED = 0x000f0000,             /**< The wait ended without enough events. */
  DAT_PROVIDER_ALREADY_REGISTERED = 0x00100000, /**< Registry: the name is taken. */
  DAT_PROVIDER_IN_USE = 0x00110000,             /**< Registry: the provider has open IAs. */
  DAT_INVALID_ADDRESS = 0x00120000,             /**< See the DAT_INVALID_ADDRESS_ subtypes. */
  DAT_INTERRUPTED_CALL = 0x00130000,            /**< A signal ended the wait. */
  DAT_CONN_QUAL_UNAVAILABLE = 0x00140000,       /**< No free connection qualifier is left. */
  DAT_RESERVED_LMR = 0x00150000,                /**< Kernel level only. */
  DAT_PORT_IN_USE = 0x00160000,                 /**< CSP: another listener has the port. */
  DAT_COMM_NOT_SUPPORTED = 0x00170000,          /**< CSP: no such communicator. */
  DAT_EXTENSION_BASE = 0x10000000,              /**< First type that belongs to extensions. */
  DAT_NOT_IMPLEMENTED = 0x3fff0000              /**< The provider does not implement this call. */
} DAT_RETURN_TYPE;

/** Another name of DAT_PROVIDER_NOT_FOUND. */
#define DAT_NAME_NOT_FOUND DAT_PROVIDER_NOT_FOUND

/** Details of a type. Values are part of the binary interface. */
typedef enum dat_return_subtype {
  DAT_NO_SUBTYPE = 0,

  /* DAT_ABORT */
  DAT_SUB_INTERRUPTED = 1,

  /* DAT_INSUFFICIENT_RESOURCES: what has run out. */
  DAT_RESOURCE_MEMORY = 2,
  DAT_RESOURCE_DEVICE = 3,
  DAT_RESOURCE_TEP = 4,               /**< Transport endpoints. */
  DAT_RESOURCE_TEVD = 5,              /**< Transport event queues, or their depth. */
  DAT_RESOURCE_PROTECTION_DOMAIN = 6, /**< Protection domains of the transport. */
  DAT_RESOURCE_MEMORY_REGION = 7,     /**< Memory regions or windows. */
  DAT_RESOURCE_ERROR_HANDLER = 8,
  DAT_RESOURCE_CREDITS = 9, /**< RDMA read depth. */
  DAT_RESOURCE_SRQ = 10,

  /* DAT_INVALID_HANDLE: what kind of handle is bad ... */
  DAT_INVALID_HANDLE_IA = 11,
  DAT_INVALID_HANDLE_EP = 12,
  DAT_INVALID_HANDLE_LMR = 13,
  DAT_INVALID_HANDLE_RMR = 14,
  DAT_INVALID_HANDLE_PZ = 15,
  DAT_INVALID_HANDLE_PSP = 16,
  DAT_INVALID_HANDLE_RSP = 17,
  DAT_INVALID_HANDLE_CR = 18,
  DAT_INVALID_HANDLE_CNO = 19,
  DAT_INVALID_HANDLE_EVD_CR = 20, /**< Not an EVD, or not one for connection requests. */
  DAT_INVALID_HANDLE_EVD_REQUEST = 21,
  DAT_INVALID_HANDLE_EVD_RECV = 22,
  DAT_INVALID_HANDLE_EVD_CONN = 23,
  DAT_INVALID_HANDLE_EVD_ASYNC = 24,
  DAT_INVALID_HANDLE_SRQ = 25,
  DAT_INVALID_HANDLE_CSP = 26,
  /* ... or which argument it is, counted from 1. */
  DAT_INVALID_HANDLE1 = 27,
  DAT_INVALID_HANDLE2 = 28,
  DAT_INVALID_HANDLE3 = 29,
  DAT_INVALID_HANDLE4 = 30,
  DAT_INVALID_HANDLE5 = 31,
  DAT_INVALID_HANDLE6 = 32,
  DAT_INVALID_HANDLE7 = 33,
  DAT_INVALID_HANDLE8 = 34,
  DAT_INVALID_HANDLE9 = 35,
  DAT_INVALID_HANDLE10 = 36,

  /* DAT_INVALID_PARAMETER: which argument, counted from 1. */
  DAT_INVALID_ARG1 = 37,
  DAT_INVALID_ARG2 = 38,
  DAT_INVALID_ARG3 = 39,
  DAT_INVALID_ARG4 = 40,
  DAT_INVALID_ARG5 = 41,
  DAT_INVALID_ARG6 = 42,
  DAT_INVALID_ARG7 = 43,
  DAT_INVALID_ARG8 = 44,
  DAT_INVALID_ARG9 = 45,
  DAT_INVALID_ARG10 = 46,

  /* DAT_INVALID_STATE of an EP: the state it is in (DAT_EP_STATE) ... */
  DAT_INVALID_STATE_EP_UNCONNECTED = 47,
  DAT_INVALID_STATE_EP_ACTCONNPENDING = 48,
  DAT_INVALID_STATE_EP_PASSCONNPENDING = 49,
  DAT_INVALID_STATE_EP_TENTCONNPENDING = 50,
  DAT_INVALID_STATE_EP_CONNECTED = 51,
  DAT_INVALID_STATE_EP_DISCONNECTED = 52,
  DAT_INVALID_STATE_EP_RESERVED = 53,
  DAT_INVALID_STATE_EP_COMPLPENDING = 54,
  DAT_INVALID_STATE_EP_DISCPENDING = 55,
  DAT_INVALID_STATE_EP_PROVIDERCONTROL = 56, /**< The provider, not the application, owns it. */
  /* ... or what it lacks. */
  DAT_INVALID_STATE_EP_NOTREADY = 57, /**< A PZ or an EVD is not set yet. */
  DAT_INVALID_STATE_EP_RECV_WATERMARK = 58,
  DAT_INVALID_STATE_EP_PZ = 59,
  DAT_INVALID_STATE_EP_EVD_REQUEST = 60,
  DAT_INVALID_STATE_EP_EVD_RECV = 61,
  DAT_INVALID_STATE_EP_EVD_CONNECT = 62,
  DAT_INVALID_STATE_EP_UNCONFIGURED = 63,
  DAT_INVALID_STATE_EP_UNCONFRESERVED = 64,
  DAT_INVALID_STATE_EP_UNCONFPASSIVE = 65,
  DAT_INVALID_STATE_EP_UNCONFTENTATIVE = 66,

  /* DAT_INVALID_STATE of a CNO. */
  DAT_INVALID_STATE_CNO_IN_USE = 67, /**< An EVD refers to it or a thread waits on it. */
  DAT_INVALID_STATE_CNO_DEAD = 68,   /**< It is being destroyed. */

  /* DAT_INVALID_STATE of an EVD. */
  DAT_INVALID_STATE_EVD_OPEN = 69,
  DAT_INVALID_STATE_EVD_ENABLED = 70,
  DAT_INVALID_STATE_EVD_DISABLED = 71,
  DAT_INVALID_STATE_EVD_WAITABLE = 72,
  DAT_INVALID_STATE_EVD_UNWAITABLE = 73,
  DAT_INVALID_STATE_EVD_IN_USE = 74,        /**< Something feeds it. */
  DAT_INVALID_STATE_EVD_CONFIG_NOTIFY = 75, /**< Threshold over 1 on an EVD of this mode. */
  DAT_INVALID_STATE_EVD_CONFIG_SOLICITED = 76,
  DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD = 77,
  DAT_INVALID_STATE_EVD_WAITER = 78, /**< A thread waits on it. */
  DAT_INVALID_STATE_EVD_ASYNC = 79,  /**< It is the asynchronous EVD of an IA. */

  /* DAT_INVALID_STATE of other objects. */
  DAT_INVALID_STATE_IA_IN_USE = 80, /**< Graceful close, and objects of the IA are left. */
  DAT_INVALID_STATE_LMR_IN_USE = 81,
  DAT_INVALID_STATE_LMR_FREE = 82,
  DAT_INVALID_STATE_PZ_IN_USE = 83,
  DAT_INVALID_STATE_PZ_FREE = 84,
  DAT_INVALID_STATE_SRQ_OPERATIONAL = 85,
  DAT_INVALID_STATE_SRQ_ERROR = 86,
  DAT_INVALID_STATE_SRQ_IN_USE = 87,
  DAT_INVALID_STATE_SRQ_SHUTDOWN = 88,

  /* DAT_PRIVILEGES_VIOLATION: the right that is missing. */
  DAT_PRIVILEGES_READ = 89,
  DAT_PRIVILEGES_WRITE = 90,
  DAT_PRIVILEGES_RDMA_READ = 91,
  DAT_PRIVILEGES_RDMA_WRITE = 92,

  /* DAT_PROTECTION_VIOLATION: the access that was refused. */
  DAT_PROTECTION_READ = 93,
  DAT_PROTECTION_WRITE = 94,
  DAT_PROTECTION_RDMA_READ = 95,
  DAT_PROTECTION_RDMA_WRITE = 96,

  /* DAT_INVALID_ADDRESS */
  DAT_INVALID_ADDRESS_UNSUPPORTED = 97, /**< Well formed, not usable here: multicast, broadcast. */
  DAT_INVALID_ADDRESS_UNREACHABLE = 98, /**< There is no route, which is known at once. */
  DAT_INVALID_ADDRESS_MALFORMED = 99,   /**< Never valid. */

  /* DAT_PROVIDER_NOT_FOUND: the part of the request that nothing matched. */
  DAT_NAME_NOT_REGISTERED = 100,
  DAT_MAJOR_NOT_FOUND = 101,
  DAT_MINOR_NOT_FOUND = 102,
  DAT_THREAD_SAFETY_NOT_FOUND = 103
} DAT_RETURN_SUBTYPE;

DAT_END_DECLS
