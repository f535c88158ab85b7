/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * placed - shows when a completed RDMA Write means that the data is in the peer's memory.
 *
 *   placed --server              in one window
 *   placed 127.0.0.1             in another
 *   placed --plain 127.0.0.1     the same without the attribute
 *
 * On InfiniBand, and on the software RNIC, a Write completes when the peer's adapter has
 * acknowledged it. On other iWARP adapters, and with delayed_ack=off in the entry of dat.conf, it
 * completes when the transport has accepted it, and the peer may still refuse it: the second Write
 * here has an invalid key. With the attribute delayed_ack the completions of all Sends and Writes
 * wait for the peer, whatever the entry says, so the program learns which Write failed.
 */
#define _DEFAULT_SOURCE /* htobe64() and getaddrinfo() with -std=c11, too */
#include <dat/dat_trclvl.h>
#include <endian.h>
#include <getopt.h>

#include "common.h"

#define SIZE 4096

/* The server's private data, big-endian: where the client may write. */
struct invitation {
  uint64_t address;
  uint32_t rmr_context;
};

/* Sets the attribute; call it before the endpoint is connected. Returns 0 if the adapter does not
 * support it. */
static int delay_ack(const struct connection* c) {
  DAT_NAMED_ATTR wanted = {.name = DAT_EP_ATTR_DELAYED_ACK, .value = "true"};
  DAT_EP_PARAM param = {
      .ep_attr = {.ep_provider_specific_count = 1, .ep_provider_specific = &wanted}};
  DAT_IA_ATTR attr;
  CHECK(dat_ia_query(c->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
  for (DAT_COUNT i = 0; i < attr.num_vendor_attr; ++i) {
    if (strcmp(attr.vendor_attr[i].name, DAT_VENDOR_ATTR_DELAYED_ACK_SUPPORTED) == 0 &&
        strcmp(attr.vendor_attr[i].value, "true") == 0) {
      CHECK(dat_ep_modify(
          c->ep,
          DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR | DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR,
          &param));
      return 1;
    }
  }
  return 0;
}

static void serve(struct connection* c, DAT_CONN_QUAL port) {
  static char target[SIZE];
  const struct memory memory = register_memory(
      c, target, sizeof target,
      (DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
  struct invitation invitation = {.address = htobe64((uint64_t)(uintptr_t)memory.address),
                                  .rmr_context = htobe32(memory.rmr_context)};
  accept_client(c, port, &invitation, sizeof invitation);
  wait_event(c->connect_evd); /* the invalid key ends the connection */
  CHECK(dat_lmr_free(memory.lmr));
}

static void write_once(const struct connection* c, const struct memory* from, DAT_VADDR to,
                       DAT_RMR_CONTEXT key, const char* what) {
  DAT_LMR_TRIPLET local = segment(from, 0, SIZE);
  const DAT_RMR_TRIPLET remote = {
      .virtual_address = to, .segment_length = SIZE, .rmr_context = key};
  const DAT_DTO_COOKIE cookie = {.as_64 = 0};
  CHECK(dat_ep_post_rdma_write(c->ep, 1, &local, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG));
  const DAT_DTO_COMPLETION_EVENT_DATA done = wait_transfer(c->request_evd);
  printf("%s: %s\n", what, done.status == DAT_DTO_SUCCESS ? "success" : "failed");
}

static void write_both(struct connection* c, const char* host, DAT_CONN_QUAL port) {
  static char source[SIZE];
  const struct memory memory =
      register_memory(c, source, sizeof source, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  const DAT_CONNECTION_EVENT_DATA established = connect_to(c, host, port);
  struct invitation invitation;
  if (established.private_data_size < (DAT_COUNT)sizeof invitation) {
    fprintf(stderr, "this is not a placed server\n");
    exit(1);
  }
  memcpy(&invitation, established.private_data, sizeof invitation);
  const DAT_VADDR to = be64toh(invitation.address);
  const DAT_RMR_CONTEXT key = be32toh(invitation.rmr_context);
  write_once(c, &memory, to, key, "right key");
  write_once(c, &memory, to, key ^ 0x5a5a00, "wrong key");
  wait_event(c->connect_evd);
  CHECK(dat_lmr_free(memory.lmr));
}

static void usage(FILE* out) {
  fprintf(out,
          "usage: placed --server [--ia NAME] [--port PORT]\n"
          "       placed [--plain] [--ia NAME] [--port PORT] HOST\n"
          "NAME is an entry of dat.conf (soft), PORT 1024 to 65535 (45250).\n");
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"server", no_argument, NULL, 's'},   {"plain", no_argument, NULL, 'n'},
      {"ia", required_argument, NULL, 'i'}, {"port", required_argument, NULL, 'p'},
      {"help", no_argument, NULL, 'h'},     {NULL, 0, NULL, 0},
  };
  static char default_ia[] = "soft";
  char* ia_name = default_ia;
  DAT_CONN_QUAL port = 45250;
  int server = 0, plain = 0, option;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    switch (option) {
      case 's':
        server = 1;
        break;
      case 'n':
        plain = 1;
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
  if (argc - optind != (server ? 0 : 1)) {
    usage(stderr);
    return 2;
  }

  struct connection c;
  open_connection(&c, ia_name);
  if (server) {
    serve(&c, port);
  } else {
    if (!plain && !delay_ack(&c)) {
      printf("no delayed_ack: completions are as the adapter makes them\n");
    }
    write_both(&c, argv[optind], port);
  }
  close_connection(&c);
  return 0;
}
