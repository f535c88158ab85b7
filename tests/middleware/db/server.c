/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The page server: a listener thread, and a thread for each session. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db.h"

static node_t node;
static DAT_EVD_HANDLE request_evd;
static DAT_PSP_HANDLE psp;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t table_changed = PTHREAD_COND_INITIALIZER;
static int used[MAX_SESSIONS], opened, closed, broken;

/* Answers requests until the client sends OP_BYE or has gone. Returns whether it sent OP_BYE. */
static int answer(session_t* session) {
  for (;;) {
    work_t* work = session_next(session);
    if (!work) {
      return 0;
    }
    const message_t request = *work->message;
    for (size_t i = 0; i < sizeof request.filler; ++i) {
      if (request.filler[i] != (request.sequence & 0xff)) {
        fatal("session %d, message %u: byte %zu is wrong", session->id, request.sequence, i + 32);
      }
    }
    session_post_recv(session, work); /* before the answer, which lets the client send again */
    if (request.op == OP_BYE) {
      return 1;
    }
    unsigned char* page = session->memory + request.page * PAGE;
    if (request.op == OP_PUT) {
      memset(page, 0, PAGE);
      session_rdma(session, 0, request.page, request.address, request.context);
      if (!session_settled(session)) {
        return 0;
      }
      if (page_sum(page) != request.sum) {
        fatal("session %d, message %u: page %u was read wrongly", session->id, request.sequence,
              request.page);
      }
      session_send(session, OP_DONE, request.page, request.sequence, 0);
    } else {
      /* The answer follows the page on the connection, so it arrives after the page. */
      const uint32_t sum = page_sum(page);
      session_rdma(session, 1, request.page, request.address, request.context);
      session_send(session, OP_DONE, request.page, request.sequence, sum);
    }
  }
}

static void* session_main(void* argument) {
  session_t* session = argument;
  pthread_mutex_lock(&session->lock);
  while (session->state == S_CONNECTING) {
    pthread_cond_wait(&session->changed, &session->lock);
  }
  pthread_mutex_unlock(&session->lock);
  const int polite = answer(session);
  if (!polite) {
    /* Disconnect in whatever state the EP is. */
    dat_ep_disconnect(session->ep, DAT_CLOSE_ABRUPT_FLAG);
  }
  session_drain(session);
  check(dat_ep_free(session->ep), "dat_ep_free");
  pthread_mutex_lock(&table);
  session_free(session);
  used[session - node.sessions] = 0;
  ++closed;
  broken += !polite;
  pthread_cond_broadcast(&table_changed);
  pthread_mutex_unlock(&table);
  return NULL;
}

static void accept_session(DAT_CR_HANDLE cr) {
  int id = 0;
  pthread_mutex_lock(&table);
  while (id < MAX_SESSIONS && used[id]) {
    ++id;
  }
  if (id == MAX_SESSIONS) {
    pthread_mutex_unlock(&table);
    check(dat_cr_reject(cr, 0, NULL), "dat_cr_reject");
    return;
  }
  used[id] = 1;
  ++opened;
  pthread_mutex_unlock(&table);
  session_t* session = &node.sessions[id];
  const uint32_t number = (uint32_t)(id + MAX_SESSIONS * (opened % 1000000));
  session_prepare(session, (int)number, &node);
  session_make_ep(session);
  session_post_all(session);
  pthread_mutex_lock(&session->lock);
  session->state = S_CONNECTING;
  pthread_mutex_unlock(&session->lock);
  check(dat_cr_accept(cr, session->ep, sizeof number, (DAT_PVOID)&number), "dat_cr_accept");
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  if (pthread_create(&session->thread, &detached, session_main, session) != 0) {
    fatal("no thread for session %d", id);
  }
  pthread_attr_destroy(&detached);
}

static void* listener_main(void* unused) {
  (void)unused;
  for (;;) {
    DAT_EVENT event;
    DAT_COUNT more;
    const DAT_RETURN status = dat_evd_wait(request_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
    if (DAT_GET_TYPE(status) == DAT_INVALID_STATE) {
      return NULL; /* made unwaitable: the server ends */
    }
    check(status, "dat_evd_wait for requests");
    accept_session(event.event_data.cr_arrival_event_data.cr_handle);
  }
}

int serve(const options_t* options, int ready_fd, int stop_fd) {
  pthread_t listener;
  char token = 'R';
  node_open(&node, "server", options, options->srq);
  check(dat_evd_create(node.ia, 64, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &request_evd),
        "dat_evd_create");
  check(dat_psp_create(node.ia, options->qual, request_evd, DAT_PSP_CONSUMER_FLAG, &psp),
        "dat_psp_create");
  if (pthread_create(&listener, NULL, listener_main, NULL) != 0 ||
      write(ready_fd, &token, 1) != 1) {
    fatal("cannot start");
  }
  while (read(stop_fd, &token, 1) < 0) {
  }
  check(dat_psp_free(psp), "dat_psp_free");
  check(dat_evd_set_unwaitable(request_evd), "dat_evd_set_unwaitable");
  pthread_join(listener, NULL);
  pthread_mutex_lock(&table);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE;
  while (opened != closed) {
    if (pthread_cond_timedwait(&table_changed, &table, &until) != 0) {
      fatal("%d of %d sessions did not end", opened - closed, opened);
    }
  }
  pthread_mutex_unlock(&table);
  DAT_EVENT event;
  while (dat_evd_dequeue(request_evd, &event) == DAT_SUCCESS) {
    check(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, NULL),
          "dat_cr_reject");
  }
  check(dat_evd_free(request_evd), "dat_evd_free");
  usleep(20000); /* let the session threads end, which have reported that they are done */
  node_close(&node);
  if (broken > options->broken) {
    fatal("%d of %d sessions were broken off, at most %d may be", broken, opened, options->broken);
  }
  printf("server: %d sessions, %d of them broken off\n", opened, broken);
  fflush(stdout);
  return 0;
}
