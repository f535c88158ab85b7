/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * db.h - the page server of a clustered database and its clients. A node is a process with one open
 * adapter. Each of its sessions has an EP and a thread that posts. One reaper thread dequeues all
 * completions from one EVD and passes them to the sessions; another thread handles connections.
 */
#pragma once

#include <dat/udat.h>
#include <pthread.h>

#define PAGE 8192
#define PAGES 8 /* per session */
#define DEPTH 8 /* receives per session, in its own queue or in the shared one */
#define MESSAGE 256
#define MAX_SESSIONS 64
#define PATIENCE 60 /* seconds: a thread that waits longer is stuck */

enum { OP_PUT = 1, OP_GET, OP_DONE, OP_BYE };

typedef struct {
  uint32_t op, session, page, sequence;
  uint64_t address;
  uint32_t context;
  uint32_t sum;
  unsigned char filler[MESSAGE - 32];
} message_t;

enum { S_FREE, S_CONNECTING, S_UP, S_ENDED };
enum { W_RECV, W_REQUEST };

typedef struct session session_t;

typedef struct work {
  int kind;
  session_t* session; /* unknown for a buffer of the shared queue until its message is read */
  message_t* message;
  struct work* next;
} work_t;

struct session {
  struct node* node;
  int id, state, leaving;
  DAT_EP_HANDLE ep;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int recvs, requests;   /* posted but not reaped yet */
  int failed;            /* a request failed: the connection is ending */
  work_t *first, *last;  /* received but not handled yet */
  unsigned char* memory; /* pages, receive buffers, send buffers */
  DAT_LMR_HANDLE lmr;
  DAT_LMR_CONTEXT lmr_context;
  DAT_RMR_CONTEXT rmr_context;
  work_t recv_works[DEPTH];
  work_t send_works[DEPTH];
  int next_send;
};

typedef struct node {
  const char* name;
  DAT_IA_HANDLE ia;
  DAT_EVD_HANDLE async_evd, dto_evd, connection_evd;
  DAT_PZ_HANDLE pz;
  DAT_SRQ_HANDLE srq;
  DAT_SOCK_ADDR* address;
  pthread_t reaper, connector;
  int stop; /* for all threads; accessed with __atomic_* only */
  session_t sessions[MAX_SESSIONS];
  work_t srq_works[MAX_SESSIONS * DEPTH];
  unsigned char* srq_memory;
  DAT_LMR_HANDLE srq_lmr;
  DAT_LMR_CONTEXT srq_context;
} node_t;

typedef struct {
  const char* ia;
  int threadsafe, srq;
  DAT_CONN_QUAL qual;
  int sessions, rounds, client;
  int broken; /* sessions that may end without a farewell */
} options_t;

void fatal(const char* format, ...);
void check(DAT_RETURN status, const char* what);

void node_open(node_t* node, const char* name, const options_t* options, int shared_queue);
void node_close(node_t* node);
void session_prepare(session_t* session, int id, node_t* node);
void session_make_ep(session_t* session);
void session_free(session_t* session);
void session_post_recv(session_t* session, work_t* work);
void session_post_all(session_t* session);
/* Waits for the next message. Returns NULL if the connection has ended. */
work_t* session_next(session_t* session);
void session_send(session_t* session, uint32_t op, uint32_t page, uint32_t sequence, uint32_t sum);
void session_rdma(session_t* session, int write, uint32_t page, uint64_t address, uint32_t context);
/* Waits until no request is outstanding. Returns 0 if one failed. */
int session_settled(session_t* session);
/* After the end of the connection: waits until everything posted has completed. */
void session_drain(session_t* session);
uint32_t page_sum(const unsigned char* page);

int serve(const options_t* options, int ready_fd, int stop_fd);
int client(const options_t* options);
