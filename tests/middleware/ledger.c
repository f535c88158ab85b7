/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_ledger - a replicated ledger. The leader writes entries into the followers' logs by RDMA
 * Write. A follower polls the last byte of the next entry and, once that has arrived, assumes that
 * the rest has been written. It acknowledges by writing a counter into the leader's memory. Once
 * connected, neither side makes DAT calls to learn what has arrived: they poll memory. Service
 * points have 64-bit conn quals.
 *
 * An entry of n bytes is stored at any alignment in a slot: payload, trailer {length, sum, index},
 * and the last byte, which is never 0 and changes from lap to lap.
 */
#define _DEFAULT_SOURCE
#include <dat/udat.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 16
#define SLOT 12288
#define FOLLOWERS 8

#define OK(call)                                                                          \
  do {                                                                                    \
    DAT_RETURN ok_ = (call);                                                              \
    if (ok_ != DAT_SUCCESS) {                                                             \
      const char *major_ = "?", *minor_ = "?";                                            \
      dat_strerror(ok_, &major_, &minor_);                                                \
      fprintf(stderr, "%s, line %d: %s: %s %s\n", role, __LINE__, #call, major_, minor_); \
      _exit(1);                                                                           \
    }                                                                                     \
  } while (0)

#define DIE(...)                   \
  do {                             \
    fprintf(stderr, "%s: ", role); \
    fprintf(stderr, __VA_ARGS__);  \
    fputc('\n', stderr);           \
    _exit(1);                      \
  } while (0)

typedef struct {
  uint32_t length;
  uint32_t sum;
  uint64_t index;
  unsigned char filler[7];
  unsigned char lap; /* the last byte of the entry */
} trailer_t;

typedef struct {
  uint64_t address;
  uint64_t number;
  uint32_t context;
  uint32_t unused;
} place_t;

static char role[32] = "mw_ledger";
static const char* ia_name = "soft";
static int threadsafe, followers = 2, entries = 3000, segments = 1, idle_polls, limit = 120;
static DAT_IA_HANDLE ia;
static DAT_EVD_HANDLE async_evd, request_evd, recv_evd, connect_evd, cr_evd;
static DAT_PZ_HANDLE pz;
static DAT_IA_ATTR attr;

static unsigned char byte_of(uint64_t index, size_t i) {
  return (unsigned char)(index * 29 + i * 11 + (i >> 8) * 3 + 1);
}

static uint32_t length_of(uint64_t index) {
  static const uint32_t sizes[] = {0, 1, 8, 31, 64, 100, 255, 1000, 1460, 4096, 4097, 8192, 11000};
  return sizes[index % 13] + (uint32_t)(index / 13 % 7);
}

static void open_adapter(void) {
  async_evd = DAT_HANDLE_NULL;
  OK(dat_ia_openv((DAT_NAME_PTR)ia_name, 8, &async_evd, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                  threadsafe ? DAT_TRUE : DAT_FALSE));
  OK(dat_ia_query(ia, &async_evd, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_NONE, NULL));
  OK(dat_pz_create(ia, &pz));
  OK(dat_evd_create(ia, 1024, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &request_evd));
  OK(dat_evd_create(ia, 1024, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &recv_evd));
  OK(dat_evd_create(ia, 64, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connect_evd));
  OK(dat_evd_create(ia, 64, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd));
}

static void close_adapter(void) {
  OK(dat_evd_free(request_evd));
  OK(dat_evd_free(recv_evd));
  OK(dat_evd_free(connect_evd));
  OK(dat_evd_free(cr_evd));
  OK(dat_pz_free(pz));
  OK(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static DAT_LMR_HANDLE add_memory(void* data, size_t length, DAT_LMR_CONTEXT* local,
                                 DAT_RMR_CONTEXT* remote) {
  DAT_REGION_DESCRIPTION region;
  DAT_LMR_HANDLE lmr;
  DAT_VLEN size;
  DAT_VADDR start;
  region.for_va = data;
  OK(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, DAT_MEM_PRIV_ALL_FLAG,
                    DAT_VA_TYPE_VA, &lmr, local, remote, &size, &start));
  return lmr;
}

static DAT_EP_HANDLE make_ep(void) {
  DAT_EP_HANDLE ep;
  DAT_EP_ATTR ep_attr;
  memset(&ep_attr, 0, sizeof ep_attr);
  ep_attr.max_message_size = attr.max_message_size;
  ep_attr.max_rdma_size = attr.max_rdma_size;
  ep_attr.recv_completion_flags = ep_attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  ep_attr.max_recv_dtos = 4;
  ep_attr.max_request_dtos = 2 * SLOTS;
  ep_attr.max_recv_iov = 1;
  ep_attr.max_request_iov = ep_attr.max_rdma_write_iov = 4;
  ep_attr.max_rdma_read_in = ep_attr.max_rdma_read_out = 1;
  ep_attr.max_rdma_read_iov = 1;
  OK(dat_ep_create(ia, pz, recv_evd, request_evd, connect_evd, &ep_attr, &ep));
  return ep;
}

/* Dequeues completions, and only when buffers are needed again. */
static void reap(int wanted) {
  static int got;
  DAT_EVENT event;
  DAT_COUNT more;
  while (got < wanted) {
    OK(dat_evd_wait(request_evd, 30000000, 1, &event, &more));
    if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) {
      DIE("write %d failed: status %d", got, event.event_data.dto_completion_event_data.status);
    }
    ++got;
  }
}

static void write_to(DAT_EP_HANDLE ep, const unsigned char* data, uint32_t length,
                     DAT_LMR_CONTEXT context, uint64_t address, DAT_RMR_CONTEXT remote_context,
                     uint64_t number) {
  DAT_LMR_TRIPLET iov[4];
  DAT_RMR_TRIPLET remote;
  DAT_DTO_COOKIE cookie;
  int n = 0;
  uint32_t done = 0;
  for (int i = 0; i < segments && done < length; ++i) {
    const uint32_t part = i == segments - 1 ? length - done : (length - done) / 3 + 1;
    iov[n].virtual_address = (DAT_VADDR)(uintptr_t)(data + done);
    iov[n].segment_length = part;
    iov[n].lmr_context = context;
    done += part;
    ++n;
  }
  remote.virtual_address = address;
  remote.segment_length = length;
  remote.rmr_context = remote_context;
  cookie.as_64 = number;
  OK(dat_ep_post_rdma_write(ep, n, iov, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG));
}

/* ---- leader ------------------------------------------------------------------------------- */

struct follower {
  DAT_EP_HANDLE ep;
  place_t log;
};

static void wait_disconnected(void) {
  DAT_EVENT event;
  DAT_COUNT more;
  OK(dat_evd_wait(connect_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
  if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED) {
    DIE("event 0x%x at the end", event.event_number);
  }
}

static struct follower reach(int f, DAT_CONN_QUAL qual, place_t mine) {
  struct follower follower;
  DAT_EVENT event;
  DAT_COUNT more;
  for (int attempt = 0;; ++attempt) {
    follower.ep = make_ep();
    OK(dat_ep_connect(follower.ep, attr.ia_address_ptr, qual, 10000000, sizeof mine, &mine,
                      DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    OK(dat_evd_wait(connect_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
      break;
    }
    if (attempt == 50) {
      DIE("follower %d does not answer: event 0x%x", f, event.event_number);
    }
    OK(dat_ep_free(follower.ep));
    usleep(20000);
  }
  const DAT_CONNECTION_EVENT_DATA* up = &event.event_data.connect_event_data;
  if (up->private_data_size < (DAT_COUNT)sizeof follower.log) {
    DIE("follower %d sent %d bytes", f, up->private_data_size);
  }
  memcpy(&follower.log, up->private_data, sizeof follower.log);
  if (follower.log.number != qual) {
    DIE("asked for %llx, got %llx", (unsigned long long)qual,
        (unsigned long long)follower.log.number);
  }
  DAT_EP_PARAM param;
  OK(dat_ep_query(follower.ep, DAT_EP_FIELD_REMOTE_PORT_QUAL | DAT_EP_FIELD_EP_STATE, &param));
  if (param.ep_state != DAT_EP_STATE_CONNECTED) {
    DIE("the EP is in state %d", param.ep_state);
  }
  return follower;
}

/* Waits for room in every log. */
static void wait_room(const volatile uint64_t* acks, uint64_t index) {
  for (int f = 0; f < followers; ++f) {
    while (index - acks[f] >= SLOTS) {
      if (idle_polls) { /* check the queues occasionally, like a program with other work */
        DAT_EVENT event;
        if (DAT_GET_TYPE(dat_evd_dequeue(connect_evd, &event)) != DAT_QUEUE_EMPTY) {
          DIE("a connection ended: event 0x%x", event.event_number);
        }
      }
    }
  }
}

/* Returns the length of the entry. */
static uint32_t fill(unsigned char* slot, uint64_t index) {
  const uint32_t length = length_of(index);
  trailer_t trailer;
  memset(&trailer, 0x5a, sizeof trailer);
  trailer.length = length;
  trailer.index = index;
  trailer.sum = 0;
  for (uint32_t i = 0; i < length; ++i) {
    slot[i] = byte_of(index, i);
    trailer.sum += slot[i];
  }
  trailer.lap = (unsigned char)(1 + index / SLOTS % 255);
  memcpy(slot + length, &trailer, sizeof trailer);
  return length + (uint32_t)sizeof trailer;
}

static void lead(const DAT_CONN_QUAL* quals) {
  snprintf(role, sizeof role, "leader");
  open_adapter();
  struct follower all[FOLLOWERS];
  DAT_LMR_CONTEXT log_context, ack_context;
  DAT_RMR_CONTEXT unused, ack_remote;
  unsigned char* log = valloc(SLOTS * SLOT);
  volatile uint64_t* acks = valloc(4096);
  memset(log, 0, SLOTS * SLOT);
  memset((void*)acks, 0, 4096);
  DAT_LMR_HANDLE log_lmr = add_memory(log, SLOTS * SLOT, &log_context, &unused);
  DAT_LMR_HANDLE ack_lmr = add_memory((void*)acks, 4096, &ack_context, &ack_remote);
  for (int f = 0; f < followers; ++f) {
    place_t mine;
    memset(&mine, 0, sizeof mine);
    mine.address = (uintptr_t)&acks[f];
    mine.context = ack_remote;
    mine.number = (uint64_t)f;
    all[f] = reach(f, quals[f], mine);
  }
  for (uint64_t index = 0; index < (uint64_t)entries; ++index) {
    wait_room(acks, index);
    reap(index < SLOTS ? 0 : (int)(index - SLOTS + 1) * followers);
    const uint64_t offset = index % SLOTS * SLOT + index % 61;
    const uint32_t size = fill(log + offset, index);
    for (int f = 0; f < followers; ++f) {
      write_to(all[f].ep, log + offset, size, log_context, all[f].log.address + offset,
               all[f].log.context, index);
    }
  }
  for (int f = 0; f < followers; ++f) {
    while (acks[f] != (uint64_t)entries) {
    }
  }
  reap(entries * followers);
  for (int f = 0; f < followers; ++f) {
    OK(dat_ep_disconnect(all[f].ep, DAT_CLOSE_GRACEFUL_FLAG));
    wait_disconnected();
    OK(dat_ep_free(all[f].ep));
  }
  OK(dat_lmr_free(log_lmr));
  OK(dat_lmr_free(ack_lmr));
  close_adapter();
}

/* ---- follower ----------------------------------------------------------------------------- */

/* Polls memory for the next entry, without DAT calls and system calls. */
static void await(const unsigned char* slot, uint64_t index) {
  const uint32_t length = length_of(index);
  const unsigned char* last = slot + length + sizeof(trailer_t) - 1;
  const unsigned char lap = (unsigned char)(1 + index / SLOTS % 255);
  while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != lap) {
  }
  trailer_t trailer;
  memcpy(&trailer, slot + length, sizeof trailer);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < length; ++i) {
    if (slot[i] != byte_of(index, i)) {
      DIE("entry %llu of %u bytes: byte %u is 0x%02x instead of 0x%02x when the last is there",
          (unsigned long long)index, length, i, slot[i], byte_of(index, i));
    }
    sum += slot[i];
  }
  if (trailer.length != length || trailer.index != index || trailer.sum != sum) {
    DIE("entry %llu: trailer says length %u, index %llu", (unsigned long long)index, trailer.length,
        (unsigned long long)trailer.index);
  }
}

/* If the conn qual is in use, tries another, of which the leader is informed. */
static DAT_PSP_HANDLE listen_at(DAT_CONN_QUAL* qual) {
  DAT_PSP_HANDLE psp;
  DAT_PSP_PARAM param;
  for (;;) {
    const DAT_RETURN status = dat_psp_create(ia, *qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp);
    if (DAT_GET_TYPE(status) != DAT_CONN_QUAL_IN_USE) {
      OK(status);
      break;
    }
    *qual += UINT64_C(0x0100000000000001);
  }
  OK(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param));
  if (param.conn_qual != *qual) {
    DIE("dat_psp_query says %llx instead of %llx", (unsigned long long)param.conn_qual,
        (unsigned long long)*qual);
  }
  return psp;
}

/* Returns where the leader wants the counter. */
static place_t accept_leader(DAT_EP_HANDLE ep, DAT_PSP_HANDLE psp, place_t mine) {
  DAT_EVENT event;
  DAT_COUNT more;
  OK(dat_evd_wait(cr_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
  const DAT_CR_ARRIVAL_EVENT_DATA arrival = event.event_data.cr_arrival_event_data;
  if (arrival.conn_qual != mine.number || arrival.sp_handle.psp_handle != psp) {
    DIE("a request for %llx instead of %llx", (unsigned long long)arrival.conn_qual,
        (unsigned long long)mine.number);
  }
  DAT_CR_PARAM param;
  place_t leader;
  OK(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &param));
  memcpy(&leader, param.private_data, sizeof leader);
  OK(dat_cr_accept(arrival.cr_handle, ep, sizeof mine, &mine));
  OK(dat_evd_wait(connect_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
  if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED) {
    DIE("event 0x%x instead of a connection", event.event_number);
  }
  return leader;
}

/* Writes the number of entries. Writes are placed in order, so the last one determines it. */
static void acknowledge(DAT_EP_HANDLE ep, uint64_t* counters, DAT_LMR_CONTEXT context,
                        const place_t* leader, uint64_t count) {
  static int sent;
  if (sent >= 64) { /* 64 counters, so that each stays unchanged while it is in flight */
    reap(sent - 63);
  }
  counters[sent % 64] = count;
  const int before = segments;
  segments = 1;
  write_to(ep, (unsigned char*)&counters[sent % 64], 8, context, leader->address, leader->context,
           count - 1);
  segments = before;
  ++sent;
  if (sent % (2 * SLOTS - 2) == 0 || count == (uint64_t)entries) {
    reap(sent);
  }
}

static void follow(int number, DAT_CONN_QUAL qual, int ready_fd) {
  snprintf(role, sizeof role, "follower %d", number);
  open_adapter();
  unsigned char* log = valloc(SLOTS * SLOT);
  uint64_t* counters = valloc(4096);
  memset(log, 0, SLOTS * SLOT);
  DAT_LMR_CONTEXT log_context, counter_context;
  DAT_RMR_CONTEXT log_remote, unused;
  DAT_LMR_HANDLE log_lmr = add_memory(log, SLOTS * SLOT, &log_context, &log_remote);
  DAT_LMR_HANDLE counter_lmr = add_memory(counters, 4096, &counter_context, &unused);
  DAT_PSP_HANDLE psp = listen_at(&qual);
  if (write(ready_fd, &qual, sizeof qual) != sizeof qual) {
    DIE("no listener");
  }
  place_t mine;
  memset(&mine, 0, sizeof mine);
  mine.address = (uintptr_t)log;
  mine.context = log_remote;
  mine.number = qual;
  DAT_EP_HANDLE ep = make_ep();
  const place_t leader = accept_leader(ep, psp, mine);
  for (uint64_t index = 0; index < (uint64_t)entries; ++index) {
    await(log + index % SLOTS * SLOT + index % 61, index);
    /* Clear the slot, so that no byte of this lap is taken for the end of an entry of the next. */
    memset(log + index % SLOTS * SLOT, 0, SLOT);
    if (index % 5 == 4 || index + 1 == (uint64_t)entries) {
      acknowledge(ep, counters, counter_context, &leader, index + 1);
    }
  }
  wait_disconnected();
  OK(dat_ep_free(ep));
  OK(dat_psp_free(psp));
  OK(dat_lmr_free(log_lmr));
  OK(dat_lmr_free(counter_lmr));
  close_adapter();
}

static pid_t start(int number, DAT_CONN_QUAL qual, int fd, const DAT_CONN_QUAL* quals) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm((unsigned)limit);
    if (quals) {
      lead(quals);
    } else {
      follow(number, qual, fd);
    }
    _exit(0);
  }
  return pid;
}

static int parse(int argc, char** argv) {
  int option;
  while ((option = getopt(argc, argv, "D:Tf:n:g:iw:")) != -1) {
    switch (option) {
      case 'D':
        ia_name = optarg;
        break;
      case 'T':
        threadsafe = 1;
        break;
      case 'f':
        followers = atoi(optarg);
        break;
      case 'n':
        entries = atoi(optarg);
        break;
      case 'g':
        segments = atoi(optarg);
        break;
      case 'i':
        idle_polls = 1;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        fprintf(stderr,
                "usage: mw_ledger [-D ia] [-T] [-f followers] [-n entries] [-g segments] "
                "[-i] [-w seconds]\n");
        return 0;
    }
  }
  return followers >= 1 && followers <= FOLLOWERS && segments >= 1 && segments <= 4;
}

/* Returns whether one of the processes failed; the others are then killed. */
static int wait_all(const pid_t* pids) {
  int status = 0, failed = 0;
  for (int left = followers + 1; left > 0; --left) {
    const pid_t pid = wait(&status);
    if (status != 0 && !failed) {
      fprintf(stderr, "process %d ended with 0x%x\n", (int)pid, status);
      failed = 1;
      for (int k = 0; k <= followers; ++k) {
        if (pids[k] != pid) {
          kill(pids[k], SIGKILL);
        }
      }
    }
  }
  return failed;
}

int main(int argc, char** argv) {
  if (!parse(argc, argv)) {
    return 2;
  }
  DAT_CONN_QUAL quals[FOLLOWERS];
  pid_t pids[FOLLOWERS + 1];
  FILE* random_source = fopen("/dev/urandom", "r");
  for (int f = 0; f < followers; ++f) {
    int pipe_fds[2];
    if (fread(&quals[f], sizeof quals[f], 1, random_source) != 1 || pipe(pipe_fds) != 0) {
      return 1;
    }
    if (f == 0) { /* a value that is negative as a signed 64-bit number */
      quals[f] = 0xfedcba9800000000u | (quals[f] & 0xffffffffu);
    }
    pids[f] = start(f, quals[f], pipe_fds[1], NULL);
    close(pipe_fds[1]);
    if (read(pipe_fds[0], &quals[f], sizeof quals[f]) != sizeof quals[f]) {
      fprintf(stderr, "follower %d does not start\n", f);
      for (int k = 0; k <= f; ++k) {
        kill(pids[k], SIGKILL);
      }
      return 1;
    }
    close(pipe_fds[0]);
  }
  pids[followers] = start(0, 0, -1, quals);
  const int failed = wait_all(pids);
  printf("mw_ledger: %d followers, %d entries: %s\n", followers, entries, failed ? "FAILED" : "ok");
  return failed;
}
