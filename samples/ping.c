/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * ping - sends messages of growing size back and forth, checks every byte, and prints how long it
 * took.
 *
 *   ping --server                in one window
 *   ping 127.0.0.1               in another
 *
 * Each side posts the receive for the next message before it sends its own: a message that finds no
 * posted receive breaks the connection. The server knows that the client is done when its last
 * posted receive completes as flushed.
 */
#define _DEFAULT_SOURCE /* clock_gettime() and getaddrinfo() with -std=c11, too */
#include <getopt.h>
#include <time.h>

#include "common.h"

#define LARGEST (1024 * 1024)

/* Byte i of message number n; the server answers with its complement. */
static unsigned char pattern(unsigned n, size_t i, int answer) {
  const unsigned char byte = (unsigned char)(n * 31 + i * 7 + (i >> 8));
  return answer ? (unsigned char)~byte : byte;
}

static void fill(unsigned char* data, size_t size, unsigned n, int answer) {
  for (size_t i = 0; i < size; ++i) {
    data[i] = pattern(n, i, answer);
  }
}

static void verify(const unsigned char* data, size_t size, unsigned n, int answer) {
  for (size_t i = 0; i < size; ++i) {
    if (data[i] != pattern(n, i, answer)) {
      fprintf(stderr, "message %u of %zu bytes: byte %zu is wrong\n", n, size, i);
      exit(1);
    }
  }
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* One region to send from and one to receive into. */
struct buffers {
  struct memory out, in;
};

static struct buffers make_buffers(const struct connection* c) {
  unsigned char* data = calloc(2, LARGEST);
  if (data == NULL) {
    perror("calloc");
    exit(1);
  }
  struct buffers b = {
      .out = register_memory(c, data, LARGEST, DAT_MEM_PRIV_LOCAL_READ_FLAG),
      .in = register_memory(c, data + LARGEST, LARGEST, DAT_MEM_PRIV_LOCAL_WRITE_FLAG)};
  return b;
}

static void free_buffers(struct buffers* b) {
  CHECK(dat_lmr_free(b->in.lmr));
  CHECK(dat_lmr_free(b->out.lmr));
  free(b->out.address);
}

static void serve(struct connection* c, DAT_CONN_QUAL port) {
  struct buffers b = make_buffers(c);
  unsigned n = 0;
  post_recv(c, &b.in, LARGEST);
  accept_client(c, port, NULL, 0);
  for (;; ++n) {
    const DAT_DTO_COMPLETION_EVENT_DATA received = wait_transfer(c->recv_evd);
    if (received.status == DAT_DTO_ERR_FLUSHED) {
      break;
    }
    if (received.status != DAT_DTO_SUCCESS) {
      fprintf(stderr, "receive failed: %s\n", dat_dto_status_name(received.status));
      exit(1);
    }
    verify(b.in.address, received.transfered_length, n, 0);
    fill(b.out.address, received.transfered_length, n, 1);
    post_recv(c, &b.in, LARGEST);
    post_send(c, &b.out, received.transfered_length);
    wait_success(c->request_evd);
  }
  wait_connection(c, DAT_CONNECTION_EVENT_DISCONNECTED);
  printf("answered %u messages\n", n);
  free_buffers(&b);
}

static void ping(struct connection* c, const char* host, DAT_CONN_QUAL port, unsigned count,
                 size_t largest) {
  struct buffers b = make_buffers(c);
  unsigned n = 0;
  connect_to(c, host, port);
  printf("%10s %8s %12s %12s\n", "bytes", "count", "one way us", "MB/s");
  for (size_t size = 1; size <= largest; size *= 4) {
    double spent = 0;
    for (unsigned i = 0; i < count; ++i, ++n) {
      fill(b.out.address, size, n, 0);
      const double start = now_us();
      post_recv(c, &b.in, LARGEST);
      post_send(c, &b.out, size);
      const DAT_SEG_LENGTH length = wait_success(c->recv_evd);
      spent += now_us() - start;
      wait_success(c->request_evd);
      if (length != size) {
        fprintf(stderr, "sent %zu bytes, got %u back\n", size, (unsigned)length);
        exit(1);
      }
      verify(b.in.address, size, n, 1);
    }
    const double one_way = spent / (2.0 * count);
    printf("%10zu %8u %12.1f %12.1f\n", size, count, one_way, (double)size / one_way);
  }
  CHECK(dat_ep_disconnect(c->ep, DAT_CLOSE_GRACEFUL_FLAG));
  wait_connection(c, DAT_CONNECTION_EVENT_DISCONNECTED);
  free_buffers(&b);
}

static void usage(FILE* out) {
  fprintf(
      out,
      "usage: ping --server [--ia NAME] [--port PORT]\n"
      "       ping [--ia NAME] [--port PORT] [--count N] [--size BYTES] HOST\n"
      "NAME is an entry of dat.conf (soft), PORT 1024 to 65535 (45241), N messages of each size\n"
      "(100), from 1 byte to BYTES (65536, at most %d).\n",
      LARGEST);
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"server", no_argument, NULL, 's'},
      {"ia", required_argument, NULL, 'i'},
      {"port", required_argument, NULL, 'p'},
      {"count", required_argument, NULL, 'c'},
      {"size", required_argument, NULL, 'z'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  static char default_ia[] = "soft";
  char* ia_name = default_ia;
  DAT_CONN_QUAL port = 45241;
  unsigned count = 100;
  size_t size = 65536;
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
      case 'c':
        count = (unsigned)number(optarg, 1, 1000000);
        break;
      case 'z':
        size = (size_t)number(optarg, 1, LARGEST);
        break;
      default:
        usage(option == 'h' ? stdout : stderr);
        return option == 'h' ? 0 : 2;
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
    ping(&c, argv[optind], port, count, size);
  }
  close_connection(&c);
  return 0;
}
