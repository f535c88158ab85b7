/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_lazy - a job of ranks that connect when they first have something to send, in the style of an
 * MPI for large machines: two ranks may connect to each other at once, and the lower one wins; a
 * connection that has carried some messages is closed to make room for others; its EP is reset and
 * serves the next peer. So requests arrive for connections whose end has not been seen yet, and
 * some of them are no longer wanted by the time that they are accepted.
 *
 * All messages of a rank to another arrive once and in order, whatever connection carries them.
 */
#define _DEFAULT_SOURCE
#include <dat/udat.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS 32
#define CREDITS 8 /* messages that a peer may have sent and that have not been read */
#define TEXT 232
#define RECVS (2 * CREDITS)
#define SENDS CREDITS

enum kind { DATA, CREDIT, CLOSE };
struct message {
  uint32_t kind, from, sequence, credits, length, sum;
  unsigned char text[TEXT];
};

/* ABORTING: our own connect is being given up for that of the peer, whose request is held. */
enum state { IDLE, CONNECTING, ABORTING, ACCEPTING, UP, CLOSING };
struct peer {
  enum state state;
  DAT_EP_HANDLE ep;
  DAT_CR_HANDLE held;      /* a request that waits for the end of what is there */
  struct message* buffers; /* RECVS in, SENDS out */
  DAT_LMR_CONTEXT context;
  uint32_t sent, received;
  int left, credits, owed, out, slot, carried, close_sent, close_received;
};

struct job {
  volatile int ready, done, gone;
  DAT_CONN_QUAL quals[RANKS];
};

static const char* ia_name = "soft";
static int threadsafe, ranks = 4, messages = 150, carries = 5, blocks, frees, limit = 120, me;
static struct job* job;
static struct peer peers[RANKS];
static DAT_EP_HANDLE spare[RANKS]; /* EPs that have been reset */
static int spares;
static DAT_IA_HANDLE ia;
static DAT_IA_ADDRESS_PTR address;
static DAT_PZ_HANDLE pz;
static DAT_CNO_HANDLE cno;
static DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL, dto_evd, connection_evd, request_evd;
static unsigned connects, crossed, stale;

static void quit(const char* what, DAT_RETURN status) {
  const char *major = "", *minor = "";
  if (status != DAT_SUCCESS) {
    dat_strerror(status, &major, &minor);
  }
  fprintf(stderr, "rank %d: %s %s %s\n", me, what, major, minor);
  for (int r = 0; r < ranks; ++r) {
    const struct peer* p = &peers[r];
    if (p->state != IDLE || p->left > 0) {
      fprintf(stderr,
              "  to %d: state %d, %u sent, %d left, %u received, %d credits, %d out%s%s%s\n", r,
              p->state, p->sent, p->left, p->received, p->credits, p->out,
              p->close_sent ? ", CLOSE sent" : "", p->close_received ? ", CLOSE received" : "",
              p->held ? ", holds a request" : "");
    }
  }
  _exit(1);
}

static void dat(DAT_RETURN status, const char* what) {
  if (status != DAT_SUCCESS) {
    quit(what, status);
  }
}

static void need(int condition, const char* what) {
  if (!condition) {
    quit(what, DAT_SUCCESS);
  }
}

static uint32_t sum_of(const struct message* m) {
  uint32_t sum = m->kind * 31 + m->sequence;
  for (uint32_t i = 0; i < m->length; ++i) {
    sum = sum * 33 + m->text[i];
  }
  return sum;
}

static DAT_DTO_COOKIE cookie(int rank, int slot) {
  DAT_DTO_COOKIE made;
  made.as_64 = (DAT_UINT64)(rank * 100 + slot);
  return made;
}

static void post_recv(int rank, int slot) {
  struct peer* p = &peers[rank];
  DAT_LMR_TRIPLET segment = {0};
  segment.lmr_context = p->context;
  segment.virtual_address = (DAT_VADDR)(uintptr_t)&p->buffers[slot];
  segment.segment_length = sizeof(struct message);
  dat(dat_ep_post_recv(p->ep, 1, &segment, cookie(rank, slot), DAT_COMPLETION_DEFAULT_FLAG),
      "dat_ep_post_recv");
}

static void post_send(int rank, enum kind kind) {
  struct peer* p = &peers[rank];
  const int slot = RECVS + p->slot++ % SENDS;
  struct message* m = &p->buffers[slot];
  DAT_LMR_TRIPLET segment = {0};
  m->kind = kind;
  m->from = (uint32_t)me;
  m->sequence = p->sent;
  m->credits = (uint32_t)p->owed;
  m->length = (uint32_t)rand() % TEXT;
  for (uint32_t i = 0; i < m->length; ++i) {
    m->text[i] = (unsigned char)rand();
  }
  m->sum = sum_of(m);
  p->owed = 0;
  if (kind == DATA) {
    ++p->sent;
    --p->left;
    --p->credits;
    ++p->carried;
  }
  segment.lmr_context = p->context;
  segment.virtual_address = (DAT_VADDR)(uintptr_t)m;
  segment.segment_length = (DAT_SEG_LENGTH)(sizeof *m - TEXT + m->length);
  dat(dat_ep_post_send(p->ep, 1, &segment, cookie(rank, slot), DAT_COMPLETION_DEFAULT_FLAG),
      "dat_ep_post_send");
  ++p->out;
}

/* Gives a peer an EP, with receives, for a new connection. */
static void equip(int rank, enum state next) {
  struct peer* p = &peers[rank];
  if (spares > 0) {
    p->ep = spare[--spares];
  } else {
    DAT_EP_ATTR attr;
    memset(&attr, 0, sizeof attr);
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = sizeof(struct message);
    attr.max_recv_dtos = RECVS;
    attr.max_request_dtos = SENDS;
    attr.max_recv_iov = attr.max_request_iov = 1;
    dat(dat_ep_create(ia, pz, dto_evd, dto_evd, connection_evd, &attr, &p->ep), "dat_ep_create");
  }
  p->state = next;
  p->credits = CREDITS;
  p->owed = p->out = p->carried = p->close_sent = p->close_received = 0;
  for (int i = 0; i < RECVS; ++i) {
    post_recv(rank, i);
  }
}

static void start_connect(int rank) {
  uint32_t self = (uint32_t)me;
  equip(rank, CONNECTING);
  dat(dat_ep_connect(peers[rank].ep, address, job->quals[rank], 30000000, sizeof self, &self,
                     DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
      "dat_ep_connect");
  ++connects;
}

static void accept_request(int rank, DAT_CR_HANDLE request) {
  equip(rank, ACCEPTING);
  dat(dat_cr_accept(request, peers[rank].ep, 0, NULL), "dat_cr_accept");
}

/* The connection has ended, or was never there: the EP becomes free. */
static void release(int rank) {
  struct peer* p = &peers[rank];
  const DAT_CR_HANDLE held = p->held;
  if (frees) {
    dat(dat_ep_free(p->ep), "dat_ep_free");
  } else {
    dat(dat_ep_reset(p->ep), "dat_ep_reset");
    spare[spares++] = p->ep;
  }
  p->ep = DAT_HANDLE_NULL;
  p->state = IDLE;
  p->held = DAT_HANDLE_NULL;
  if (held != DAT_HANDLE_NULL) {
    accept_request(rank, held);
  }
}

static void on_request(DAT_CR_HANDLE request) {
  DAT_CR_PARAM param;
  uint32_t from;
  dat(dat_cr_query(request, DAT_CR_FIELD_ALL, &param), "dat_cr_query");
  need(param.private_data_size >= (DAT_COUNT)sizeof from, "a request without a rank");
  memcpy(&from, param.private_data, sizeof from);
  need(from < (uint32_t)ranks, "a request of an unknown rank");
  struct peer* p = &peers[from];
  if (p->state == IDLE) {
    accept_request((int)from, request);
  } else if (p->state == CONNECTING && me < (int)from) {
    ++crossed;
    dat(dat_cr_reject(request, 0, NULL), "dat_cr_reject");
  } else {
    if (p->state == CONNECTING) {
      ++crossed;
      p->state = ABORTING;
      dat(dat_ep_disconnect(p->ep, DAT_CLOSE_ABRUPT_FLAG), "dat_ep_disconnect of a connect");
    }
    if (p->held != DAT_HANDLE_NULL) { /* the peer has given it up */
      dat(dat_cr_reject(p->held, 0, NULL), "dat_cr_reject");
    }
    p->held = request;
  }
}

static void on_connection(const DAT_EVENT* event) {
  const DAT_EP_HANDLE ep = event->event_data.connect_event_data.ep_handle;
  int r = 0;
  while (r < ranks && peers[r].ep != ep) {
    ++r;
  }
  need(r < ranks, "an event of an EP that has no peer");
  struct peer* p = &peers[r];
  switch (event->event_number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
      if (p->state != ABORTING) { /* else it was on its way when the EP was disconnected */
        need(p->state == CONNECTING || p->state == ACCEPTING, "ESTABLISHED twice");
        p->state = UP;
      }
      return;
    case DAT_CONNECTION_EVENT_DISCONNECTED:
      need(p->state >= UP || p->state == ABORTING, "DISCONNECTED before ESTABLISHED");
      break;
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
      need(p->state == CONNECTING || p->state == ABORTING, "REJECTED without a connect");
      break;
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR: /* the peer has given up its connect */
      need(p->state == ACCEPTING, "ACCEPT_COMPLETION_ERROR without an accept");
      ++stale;
      break;
    default:
      fprintf(stderr, "rank %d: event 0x%x\n", me, (unsigned)event->event_number);
      quit("unexpected event of a connection", DAT_SUCCESS);
  }
  release(r);
}

static void on_completion(const DAT_EVENT* event) {
  const DAT_DTO_COMPLETION_EVENT_DATA* dto = &event->event_data.dto_completion_event_data;
  const int rank = (int)(dto->user_cookie.as_64 / 100), slot = (int)(dto->user_cookie.as_64 % 100);
  struct peer* p = &peers[rank];
  if (dto->status == DAT_DTO_ERR_FLUSHED) {
    return; /* of a connection that has ended */
  }
  need(dto->status == DAT_DTO_SUCCESS, "a transfer failed");
  need(dto->ep_handle == p->ep, "a completion of an EP that was reset");
  if (slot >= RECVS) {
    --p->out;
    return;
  }
  const struct message* m = &p->buffers[slot];
  need(m->from == (uint32_t)rank && dto->transfered_length == sizeof *m - TEXT + m->length &&
           m->sum == sum_of(m),
       "a message is damaged");
  p->credits += (int)m->credits;
  if (m->kind == DATA) {
    need(m->sequence == p->received, "a message is lost, or arrived twice");
    ++p->received;
    ++p->owed;
  } else if (m->kind == CLOSE) {
    p->close_received = 1;
  }
  post_recv(rank, slot);
}

static int drain(void) {
  DAT_EVENT event;
  int count = 0;
  for (; dat_evd_dequeue(dto_evd, &event) == DAT_SUCCESS; ++count) {
    on_completion(&event);
  }
  for (; dat_evd_dequeue(connection_evd, &event) == DAT_SUCCESS; ++count) {
    DAT_EVENT earlier; /* what arrived before the connection ended */
    while (dat_evd_dequeue(dto_evd, &earlier) == DAT_SUCCESS) {
      on_completion(&earlier);
    }
    on_connection(&event);
  }
  for (; dat_evd_dequeue(request_evd, &event) == DAT_SUCCESS; ++count) {
    on_request(event.event_data.cr_arrival_event_data.cr_handle);
  }
  return count;
}

/* Sends what a peer has room for, and closes a connection that has carried enough. */
static void serve(int rank) {
  struct peer* p = &peers[rank];
  if (p->state == IDLE && p->left > 0) {
    start_connect(rank);
  }
  if (p->state != UP) {
    return;
  }
  if (!p->close_sent) {
    const int enough = p->close_received || (me < rank && p->carried >= carries);
    while (!enough && p->left > 0 && p->credits > 0 && p->out < SENDS - 2) {
      post_send(rank, DATA);
      if (rand() % 4 == 0) {
        break;
      }
    }
    if (p->owed >= CREDITS / 2 && p->out < SENDS - 1) {
      post_send(rank, CREDIT);
    }
    if (enough && p->out < SENDS) {
      post_send(rank, CLOSE);
      p->close_sent = 1;
    }
  }
  if (p->close_sent && p->close_received && p->out == 0) {
    p->state = CLOSING;
    if (me < rank) {
      dat(dat_ep_disconnect(p->ep, rand() % 2 ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG),
          "dat_ep_disconnect");
    }
  }
}

static int finished(void) {
  for (int r = 0; r < ranks; ++r) {
    if (r != me && (peers[r].left > 0 || peers[r].received < (uint32_t)messages)) {
      return 0;
    }
  }
  return 1;
}

static void open_all(void) {
  DAT_IA_ATTR attr;
  DAT_PSP_HANDLE psp;
  dat(dat_ia_openv((DAT_NAME_PTR)ia_name, 8, &async_evd, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                   threadsafe ? DAT_TRUE : DAT_FALSE),
      "dat_ia_open");
  dat(dat_ia_query(ia, &async_evd, DAT_IA_FIELD_ALL, &attr, 0, NULL), "dat_ia_query");
  address = attr.ia_address_ptr;
  dat(dat_pz_create(ia, &pz), "dat_pz_create");
  dat(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno), "dat_cno_create");
  dat(dat_evd_create(ia, ranks * (RECVS + SENDS), cno, DAT_EVD_DTO_FLAG, &dto_evd), "DTO EVD");
  dat(dat_evd_create(ia, ranks * 8, cno, DAT_EVD_CONNECTION_FLAG, &connection_evd), "EVD");
  dat(dat_evd_create(ia, ranks * 8, cno, DAT_EVD_CR_FLAG, &request_evd), "CR EVD");
  dat(dat_psp_create_any(ia, &job->quals[me], request_evd, DAT_PSP_CONSUMER_FLAG, &psp),
      "dat_psp_create_any");
  for (int r = 0; r < ranks; ++r) {
    struct peer* p = &peers[r];
    const size_t size = (RECVS + SENDS) * sizeof(struct message);
    DAT_REGION_DESCRIPTION where;
    DAT_LMR_HANDLE lmr;
    DAT_RMR_CONTEXT remote;
    DAT_VLEN length;
    DAT_VADDR start;
    p->left = r == me ? 0 : messages;
    where.for_va = p->buffers = malloc(size);
    dat(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where, size, pz,
                       DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG, DAT_VA_TYPE_VA,
                       &lmr, &p->context, &remote, &length, &start),
        "dat_lmr_create");
  }
}

static void run(void) {
  const time_t begin = time(NULL);
  int counted = 0;
  srand((unsigned)me * 7919U + (unsigned)getpid());
  open_all();
  __sync_fetch_and_add(&job->ready, 1);
  while (job->ready < ranks) {
    sched_yield();
  }
  while (job->done < ranks) { /* others may still connect to a rank that has finished */
    DAT_EVD_HANDLE named;
    const int count = drain();
    for (int r = 0; r < ranks; ++r) {
      serve(r);
    }
    if (!counted && finished()) {
      counted = 1;
      __sync_fetch_and_add(&job->done, 1);
    }
    need(time(NULL) - begin < limit - 10, "not done in time");
    if (count == 0 && blocks) {
      dat_cno_wait(cno, 2000, &named);
    }
  }
  __sync_fetch_and_add(&job->gone, 1);
  while (job->gone < ranks) {
    sched_yield();
  }
  dat(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), "dat_ia_close");
  printf("mw_lazy: rank %d: %u connects, %u crossed, %u stale\n", me, connects, crossed, stale);
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  int option, status, bad = 0;
  while ((option = getopt(argc, argv, "D:Tn:m:c:bfw:")) != -1) {
    switch (option) {
      case 'D':
        ia_name = optarg;
        break;
      case 'T':
        threadsafe = 1;
        break;
      case 'n':
        ranks = atoi(optarg);
        break;
      case 'm':
        messages = atoi(optarg);
        break;
      case 'c':
        carries = atoi(optarg);
        break;
      case 'b':
        blocks = 1;
        break;
      case 'f':
        frees = 1;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        fprintf(stderr,
                "usage: mw_lazy [-D ia] [-T] [-n ranks] [-m messages] [-c messages of a "
                "connection] [-b] [-f] [-w seconds]\n");
        return 2;
    }
  }
  job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job == MAP_FAILED || ranks < 2 || ranks > RANKS) {
    return 2;
  }
  for (me = 0; me < ranks; ++me) {
    if (fork() == 0) {
      run();
    }
  }
  for (int i = 0; i < ranks && !bad; ++i) {
    bad = wait(&status) < 0 || status != 0;
  }
  printf("mw_lazy: %s\n", bad ? "FAILED" : "ok");
  return bad;
}
