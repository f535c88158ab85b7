/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * device.h - a small message-passing device on uDAPL, like those of MPI libraries: ranks are
 * processes, and every pair of them shares one connection, which is made when it is first needed.
 *
 * Eager messages are copied through pre-registered buffers, with credits. Small ones are written by
 * RDMA into a ring in the receiver's memory, where the receiver polls the last byte. Long messages
 * use a rendezvous: RDMA Write with a flag in memory or a FIN message, or RDMA Read.
 */
#pragma once

#include <dat2/udat.h>
#include <netinet/in.h>

#define MAX_RANKS 16
#define EAGER_SIZE 4096 /* including the header */
#define CREDITS 8
#define RECV_BUFS (CREDITS + 6) /* more, as messages that return credits need no credit */
#define SEND_BUFS 64
#define MAX_REQUESTS 32 /* per EP */
#define FAST_SLOTS 8
#define FAST_SIZE 1024
#define FLAGS 64

typedef struct {
  uint32_t magic;
  uint16_t type;
  uint16_t source;
  uint32_t sequence;
  int32_t tag;
  uint32_t length; /* of the payload or, in a rendezvous, of the message */
  uint16_t credits;
  uint16_t fast_credits;
  uint64_t sender_request;
  uint64_t receiver_request;
  uint64_t address;
  uint32_t rmr_context;
  uint32_t flag;
  uint8_t unused[7];
  uint8_t generation; /* the last byte of a slot of the ring: never 0 once written */
} header_t;

typedef struct {
  const char* ia;
  int threadsafe;
  int block;       /* sleep in dat_evd_wait or dat_cno_wait; else poll */
  int split;       /* separate EVDs for transfers, connections and requests; else one for all */
  int read;        /* rendezvous by RDMA Read */
  int graceful;    /* disconnect gracefully; else abruptly */
  int pid_quals;   /* conn qual is the process ID; else 64 random bits */
  int connect_all; /* make all connections at the start, from both sides at once */
} options_t;

/* What a rank publishes before there are connections; the launcher passes it on. */
typedef struct {
  struct sockaddr_in6 address; /* room for either family */
  DAT_CONN_QUAL qual;
} card_t;

typedef struct request {
  struct request* next;
  int done;
  int peer, tag;
  unsigned char* data;
  size_t length;
  /* rendezvous */
  DAT_LMR_HANDLE lmr;
  int flag;
  uint64_t peer_request;
} request_t;

void die(const char* format, ...);
void check(DAT_RETURN status, const char* what);

void device_init(const options_t* options, int rank, int size);
void device_card(card_t* mine);
void device_start(const card_t* all);
void device_drain(void); /* waits until all sends are complete */
void device_finalize(void);
void device_dump(void);

void device_isend(request_t* request, const void* data, size_t length, int peer, int tag);
void device_irecv(request_t* request, void* data, size_t length, int peer, int tag);
void device_wait(request_t* request);
