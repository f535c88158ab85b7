/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Common code of server and client: the adapter, the two event threads, posting. */
#define _DEFAULT_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "db.h"

static const char* me = "?";

void fatal(const char* format, ...) {
  va_list arguments;
  char text[400];
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s %d: %s\n", me, (int)getpid(), text);
  _exit(1);
}

void check(DAT_RETURN status, const char* what) {
  const char *major, *minor;
  if (status != DAT_SUCCESS) {
    if (dat_strerror(status, &major, &minor) != DAT_SUCCESS) {
      major = minor = "?";
    }
    fatal("%s failed: 0x%08x %s %s", what, (unsigned)status, major, minor);
  }
}

uint32_t page_sum(const unsigned char* page) {
  uint32_t a = 1, b = 0;
  for (int i = 0; i < PAGE; ++i) {
    a = (a + page[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

/* ---- the reaper: all completions of all sessions ------------------------------------------ */

static void hand_over(session_t* session, work_t* work) {
  work->next = NULL;
  if (session->last) {
    session->last->next = work;
  } else {
    session->first = work;
  }
  session->last = work;
}

static void post_shared(node_t* node, work_t* work) {
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  memset(work->message, 0xcc, MESSAGE);
  iov.virtual_address = (DAT_VADDR)(uintptr_t)work->message;
  iov.segment_length = MESSAGE;
  iov.lmr_context = node->srq_context;
  cookie.as_ptr = work;
  check(dat_srq_post_recv(node->srq, 1, &iov, cookie), "dat_srq_post_recv");
}

static void reap(node_t* node, const DAT_DTO_COMPLETION_EVENT_DATA* done) {
  work_t* work = done->user_cookie.as_ptr;
  session_t* session = work->session;
  if (!session) { /* a buffer of the shared queue: the message names the session */
    if (done->status != DAT_DTO_SUCCESS) {
      fatal("a receive of the shared queue ended with status %d", done->status);
    }
    if (done->transfered_length != MESSAGE) {
      fatal("a message of %u bytes for session %u", done->transfered_length,
            work->message->session);
    }
    session = &node->sessions[work->message->session % MAX_SESSIONS];
  } else if (done->ep_handle != session->ep) {
    fatal("a completion of another EP than its cookie's");
  }
  pthread_mutex_lock(&session->lock);
  if (!work->session && (session->state == S_FREE || session->id != (int)work->message->session)) {
    pthread_mutex_unlock(&session->lock); /* its session has ended */
    post_shared(node, work);
    return;
  }
  if (work->kind == W_RECV) {
    session->recvs -= work->session != NULL;
    if (done->status == DAT_DTO_SUCCESS) {
      if (done->transfered_length != MESSAGE) {
        fatal("a message of %u bytes", done->transfered_length);
      }
      hand_over(session, work);
    } else if (session->state == S_UP && done->status != DAT_DTO_ERR_FLUSHED) {
      fatal("session %d: a receive ended with status %d", session->id, done->status);
    }
  } else {
    --session->requests;
    session->failed |= done->status != DAT_DTO_SUCCESS;
  }
  if (session->recvs < 0 || session->requests < 0) {
    fatal("session %d: more completions than posts", session->id);
  }
  pthread_cond_broadcast(&session->changed);
  pthread_mutex_unlock(&session->lock);
}

static void* reaper_main(void* argument) {
  node_t* node = argument;
  while (!__atomic_load_n(&node->stop, __ATOMIC_ACQUIRE)) {
    DAT_EVENT event;
    DAT_COUNT more;
    const DAT_RETURN status = dat_evd_wait(node->dto_evd, 100000, 1, &event, &more);
    if (DAT_GET_TYPE(status) == DAT_TIMEOUT_EXPIRED) {
      continue;
    }
    check(status, "dat_evd_wait of the reaper");
    do {
      /* OpenFabrics providers report flushed receives with another event number. */
      if (event.event_number != DAT_DTO_COMPLETION_EVENT &&
          event.event_number != DAT_IB_EXTENSION_RANGE_BASE) {
        fatal("event 0x%x among the completions", event.event_number);
      }
      reap(node, &event.event_data.dto_completion_event_data);
    } while (dat_evd_dequeue(node->dto_evd, &event) == DAT_SUCCESS);
  }
  return NULL;
}

static void* connector_main(void* argument) {
  node_t* node = argument;
  while (!__atomic_load_n(&node->stop, __ATOMIC_ACQUIRE)) {
    DAT_EVENT event;
    DAT_COUNT more;
    const DAT_RETURN status = dat_evd_wait(node->connection_evd, 100000, 1, &event, &more);
    if (DAT_GET_TYPE(status) == DAT_TIMEOUT_EXPIRED) {
      continue;
    }
    check(status, "dat_evd_wait for connections");
    const DAT_EP_HANDLE ep = event.event_data.connect_event_data.ep_handle;
    DAT_CONTEXT context;
    check(dat_get_consumer_context(ep, &context), "dat_get_consumer_context");
    session_t* session = context.as_ptr;
    pthread_mutex_lock(&session->lock);
    session->state = event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED ? S_UP : S_ENDED;
    if (session->state == S_UP && event.event_data.connect_event_data.private_data_size > 0) {
      uint32_t id;
      memcpy(&id, event.event_data.connect_event_data.private_data, sizeof id);
      session->id = (int)id;
    }
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
  }
  return NULL;
}

/* ---- posting, by the thread of the session ------------------------------------------------ */

void session_post_recv(session_t* session, work_t* work) {
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  if (!work->session) {
    post_shared(session->node, work);
    return;
  }
  memset(work->message, 0xcc, MESSAGE);
  iov.virtual_address = (DAT_VADDR)(uintptr_t)work->message;
  iov.segment_length = MESSAGE;
  iov.lmr_context = session->lmr_context;
  cookie.as_ptr = work;
  pthread_mutex_lock(&session->lock);
  ++session->recvs;
  pthread_mutex_unlock(&session->lock);
  check(dat_ep_post_recv(session->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG),
        "dat_ep_post_recv");
}

void session_post_all(session_t* session) {
  for (int i = 0; i < DEPTH && !session->node->srq; ++i) {
    session_post_recv(session, &session->recv_works[i]);
  }
}

/* A post on an ended connection is no failure: the end has been, or will be, reported. */
static void count_request(session_t* session, DAT_RETURN status, const char* what) {
  if (status != DAT_SUCCESS) {
    pthread_mutex_lock(&session->lock);
    --session->requests;
    session->failed = 1;
    pthread_mutex_unlock(&session->lock);
    if (DAT_GET_TYPE(status) != DAT_INVALID_STATE) {
      check(status, what);
    }
  }
}

static void begin_request(session_t* session) {
  pthread_mutex_lock(&session->lock);
  while (session->requests >= DEPTH - 1 && session->state == S_UP) {
    pthread_cond_wait(&session->changed, &session->lock);
  }
  ++session->requests;
  pthread_mutex_unlock(&session->lock);
}

void session_send(session_t* session, uint32_t op, uint32_t page, uint32_t sequence, uint32_t sum) {
  begin_request(session);
  work_t* work = &session->send_works[session->next_send++ % DEPTH];
  message_t* message = work->message;
  memset(message->filler, (int)(sequence & 0xff), sizeof message->filler);
  message->op = op;
  message->session = (uint32_t)session->id;
  message->page = page;
  message->sequence = sequence;
  message->address = (uintptr_t)(session->memory + page * PAGE);
  message->context = session->rmr_context;
  message->sum = sum;
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)message;
  iov.segment_length = MESSAGE;
  iov.lmr_context = session->lmr_context;
  cookie.as_ptr = work;
  count_request(session,
                dat_ep_post_send(session->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG),
                "dat_ep_post_send");
}

void session_rdma(session_t* session, int write, uint32_t page, uint64_t address,
                  uint32_t context) {
  begin_request(session);
  work_t* work = &session->send_works[session->next_send++ % DEPTH];
  DAT_LMR_TRIPLET iov;
  DAT_RMR_TRIPLET remote;
  DAT_DTO_COOKIE cookie;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)(session->memory + page * PAGE);
  iov.segment_length = PAGE;
  iov.lmr_context = session->lmr_context;
  remote.virtual_address = address;
  remote.segment_length = PAGE;
  remote.rmr_context = context;
  cookie.as_ptr = work;
  if (write) {
    count_request(
        session,
        dat_ep_post_rdma_write(session->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG),
        "dat_ep_post_rdma_write");
  } else {
    count_request(
        session,
        dat_ep_post_rdma_read(session->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG),
        "dat_ep_post_rdma_read");
  }
}

/* ---- waiting, by the thread of the session ------------------------------------------------ */

static void wait_changed(session_t* session, const char* what) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE;
  if (pthread_cond_timedwait(&session->changed, &session->lock, &until) != 0) {
    fatal("session %d is stuck: %s (state %d, %d receives, %d requests)", session->id, what,
          session->state, session->recvs, session->requests);
  }
}

work_t* session_next(session_t* session) {
  pthread_mutex_lock(&session->lock);
  /* Messages received before the end may still be among the completions. */
  while (!session->first && !session->failed && (session->state != S_ENDED || session->recvs)) {
    wait_changed(session, "no message");
  }
  work_t* work = session->first;
  if (work) {
    session->first = work->next;
    session->last = session->first ? session->last : NULL;
  }
  pthread_mutex_unlock(&session->lock);
  return work;
}

int session_settled(session_t* session) {
  pthread_mutex_lock(&session->lock);
  while (session->requests > 0) {
    wait_changed(session, "requests");
  }
  const int good = !session->failed;
  pthread_mutex_unlock(&session->lock);
  return good;
}

void session_drain(session_t* session) {
  pthread_mutex_lock(&session->lock);
  while (session->state != S_ENDED) {
    wait_changed(session, "no end of the connection");
  }
  while (session->recvs > 0 || session->requests > 0) {
    wait_changed(session, "not everything was flushed");
  }
  work_t* left = session->first;
  session->first = session->last = NULL;
  session->failed = 0;
  session->state = S_FREE;
  pthread_mutex_unlock(&session->lock);
  while (left && !left->session) { /* belongs to the shared queue */
    work_t* next = left->next;
    session_post_recv(session, left);
    left = next;
  }
}

/* ---- making and freeing ------------------------------------------------------------------- */

void session_prepare(session_t* session, int id, node_t* node) {
  DAT_REGION_DESCRIPTION where;
  DAT_VLEN size;
  DAT_VADDR start;
  const size_t length = PAGES * PAGE + 2 * DEPTH * MESSAGE;
  session->id = id;
  session->node = node;
  session->failed = 0;
  session->memory = valloc(length);
  memset(session->memory, 0, length);
  where.for_va = session->memory;
  check(dat_lmr_create(node->ia, DAT_MEM_TYPE_VIRTUAL, where, length, node->pz,
                       DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &session->lmr, &session->lmr_context,
                       &session->rmr_context, &size, &start),
        "dat_lmr_create");
  for (int i = 0; i < DEPTH; ++i) {
    session->recv_works[i].kind = W_RECV;
    session->recv_works[i].session = session->send_works[i].session = session;
    session->recv_works[i].message = (message_t*)(session->memory + PAGES * PAGE + i * MESSAGE);
    session->send_works[i].kind = W_REQUEST;
    session->send_works[i].message = session->recv_works[i].message + DEPTH;
  }
}

void session_make_ep(session_t* session) {
  node_t* node = session->node;
  DAT_EP_ATTR attr;
  DAT_CONTEXT context;
  memset(&attr, 0, sizeof attr);
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = 65536;
  attr.max_rdma_size = 65536;
  attr.qos = DAT_QOS_BEST_EFFORT;
  attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  attr.max_recv_dtos = DEPTH;
  attr.max_request_dtos = DEPTH;
  attr.max_recv_iov = attr.max_request_iov = 1;
  attr.max_rdma_read_in = attr.max_rdma_read_out = 4;
  attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
  if (node->srq) {
    check(dat_ep_create_with_srq(node->ia, node->pz, node->dto_evd, node->dto_evd,
                                 node->connection_evd, node->srq, &attr, &session->ep),
          "dat_ep_create_with_srq");
  } else {
    check(dat_ep_create(node->ia, node->pz, node->dto_evd, node->dto_evd, node->connection_evd,
                        &attr, &session->ep),
          "dat_ep_create");
  }
  context.as_ptr = session;
  check(dat_set_consumer_context(session->ep, context), "dat_set_consumer_context");
}

void session_free(session_t* session) {
  check(dat_lmr_free(session->lmr), "dat_lmr_free");
  free(session->memory);
}

static void make_shared_queue(node_t* node) {
  DAT_SRQ_ATTR attr;
  DAT_REGION_DESCRIPTION where;
  DAT_VLEN size;
  DAT_VADDR start;
  DAT_RMR_CONTEXT unused;
  const int buffers = MAX_SESSIONS * DEPTH;
  attr.max_recv_dtos = buffers;
  attr.max_recv_iov = 1;
  attr.low_watermark = DAT_SRQ_LW_DEFAULT;
  check(dat_srq_create(node->ia, node->pz, &attr, &node->srq), "dat_srq_create");
  node->srq_memory = calloc((size_t)buffers, MESSAGE);
  where.for_va = node->srq_memory;
  check(dat_lmr_create(node->ia, DAT_MEM_TYPE_VIRTUAL, where, (DAT_VLEN)buffers * MESSAGE, node->pz,
                       DAT_MEM_PRIV_LOCAL_WRITE_FLAG, DAT_VA_TYPE_VA, &node->srq_lmr,
                       &node->srq_context, &unused, &size, &start),
        "dat_lmr_create");
  for (int i = 0; i < buffers; ++i) {
    node->srq_works[i].kind = W_RECV;
    node->srq_works[i].message = (message_t*)(node->srq_memory + i * MESSAGE);
    post_shared(node, &node->srq_works[i]);
  }
}

void node_open(node_t* node, const char* name, const options_t* options, int shared_queue) {
  DAT_IA_ATTR attr;
  me = name;
  memset(node, 0, sizeof *node);
  for (int i = 0; i < MAX_SESSIONS; ++i) {
    pthread_mutex_init(&node->sessions[i].lock, NULL);
    pthread_cond_init(&node->sessions[i].changed, NULL);
  }
  node->name = name;
  node->async_evd = DAT_HANDLE_NULL;
  check(dat_ia_openv((DAT_NAME_PTR)options->ia, 16, &node->async_evd, &node->ia, 2, 0,
                     options->threadsafe ? DAT_TRUE : DAT_FALSE),
        "dat_ia_open");
  check(dat_ia_query(node->ia, NULL, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_NONE, NULL),
        "dat_ia_query");
  node->address = attr.ia_address_ptr;
  check(dat_pz_create(node->ia, &node->pz), "dat_pz_create");
  check(dat_evd_create(node->ia, MAX_SESSIONS * 4 * DEPTH, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
                       &node->dto_evd),
        "dat_evd_create");
  check(dat_evd_create(node->ia, 4 * MAX_SESSIONS, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
                       &node->connection_evd),
        "dat_evd_create");
  if (shared_queue) {
    make_shared_queue(node);
  }
  if (pthread_create(&node->reaper, NULL, reaper_main, node) != 0 ||
      pthread_create(&node->connector, NULL, connector_main, node) != 0) {
    fatal("no threads");
  }
}

void node_close(node_t* node) {
  __atomic_store_n(&node->stop, 1, __ATOMIC_RELEASE);
  pthread_join(node->reaper, NULL);
  pthread_join(node->connector, NULL);
  if (node->srq) {
    check(dat_srq_free(node->srq), "dat_srq_free");
    check(dat_lmr_free(node->srq_lmr), "dat_lmr_free");
    free(node->srq_memory);
  }
  check(dat_evd_free(node->dto_evd), "dat_evd_free");
  check(dat_evd_free(node->connection_evd), "dat_evd_free");
  check(dat_pz_free(node->pz), "dat_pz_free");
  check(dat_ia_close(node->ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}
