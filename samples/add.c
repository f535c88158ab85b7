/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * add - the classic introduction: a server that adds two numbers.
 *
 *   add --server                 in one window
 *   add 127.0.0.1 40 2           in another
 *
 * The two operands show the two ways to transfer data. The client writes the first one directly
 * into the server's memory (RDMA Write: the server's program takes no part and gets no event), and
 * sends the second as a message (Send: the server has posted a receive, and gets an event). On one
 * connection a Send arrives after the RDMA Writes posted before it, so when the server sees the
 * message, the first operand is there as well. It sends back the sum.
 *
 * Before it can write, the client must know the address in the server's memory and the rmr_context
 * that grants access to it. It gets both as private data when the server accepts the connection.
 */
#define _DEFAULT_SOURCE /* htobe64() and getaddrinfo() with -std=c11, too */
#include <endian.h>
#include <getopt.h>
#include <inttypes.h>

#include "common.h"

/* The server's private data; big-endian, because the peer may have another byte order. */
struct invitation {
  uint64_t address;
  uint32_t rmr_context;
  uint32_t length;
};

/* The memory of each side. Each member is registered separately, because each needs other
 * privileges. */
struct numbers {
  uint64_t written; /* first operand, written by the client into the server's memory */
  uint64_t message; /* second operand, sent by the client, received by the server */
  uint64_t sum;     /* sent by the server, received by the client */
};

static void serve(struct connection* c, DAT_CONN_QUAL port) {
  struct numbers numbers = {0};
  struct memory operand = register_memory(
      c, &numbers.written, sizeof numbers.written,
      (DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
  struct memory message =
      register_memory(c, &numbers.message, sizeof numbers.message, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  struct memory sum =
      register_memory(c, &numbers.sum, sizeof numbers.sum, DAT_MEM_PRIV_LOCAL_READ_FLAG);

  struct invitation invitation = {
      .address = htobe64((uint64_t)(uintptr_t)operand.address),
      .rmr_context = htobe32(operand.rmr_context),
      .length = htobe32(sizeof numbers.written),
  };

  /* An arriving message needs a posted receive: post it before the client can send. */
  post_recv(c, &message, sizeof numbers.message);
  accept_client(c, port, &invitation, sizeof invitation);

  if (wait_success(c->recv_evd) != sizeof numbers.message) {
    fprintf(stderr, "the message has the wrong length\n");
    exit(1);
  }
  const uint64_t a = be64toh(numbers.written), b = be64toh(numbers.message);
  printf("%" PRIu64 " + %" PRIu64 " = %" PRIu64 "\n", a, b, a + b);
  numbers.sum = htobe64(a + b);
  post_send(c, &sum, sizeof numbers.sum);
  wait_success(c->request_evd);

  wait_connection(c, DAT_CONNECTION_EVENT_DISCONNECTED); /* the client ends it */
  CHECK(dat_lmr_free(sum.lmr));
  CHECK(dat_lmr_free(message.lmr));
  CHECK(dat_lmr_free(operand.lmr));
}

static uint64_t add(struct connection* c, const char* host, DAT_CONN_QUAL port, uint64_t a,
                    uint64_t b) {
  struct numbers numbers = {.written = htobe64(a), .message = htobe64(b)};
  struct memory operand =
      register_memory(c, &numbers.written, sizeof numbers.written, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  struct memory message =
      register_memory(c, &numbers.message, sizeof numbers.message, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  struct memory sum =
      register_memory(c, &numbers.sum, sizeof numbers.sum, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);

  const DAT_CONNECTION_EVENT_DATA established = connect_to(c, host, port);
  struct invitation invitation;
  if (established.private_data_size < (DAT_COUNT)sizeof invitation) {
    fprintf(stderr, "this is not an add server\n");
    exit(1);
  }
  memcpy(&invitation, established.private_data, sizeof invitation);

  /* First operand: RDMA Write. No need to wait for its completion before the next post. */
  DAT_LMR_TRIPLET local = segment(&operand, 0, sizeof numbers.written);
  const DAT_RMR_TRIPLET remote = {.virtual_address = be64toh(invitation.address),
                                  .segment_length = be32toh(invitation.length),
                                  .rmr_context = be32toh(invitation.rmr_context)};
  const DAT_DTO_COOKIE cookie = {.as_64 = 1};
  CHECK(dat_ep_post_rdma_write(c->ep, 1, &local, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG));

  /* Second operand: Send. Post the receive for the reply first, or the reply may find none. */
  post_recv(c, &sum, sizeof numbers.sum);
  post_send(c, &message, sizeof numbers.message);
  wait_success(c->request_evd); /* the RDMA Write: completions arrive in the order of the posts */
  wait_success(c->request_evd); /* the Send */
  wait_success(c->recv_evd);

  CHECK(dat_ep_disconnect(c->ep, DAT_CLOSE_GRACEFUL_FLAG));
  wait_connection(c, DAT_CONNECTION_EVENT_DISCONNECTED);
  CHECK(dat_lmr_free(sum.lmr));
  CHECK(dat_lmr_free(message.lmr));
  CHECK(dat_lmr_free(operand.lmr));
  return be64toh(numbers.sum);
}

static void usage(FILE* out) {
  fprintf(out,
          "usage: add --server [--ia NAME] [--port PORT]\n"
          "       add [--ia NAME] [--port PORT] HOST A B\n"
          "NAME is an entry of dat.conf (soft), PORT 1024 to 65535 (45240).\n");
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"server", no_argument, NULL, 's'},
      {"ia", required_argument, NULL, 'i'},
      {"port", required_argument, NULL, 'p'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  static char default_ia[] = "soft";
  char* ia_name = default_ia;
  DAT_CONN_QUAL port = 45240;
  int server = 0, option;
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
      case 'h':
        usage(stdout);
        return 0;
      default:
        usage(stderr);
        return 2;
    }
  }
  if (argc - optind != (server ? 0 : 3)) {
    usage(stderr);
    return 2;
  }

  struct connection c;
  if (server) {
    open_connection(&c, ia_name);
    serve(&c, port);
  } else {
    const uint64_t a = (uint64_t)number(argv[optind + 1], 0, INT64_MAX);
    const uint64_t b = (uint64_t)number(argv[optind + 2], 0, INT64_MAX);
    open_connection(&c, ia_name);
    printf("%" PRIu64 "\n", add(&c, argv[optind], port, a, b));
  }
  close_connection(&c);
  return 0;
}
