/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A peer on this host that writes anything into the memory that it shares with a victim, at any
 * time: a client on the public API, beside which a second thread scribbles over the pages of its
 * connections. Its own side of a connection suffers as well, so a connection may end in any way;
 * only a crash counts. Connects again and again, and ends after the given number of connections.
 *
 *   liar --ia NAME --port PORT --seed N --lives N --stag STAG --region ADDRESS --size BYTES HOST
 *
 * Prints a line with the messages that came back and the words that were overwritten.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

#define PATIENCE_US (200 * 1000)
#define ROUNDS 40
#define PAGE 4096
#define CONTROL (6 * PAGE)   /* indexes, loans and grants */
#define RINGS (24 * PAGE)    /* the same, and the beginning of the first ring */
#define NO_THREAD (1U << 30) /* greater than any thread id */
#define MAX_PAUSE_US 300

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES_ON_PURPOSE __attribute__((no_sanitize("thread")))
#endif
#endif
#ifndef RACES_ON_PURPOSE
#define RACES_ON_PURPOSE
#endif

static struct {
  DAT_IA_HANDLE ia;
  DAT_PZ_HANDLE pz;
  DAT_EVD_HANDLE async_evd, dto_evd, connection_evd;
  struct memory out, in;
  DAT_RMR_TRIPLET region;
  struct sockaddr_in victim;
  DAT_CONN_QUAL port;
} liar;

/* A mapping of our own of the pages of the connection that exists, if any: the library removes its
 * mapping when the connection ends. */
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char* pages;
static size_t pages_size;
static unsigned long scribbled;

static uint64_t random_word(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

/* A word near the old one, a small one or any. The slots of grants name the thread that copies, for
 * which the victim waits: no word may be the id of a thread that exists. */
static uint64_t lie(uint64_t* state, uint64_t old) {
  const uint64_t word = random_word(state);
  switch (word % 8) {
    case 0:
      return 0;
    case 1:
    case 2:
      return old + word / 8 % 9 - 4;
    case 3:
      return old ^ 1ULL << word / 8 % 64;
    case 4:
      return old + word / 8 % 4096 * 8;
    case 5:
      return word / 8 % 65536;
    default:
      return word;
  }
}

static uint64_t no_thread(uint64_t word) {
  const uint64_t low = word & UINT32_MAX, high = word >> 32;
  return (low == 0 ? 0 : low | NO_THREAD) | (high == 0 ? 0 : high | NO_THREAD) << 32;
}

RACES_ON_PURPOSE static void scribble_word(uint64_t* state) {
  const uint64_t choice = random_word(state);
  const size_t limit = choice % 8 < 4 ? PAGE : choice % 8 < 6 ? CONTROL : RINGS;
  const size_t place = choice / 8 % (limit / 8) * 8;
  volatile uint64_t* const word = (volatile uint64_t*)(void*)(pages + place);
  const uint64_t value = lie(state, *word);
  *word = place >= PAGE && place < CONTROL ? no_thread(value) : value;
  ++scribbled;
}

static void* scribble(void* seed) {
  uint64_t state = (uint64_t)(uintptr_t)seed;
  while (1) {
    pthread_mutex_lock(&pages_lock);
    if (pages != NULL)
      for (uint64_t i = random_word(&state) % 4; i > 0; --i) scribble_word(&state);
    pthread_mutex_unlock(&pages_lock);
    usleep((useconds_t)(random_word(&state) % MAX_PAUSE_US));
  }
  return NULL;
}

static void set_pages(unsigned char* begin, size_t size) {
  pthread_mutex_lock(&pages_lock);
  if (pages != NULL) munmap(pages, pages_size);
  pages = begin;
  pages_size = size;
  pthread_mutex_unlock(&pages_lock);
}

/* The process has one connection. Returns whether it has not ended yet. */
static int find_pages(void) {
  FILE* const maps = pages == NULL ? fopen("/proc/self/maps", "r") : NULL;
  char line[512];
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL && pages == NULL) {
    unsigned long begin, end;
    if (strstr(line, "memfd:udapl-soft") == NULL || sscanf(line, "%lx-%lx", &begin, &end) != 2 ||
        end - begin < RINGS)
      continue;
    void* const own = mremap((void*)begin, 0, end - begin, MREMAP_MAYMOVE);
    if (own != MAP_FAILED) set_pages(own, end - begin);
  }
  if (maps != NULL) fclose(maps);
  return pages != NULL;
}

/* Returns whether the next completion is a success. */
static int completes(void) {
  DAT_EVENT event;
  DAT_COUNT more;
  return dat_evd_wait(liar.dto_evd, PATIENCE_US, 1, &event, &more) == DAT_SUCCESS &&
         event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
}

static int exchange(DAT_EP_HANDLE ep, uint64_t* state) {
  const DAT_DTO_COOKIE cookie = {.as_64 = 0};
  const uint64_t choice = random_word(state);
  const size_t size = choice / 8 % MESSAGE_SIZE + 1;
  DAT_LMR_TRIPLET out = segment(&liar.out, 0, size), in = segment(&liar.in, 0, MESSAGE_SIZE);
  const size_t length = choice / 8 % liar.region.segment_length + 1;
  DAT_LMR_TRIPLET all = segment(&liar.out, 0, length);
  DAT_RMR_TRIPLET remote = liar.region;
  remote.segment_length = (DAT_SEG_LENGTH)length;
  switch (choice % 4) {
    case 0:
      return dat_ep_post_rdma_write(ep, 1, &all, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG) ==
                 DAT_SUCCESS &&
             completes();
    case 1:
      return dat_ep_post_rdma_read(ep, 1, &all, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG) ==
                 DAT_SUCCESS &&
             completes();
    default:
      return dat_ep_post_recv(ep, 1, &in, cookie, DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS &&
             dat_ep_post_send(ep, 1, &out, cookie, DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS &&
             completes() && completes();
  }
}

static int live(uint64_t* state) {
  DAT_EP_HANDLE ep;
  DAT_EVENT event;
  DAT_COUNT more;
  int rounds = 0;
  CHECK(
      dat_ep_create(liar.ia, liar.pz, liar.dto_evd, liar.dto_evd, liar.connection_evd, NULL, &ep));
  CHECK(dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&liar.victim, liar.port, 60 * 1000 * 1000, 0, NULL,
                       DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  CHECK(dat_evd_wait(liar.connection_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
  if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
    while (find_pages() && rounds < ROUNDS && exchange(ep, state)) ++rounds;
    set_pages(NULL, 0);
    dat_ep_disconnect(
        ep, random_word(state) % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
    dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG);
  }
  CHECK(dat_ep_free(ep));
  while (dat_evd_dequeue(liar.dto_evd, &event) == DAT_SUCCESS) {
  }
  while (dat_evd_dequeue(liar.connection_evd, &event) == DAT_SUCCESS) {
  }
  return rounds;
}

static void open_all(char* ia_name) {
  CHECK(dat_ia_open(ia_name, 16, &liar.async_evd, &liar.ia));
  CHECK(dat_pz_create(liar.ia, &liar.pz));
  CHECK(dat_evd_create(liar.ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &liar.dto_evd));
  CHECK(
      dat_evd_create(liar.ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &liar.connection_evd));
  liar.out = register_memory(liar.ia, liar.pz, liar.region.segment_length, DAT_MEM_PRIV_ALL_FLAG);
  liar.in = register_memory(liar.ia, liar.pz, MESSAGE_SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"ia", required_argument, NULL, 'i'},   {"port", required_argument, NULL, 'p'},
      {"seed", required_argument, NULL, 's'}, {"lives", required_argument, NULL, 'l'},
      {"stag", required_argument, NULL, 't'}, {"region", required_argument, NULL, 'r'},
      {"size", required_argument, NULL, 'z'}, {NULL, 0, NULL, 0},
  };
  char* ia_name = NULL;
  uint64_t state = 1;
  unsigned long lives = 1, rounds = 0;
  int option;
  pthread_t scribbler;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    const unsigned long long number = option == 'i' ? 0 : strtoull(optarg, NULL, 10);
    if (option == 'i')
      ia_name = optarg;
    else if (option == 'p')
      liar.port = number;
    else if (option == 's')
      state = number * 2 + 1;
    else if (option == 'l')
      lives = (unsigned long)number;
    else if (option == 't')
      liar.region.rmr_context = (DAT_RMR_CONTEXT)number;
    else if (option == 'r')
      liar.region.virtual_address = number;
    else if (option == 'z')
      liar.region.segment_length = (DAT_SEG_LENGTH)number;
  }
  if (ia_name == NULL || liar.port == 0 || liar.region.segment_length == 0 || optind + 1 != argc)
    return 2;
  liar.victim.sin_family = AF_INET;
  inet_pton(AF_INET, argv[optind], &liar.victim.sin_addr);
  open_all(ia_name);
  if (pthread_create(&scribbler, NULL, scribble, (void*)(uintptr_t)(state * 3)) != 0) return 1;
  for (unsigned long i = 0; i < lives; ++i) rounds += (unsigned long)live(&state);
  pthread_mutex_lock(&pages_lock);
  printf("rounds=%lu scribbled=%lu\n", rounds, scribbled);
  fflush(stdout);
  _exit(0);
}
