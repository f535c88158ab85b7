/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* main.c - a job of ranks, each of which sends messages of all sizes to all others. */
#define _DEFAULT_SOURCE
#include "btl.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct layer layer = {.ia_name = "soft", .ranks = 4, .messages = 200, .limit = 120};

static void quit(const char* what, DAT_RETURN status) {
  const char *major = "", *minor = "";
  if (status != DAT_SUCCESS) {
    dat_strerror(status, &major, &minor);
  }
  fprintf(stderr, "rank %d: %s %s %s\n", layer.me, what, major, minor);
  for (int r = 0; r < layer.ranks; ++r) {
    const struct peer* p = &layer.peers[r];
    fprintf(stderr,
            "  %d: state %d, %u begun, %u arrived, credits %d, %d and %d, %d Writes%s%s%s\n", r,
            p->state, p->next, p->arrived, p->tokens[EAGER], p->tokens[LONG], p->slot_tokens,
            p->puts, p->first ? ", fragments wait" : "", p->outgoing ? ", outgoing" : "",
            p->incoming ? ", incoming" : "");
  }
  _exit(1);
}

void dat(DAT_RETURN status, const char* what) {
  if (status != DAT_SUCCESS) {
    quit(what, status);
  }
}

void need(int condition, const char* what) {
  if (!condition) {
    quit(what, DAT_SUCCESS);
  }
}

static int progress(void) { return take_completions() + take_connection_events() + take_slots(); }

static void run(void) {
  const time_t begin = time(NULL);
  unsigned ring = 0, sends = 0, longs = 0, puts = 0;
  int counted = 0, disconnected = 0, next;
  srand((unsigned)layer.me * 7919U + (unsigned)getpid());
  for (int r = 0; r < layer.ranks; ++r) {
    layer.peers[r].seen = calloc((size_t)layer.messages, 1);
  }
  open_adapter();
  make_fragments();
  __sync_fetch_and_add(&layer.job->ready, 1);
  while (layer.job->ready < layer.ranks) {
    sched_yield();
  }
  next = (layer.me + 1) % layer.ranks;
  while (!disconnected || !all_ended()) {
    int did = progress();
    make_wished_connections();
    if (next != layer.me) {
      did += send_next(next);
    }
    if (rand() % 8 == 0) { /* most messages go to the peer that got the last one */
      next = rand() % layer.ranks;
    }
    if (!counted && idle()) {
      counted = 1;
      __sync_fetch_and_add(&layer.job->done, 1);
    }
    if (counted && !disconnected && layer.job->done == layer.ranks && idle()) {
      disconnected = 1;
      disconnect_all();
    }
    need(time(NULL) - begin < layer.limit - 10, "not done in time");
    if (did == 0) {
      sched_yield();
    }
  }
  for (int r = 0; r < layer.ranks; ++r) {
    ring += layer.peers[r].by_ring;
    sends += layer.peers[r].by_send;
    longs += layer.peers[r].by_long;
    puts += layer.peers[r].by_put;
    free(layer.peers[r].seen);
  }
  close_adapter();
  printf("mw_btl: rank %d: %u by ring, %u by Send, %u long, %u by RDMA\n", layer.me, ring, sends,
         longs, puts);
  fflush(stdout);
  _exit(0);
}

static int read_options(int argc, char** argv) {
  int option;
  while ((option = getopt(argc, argv, "D:Tn:m:sw:")) != -1) {
    switch (option) {
      case 'D':
        layer.ia_name = optarg;
        break;
      case 'T':
        layer.threadsafe = 1;
        break;
      case 'n':
        layer.ranks = atoi(optarg);
        break;
      case 'm':
        layer.messages = atoi(optarg);
        break;
      case 's':
        layer.tells_by_message = 1;
        break;
      case 'w':
        layer.limit = atoi(optarg);
        break;
      default:
        fprintf(stderr,
                "usage: mw_btl [-D ia] [-T] [-n ranks] [-m messages to each] [-s: ends of a "
                "connection get to know each other by messages] [-w seconds]\n");
        return 0;
    }
  }
  return layer.ranks >= 2 && layer.ranks <= MAX_RANKS && layer.messages > 0;
}

int main(int argc, char** argv) {
  int status, bad = 0;
  if (!read_options(argc, argv)) {
    return 2;
  }
  layer.job =
      mmap(NULL, sizeof *layer.job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (layer.job == MAP_FAILED) {
    return 2;
  }
  for (layer.me = 0; layer.me < layer.ranks; ++layer.me) {
    if (fork() == 0) {
      run();
    }
  }
  for (int i = 0; i < layer.ranks && !bad; ++i) {
    bad = wait(&status) < 0 || status != 0;
  }
  printf("mw_btl: %s\n", bad ? "FAILED" : "ok");
  return bad;
}
