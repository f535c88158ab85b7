/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * The elementary types of DAT on Linux.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

/**
 * DAT_BEGIN_DECLS and DAT_END_DECLS enclose the declarations of every DAT header: C linkage, and
 * default visibility so that a library built with -fvisibility=hidden still exports what it
 * defines.
 */
#ifdef __cplusplus
#define DAT_BEGIN_DECLS \
  extern "C" {          \
  _Pragma("GCC visibility push(default)")
#define DAT_END_DECLS           \
  _Pragma("GCC visibility pop") \
  }
#else
#define DAT_BEGIN_DECLS _Pragma("GCC visibility push(default)")
#define DAT_END_DECLS _Pragma("GCC visibility pop")
#endif

/** Calling convention of DAT functions; empty on Linux. */
#define DAT_API

/** Storage class of a DAT function. */
#define DAT_EXPORT extern

/** Direction marks for parameters. These headers do not use them, but existing sources do. */
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef INOUT
#define INOUT
#endif

DAT_BEGIN_DECLS

typedef uint32_t DAT_UINT32;
typedef uint64_t DAT_UINT64;
/* C89 and C++98 have no such type. */
#if defined(__GNUC__) && defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"
#endif
__extension__ typedef unsigned long long DAT_UVERYLONG;
#if defined(__GNUC__) && defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic pop
#endif
typedef void* DAT_PVOID;

/** A count. Signed; a negative value is an error unless it is a named constant. */
typedef int DAT_COUNT;

/** A physical address; kernel level only. */
typedef DAT_UINT64 DAT_PADDR;

/** A file descriptor (dat_cno_fd_create()). */
typedef int DAT_FD;

/** Communicator: the transport protocol of a CSP or an EP, as the three arguments of socket(2). */
typedef struct dat_comm {
  int domain;   /**< AF_INET or AF_INET6. */
  int type;     /**< SOCK_STREAM. */
  int protocol; /**< 0 for the default of the type, or an IPPROTO_ number. */
} DAT_COMM;

typedef struct sockaddr DAT_SOCK_ADDR;

/** Complete only where netinet/in.h has been included. */
typedef struct sockaddr_in6 DAT_SOCK_ADDR6;

#define DAT_AF_INET AF_INET
#define DAT_AF_INET6 AF_INET6

/** Buffer alignment in bytes that suits every provider: a multiple of the optimum of each. */
#ifndef DAT_OPTIMAL_ALIGNMENT
#define DAT_OPTIMAL_ALIGNMENT 256
#endif

/** An IA handle is a small number in a pointer type; these convert it to a number and back. */
#define DAT_IA_HANDLE_TO_UL(a) ((unsigned long)(a))
#define DAT_UL_TO_IA_HANDLE(a) ((DAT_IA_HANDLE)(unsigned long)(a))

DAT_END_DECLS
