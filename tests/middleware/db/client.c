/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A client: several sessions, each with a thread that writes pages, reads them back, reconnects. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db.h"

#define RECONNECT_EVERY 17

static node_t node;
static options_t opts;

static void fill(unsigned char* page, unsigned seed) {
  for (unsigned i = 0; i < PAGE; ++i) {
    page[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8) * 3);
  }
}

/* Retries while the server is not listening yet, or no longer. */
static void connect_session(session_t* session) {
  for (int attempt = 0;; ++attempt) {
    session_post_all(session);
    pthread_mutex_lock(&session->lock);
    session->state = S_CONNECTING;
    pthread_mutex_unlock(&session->lock);
    check(dat_ep_connect(session->ep, node.address, opts.qual, 10 * 1000 * 1000, 0, NULL,
                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
          "dat_ep_connect");
    pthread_mutex_lock(&session->lock);
    while (session->state == S_CONNECTING) {
      pthread_cond_wait(&session->changed, &session->lock);
    }
    const int up = session->state == S_UP;
    pthread_mutex_unlock(&session->lock);
    if (up) {
      return;
    }
    if (attempt == 200) {
      fatal("no server");
    }
    session_drain(session);
    check(dat_ep_reset(session->ep), "dat_ep_reset");
    usleep(50000);
  }
}

static int expect_answer(session_t* session, uint32_t sequence, uint32_t* sum) {
  work_t* work = session_next(session);
  if (!work) {
    return 0;
  }
  if (work->message->op != OP_DONE || work->message->sequence != sequence) {
    fatal("session %d: answer %u to request %u", session->id, work->message->sequence, sequence);
  }
  for (size_t i = 0; i < sizeof work->message->filler; ++i) {
    if (work->message->filler[i] != (sequence & 0xff)) {
      fatal("session %d, answer %u: byte %zu is wrong", session->id, sequence, i + 32);
    }
  }
  *sum = work->message->sum;
  session_post_recv(session, work);
  return 1;
}

/* Writes a page and reads it back. Returns 0 if the connection has ended. */
static int transact(session_t* session, unsigned round) {
  const uint32_t page = round % PAGES, sequence = 2 * round;
  unsigned char* data = session->memory + page * PAGE;
  unsigned char wanted[PAGE];
  uint32_t sum = 0;
  const unsigned seed =
      round * 5 + (unsigned)opts.client * 11 + (unsigned)(session - node.sessions);
  fill(data, seed);
  fill(wanted, seed);
  session_send(session, OP_PUT, page, sequence, page_sum(data));
  if (!expect_answer(session, sequence, &sum)) {
    return 0;
  }
  memset(data, 0, PAGE);
  session_send(session, OP_GET, page, sequence + 1, 0);
  if (!expect_answer(session, sequence + 1, &sum)) {
    return 0;
  }
  if (sum != page_sum(wanted) || memcmp(data, wanted, PAGE) != 0) {
    unsigned at = 0;
    while (at < PAGE && data[at] == wanted[at]) {
      ++at;
    }
    fatal("session %d, round %u: page %u differs at byte %u (sum %x, expected %x)", session->id,
          round, page, at, sum, page_sum(wanted));
  }
  return 1;
}

static void hang_up(session_t* session, unsigned round) {
  session_send(session, OP_BYE, 0, round, 0);
  session_settled(session);
  /* On OP_BYE the server disconnects as well: either side may be the first. */
  dat_ep_disconnect(session->ep, round % 2 ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG);
  session_drain(session);
}

static void renew(session_t* session, unsigned round) {
  if (round % 3) {
    check(dat_ep_reset(session->ep), "dat_ep_reset");
  } else {
    check(dat_ep_free(session->ep), "dat_ep_free");
    session_make_ep(session);
  }
  connect_session(session);
}

static void* session_main(void* argument) {
  session_t* session = argument;
  connect_session(session);
  for (unsigned round = 1; round <= (unsigned)opts.rounds; ++round) {
    if (!transact(session, round)) { /* the server has gone: repeat the round with the next */
      dat_ep_disconnect(session->ep, DAT_CLOSE_ABRUPT_FLAG);
      session_drain(session);
      renew(session, round--);
    } else if (round % RECONNECT_EVERY == 0) {
      hang_up(session, round);
      renew(session, round);
    }
  }
  hang_up(session, (unsigned)opts.rounds);
  check(dat_ep_free(session->ep), "dat_ep_free");
  return NULL;
}

int client(const options_t* options) {
  opts = *options;
  node_open(&node, "client", options, 0);
  for (int i = 0; i < opts.sessions; ++i) {
    session_prepare(&node.sessions[i], i, &node);
    session_make_ep(&node.sessions[i]);
    if (pthread_create(&node.sessions[i].thread, NULL, session_main, &node.sessions[i]) != 0) {
      fatal("no thread");
    }
  }
  for (int i = 0; i < opts.sessions; ++i) {
    pthread_join(node.sessions[i].thread, NULL);
  }
  for (int i = 0; i < opts.sessions; ++i) {
    session_free(&node.sessions[i]);
  }
  node_close(&node);
  return 0;
}
