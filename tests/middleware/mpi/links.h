/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* links.h - the state that channel.c and connect.c share. */
#pragma once

#include "channel.h"

/* Private data of connect and accept. */
typedef struct {
  int32_t rank;
  uint32_t ring_context;
  uint64_t ring;
  uint64_t flags;
  uint32_t flags_context;
  uint32_t unused;
} hello_t;

enum { LINK_CONNECTING = 1, LINK_ACCEPTING, LINK_UP, LINK_LOST, LINK_DOWN };
enum { WORK_RECV = 1, WORK_SEND, WORK_WRITE, WORK_READ };
enum { OP_MESSAGE = 1, OP_WRITE, OP_READ };

typedef struct send_buf {
  struct send_buf* next;
  unsigned char* data;
} send_buf_t;

struct link;
typedef struct {
  int kind;
  struct link* link;
  int weight; /* number of requests it stands for: itself and suppressed ones before it */
  send_buf_t* buffer;
  request_t* request;
  uint64_t fin;
} work_t;

typedef struct {
  work_t work; /* first member, because the cookie points to a work_t */
  struct link* link;
  unsigned char* data;
} recv_buf_t;

/* One end of a connection. There may be two if two ranks connect to each other at once. */
typedef struct link {
  struct link* next;
  int rank, state, attempts;
  DAT_EP_HANDLE ep;
  hello_t hello; /* from the peer */
  int credits, fast_credits, give_back, fast_give_back;
  uint32_t next_in, next_out, fast_in, fast_out;
  int outstanding, suppressed, posted;
  unsigned char* ring;
  unsigned char* memory; /* ring and receive buffers */
  region_t region;
  recv_buf_t recvs[RECV_BUFS];
} link_t;

typedef struct op {
  struct op* next;
  int kind;
  header_t header;
  unsigned char* data;
  void* rdma_data;
  size_t rdma_length;
  region_t region;
  uint64_t address;
  uint32_t context;
  request_t* request;
} op_t;

typedef struct {
  link_t* link;
  op_t *first, *last; /* operations waiting to be posted, in order */
} peer_t;

typedef struct {
  options_t options;
  int rank, size, closing;
  DAT_IA_HANDLE ia;
  DAT_EVD_HANDLE async_evd;
  DAT_PZ_HANDLE pz;
  DAT_PSP_HANDLE psp;
  DAT_CONN_QUAL qual;
  DAT_CNO_HANDLE cno;
  DAT_EVD_HANDLE evd[3]; /* transfers, connections, requests; or all in the first */
  int evds;
  DAT_EP_ATTR ep_attributes;
  struct sockaddr_in6 address;
  card_t cards[MAX_RANKS];
  peer_t peers[MAX_RANKS];
  link_t* links;
  send_buf_t send_bufs[SEND_BUFS];
  send_buf_t* free_sends;
  unsigned char* send_memory;
  region_t send_region;
} channel_t;

extern channel_t ch;

void post_recv(recv_buf_t* buffer);
void channel_on_event(const DAT_EVENT* event);
void link_connect(int rank);
void link_on_request(const DAT_CR_ARRIVAL_EVENT_DATA* arrival);
void link_on_event(DAT_EVENT_NUMBER number, const DAT_CONNECTION_EVENT_DATA* data);
