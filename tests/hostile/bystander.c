/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A well-behaved client: sends messages to a victim, checks every byte of the answers and measures
 * each round trip, until its standard input ends. Then it prints one line:
 *
 *   rounds=N median_us=T p99_us=T max_us=T
 *
 * Exit status 0 only if every message came back unchanged.
 *
 *   bystander --ia NAME --port PORT HOST
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "program.h"

#define MAX_ROUNDS 4000000
#define PATIENCE_US (60 * 1000 * 1000)
#define PAUSE_US 500

struct bystander {
  DAT_IA_HANDLE ia;
  DAT_PZ_HANDLE pz;
  DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connection_evd;
  DAT_EP_HANDLE ep;
  struct memory out, in;
};

static DAT_EVENT wait_for(DAT_EVD_HANDLE evd, const char* what) {
  DAT_EVENT event;
  DAT_COUNT more;
  if (dat_evd_wait(evd, PATIENCE_US, 1, &event, &more) != DAT_SUCCESS) {
    fprintf(stderr, "bystander: no %s\n", what);
    exit(1);
  }
  return event;
}

static void open_all(struct bystander* b, char* ia_name) {
  CHECK(dat_ia_open(ia_name, 16, &b->async_evd, &b->ia));
  CHECK(dat_pz_create(b->ia, &b->pz));
  CHECK(dat_evd_create(b->ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &b->recv_evd));
  CHECK(dat_evd_create(b->ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &b->request_evd));
  CHECK(dat_evd_create(b->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &b->connection_evd));
  CHECK(dat_ep_create(b->ia, b->pz, b->recv_evd, b->request_evd, b->connection_evd, NULL, &b->ep));
  b->out = register_memory(b->ia, b->pz, MESSAGE_SIZE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  b->in = register_memory(b->ia, b->pz, MESSAGE_SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

static void connect_to(struct bystander* b, const char* host, DAT_CONN_QUAL port) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  char greeting[] = BYSTANDER;
  inet_pton(AF_INET, host, &address.sin_addr);
  CHECK(dat_ep_connect(b->ep, (struct sockaddr*)&address, port, PATIENCE_US,
                       (DAT_COUNT)strlen(greeting), greeting, DAT_QOS_BEST_EFFORT,
                       DAT_CONNECT_DEFAULT_FLAG));
  const DAT_EVENT event = wait_for(b->connection_evd, "connection");
  if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED) {
    fprintf(stderr, "bystander: connection event 0x%x\n", (unsigned)event.event_number);
    exit(1);
  }
}

static void expect_success(DAT_EVD_HANDLE evd, const char* what) {
  const DAT_EVENT event = wait_for(evd, what);
  const int status = (int)event.event_data.dto_completion_event_data.status;
  if (status == DAT_DTO_SUCCESS) return;
  fprintf(stderr, "bystander: %s ended with status %d\n", what, status);
  exit(1);
}

static double exchange(struct bystander* b, unsigned round) {
  const size_t size = round % MESSAGE_SIZE + 1;
  const DAT_DTO_COOKIE cookie = {.as_64 = round};
  DAT_LMR_TRIPLET out = segment(&b->out, 0, size), in = segment(&b->in, 0, MESSAGE_SIZE);
  for (size_t i = 0; i < size; ++i) b->out.address[i] = (unsigned char)(round * 31 + i * 7);
  const double begun = now_us();
  CHECK(dat_ep_post_recv(b->ep, 1, &in, cookie, DAT_COMPLETION_DEFAULT_FLAG));
  CHECK(dat_ep_post_send(b->ep, 1, &out, cookie, DAT_COMPLETION_DEFAULT_FLAG));
  expect_success(b->recv_evd, "receive");
  const double spent = now_us() - begun;
  expect_success(b->request_evd, "send");
  if (memcmp(b->out.address, b->in.address, size) != 0) {
    fprintf(stderr, "bystander: message %u came back changed\n", round);
    exit(1);
  }
  return spent;
}

static int compare(const void* a, const void* b) {
  const float x = *(const float*)a, y = *(const float*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"ia", required_argument, NULL, 'i'},
      {"port", required_argument, NULL, 'p'},
      {NULL, 0, NULL, 0},
  };
  static struct bystander b;
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  char* ia_name = NULL;
  DAT_CONN_QUAL port = 0;
  unsigned rounds = 0;
  int option;
  static float* times;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    if (option == 'i')
      ia_name = optarg;
    else if (option == 'p')
      port = strtoull(optarg, NULL, 10);
  }
  times = malloc(MAX_ROUNDS * sizeof *times);
  if (ia_name == NULL || port == 0 || optind + 1 != argc || times == NULL) return 2;
  open_all(&b, ia_name);
  const double begun = now_us();
  connect_to(&b, argv[optind], port);
  printf("connected %.0f\n", now_us() - begun);
  fflush(stdout);
  while (poll(&input, 1, 0) == 0 || rounds == 0) {
    times[rounds % MAX_ROUNDS] = (float)exchange(&b, rounds);
    ++rounds;
    usleep(PAUSE_US);
  }
  const unsigned count = rounds < MAX_ROUNDS ? rounds : MAX_ROUNDS;
  qsort(times, count, sizeof *times, compare);
  printf("rounds=%u median_us=%.0f p99_us=%.0f max_us=%.0f\n", rounds, times[count / 2],
         times[(size_t)count * 99 / 100], times[count - 1]);
  CHECK(dat_ep_disconnect(b.ep, DAT_CLOSE_GRACEFUL_FLAG));
  CHECK(dat_ia_close(b.ia, DAT_CLOSE_ABRUPT_FLAG));
  return 0;
}
