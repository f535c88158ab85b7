/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_db - starts a page server and its clients. With -k it kills clients, with -K the server, while
 * they are working. The survivors must get every byte right, and finish.
 */
#define _DEFAULT_SOURCE
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db.h"

static options_t options = {.ia = "soft", .sessions = 4, .rounds = 60};
static int limit = 180;
static int stop_pipe[2];

static pid_t start_server(void) {
  int ready[2];
  char token;
  if (pipe(ready) || pipe(stop_pipe)) {
    perror("pipe");
    exit(1);
  }
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    close(stop_pipe[1]);
    close(ready[0]);
    alarm((unsigned)limit);
    const int status = serve(&options, ready[1], stop_pipe[0]);
    fflush(NULL);
    _exit(status);
  }
  close(ready[1]);
  close(stop_pipe[0]);
  if (read(ready[0], &token, 1) != 1) {
    fprintf(stderr, "the server does not start\n");
    exit(1);
  }
  close(ready[0]);
  return pid;
}

static pid_t start_client(int number, int rounds) {
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    close(stop_pipe[1]);
    alarm((unsigned)limit);
    options.client = number;
    options.rounds = rounds;
    const int status = client(&options);
    fflush(NULL);
    _exit(status);
  }
  return pid;
}

static int ended_well(pid_t pid, const char* what) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0) {
    fprintf(stderr, "%s ended with %s %d\n", what, WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 0;
  }
  return 1;
}

struct counts {
  int clients, kills, kill_server;
};

static int parse(int argc, char** argv, struct counts* counts) {
  int option;
  while ((option = getopt(argc, argv, "D:TSc:s:r:k:Kw:")) != -1) {
    switch (option) {
      case 'D':
        options.ia = optarg;
        break;
      case 'T':
        options.threadsafe = 1;
        break;
      case 'S':
        options.srq = 1;
        break;
      case 'c':
        counts->clients = atoi(optarg);
        break;
      case 's':
        options.sessions = atoi(optarg);
        break;
      case 'r':
        options.rounds = atoi(optarg);
        break;
      case 'k':
        counts->kills = atoi(optarg);
        break;
      case 'K':
        counts->kill_server = 1;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        fprintf(stderr,
                "usage: mw_db [-D ia] [-T] [-S] [-c clients] [-s sessions] [-r rounds] [-k kills] "
                "[-K] [-w seconds]\n");
        return 0;
    }
  }
  return 1;
}

int main(int argc, char** argv) {
  struct counts counts = {.clients = 3};
  int good = 1;
  if (!parse(argc, argv, &counts)) {
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  /* With a shared queue the end of a session may reach its thread before its OP_BYE does. */
  options.broken = options.srq || counts.kill_server ? 1 << 30 : counts.kills * options.sessions;
  options.qual = 11000 + (DAT_CONN_QUAL)getpid() % 8000;
  pid_t server = start_server();
  pid_t pids[16];
  for (int i = 0; i < counts.clients && i < 16; ++i) {
    pids[i] = start_client(i, options.rounds);
  }
  srand((unsigned)getpid());
  for (int i = 0; i < counts.kills; ++i) { /* clients that would run forever */
    const pid_t victim = start_client(100 + i, 1000000000);
    usleep(50000u + (unsigned)(rand() % 200000));
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
  }
  if (counts.kill_server) {
    usleep(200000);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    close(stop_pipe[1]);
    server = start_server();
  }
  for (int i = 0; i < counts.clients && i < 16; ++i) {
    good &= ended_well(pids[i], "a client");
  }
  close(stop_pipe[1]);
  good &= ended_well(server, "the server");
  printf("mw_db: %s\n", good ? "ok" : "FAILED");
  return !good;
}
