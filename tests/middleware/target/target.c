/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include "iser.h"

typedef struct session session_t;
typedef struct {
  session_t* session;
  command_t* command; /* where it was received; answered from there, too */
  int left;           /* transfers that have not completed */
} task_t;
struct session {
  DAT_EP_HANDLE ep;
  int ended;    /* its connection */
  int left_srq; /* what it has taken from the SRQ is in the EVD */
  int tasks;
};
static struct {
  DAT_IA_HANDLE ia;
  DAT_IA_ATTR attr;
  DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connect_evd;
  DAT_CNO_HANDLE cno;
  DAT_PZ_HANDLE pz;
  DAT_SRQ_HANDLE srq;
  DAT_PSP_HANDLE psp;
  command_t* buffers;
  task_t tasks[SRQ_DEPTH];
  int spare[SRQ_DEPTH], spares;
  region_t buffer_region, disk_region;
  uint8_t* disk;
  session_t sessions[4 * SESSIONS];
  unsigned refills, served, broken, logins;
} target;

static void refill(void) {
  while (target.spares > 0) {
    const int i = target.spare[--target.spares];
    DAT_LMR_TRIPLET iov = part_of(&target.buffer_region, &target.buffers[i], sizeof(command_t));
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = (DAT_UINT64)i;
    OK(dat_srq_post_recv(target.srq, 1, &iov, cookie));
  }
  OK(dat_srq_set_lw(target.srq, LOW_WATERMARK));
  ++target.refills;
}

static void bury(session_t* session) {
  if (session->ended && session->left_srq && session->tasks == 0 && session->ep) {
    OK(dat_ep_free(session->ep));
    session->ep = DAT_HANDLE_NULL;
  }
}

static void retire(task_t* task) {
  session_t* session = task->session;
  --session->tasks;
  target.spare[target.spares++] = (int)(task - target.tasks);
}

static void answer(task_t* task) {
  command_t* command = task->command;
  const DAT_RMR_CONTEXT context = command->context;
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  command->operation = GOOD;
  command->sum = 0;
  for (uint32_t i = 0; i < command->length; ++i) {
    command->sum =
        command->sum * 3 + target.disk[(command->initiator * BLOCKS + command->block) * BLOCK + i];
  }
  task->left = 1;
  cookie.as_64 = (DAT_UINT64)(task - target.tasks) << 1 | 1;
  iov = part_of(&target.buffer_region, command, offsetof(command_t, data));
  const DAT_RETURN status =
      options.no_windows
          ? dat_ep_post_send(task->session->ep, 1, &iov, cookie, DAT_COMPLETION_SOLICITED_WAIT_FLAG)
          : dat_ep_post_send_with_invalidate(task->session->ep, 1, &iov, cookie,
                                             DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_TRUE, context);
  if (DAT_GET_TYPE(status) == DAT_INVALID_STATE) { /* the session has ended meanwhile */
    retire(task);
    return;
  }
  OK(status);
}

static void execute(task_t* task) {
  command_t* command = task->command;
  uint8_t* data = target.disk + (size_t)(command->initiator * BLOCKS + command->block) * BLOCK;
  uint32_t done = command->immediate;
  if (command->operation == WRITE_BLOCK) {
    memcpy(data, command->data, command->immediate);
  }
  const uint32_t rest = command->length - done;
  task->left = 0;
  for (int part = 0; part < PARTS && rest > 0; ++part) {
    const uint32_t length = part + 1 < PARTS ? rest / PARTS : command->length - done;
    DAT_LMR_TRIPLET iov[2];
    DAT_RMR_TRIPLET remote;
    DAT_DTO_COOKIE cookie;
    const int write = command->operation == READ_BLOCK;
    cookie.as_64 = (DAT_UINT64)(task - target.tasks) << 1;
    iov[0] = part_of(&target.disk_region, data + done, length / 3);
    iov[1] = part_of(&target.disk_region, data + done + length / 3, length - length / 3);
    remote.virtual_address = command->address + done;
    remote.segment_length = length;
    remote.rmr_context = command->context;
    /* The completion of the last Write says that of all of them. */
    const DAT_COMPLETION_FLAGS flags =
        write && part + 1 < PARTS ? DAT_COMPLETION_SUPPRESS_FLAG : DAT_COMPLETION_DEFAULT_FLAG;
    const int segments = write ? 2 : 1;
    if (!write) {
      iov[0].segment_length = length;
    }
    const DAT_RETURN status =
        write ? dat_ep_post_rdma_write(task->session->ep, segments, iov, cookie, &remote, flags)
              : dat_ep_post_rdma_read(task->session->ep, segments, iov, cookie, &remote, flags);
    if (DAT_GET_TYPE(status) == DAT_INVALID_STATE) {
      break;
    }
    OK(status);
    done += length;
    task->left += flags == DAT_COMPLETION_DEFAULT_FLAG;
  }
  if (task->left == 0) {
    answer(task);
  }
}

static session_t* session_of(DAT_EP_HANDLE ep) {
  for (int i = 0; i < 4 * SESSIONS; ++i) {
    if (target.sessions[i].ep == ep) {
      return &target.sessions[i];
    }
  }
  DIE("target: event of an unknown EP");
}

static void received(const DAT_DTO_COMPLETION_EVENT_DATA* done) {
  task_t* task = &target.tasks[done->user_cookie.as_64];
  task->session = session_of(done->ep_handle);
  task->command = &target.buffers[done->user_cookie.as_64];
  ++task->session->tasks;
  if (done->status == DAT_DTO_ERR_FLUSHED || task->session->ended) {
    retire(task);
    return;
  }
  if (done->status != DAT_DTO_SUCCESS ||
      done->transfered_length != offsetof(command_t, data) + task->command->immediate) {
    DIE("target: receive: status %d, %u bytes", done->status, (unsigned)done->transfered_length);
  }
  ++target.served;
  execute(task);
}

static void request_done(const DAT_DTO_COMPLETION_EVENT_DATA* done) {
  task_t* task = &target.tasks[done->user_cookie.as_64 >> 1];
  if (done->ep_handle != task->session->ep) {
    DIE("target: completion of another EP");
  }
  if (done->status != DAT_DTO_SUCCESS) {
    ++target.broken;
  }
  if (task->left > 0 && --task->left == 0) {
    if (done->user_cookie.as_64 & 1 || done->status != DAT_DTO_SUCCESS) {
      retire(task);
    } else {
      answer(task);
    }
  }
}

static void connection_event(const DAT_EVENT* event) {
  if (event->event_number == DAT_CONNECTION_REQUEST_EVENT) {
    const DAT_CR_HANDLE cr = event->event_data.cr_arrival_event_data.cr_handle;
    DAT_EP_ATTR attr;
    session_t* session = target.sessions;
    while (session->ep) {
      ++session;
    }
    if (session >= target.sessions + 4 * SESSIONS) {
      DIE("target: too many sessions");
    }
    memset(session, 0, sizeof *session);
    attributes(&attr, &target.attr);
    OK(dat_ep_create_with_srq(target.ia, target.pz, target.recv_evd, target.request_evd,
                              target.connect_evd, target.srq, &attr, &session->ep));
    OK(dat_cr_accept(cr, session->ep, 0, NULL));
    ++target.logins;
    return;
  }
  session_t* session = session_of(event->event_data.connect_event_data.ep_handle);
  switch (event->event_number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
      break;
    case DAT_CONNECTION_EVENT_DISCONNECTED:
    case DAT_CONNECTION_EVENT_BROKEN:
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
      session->ended = 1;
      break;
    default:
      DIE("target: connection event %x", event->event_number);
  }
}

static int drain(void) {
  DAT_EVENT event;
  int found = 0;
  while (dat_evd_dequeue(target.recv_evd, &event) == DAT_SUCCESS) {
    received(&event.event_data.dto_completion_event_data);
    ++found;
  }
  for (int i = 0; i < 4 * SESSIONS; ++i) {
    bury(&target.sessions[i]);
  }
  while (dat_evd_dequeue(target.request_evd, &event) == DAT_SUCCESS) {
    request_done(&event.event_data.dto_completion_event_data);
    ++found;
  }
  while (dat_evd_dequeue(target.connect_evd, &event) == DAT_SUCCESS) {
    connection_event(&event);
    ++found;
  }
  while (dat_evd_dequeue(target.async_evd, &event) == DAT_SUCCESS) {
    const DAT_ASYNCH_ERROR_EVENT_DATA* error = &event.event_data.asynch_error_event_data;
    if (event.event_number != DAT_ASYNC_ERROR_EP_BROKEN) {
      DIE("target: asynchronous event %x, reason %d", event.event_number, error->reason);
    }
    if (error->dat_handle == target.srq) {
      refill();
    } else { /* what the EP has taken from the SRQ is in the EVD */
      session_of(error->dat_handle)->left_srq = 1;
    }
    ++found;
  }
  return found;
}

void* run_target(void* unused) {
  DAT_SRQ_ATTR srq_attr = {SRQ_DEPTH, 1, DAT_SRQ_LW_DEFAULT};
  DAT_PSP_PARAM psp;
  (void)unused;
  target.async_evd = DAT_HANDLE_NULL;
  OK(dat_ia_openv((DAT_NAME_PTR)options.ia_name, 8, &target.async_evd, &target.ia,
                  DAT_VERSION_MAJOR, DAT_VERSION_MINOR, options.threadsafe ? DAT_TRUE : DAT_FALSE));
  OK(dat_ia_query(target.ia, NULL, DAT_IA_FIELD_ALL, &target.attr, DAT_PROVIDER_FIELD_NONE, NULL));
  OK(dat_pz_create(target.ia, &target.pz));
  OK(dat_cno_create(target.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &target.cno));
  OK(dat_evd_create(target.ia, SRQ_DEPTH, target.cno, DAT_EVD_DTO_FLAG, &target.recv_evd));
  OK(dat_evd_create(target.ia, SESSIONS * DEPTH * (PARTS + 1), target.cno, DAT_EVD_DTO_FLAG,
                    &target.request_evd));
  OK(dat_evd_create(target.ia, 8 * SESSIONS, target.cno, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
                    &target.connect_evd));
  OK(dat_evd_modify_cno(target.async_evd, target.cno));
  OK(dat_srq_create(target.ia, target.pz, &srq_attr, &target.srq));
  target.buffers = calloc(SRQ_DEPTH, sizeof(command_t));
  target.buffer_region = add(target.ia, target.pz, target.buffers, SRQ_DEPTH * sizeof(command_t),
                             DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  target.disk = calloc((size_t)options.initiators * BLOCKS, BLOCK);
  /* RDMA Reads over iWARP need the remote right to write. */
  target.disk_region = add(target.ia, target.pz, target.disk,
                           (size_t)options.initiators * BLOCKS * BLOCK, DAT_MEM_PRIV_ALL_FLAG);
  for (int i = 0; i < SRQ_DEPTH; ++i) {
    target.spare[target.spares++] = i;
  }
  refill();
  OK(dat_psp_create_any(target.ia, &psp.conn_qual, target.connect_evd, DAT_PSP_CONSUMER_FLAG,
                        &target.psp));
  memcpy(&common->address, target.attr.ia_address_ptr,
         target.attr.ia_address_ptr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                           : sizeof(struct sockaddr_in));
  common->qual = psp.conn_qual;
  common->left = options.initiators;
  common->ready = 1;
  for (;;) {
    DAT_EVD_HANDLE evd;
    int alive = common->left;
    while (drain() > 0) {
    }
    for (int i = 0; i < 4 * SESSIONS; ++i) {
      alive += target.sessions[i].ep != DAT_HANDLE_NULL;
    }
    if (alive == 0) {
      break;
    }
    const DAT_RETURN status = dat_cno_wait(target.cno, 100000, &evd);
    if (status != DAT_SUCCESS && DAT_GET_TYPE(status) != DAT_QUEUE_EMPTY) {
      OK(status);
    }
  }
  OK(dat_psp_free(target.psp));
  OK(dat_srq_free(target.srq));
  OK(dat_lmr_free(target.buffer_region.lmr));
  OK(dat_lmr_free(target.disk_region.lmr));
  OK(dat_pz_free(target.pz));
  OK(dat_evd_modify_cno(target.async_evd, DAT_HANDLE_NULL));
  OK(dat_evd_free(target.recv_evd));
  OK(dat_evd_free(target.request_evd));
  OK(dat_evd_free(target.connect_evd));
  OK(dat_cno_free(target.cno));
  OK(dat_ia_close(target.ia, DAT_CLOSE_GRACEFUL_FLAG));
  fprintf(stderr, "target: %u logins, %u commands, %u requests failed, filled %u times\n",
          target.logins, target.served, target.broken, target.refills);
  free(target.buffers);
  free(target.disk);
  return NULL;
}
