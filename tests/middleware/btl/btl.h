/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * btl.h - a byte transfer layer of an MPI, as they were written for uDAPL around 2007: each pair of
 * ranks has two connections, one for small and one for large messages, made when the first message
 * is to be sent.
 *
 * A fragment of up to EAGER_SIZE bytes is written by RDMA into a ring of the receiver, which polls
 * a flag behind each slot; if the ring is full, it is a Send on the eager connection. A longer one
 * is a Send on the other. A message that is longer still is announced, written by RDMA on the other
 * connection, and finished by a fragment on the eager path when the Writes have completed: the only
 * thing that orders the two connections. Credits for receives and slots come back in messages of
 * their own.
 */
#pragma once

#include <dat/udat.h>

#define MAX_RANKS 16
#define EAGER_SIZE 4096 /* of a slot of a ring and of a receive, with header and footer */
#define LONG_SIZE 65536 /* of a receive of the other connection */
#define RECEIVES 8      /* that a peer has credits for, on each connection */
#define WINDOW 4        /* credits that are returned together */
#define SLOTS 16
#define SLOT_WINDOW 8
#define CONTROL \
  (RECEIVES / WINDOW + SLOTS / SLOT_WINDOW + 1) /* receives for what needs no credit */
#define PUTS 8                                  /* RDMA Writes of a peer at once */
#define PUT_SIZE 131072                         /* of one of them */
#define EAGER_FRAGS 256 /* to send; the last of them only for what needs no credit */
#define EAGER_RESERVED 96
#define LONG_FRAGS 24
#define HUGE_MOST 700000

enum connection { EAGER, LONG, CONNECTIONS };
enum kind { DATA = 1, ANNOUNCE, CLEAR, FINISHED, CREDITS, SLOT_CREDITS, RING };
enum state { CLOSED, CONNECTING, CONNECTED };

/* What precedes the payload of each fragment. */
struct header {
  uint32_t kind, from, sequence, length;
  uint64_t address;
  uint32_t context, count;
};

/* What follows it in a slot of a ring. The flag is the last byte that is written. */
struct footer {
  uint32_t size;
  unsigned char unused[3];
  unsigned char active;
};

/* What the two ends of a new connection tell each other. */
struct hello {
  uint32_t rank, connection;
};

enum use { FREE, SENDS, WRITES, RECEIVES_IT, SENDS_HELLO, RECEIVES_HELLO, PUT };

/* Registered memory of one fragment; the cookie of its request. It ends where `memory` ends, before
 * the footer. */
struct frag {
  struct frag* next;
  enum use use;
  enum connection size; /* EAGER: EAGER_SIZE bytes */
  int rank;
  unsigned char* memory;
  DAT_LMR_CONTEXT context;
  uint32_t length; /* with the header */
  struct huge* huge;
};

/* A message that is written by RDMA, at its sender or its receiver. */
struct huge {
  struct huge* next;
  int rank;
  uint32_t sequence, length, posted, completed;
  unsigned char* bytes;
  DAT_LMR_HANDLE lmr;
  DAT_LMR_CONTEXT context;
  DAT_RMR_CONTEXT remote;
  uint64_t address; /* at the receiver */
  uint32_t target;
};

struct peer {
  enum state state;
  int connects[CONNECTIONS]; /* this side does */
  DAT_EP_HANDLE ep[CONNECTIONS];
  int known[CONNECTIONS]; /* both sides know what the EP is for */
  int ended[CONNECTIONS];
  int tokens[CONNECTIONS], owed[CONNECTIONS]; /* receives of the peer; of ours */
  unsigned char* ring;                        /* ours */
  DAT_LMR_HANDLE ring_lmr;
  uint32_t ring_head, slots_owed;
  uint64_t peers_ring;
  uint32_t peers_ring_context, peers_head;
  int slot_tokens, puts;
  struct frag *first, *last;        /* eager fragments that wait for credits */
  struct huge *outgoing, *incoming; /* announced */
  uint32_t next, arrived;           /* messages */
  unsigned char* seen;              /* of each message */
  unsigned by_ring, by_send, by_long, by_put;
};

struct job {
  volatile int ready, done, gone;
  DAT_CONN_QUAL quals[MAX_RANKS];
  volatile int wishes[MAX_RANKS][MAX_RANKS]; /* [who is to connect][to whom] */
};

struct layer {
  const char* ia_name;
  int outstanding; /* Sends and Writes that have not completed */
  int threadsafe, ranks, messages, tells_by_message, limit, me;
  struct job* job;
  DAT_IA_HANDLE ia;
  DAT_IA_ATTR attr;
  DAT_PZ_HANDLE pz;
  DAT_EVD_HANDLE async_evd, dto_evd, connection_evd;
  DAT_PSP_HANDLE psp;
  DAT_EP_ATTR ep_attr;
  struct peer peers[MAX_RANKS];
};

extern struct layer layer;

void dat(DAT_RETURN status, const char* what);
void need(int condition, const char* what);

/* connect.c */
void open_adapter(void);
void wish_for(int rank);
void make_wished_connections(void);
int take_connection_events(void);
void on_hello(const DAT_DTO_COMPLETION_EVENT_DATA* dto, const struct hello* hello);
void disconnect_all(void);
int all_ended(void);
void close_adapter(void);

/* fragments.c */
DAT_LMR_HANDLE register_memory(void* memory, size_t size, int remote, DAT_LMR_CONTEXT* context,
                               DAT_RMR_CONTEXT* remote_context);
void make_fragments(void);
void add_fragments(enum connection size, int count);
struct frag* take_fragment(enum connection size, int reserved);
void give_back(struct frag* frag);
int few_fragments(void); /* so few are free that only what needs no credit may take one */
unsigned char* contents(const unsigned char* memory, enum connection size, uint32_t length);
struct footer* footer_of(const unsigned char* memory);
DAT_LMR_TRIPLET segment_of(const struct frag* frag, const unsigned char* from, uint32_t length);
DAT_DTO_COOKIE cookie_of(struct frag* frag);
void post_receive(DAT_EP_HANDLE ep, struct frag* frag);
void post_send(DAT_EP_HANDLE ep, struct frag* frag);
void free_fragments(void);

/* eager.c */
struct frag* control(int rank, enum kind kind, struct header header);
void start_traffic(int rank);
void return_credits(int rank, enum connection c);
void return_slots(int rank);
void progress_eager(struct peer* p);
void send_eagerly(int rank, struct frag* frag);

/* huge.c */
struct huge* make_huge(int rank, uint32_t sequence, uint32_t length, struct huge** list);
struct huge* find_huge(struct huge* list, uint32_t sequence);
void free_huge(struct huge* h, struct huge** list);
void announce(int rank, uint32_t sequence, uint32_t length);
void progress_puts(int rank);
void on_put(struct frag* frag);

/* transfer.c */
void fill(unsigned char* bytes, uint32_t length, int to, uint32_t sequence);
int take_completions(void);
int take_slots(void);
int send_next(int rank);
int idle(void);
