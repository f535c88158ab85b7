/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_mpi - launcher and test program of the message-passing device: forks the ranks, distributes
 * their cards, and lets them exchange data that can be checked byte by byte.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives.h"
#include "device.h"

static int limit = 120;

static unsigned char pattern(int from, int to, int round, size_t i) {
  return (unsigned char)(from * 71 + to * 13 + round * 7 + (int)(i * 3 + (i >> 8)));
}

static void on_alarm(int signal) {
  (void)signal;
  device_dump();
  _exit(3);
}

static void exchange(int rank, int size, size_t block, int round) {
  unsigned char* out = malloc(block * (size_t)size + 1);
  unsigned char* in = malloc(block * (size_t)size + 1);
  memset(in, 0xee, block * (size_t)size);
  for (int peer = 0; peer < size; ++peer) {
    for (size_t i = 0; i < block; ++i) {
      out[(size_t)peer * block + i] = pattern(rank, peer, round, i);
    }
  }
  alltoall(out, in, block, rank, size, 1000 + round);
  for (int peer = 0; peer < size; ++peer) {
    for (size_t i = 0; i < block; ++i) {
      if (in[(size_t)peer * block + i] != pattern(peer, rank, round, i)) {
        die("alltoall of %zu bytes, round %d: byte %zu of rank %d is 0x%02x instead of 0x%02x",
            block, round, i, peer, in[(size_t)peer * block + i], pattern(peer, rank, round, i));
      }
    }
  }
  free(in);
  free(out);
}

static void reduce(int rank, int size, size_t count, int round) {
  uint64_t* values = malloc(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) {
    values[i] = (uint64_t)(rank + 1) * (i + 1) + (uint64_t)round;
  }
  allreduce(values, count, rank, size, 2000 + 2 * round);
  const uint64_t ranks = (uint64_t)size;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t sum = ranks * (ranks + 1) / 2 * (i + 1) + ranks * (uint64_t)round;
    if (values[i] != sum) {
      die("allreduce of %zu, round %d: element %zu is %llu instead of %llu", count, round, i,
          (unsigned long long)values[i], (unsigned long long)sum);
    }
  }
  free(values);
}

/* Each rank sends to its right neighbour without waiting: many more messages than credits. */
static void flood(int rank, int size, int count, int round) {
  request_t* sends = calloc((size_t)count, sizeof *sends);
  uint32_t(*out)[64] = malloc((size_t)count * sizeof *out);
  for (int i = 0; i < count; ++i) {
    for (uint32_t k = 0; k < 64; ++k) {
      out[i][k] = (uint32_t)(i * 64) + k + (uint32_t)round;
    }
    device_isend(&sends[i], out[i], 4 + (size_t)i % 253, (rank + 1) % size, 3000 + round);
  }
  for (int i = 0; i < count; ++i) {
    uint32_t in[64] = {0};
    request_t recv;
    device_irecv(&recv, in, 4 + (size_t)i % 253, (rank + size - 1) % size, 3000 + round);
    device_wait(&recv);
    if (memcmp(in, out[i], 4 + (size_t)i % 253) != 0) {
      die("flood: message %d of round %d is wrong", i, round);
    }
  }
  for (int i = 0; i < count; ++i) {
    device_wait(&sends[i]);
  }
  free(out);
  free(sends);
}

static void work(int rank, int size, int rounds) {
  static const size_t blocks[] = {0, 1, 63, 700, 900, 1024, 4000, 4096, 16411, 200000};
  for (int round = 0; round < rounds; ++round) {
    if (round % 2) {
      barrier(rank, size, round);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; ++i) {
      exchange(rank, size, blocks[i], round * 16 + (int)i);
    }
    reduce(rank, size, 1, round);
    reduce(rank, size, 300, round);
    reduce(rank, size, 9000, round);
    flood(rank, size, 200, round);
    unsigned char text[777];
    for (size_t i = 0; i < sizeof text; ++i) {
      text[i] = rank == round % size ? pattern(round, 0, 0, i) : 0;
    }
    broadcast(text, sizeof text, round % size, rank, size, 4000 + round);
    for (size_t i = 0; i < sizeof text; ++i) {
      if (text[i] != pattern(round, 0, 0, i)) {
        die("broadcast: byte %zu of round %d is wrong", i, round);
      }
    }
  }
  barrier(rank, size, 999999);
}

static void rank_main(const options_t* options, int rank, int size, int rounds, int up, int down) {
  card_t mine, all[MAX_RANKS];
  signal(SIGALRM, on_alarm);
  alarm((unsigned)limit);
  device_init(options, rank, size);
  device_card(&mine);
  if (write(up, &mine, sizeof mine) != (ssize_t)sizeof mine) {
    die("cannot write to the launcher");
  }
  size_t got = 0;
  const size_t wanted = (size_t)size * sizeof *all;
  while (got < wanted) {
    const ssize_t n = read(down, (char*)all + got, wanted - got);
    if (n <= 0) {
      die("cannot read from the launcher");
    }
    got += (size_t)n;
  }
  device_start(all);
  work(rank, size, rounds);
  /* Connections end when no rank needs them any more; the launcher tells when. */
  char token = 'F';
  device_drain();
  if (write(up, &token, 1) != 1 || read(down, &token, 1) != 1) {
    die("the launcher is gone");
  }
  device_finalize();
}

static void usage(void) {
  fprintf(stderr,
          "usage: mw_mpi [-D ia] [-T] [-n ranks] [-i rounds] [-b] [-s] [-R] [-g] [-p] [-a] [-w s]\n"
          "-T threadsafe entry, -b block, -s an EVD for each stream, -R rendezvous by RDMA Read,\n"
          "-g disconnect gracefully, -p conn quals are process ids, -a all connections at once\n");
  exit(2);
}

static void parse(int argc, char** argv, options_t* options, int* size, int* rounds) {
  int option;
  while ((option = getopt(argc, argv, "D:Tn:i:bsRgpaw:")) != -1) {
    switch (option) {
      case 'D':
        options->ia = optarg;
        break;
      case 'T':
        options->threadsafe = 1;
        break;
      case 'n':
        *size = atoi(optarg);
        break;
      case 'i':
        *rounds = atoi(optarg);
        break;
      case 'b':
        options->block = 1;
        break;
      case 's':
        options->split = 1;
        break;
      case 'R':
        options->read = 1;
        break;
      case 'g':
        options->graceful = 1;
        break;
      case 'p':
        options->pid_quals = 1;
        break;
      case 'a':
        options->connect_all = 1;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        usage();
    }
  }
  if (*size < 1 || *size > MAX_RANKS) {
    usage();
  }
}

/* Gives each rank the cards of all, and tells them when all have ended their work. A rank that
   fails meanwhile is noticed by its status. */
static void coordinate(int size, int (*up)[2], int (*down)[2]) {
  int good = 1;
  card_t all[MAX_RANKS];
  for (int rank = 0; rank < size && good; ++rank) {
    if (read(up[rank][0], &all[rank], sizeof *all) != (ssize_t)sizeof *all) {
      fprintf(stderr, "rank %d does not start\n", rank);
      good = 0;
    }
  }
  for (int rank = 0; rank < size && good; ++rank) {
    if (write(down[rank][1], all, (size_t)size * sizeof *all) < 0) {
      good = 0;
    }
  }
  char token;
  for (int rank = 0; rank < size && good; ++rank) {
    good = read(up[rank][0], &token, 1) == 1;
  }
  for (int rank = 0; rank < size && good; ++rank) {
    good = write(down[rank][1], "F", 1) == 1;
  }
}

/* Returns 1 if a rank failed; the others are then ended. */
static int wait_all(int size, pid_t* pids) {
  int status = 0;
  for (int left = size; left > 0; --left) {
    int result = 0;
    const pid_t pid = wait(&result);
    int rank = 0;
    while (rank < size - 1 && pids[rank] != pid) {
      ++rank;
    }
    pids[rank] = 0;
    if (result != 0 && status == 0) {
      fprintf(stderr, "rank %d ended with %s %d\n", rank, WIFSIGNALED(result) ? "signal" : "status",
              WIFSIGNALED(result) ? WTERMSIG(result) : WEXITSTATUS(result));
      status = 1;
      usleep(300000); /* let the other ranks report what they see */
      for (rank = 0; rank < size; ++rank) {
        if (pids[rank] > 0) {
          kill(pids[rank], SIGALRM);
        }
      }
    }
  }
  return status;
}

int main(int argc, char** argv) {
  options_t options = {.ia = "soft"};
  int size = 4, rounds = 3;
  parse(argc, argv, &options, &size, &rounds);
  int up[MAX_RANKS][2], down[MAX_RANKS][2];
  pid_t pids[MAX_RANKS];
  fflush(NULL);
  for (int rank = 0; rank < size; ++rank) {
    if (pipe(up[rank]) || pipe(down[rank]) || (pids[rank] = fork()) < 0) {
      perror("mw_mpi");
      return 1;
    }
    if (pids[rank] == 0) {
      rank_main(&options, rank, size, rounds, up[rank][1], down[rank][0]);
      fflush(NULL);
      _exit(0);
    }
    close(up[rank][1]);
    close(down[rank][0]);
  }
  coordinate(size, up, down);
  const int status = wait_all(size, pids);
  printf("mw_mpi: %d ranks, %d rounds: %s\n", size, rounds, status ? "FAILED" : "ok");
  return status;
}
