/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * echo - a server with many clients and an event loop, and its client.
 *
 *   echo --server [--ia NAME] [--port PORT] [--clients N]
 *   echo [--ia NAME] [--port PORT] HOST TEXT...
 *
 * The server sends back what it receives; it ends after N clients. Its only thread sleeps in poll()
 * on the descriptor of a CNO, to which a real program can add its other descriptors. The client
 * sends each TEXT and prints the reply. echo.cpp is the same in C++.
 */
#define _DEFAULT_SOURCE
#include "common.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>

#define MESSAGE 256 /* bytes of the longest message */
#define SLOTS 4     /* messages that a peer may send before it receives a reply */

/* One connection of the server: each slot is received, sent back and posted again. */
struct client {
  struct client* next;
  DAT_EVD_HANDLE evd; /* one for all: the end of the connection follows the last message */
  DAT_EP_HANDLE ep;
  struct memory memory;
  char bytes[SLOTS * MESSAGE];
};

struct server {
  DAT_IA_HANDLE ia;
  DAT_PZ_HANDLE pz;
  DAT_CNO_HANDLE cno; /* triggered by all queues */
  DAT_EVD_HANDLE request_evd;
  struct client* clients;
  int served;
};

static DAT_LMR_TRIPLET slot_of(const struct client* client, uint64_t slot, size_t size) {
  return segment(&client->memory, (size_t)slot * MESSAGE, size);
}

static void receive(const struct client* client, uint64_t slot) {
  DAT_LMR_TRIPLET local = slot_of(client, slot, MESSAGE);
  const DAT_DTO_COOKIE cookie = {.as_64 = slot};
  CHECK(dat_ep_post_recv(client->ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void add_client(struct server* server, DAT_CR_HANDLE request) {
  struct client* client = calloc(1, sizeof *client);
  if (client == NULL) {
    CHECK(dat_cr_reject(request, 0, NULL));
    return;
  }
  CHECK(dat_evd_create(server->ia, 4 * SLOTS, server->cno,
                       (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG), &client->evd));
  CHECK(dat_ep_create(server->ia, server->pz, client->evd, client->evd, client->evd, NULL,
                      &client->ep));
  const struct connection c = {.ia = server->ia, .pz = server->pz};
  client->memory = register_memory(
      &c, client->bytes, sizeof client->bytes,
      (DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG));
  for (uint64_t slot = 0; slot < SLOTS; ++slot) {
    receive(client, slot); /* before the accept, so that each message finds a posted receive */
  }
  CHECK(dat_cr_accept(request, client->ep, 0, NULL));
  client->next = server->clients;
  server->clients = client;
}

/* Its queue is empty: each message was answered, or its sender has gone. */
static void free_client(struct client* client) {
  CHECK(dat_ep_free(client->ep));
  CHECK(dat_lmr_free(client->memory.lmr));
  CHECK(dat_evd_free(client->evd));
  free(client);
}

/* Handles the events in the queue of a client. Returns whether the client is still there. */
static int look_at(const struct client* client) {
  DAT_EVENT event;
  int alive = 1;
  while (dat_evd_dequeue(client->evd, &event) == DAT_SUCCESS) {
    const DAT_DTO_COMPLETION_EVENT_DATA* done = &event.event_data.dto_completion_event_data;
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
      continue;
    }
    if (event.event_number != DAT_DTO_COMPLETION_EVENT) {
      alive = 0; /* disconnected, broken, or never connected */
    } else if (done->status == DAT_DTO_SUCCESS && done->operation == DAT_DTO_RECEIVE) {
      DAT_LMR_TRIPLET local =
          slot_of(client, done->user_cookie.as_64, (size_t)done->transfered_length);
      /* Refused if the connection has ended meanwhile, which the next event reports. */
      (void)dat_ep_post_send(client->ep, 1, &local, done->user_cookie, DAT_COMPLETION_DEFAULT_FLAG);
    } else if (done->status == DAT_DTO_SUCCESS) {
      receive(client, done->user_cookie.as_64);
    }
  }
  return alive;
}

/* Handles the events in all queues. */
static void dispatch(struct server* server) {
  DAT_EVD_HANDLE hint;
  DAT_EVENT event;
  /* Comes first, so that events that arrive while the queues are emptied make the descriptor
   * readable again. */
  CHECK(dat_cno_trigger(server->cno, &hint));
  while (dat_evd_dequeue(server->request_evd, &event) == DAT_SUCCESS) {
    add_client(server, event.event_data.cr_arrival_event_data.cr_handle);
  }
  for (struct client** at = &server->clients; *at != NULL;) {
    struct client* client = *at;
    if (look_at(client)) {
      at = &client->next;
    } else {
      *at = client->next;
      free_client(client);
      ++server->served;
    }
  }
}

static void serve(char* ia_name, DAT_CONN_QUAL port, int clients) {
  struct server server = {.served = 0};
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE listener;
  DAT_FD fd;
  CHECK(dat_ia_open(ia_name, QUEUE_LENGTH, &async_evd, &server.ia));
  CHECK(dat_pz_create(server.ia, &server.pz));
  CHECK(dat_cno_fd_create(server.ia, &fd, &server.cno));
  CHECK(dat_evd_create(server.ia, 64, server.cno, DAT_EVD_CR_FLAG, &server.request_evd));
  CHECK(dat_psp_create(server.ia, port, server.request_evd, DAT_PSP_CONSUMER_FLAG, &listener));
  printf("listening on port %llu\n", (unsigned long long)port);
  fflush(stdout);
  while (clients == 0 || server.served < clients) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, -1) < 0 && errno != EINTR) {
      perror("poll");
      exit(1);
    }
    dispatch(&server);
  }
  CHECK(dat_psp_free(listener));
  while (server.clients != NULL) {
    struct client* client = server.clients;
    server.clients = client->next;
    free_client(client);
  }
  CHECK(dat_evd_free(server.request_evd));
  CHECK(dat_cno_free(server.cno));
  CHECK(dat_pz_free(server.pz));
  CHECK(dat_ia_close(server.ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static void call(char* ia_name, DAT_CONN_QUAL port, const char* host, char** words) {
  static char sent[MESSAGE], received[MESSAGE];
  struct connection c;
  open_connection(&c, ia_name);
  struct memory out = register_memory(&c, sent, sizeof sent, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  struct memory in = register_memory(&c, received, sizeof received, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  connect_to(&c, host, port);
  for (; *words != NULL; ++words) {
    const size_t size = strlen(*words) < MESSAGE ? strlen(*words) : MESSAGE;
    memcpy(sent, *words, size);
    post_recv(&c, &in, MESSAGE);
    post_send(&c, &out, size);
    wait_success(c.request_evd);
    printf("%.*s\n", (int)wait_success(c.recv_evd), received);
  }
  CHECK(dat_ep_disconnect(c.ep, DAT_CLOSE_GRACEFUL_FLAG));
  wait_connection(&c, DAT_CONNECTION_EVENT_DISCONNECTED);
  CHECK(dat_lmr_free(in.lmr));
  CHECK(dat_lmr_free(out.lmr));
  close_connection(&c);
}

static void usage(FILE* out) {
  fprintf(out,
          "usage: echo --server [--ia NAME] [--port PORT] [--clients N]\n"
          "       echo [--ia NAME] [--port PORT] HOST TEXT...\n"
          "NAME is an entry of dat.conf (soft), PORT 1024 to 65535 (45243).\n");
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"server", no_argument, NULL, 's'},     {"ia", required_argument, NULL, 'i'},
      {"port", required_argument, NULL, 'p'}, {"clients", required_argument, NULL, 'c'},
      {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
  };
  static char default_ia[] = "soft";
  char* ia_name = default_ia;
  DAT_CONN_QUAL port = 45243;
  int server = 0, clients = 0, option;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    switch (option) {
      case 's':
        server = 1;
        break;
      case 'i':
        ia_name = optarg;
        break;
      case 'p':
        port = (DAT_CONN_QUAL)number(optarg, 1024, 65535);
        break;
      case 'c':
        clients = (int)number(optarg, 1, 1000000);
        break;
      case 'h':
        usage(stdout);
        return 0;
      default:
        usage(stderr);
        return 2;
    }
  }
  if (server ? optind != argc : optind == argc) {
    usage(stderr);
    return 2;
  }
  if (server) {
    serve(ia_name, port, clients);
  } else {
    call(ia_name, port, argv[optind], argv + optind + 1);
  }
  return 0;
}
