/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_storage - a storage server like iSER targets and NFS/RDMA servers: it moves all data by RDMA,
 * from and to memory that the client opens for a single request. A thread of the client changes its
 * blocks continuously, even while they are read: words that arrive may be old or new, but every one
 * must have been in memory at some time.
 */
#define _DEFAULT_SOURCE
#include <dat/udat.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 16384
#define BLOCKS 33
#define LIVE_BLOCKS 32 /* the server writes to the last one */
#define WORDS (BLOCK / 8)
#define QUEUE 16
#define WAIT_US (60 * 1000 * 1000)

enum { READ_LIVE = 1, WRITE_BACK, LIVE_MESSAGE, GOODBYE, DONE };

struct command {
  uint32_t operation, tag, block, length;
  uint64_t address;
  uint32_t context;
  uint32_t version;   /* READ_LIVE: the oldest that may be found; DONE: the newest that was found */
  uint64_t words[64]; /* LIVE_MESSAGE: the current words of the block */
};

struct half { /* the common part of server and client */
  const char* name;
  DAT_IA_HANDLE ia;
  DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connect_evd;
  DAT_PZ_HANDLE pz;
  DAT_EP_HANDLE ep;
  DAT_IA_ATTR attr;
  struct command* commands; /* QUEUE to receive into, QUEUE to send from */
  DAT_LMR_HANDLE command_lmr, block_lmr;
  DAT_LMR_CONTEXT command_context, block_context;
  DAT_RMR_CONTEXT block_remote;
  uint64_t* blocks;
  unsigned sent;
};

static const char* ia_name = "soft";
static int threadsafe, requests = 400, use_windows = 1, limit = 120;
static DAT_CONN_QUAL qual;
static volatile int stop_changing;
static volatile uint32_t version_now = 1;

static void bail(struct half* h, const char* what, DAT_RETURN status) {
  const char *major = "?", *minor = "?";
  dat_strerror(status, &major, &minor);
  fprintf(stderr, "%s: %s: 0x%x %s %s\n", h->name, what, (unsigned)status, major, minor);
  _exit(1);
}

#define TRY(h, call)                               \
  do {                                             \
    DAT_RETURN try_ = (call);                      \
    if (try_ != DAT_SUCCESS) bail(h, #call, try_); \
  } while (0)

#define STOP(...)                 \
  do {                            \
    fprintf(stderr, __VA_ARGS__); \
    fputc('\n', stderr);          \
    _exit(1);                     \
  } while (0)

/* A word encodes its block, its place, and the version of the block. */
static uint64_t word_of(uint32_t block, uint32_t place, uint32_t version) {
  return (uint64_t)(block * 4096 + place) << 32 | version;
}

static void check_word(const char* who, uint64_t word, uint32_t block, uint32_t place,
                       uint32_t least, uint32_t* most) {
  if (word >> 32 != (uint64_t)(block * 4096 + place)) {
    STOP("%s: word %u of block %u is %016llx", who, place, block, (unsigned long long)word);
  }
  if ((uint32_t)word < least) {
    STOP("%s: word %u of block %u has version %u, %u was there before", who, place, block,
         (uint32_t)word, least);
  }
  if ((uint32_t)word > *most) {
    *most = (uint32_t)word;
  }
}

static void* change_blocks(void* argument) {
  volatile uint64_t* blocks = argument;
  while (!stop_changing) {
    const uint32_t version = version_now + 1;
    version_now = version; /* first, so that no reader finds a version newer than this */
    for (uint32_t block = 0; block < LIVE_BLOCKS; ++block) {
      for (uint32_t place = 0; place < WORDS; ++place) {
        blocks[block * WORDS + place] = word_of(block, place, version);
      }
    }
  }
  return NULL;
}

static DAT_LMR_HANDLE add(struct half* h, void* data, size_t length, DAT_LMR_CONTEXT* local,
                          DAT_RMR_CONTEXT* remote) {
  DAT_REGION_DESCRIPTION where;
  DAT_LMR_HANDLE lmr;
  DAT_VLEN size;
  DAT_VADDR start;
  where.for_va = data;
  TRY(h, dat_lmr_create(h->ia, DAT_MEM_TYPE_VIRTUAL, where, length, h->pz, DAT_MEM_PRIV_ALL_FLAG,
                        DAT_VA_TYPE_VA, &lmr, local, remote, &size, &start));
  return lmr;
}

static void post_recv(struct half* h, unsigned index) {
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)&h->commands[index];
  iov.segment_length = sizeof *h->commands;
  iov.lmr_context = h->command_context;
  cookie.as_64 = index;
  TRY(h, dat_ep_post_recv(h->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void set_up(struct half* h) {
  DAT_RMR_CONTEXT unused;
  h->async_evd = DAT_HANDLE_NULL;
  TRY(h, dat_ia_openv((DAT_NAME_PTR)ia_name, 8, &h->async_evd, &h->ia, DAT_VERSION_MAJOR,
                      DAT_VERSION_MINOR, threadsafe ? DAT_TRUE : DAT_FALSE));
  TRY(h, dat_ia_query(h->ia, NULL, DAT_IA_FIELD_ALL, &h->attr, DAT_PROVIDER_FIELD_NONE, NULL));
  TRY(h, dat_pz_create(h->ia, &h->pz));
  TRY(h, dat_evd_create(h->ia, 2 * QUEUE, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &h->recv_evd));
  TRY(h, dat_evd_create(h->ia, 4 * QUEUE, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
                        &h->request_evd));
  TRY(h, dat_evd_create(h->ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &h->connect_evd));
  h->commands = calloc(2 * QUEUE, sizeof *h->commands);
  h->command_lmr =
      add(h, h->commands, 2 * QUEUE * sizeof *h->commands, &h->command_context, &unused);
  h->blocks = valloc(BLOCKS * BLOCK);
  for (uint32_t i = 0; i < BLOCKS * WORDS; ++i) {
    h->blocks[i] = word_of(i / WORDS, i % WORDS, 1);
  }
  h->block_lmr = add(h, h->blocks, BLOCKS * BLOCK, &h->block_context, &h->block_remote);
  /* No attributes: the provider's defaults. */
  TRY(h, dat_ep_create(h->ia, h->pz, h->recv_evd, h->request_evd, h->connect_evd, NULL, &h->ep));
  for (unsigned i = 0; i < QUEUE / 2; ++i) {
    post_recv(h, i);
  }
}

static void tear_down(struct half* h) {
  TRY(h, dat_ep_free(h->ep));
  TRY(h, dat_lmr_free(h->command_lmr));
  TRY(h, dat_lmr_free(h->block_lmr));
  TRY(h, dat_evd_free(h->recv_evd));
  TRY(h, dat_evd_free(h->request_evd));
  TRY(h, dat_evd_free(h->connect_evd));
  TRY(h, dat_pz_free(h->pz));
  TRY(h, dat_ia_close(h->ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static DAT_EVENT next_event(struct half* h, DAT_EVD_HANDLE evd, DAT_COUNT threshold) {
  DAT_EVENT event;
  DAT_COUNT more;
  TRY(h, dat_evd_wait(evd, WAIT_US, threshold, &event, &more));
  if (more < threshold - 1) {
    STOP("%s: woken for %d events, %d wanted", h->name, more + 1, threshold);
  }
  return event;
}

static void expect_done(struct half* h, const DAT_EVENT* event, DAT_DTOS operation, uint64_t tag) {
  const DAT_DTO_COMPLETION_EVENT_DATA* done = &event->event_data.dto_completion_event_data;
  if (event->event_number != DAT_DTO_COMPLETION_EVENT || done->status != DAT_DTO_SUCCESS ||
      done->operation != operation || done->user_cookie.as_64 != tag) {
    STOP(
        "%s: event 0x%x, operation %d, status %d, cookie %llu instead of operation %d, cookie %llu",
        h->name, event->event_number, done->operation, done->status,
        (unsigned long long)done->user_cookie.as_64, operation, (unsigned long long)tag);
  }
}

static struct command receive(struct half* h) {
  const DAT_EVENT event = next_event(h, h->recv_evd, 1);
  const DAT_DTO_COMPLETION_EVENT_DATA* done = &event.event_data.dto_completion_event_data;
  if (done->status != DAT_DTO_SUCCESS || done->transfered_length != sizeof(struct command)) {
    STOP("%s: receive: status %d, %u bytes", h->name, done->status, done->transfered_length);
  }
  const struct command command = h->commands[done->user_cookie.as_64];
  post_recv(h, (unsigned)done->user_cookie.as_64);
  return command;
}

static void post_send(struct half* h, const struct command* command, const void* live) {
  DAT_LMR_TRIPLET iov[2];
  DAT_DTO_COOKIE cookie;
  struct command* copy = &h->commands[QUEUE + h->sent++ % QUEUE];
  const uint32_t head = live ? (uint32_t)offsetof(struct command, words) : sizeof *command;
  *copy = *command;
  iov[0].virtual_address = (DAT_VADDR)(uintptr_t)copy;
  iov[0].segment_length = head;
  iov[0].lmr_context = h->command_context;
  iov[1].virtual_address = (DAT_VADDR)(uintptr_t)live;
  iov[1].segment_length = sizeof command->words;
  iov[1].lmr_context = h->block_context;
  cookie.as_64 = command->tag;
  TRY(h, dat_ep_post_send(h->ep, live ? 2 : 1, iov, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

/* ---- server ------------------------------------------------------------------------------- */

static void rdma(struct half* h, const struct command* command, int write) {
  DAT_LMR_TRIPLET iov;
  DAT_RMR_TRIPLET remote;
  DAT_DTO_COOKIE cookie;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)(h->blocks + command->block * WORDS);
  iov.segment_length = command->length;
  iov.lmr_context = h->block_context;
  remote.virtual_address = command->address;
  remote.segment_length = command->length;
  remote.rmr_context = command->context;
  cookie.as_64 = command->tag;
  TRY(h, write
             ? dat_ep_post_rdma_write(h->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG)
             : dat_ep_post_rdma_read(h->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG));
}

static int answer(struct half* h) {
  struct command command = receive(h);
  DAT_EVENT event;
  const uint64_t* words = h->blocks + command.block % BLOCKS * WORDS;
  uint32_t most = 0;
  int posted = 1;
  switch (command.operation) {
    case READ_LIVE:
      rdma(h, &command, 0);
      event = next_event(h, h->request_evd, 1);
      expect_done(h, &event, DAT_DTO_RDMA_READ, command.tag);
      for (uint32_t i = 0; i < command.length / 8; ++i) {
        check_word("server, read", words[i], command.block, i, command.version, &most);
      }
      break;
    case LIVE_MESSAGE:
      for (uint32_t i = 0; i < 64; ++i) {
        check_word("server, message", command.words[i], command.block, i, command.version, &most);
      }
      break;
    case WRITE_BACK:
      for (uint32_t i = 0; i < WORDS; ++i) {
        h->blocks[command.block * WORDS + i] = word_of(command.block, i, command.tag);
      }
      rdma(h, &command, 1);
      posted = 2;
      break;
    case GOODBYE:
      return 0;
    default:
      STOP("server: operation %u", command.operation);
  }
  const struct command done = {.operation = DONE, .tag = command.tag, .version = most};
  post_send(h, &done, NULL);
  event = next_event(h, h->request_evd, posted);
  if (posted == 2) { /* the write completes first, then the message that announces it */
    expect_done(h, &event, DAT_DTO_RDMA_WRITE, command.tag);
    TRY(h, dat_evd_dequeue(h->request_evd, &event));
  }
  expect_done(h, &event, DAT_DTO_SEND, command.tag);
  return 1;
}

static void serve(int ready_fd) {
  struct half h = {.name = "server"};
  DAT_EVD_HANDLE cr_evd;
  DAT_PSP_HANDLE psp;
  set_up(&h);
  TRY(&h, dat_evd_create(h.ia, 4, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd));
  TRY(&h, dat_psp_create(h.ia, qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
  if (write(ready_fd, "R", 1) != 1) {
    _exit(1);
  }
  DAT_EVENT event = next_event(&h, cr_evd, 1);
  TRY(&h, dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, h.ep, 0, NULL));
  event = next_event(&h, h.connect_evd, 1);
  while (answer(&h)) {
  }
  event = next_event(&h, h.connect_evd, 1);
  if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED) {
    STOP("server: event 0x%x at the end", event.event_number);
  }
  TRY(&h, dat_psp_free(psp));
  TRY(&h, dat_evd_free(cr_evd));
  tear_down(&h);
}

/* ---- client ------------------------------------------------------------------------------- */

/* Opens a block, or closes it if the length is 0. The context is usable before the bind completes.
 */
static DAT_RMR_CONTEXT open_window(struct half* h, DAT_RMR_HANDLE rmr, const void* data,
                                   uint32_t length, DAT_MEM_PRIV_FLAGS rights, uint64_t tag) {
  DAT_LMR_TRIPLET iov;
  DAT_RMR_COOKIE cookie;
  DAT_RMR_CONTEXT context = 0;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)data;
  iov.segment_length = length;
  iov.lmr_context = h->block_context;
  cookie.as_64 = tag;
  TRY(h, dat_rmr_bind(rmr, h->block_lmr, &iov, rights, DAT_VA_TYPE_VA, h->ep, cookie,
                      DAT_COMPLETION_DEFAULT_FLAG, &context));
  return context;
}

static void expect_bound(struct half* h, DAT_RMR_HANDLE rmr, uint64_t tag) {
  const DAT_EVENT event = next_event(h, h->request_evd, 1);
  const DAT_RMR_BIND_COMPLETION_EVENT_DATA* done = &event.event_data.rmr_completion_event_data;
  if (event.event_number != DAT_RMR_BIND_COMPLETION_EVENT || done->status != DAT_RMR_BIND_SUCCESS ||
      done->rmr_handle != rmr || done->user_cookie.as_64 != tag) {
    STOP("client: event 0x%x, status %d instead of bind %llu", event.event_number, done->status,
         (unsigned long long)tag);
  }
}

static void request(struct half* h, DAT_RMR_HANDLE rmr, uint64_t* quiet, uint32_t tag) {
  struct command command = {.tag = tag, .block = tag * 7 % LIVE_BLOCKS, .version = version_now - 1};
  uint64_t* live = h->blocks + command.block * WORDS;
  uint32_t most = 0;
  DAT_MEM_PRIV_FLAGS rights = DAT_MEM_PRIV_REMOTE_READ_FLAG;
  static const uint32_t operations[] = {READ_LIVE, WRITE_BACK, READ_LIVE, LIVE_MESSAGE};
  command.operation = operations[tag % 4];
  command.length = tag % 3 ? BLOCK : 512 + tag % 5 * 1024;
  command.address = (uintptr_t)live;
  command.context = h->block_remote;
  if (command.operation == WRITE_BACK) {
    memset(quiet, 0, BLOCK);
    command.address = (uintptr_t)quiet;
    command.length = BLOCK;
    rights = DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
  }
  const int windowed = rmr && command.operation != LIVE_MESSAGE;
  if (windowed) {
    command.context =
        open_window(h, rmr, (void*)(uintptr_t)command.address, command.length, rights, tag);
  }
  post_send(h, &command, command.operation == LIVE_MESSAGE ? live : NULL);
  const struct command done = receive(h);
  if (done.operation != DONE || done.tag != tag) {
    STOP("client: answer %u to request %u", done.tag, tag);
  }
  if (done.version > version_now) {
    STOP("client: version %u was found, %u is the newest", done.version, version_now);
  }
  if (command.operation == WRITE_BACK) {
    for (uint32_t i = 0; i < WORDS; ++i) {
      check_word("client, written", quiet[i], command.block, i, tag, &most);
    }
    if (most != tag) {
      STOP("client: version %u was written instead of %u", most, tag);
    }
  }
  if (windowed) {
    expect_bound(h, rmr, tag);
  }
  const DAT_EVENT event = next_event(h, h->request_evd, 1);
  expect_done(h, &event, DAT_DTO_SEND, tag);
  if (windowed && tag % 2) { /* close it now, or leave that to the next bind */
    open_window(h, rmr, (void*)(uintptr_t)command.address, 0, DAT_MEM_PRIV_NONE_FLAG, tag);
    expect_bound(h, rmr, tag);
  }
}

static void run_client(void) {
  struct half h = {.name = "client"};
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  pthread_t changer;
  set_up(&h);
  TRY(&h, dat_ep_connect(h.ep, h.attr.ia_address_ptr, qual, DAT_TIMEOUT_INFINITE, 0, NULL,
                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  DAT_EVENT event = next_event(&h, h.connect_evd, 1);
  if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED) {
    STOP("client: event 0x%x instead of a connection", event.event_number);
  }
  if (use_windows && h.attr.max_rmrs > 0 && dat_rmr_create(h.pz, &rmr) != DAT_SUCCESS) {
    rmr = DAT_HANDLE_NULL;
  }
  uint64_t* quiet = h.blocks + LIVE_BLOCKS * WORDS;
  if (pthread_create(&changer, NULL, change_blocks, h.blocks) != 0) {
    STOP("no thread");
  }
  for (uint32_t tag = 1; tag <= (uint32_t)requests; ++tag) {
    request(&h, rmr, quiet, tag);
  }
  stop_changing = 1;
  pthread_join(changer, NULL);
  const struct command goodbye = {.operation = GOODBYE, .tag = 7};
  post_send(&h, &goodbye, NULL);
  event = next_event(&h, h.request_evd, 1);
  expect_done(&h, &event, DAT_DTO_SEND, 7);
  TRY(&h, dat_ep_disconnect(h.ep, DAT_CLOSE_ABRUPT_FLAG));
  event = next_event(&h, h.connect_evd, 1);
  if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED) {
    STOP("client: event 0x%x at the end", event.event_number);
  }
  if (rmr) {
    TRY(&h, dat_rmr_free(rmr));
  }
  tear_down(&h);
}

int main(int argc, char** argv) {
  int option, status = 0, failed = 0, ready[2];
  char token;
  while ((option = getopt(argc, argv, "D:Tn:mw:")) != -1) {
    switch (option) {
      case 'D':
        ia_name = optarg;
        break;
      case 'T':
        threadsafe = 1;
        break;
      case 'n':
        requests = atoi(optarg);
        break;
      case 'm':
        use_windows = 0;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        fprintf(stderr, "usage: mw_storage [-D ia] [-T] [-n requests] [-m] [-w seconds]\n");
        return 2;
    }
  }
  qual = 27000 + (DAT_CONN_QUAL)getpid() % 5000; /* no ephemeral port */
  if (pipe(ready) != 0) {
    return 1;
  }
  pid_t server = fork();
  if (server == 0) {
    close(ready[0]);
    alarm((unsigned)limit);
    serve(ready[1]);
    _exit(0);
  }
  close(ready[1]);
  if (read(ready[0], &token, 1) != 1) {
    fprintf(stderr, "the server does not start\n");
    return 1;
  }
  pid_t client = fork();
  if (client == 0) {
    alarm((unsigned)limit);
    run_client();
    _exit(0);
  }
  for (int left = 2; left > 0; --left) {
    const pid_t pid = wait(&status);
    if (status != 0 && !failed) {
      fprintf(stderr, "the %s ended with 0x%x\n", pid == server ? "server" : "client", status);
      failed = 1;
      usleep(200000);
      kill(pid == server ? client : server, SIGKILL);
    }
  }
  printf("mw_storage: %d requests: %s\n", requests, failed ? "FAILED" : "ok");
  return failed;
}
