/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_copy - a striped copy service, in the style of the first uDAPL programs: an interval timer
 * with frequent signals, processes forked while the adapter is open, limits of dat_ia_query used as
 * reported, EPs of every origin (with attributes, without, from the listener, reserved), duplicated
 * connections, memory registered for each transfer, queues that grow under load.
 *
 * The streams are negotiated over a control connection. A file consists of CHUNKs; the client
 * announces each of them on a stream, and the server reads it by RDMA, or writes it back, and
 * acknowledges.
 */
#define _DEFAULT_SOURCE
#include <dat/udat.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STREAMS 6
#define CHUNK 30000
#define CHUNKS 96
#define SLOTS 4 /* messages per stream */
#define VERSION 2

struct note { /* the format of every message and of the private data of connection requests */
  uint32_t version, stream, chunk, write;
  uint64_t address;
  uint32_t context, sum;
  uint64_t qual;
  uint64_t filler;
};

struct stream {
  int number, up, ended, recvs, requests;
  DAT_EP_HANDLE ep;
  struct note* notes; /* SLOTS in, SLOTS out */
  unsigned out;
  DAT_LMR_HANDLE lmr;
  DAT_LMR_CONTEXT context;
};

static const char* who = "mw_copy";
static const char* ia_name = "soft";
static int threadsafe, resize = 1, rounds = 2, cached, limit = 120, max_attributes = 1;
static volatile sig_atomic_t ticks;
static DAT_IA_HANDLE ia;
static DAT_EVD_HANDLE async_evd, dto_evd, connection_evd, request_evd;
static DAT_PZ_HANDLE pz;
static DAT_IA_ATTR attr;
static DAT_PROVIDER_ATTR provider;
static struct stream streams[STREAMS + 1]; /* 0 is the control connection */
static unsigned char* file;
static unsigned interrupted;

static void quit(const char* what, DAT_RETURN status) {
  const char *major = "", *minor = "";
  if (status != DAT_SUCCESS) {
    dat_strerror(status, &major, &minor);
  }
  fprintf(stderr, "%s: %s %s %s\n", who, what, major, minor);
  _exit(1);
}

static void dat(DAT_RETURN status, const char* what) {
  if (status != DAT_SUCCESS) {
    quit(what, status);
  }
}

static void on_tick(int signal) {
  (void)signal;
  ++ticks;
}

static void start_ticking(void) {
  struct sigaction action;
  struct itimerval every = {{0, 700}, {0, 700}};
  memset(&action, 0, sizeof action);
  action.sa_handler = on_tick; /* no SA_RESTART: every call may be interrupted */
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
}

/* Waits in slices, like a program that shows its progress. */
static DAT_EVENT wait_event(DAT_EVD_HANDLE evd, const char* what) {
  static const DAT_TIMEOUT slices[] = {0, 200, DAT_TIMEOUT_INFINITE, 5000, 0, 1000000};
  static unsigned turn;
  DAT_EVENT event;
  DAT_COUNT more;
  const time_t begin = time(NULL);
  for (;;) {
    const DAT_RETURN status = dat_evd_wait(evd, slices[turn++ % 6], 1, &event, &more);
    if (status == DAT_SUCCESS) {
      return event;
    }
    if (DAT_GET_TYPE(status) == DAT_INTERRUPTED_CALL) {
      ++interrupted;
    } else if (DAT_GET_TYPE(status) != DAT_TIMEOUT_EXPIRED) {
      quit(what, status);
    }
    if (time(NULL) - begin > limit - 10) {
      fprintf(stderr, "%s: waits for %s for ever\n", who, what);
      _exit(1);
    }
  }
}

static DAT_LMR_HANDLE add(void* data, size_t length, DAT_MEM_PRIV_FLAGS rights,
                          DAT_LMR_CONTEXT* local, DAT_RMR_CONTEXT* remote) {
  DAT_REGION_DESCRIPTION where;
  DAT_LMR_HANDLE lmr;
  DAT_VLEN size;
  DAT_VADDR start;
  where.for_va = data;
  dat(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where, length, pz, rights, DAT_VA_TYPE_VA, &lmr,
                     local, remote, &size, &start),
      "dat_lmr_create");
  return lmr;
}

static void open_all(void) {
  DAT_PROVIDER_INFO list[64], *entries[64];
  DAT_COUNT found = 0;
  for (int i = 0; i < 64; ++i) {
    entries[i] = &list[i];
  }
  dat(dat_registry_list_providers(64, &found, entries), "dat_registry_list_providers");
  int known = 0;
  for (int i = 0; i < found; ++i) {
    known |= strcmp(entries[i]->ia_name, ia_name) == 0;
  }
  if (!known) {
    quit("the registry does not know the adapter", DAT_SUCCESS);
  }
  async_evd = DAT_HANDLE_NULL;
  dat(dat_ia_openv((DAT_NAME_PTR)ia_name, 1, &async_evd, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                   threadsafe ? DAT_TRUE : DAT_FALSE),
      "dat_ia_open");
  dat(dat_ia_query(ia, &async_evd, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider),
      "dat_ia_query");
  dat(dat_pz_create(ia, &pz), "dat_pz_create");
  dat(dat_evd_create(ia, resize ? 2 * SLOTS : 512, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &dto_evd),
      "dat_evd_create");
  dat(dat_evd_create(ia, 32, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connection_evd),
      "dat_evd_create");
  dat(dat_evd_create(ia, 32, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &request_evd), "dat_evd_create");
  file = valloc(CHUNK * CHUNKS);
}

static void post_recv(struct stream* s, unsigned slot) {
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)&s->notes[slot];
  iov.segment_length = sizeof *s->notes;
  iov.lmr_context = s->context;
  cookie.as_64 = (uint64_t)s->number << 32 | slot;
  ++s->recvs;
  dat(dat_ep_post_recv(s->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
}

static void post_note(struct stream* s, const struct note* note, DAT_COMPLETION_FLAGS flags) {
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  const unsigned slot = SLOTS + s->out++ % SLOTS;
  s->notes[slot] = *note;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)&s->notes[slot];
  iov.segment_length = sizeof *note;
  iov.lmr_context = s->context;
  cookie.as_64 = (uint64_t)s->number << 32 | slot;
  ++s->requests;
  dat(dat_ep_post_send(s->ep, 1, &iov, cookie, flags), "dat_ep_post_send");
}

/* Attributes equal to the limits that the adapter reports. */
static DAT_EP_ATTR widest(void) {
  DAT_EP_ATTR wide;
  memset(&wide, 0, sizeof wide);
  wide.service_type = DAT_SERVICE_TYPE_RC;
  wide.max_message_size = attr.max_message_size;
  wide.max_rdma_size = attr.max_rdma_size;
  wide.qos = DAT_QOS_BEST_EFFORT;
  wide.max_recv_dtos = attr.max_dto_per_ep < 1024 ? attr.max_dto_per_ep : 1024;
  wide.max_request_dtos = wide.max_recv_dtos;
  wide.max_recv_iov = wide.max_request_iov = attr.max_iov_segments_per_dto;
  wide.max_rdma_read_in = attr.max_rdma_read_per_ep_in;
  wide.max_rdma_read_out = attr.max_rdma_read_per_ep_out;
  wide.max_rdma_read_iov = attr.max_iov_segments_per_rdma_read;
  wide.max_rdma_write_iov = attr.max_iov_segments_per_rdma_write;
  return wide;
}

static void prepare(struct stream* s, int number, DAT_EP_HANDLE given) {
  DAT_RMR_CONTEXT unused;
  DAT_CONTEXT context;
  memset(s, 0, sizeof *s);
  s->number = number;
  s->notes = calloc(2 * SLOTS, sizeof *s->notes);
  s->lmr = add(s->notes, 2 * SLOTS * sizeof *s->notes,
               DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &s->context, &unused);
  if (given) { /* created by the listener: it needs a PZ and EVDs */
    DAT_EP_PARAM param;
    memset(&param, 0, sizeof param);
    param.pz_handle = pz;
    param.recv_evd_handle = param.request_evd_handle = dto_evd;
    param.connect_evd_handle = connection_evd;
    dat(dat_ep_modify(given,
                      DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                          DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                      &param),
        "dat_ep_modify");
    s->ep = given;
  } else {
    const DAT_EP_ATTR wide = widest();
    dat(dat_ep_create(ia, pz, dto_evd, dto_evd, connection_evd,
                      number % 2 && max_attributes ? &wide : NULL, &s->ep),
        "dat_ep_create");
  }
  context.as_ptr = s;
  dat(dat_set_consumer_context(s->ep, context), "dat_set_consumer_context");
  for (unsigned i = 0; i < SLOTS; ++i) {
    post_recv(s, i);
  }
}

static void finish(struct stream* s) {
  DAT_EP_STATE state;
  DAT_BOOLEAN recv_idle, request_idle;
  dat(dat_ep_get_status(s->ep, &state, &recv_idle, &request_idle), "dat_ep_get_status");
  if (state != DAT_EP_STATE_DISCONNECTED) {
    fprintf(stderr, "%s: stream %d ends in state %d\n", who, s->number, state);
    _exit(1);
  }
  dat(dat_ep_free(s->ep), "dat_ep_free");
  dat(dat_lmr_free(s->lmr), "dat_lmr_free");
  free(s->notes);
}

static uint32_t sum_of(const unsigned char* data) {
  uint32_t sum = 2166136261u;
  for (int i = 0; i < CHUNK; ++i) {
    sum = (sum ^ data[i]) * 16777619u;
  }
  return sum;
}

/* The stream of a completion and, for a message, its note; NULL if it was something else. */
static struct stream* take(const DAT_EVENT* event, struct note* note, int* is_note) {
  const DAT_DTO_COMPLETION_EVENT_DATA* done = &event->event_data.dto_completion_event_data;
  struct stream* s = &streams[done->user_cookie.as_64 >> 32];
  const unsigned slot = (unsigned)done->user_cookie.as_64;
  *is_note = 0;
  if (slot < SLOTS) {
    --s->recvs;
    if (done->status == DAT_DTO_SUCCESS) {
      if (done->transfered_length != 0) { /* an empty message only shows that the peer is alive */
        *note = s->notes[slot];
        *is_note = 1;
      }
      post_recv(s, slot);
    }
  } else {
    --s->requests;
  }
  if (done->status != DAT_DTO_SUCCESS && done->status != DAT_DTO_ERR_FLUSHED) {
    fprintf(stderr, "%s: stream %d, slot %u: status %d\n", who, s->number, slot, done->status);
    _exit(1);
  }
  return s;
}

static void grow(int step) {
  static const int sizes[] = {600, 200, 900, 512};
  if (resize) {
    dat(dat_evd_resize(dto_evd, sizes[step % 4]), "dat_evd_resize");
  }
}

static void close_all(void) {
  DAT_EVENT event;
  while (dat_evd_dequeue(dto_evd, &event) == DAT_SUCCESS ||
         dat_evd_dequeue(connection_evd, &event) == DAT_SUCCESS) {
  }
  dat(dat_evd_free(dto_evd), "dat_evd_free");
  dat(dat_evd_free(connection_evd), "dat_evd_free");
  dat(dat_evd_free(request_evd), "dat_evd_free");
  dat(dat_pz_free(pz), "dat_pz_free");
  dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

/* ---- server ------------------------------------------------------------------------------- */

static void on_announcement(struct stream* s, const struct note* note, DAT_LMR_CONTEXT context) {
  DAT_LMR_TRIPLET iov;
  DAT_RMR_TRIPLET remote;
  DAT_DTO_COOKIE cookie;
  unsigned char* chunk = file + note->chunk * CHUNK;
  struct note answer = *note;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)chunk;
  iov.segment_length = CHUNK;
  iov.lmr_context = context;
  remote.virtual_address = note->address;
  remote.segment_length = CHUNK;
  remote.rmr_context = note->context;
  cookie.as_64 = 0;
  if (note->write) { /* back to the client */
    answer.sum = sum_of(chunk);
    dat(dat_ep_post_rdma_write(s->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_SUPPRESS_FLAG),
        "dat_ep_post_rdma_write");
    post_note(s, &answer, DAT_COMPLETION_DEFAULT_FLAG);
  } else { /* the answer is sent when the data have arrived */
    dat(dat_ep_post_rdma_read(s->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_SUPPRESS_FLAG),
        "dat_ep_post_rdma_read");
    post_note(s, &answer, DAT_COMPLETION_BARRIER_FENCE_FLAG);
  }
}

static DAT_CR_HANDLE next_request(struct note* hello) {
  DAT_CR_PARAM param;
  const DAT_EVENT event = wait_event(request_evd, "a request");
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  dat(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), "dat_cr_query");
  if (param.private_data_size < (DAT_COUNT)sizeof *hello) {
    quit("a request without private data", DAT_SUCCESS);
  }
  memcpy(hello, param.private_data, sizeof *hello);
  return cr;
}

static void wait_established(void) {
  const DAT_EVENT event = wait_event(connection_evd, "a connection");
  DAT_CONTEXT context;
  if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED) {
    fprintf(stderr, "%s: event 0x%x instead of a connection\n", who, event.event_number);
    _exit(1);
  }
  dat(dat_get_consumer_context(event.event_data.connect_event_data.ep_handle, &context),
      "dat_get_consumer_context");
  ((struct stream*)context.as_ptr)->up = 1;
}

static void expect_disconnected(void) {
  const DAT_EVENT event = wait_event(connection_evd, "the end of a connection");
  if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED) {
    fprintf(stderr, "%s: event 0x%x at the end\n", who, event.event_number);
    _exit(1);
  }
}

/* Returns the request for this stream at a service point of its own. */
static DAT_CR_HANDLE reserve(int i, DAT_CONN_QUAL first, struct note* hello) {
  DAT_RSP_HANDLE rsp;
  struct note note;
  prepare(&streams[i], i, DAT_HANDLE_NULL);
  memset(&note, 0, sizeof note);
  for (note.qual = first;; note.qual += 17) {
    const DAT_RETURN status = dat_rsp_create(ia, note.qual, streams[i].ep, request_evd, &rsp);
    if (DAT_GET_TYPE(status) != DAT_CONN_QUAL_IN_USE) {
      dat(status, "dat_rsp_create");
      break;
    }
  }
  post_note(&streams[0], &note, DAT_COMPLETION_DEFAULT_FLAG);
  return next_request(hello);
}

static void accept_stream(int i, DAT_CONN_QUAL qual, int provider_eps) {
  struct note hello;
  if (i % 3 == 1) {
    const DAT_CR_HANDLE cr = reserve(i, qual + 1000 + (DAT_CONN_QUAL)i, &hello);
    dat(dat_cr_accept(cr, DAT_HANDLE_NULL, 0, NULL), "dat_cr_accept (RSP)");
  } else {
    DAT_CR_PARAM param;
    const DAT_CR_HANDLE cr = next_request(&hello);
    dat(dat_cr_query(cr, DAT_CR_FIELD_LOCAL_EP_HANDLE, &param), "dat_cr_query");
    prepare(&streams[i], i, provider_eps ? param.local_ep_handle : DAT_HANDLE_NULL);
    dat(dat_cr_accept(cr, provider_eps ? DAT_HANDLE_NULL : streams[i].ep, 0, NULL),
        "dat_cr_accept");
  }
  if (hello.version != VERSION || hello.stream != (uint32_t)i) {
    quit("a request of another stream", DAT_SUCCESS);
  }
  wait_established();
  grow(0);
}

/* Serves announcements until a note arrives at the control connection. */
static void serve_copies(DAT_LMR_CONTEXT context) {
  int served = 0;
  for (;;) {
    struct note note;
    int is_note;
    const DAT_EVENT event = wait_event(dto_evd, "work");
    struct stream* s = take(&event, &note, &is_note);
    if (is_note && s->number == 0) {
      return;
    }
    if (is_note) {
      on_announcement(s, &note, context);
      if (++served % 40 == 0) {
        grow(served / 40);
      }
    }
  }
}

static void flush(struct stream* stream) {
  while (stream->recvs > 0 || stream->requests > 0) {
    struct note note;
    int is_note;
    const DAT_EVENT event = wait_event(dto_evd, "what is flushed");
    struct stream* s = take(&event, &note, &is_note);
    s->ended |= is_note;
  }
}

static void serve(int fd) {
  DAT_PSP_HANDLE psp;
  DAT_CONN_QUAL qual;
  DAT_LMR_CONTEXT context;
  DAT_RMR_CONTEXT unused;
  struct note note;
  who = "server";
  if (fork() != 0) { /* a daemon: forks before it opens the adapter */
    _exit(0);
  }
  setsid();
  open_all();
  const int provider_eps = provider.ep_creator != DAT_PSP_CREATES_EP_NEVER;
  DAT_LMR_HANDLE file_lmr = add(file, CHUNK * CHUNKS, DAT_MEM_PRIV_ALL_FLAG, &context, &unused);
  dat(dat_psp_create_any(ia, &qual, request_evd,
                         provider_eps ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG, &psp),
      "dat_psp_create_any");
  start_ticking();
  while (write(fd, &qual, sizeof qual) < 0) {
  }
  /* The first request has an old version, and is rejected with the wanted one. */
  DAT_CR_HANDLE cr = next_request(&note);
  uint32_t wanted = VERSION;
  dat(dat_cr_reject(cr, sizeof wanted, &wanted), "dat_cr_reject");
  for (int i = 0; i <= STREAMS; ++i) {
    accept_stream(i, qual, provider_eps);
  }
  serve_copies(context);
  for (int i = 0; i <= STREAMS; ++i) {
    expect_disconnected();
  }
  for (int i = 0; i <= STREAMS; ++i) {
    flush(&streams[i]);
    finish(&streams[i]);
  }
  dat(dat_psp_free(psp), "dat_psp_free");
  dat(dat_lmr_free(file_lmr), "dat_lmr_free");
  close_all();
  while (write(fd, "E", 1) < 0) {
  }
  _exit(0);
}

/* ---- client ------------------------------------------------------------------------------- */

static unsigned char byte_of(uint32_t chunk, int i, int round) {
  return (unsigned char)(chunk * 19 + (uint32_t)i * 3 + (uint32_t)(i >> 8) * 5 + (uint32_t)round);
}

static void connect_stream(struct stream* s, DAT_CONN_QUAL qual, uint32_t version) {
  struct note hello;
  memset(&hello, 0, sizeof hello);
  hello.version = version;
  hello.stream = (uint32_t)s->number;
  if (s->number == 0 || s->number % 3 == 1) {
    dat(dat_ep_connect(s->ep, attr.ia_address_ptr, qual, DAT_TIMEOUT_INFINITE, sizeof hello, &hello,
                       DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
        "dat_ep_connect");
  } else { /* to the same service point as the control connection */
    dat(dat_ep_dup_connect(s->ep, streams[0].ep, DAT_TIMEOUT_INFINITE, sizeof hello, &hello,
                           DAT_QOS_BEST_EFFORT),
        "dat_ep_dup_connect");
  }
}

static DAT_LMR_HANDLE chunk_lmr[CHUNKS];
static DAT_RMR_CONTEXT chunk_context[CHUNKS];
static DAT_LMR_CONTEXT chunk_local[CHUNKS];

static void announce(struct stream* s, uint32_t chunk, int write) {
  struct note note;
  if (!chunk_lmr[chunk]) {
    chunk_lmr[chunk] = add(file + chunk * CHUNK, CHUNK, DAT_MEM_PRIV_ALL_FLAG, &chunk_local[chunk],
                           &chunk_context[chunk]);
  }
  memset(&note, 0, sizeof note);
  note.version = VERSION;
  note.stream = (uint32_t)s->number;
  note.chunk = chunk;
  note.write = (uint32_t)write;
  note.address = (uintptr_t)(file + chunk * CHUNK);
  note.context = chunk_context[chunk];
  post_note(s, &note, DAT_COMPLETION_DEFAULT_FLAG);
}

static void copy(int write, int round) {
  uint32_t sums[CHUNKS], next = 0, done = 0;
  struct note note;
  int is_note, busy[STREAMS + 1] = {0};
  for (uint32_t c = 0; c < CHUNKS; ++c) {
    for (int i = 0; !write && i < CHUNK; ++i) {
      file[c * CHUNK + (uint32_t)i] = byte_of(c, i, round);
    }
    sums[c] = sum_of(file + c * CHUNK);
  }
  if (write) {
    memset(file, 0, CHUNK * CHUNKS);
  }
  while (done < CHUNKS) {
    for (int i = 1; i <= STREAMS && next < CHUNKS; ++i) {
      while (busy[i] < SLOTS / 2 && next < CHUNKS) {
        ++busy[i];
        announce(&streams[i], next++, write);
      }
    }
    const DAT_EVENT event = wait_event(dto_evd, "an answer");
    struct stream* s = take(&event, &note, &is_note);
    if (!is_note) {
      continue;
    }
    --busy[s->number];
    ++done;
    if (write && note.sum != sums[note.chunk]) {
      quit("the server has other data", DAT_SUCCESS);
    }
    for (int i = 0; write && i < CHUNK; ++i) {
      if (file[note.chunk * CHUNK + (uint32_t)i] != byte_of(note.chunk, i, round)) {
        fprintf(stderr, "%s: byte %d of chunk %u is wrong\n", who, i, note.chunk);
        _exit(1);
      }
    }
    if (!cached) {
      dat(dat_lmr_free(chunk_lmr[note.chunk]), "dat_lmr_free");
      chunk_lmr[note.chunk] = NULL;
    }
    if (done % 30 ==
        10) { /* a helper process while the adapter is open; it ends by calling exit() */
      const pid_t helper = fork();
      if (helper == 0) {
        exit(0);
      }
      while (waitpid(helper, NULL, 0) < 0) {
      }
    }
    if (done % 30 == 20) {
      grow((int)done / 30);
    }
  }
}

/* A second open of the adapter, which shares the async EVD if that is possible. */
static DAT_IA_HANDLE open_again(void) {
  DAT_IA_HANDLE second;
  DAT_EVD_HANDLE shared = async_evd;
  const DAT_RETURN status =
      dat_ia_openv((DAT_NAME_PTR)ia_name, 1, &shared, &second, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                   threadsafe ? DAT_TRUE : DAT_FALSE);
  if (status != DAT_SUCCESS) {
    shared = DAT_HANDLE_NULL;
    dat(dat_ia_openv((DAT_NAME_PTR)ia_name, 1, &shared, &second, DAT_VERSION_MAJOR,
                     DAT_VERSION_MINOR, threadsafe ? DAT_TRUE : DAT_FALSE),
        "dat_ia_open of a second instance");
  }
  return second;
}

/* The first attempt is rejected; the reason is the version with which the second one succeeds. */
static void connect_control(DAT_CONN_QUAL qual) {
  struct note note;
  int is_note;
  uint32_t wanted = 0;
  prepare(&streams[0], 0, DAT_HANDLE_NULL);
  connect_stream(&streams[0], qual, VERSION - 1);
  DAT_EVENT event = wait_event(connection_evd, "an answer");
  if (event.event_number != DAT_CONNECTION_EVENT_PEER_REJECTED ||
      event.event_data.connect_event_data.private_data_size < (DAT_COUNT)sizeof wanted) {
    fprintf(stderr, "%s: event 0x%x instead of a rejection\n", who, event.event_number);
    _exit(1);
  }
  memcpy(&wanted, event.event_data.connect_event_data.private_data, sizeof wanted);
  if (wanted != VERSION) {
    quit("rejected without a reason", DAT_SUCCESS);
  }
  while (streams[0].recvs > 0) { /* flushed by the rejection */
    event = wait_event(dto_evd, "what was flushed");
    take(&event, &note, &is_note);
  }
  dat(dat_ep_reset(streams[0].ep), "dat_ep_reset");
  for (unsigned i = 0; i < SLOTS; ++i) {
    post_recv(&streams[0], i);
  }
  connect_stream(&streams[0], qual, wanted);
  wait_established();
}

static void connect_data(int i, DAT_CONN_QUAL qual) {
  struct note note;
  int is_note;
  prepare(&streams[i], i, DAT_HANDLE_NULL);
  if (i % 3 == 1) {
    do {
      const DAT_EVENT event = wait_event(dto_evd, "a number");
      take(&event, &note, &is_note);
    } while (!is_note);
    qual = note.qual;
  }
  connect_stream(&streams[i], qual, VERSION);
  wait_established();
  DAT_DTO_COOKIE alive;
  alive.as_64 = (uint64_t)i << 32 | SLOTS;
  ++streams[i].requests;
  dat(dat_ep_post_send(streams[i].ep, 0, NULL, alive, DAT_COMPLETION_DEFAULT_FLAG),
      "dat_ep_post_send of nothing");
  grow(0);
}

static void end_streams(void) {
  struct note note;
  int is_note;
  memset(&note, 0, sizeof note);
  post_note(&streams[0], &note, DAT_COMPLETION_DEFAULT_FLAG);
  for (int i = 0; i <= STREAMS; ++i) {
    while (streams[i].requests > 0) {
      const DAT_EVENT event = wait_event(dto_evd, "the last completions");
      take(&event, &note, &is_note);
    }
  }
  for (int i = STREAMS; i >= 0; --i) {
    dat(dat_ep_disconnect(streams[i].ep, i % 2 ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG),
        "dat_ep_disconnect");
    expect_disconnected();
    finish(&streams[i]); /* also discards its posted receives */
  }
}

static void client(DAT_CONN_QUAL qual) {
  who = "client";
  open_all();
  const DAT_IA_HANDLE second = open_again();
  start_ticking();
  connect_control(qual);
  for (int i = 1; i <= STREAMS; ++i) {
    connect_data(i, qual);
  }
  for (int round = 0; round < rounds; ++round) {
    copy(0, round);
    copy(1, round);
  }
  end_streams();
  for (int c = 0; c < CHUNKS; ++c) {
    if (chunk_lmr[c]) {
      dat(dat_lmr_free(chunk_lmr[c]), "dat_lmr_free");
    }
  }
  dat(dat_ia_close(second, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close of the second instance");
  close_all();
  printf("mw_copy: %d signals, %u waits interrupted\n", (int)ticks, interrupted);
  fflush(stdout);
  _exit(0);
}

int main(int argc, char** argv) {
  int option, status = 0, fds[2];
  DAT_CONN_QUAL qual;
  while ((option = getopt(argc, argv, "D:Tn:xcmw:")) != -1) {
    switch (option) {
      case 'D':
        ia_name = optarg;
        break;
      case 'T':
        threadsafe = 1;
        break;
      case 'n':
        rounds = atoi(optarg);
        break;
      case 'x':
        resize = 0;
        break;
      case 'c':
        cached = 1;
        break;
      case 'm':
        max_attributes = 0;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        fprintf(stderr, "usage: mw_copy [-D ia] [-T] [-n rounds] [-x] [-c] [-m] [-w seconds]\n");
        return 2;
    }
  }
  if (pipe(fds) != 0) {
    return 1;
  }
  const pid_t server = fork();
  if (server == 0) {
    close(fds[0]);
    serve(fds[1]);
  }
  close(fds[1]);
  waitpid(server, NULL, 0);
  if (read(fds[0], &qual, sizeof qual) != sizeof qual) {
    fprintf(stderr, "the server does not start\n");
    return 1;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    close(fds[0]);
    client(qual);
  }
  waitpid(pid, &status, 0);
  char token = 0;
  const int good = status == 0 && read(fds[0], &token, 1) == 1 && token == 'E';
  printf("mw_copy: %s\n", good ? "ok" : "FAILED");
  return !good;
}
