/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A server on the public API that hostile peers attack: accepts connections and sends every message
 * back. It writes a line for each event and executes commands from its standard input, so that a
 * test sees what the application of a real server would see. Single-threaded.
 *
 *   victim --ia NAME --port PORT [--qlen N] [--dto-qlen N] [--srq N] [--keep | --reject]
 *
 * --qlen: length of the common EVD for requests and connection events; --dto-qlen: of that for
 * completions. --srq: all endpoints share N receives. --keep: requests of strangers stay undecided;
 * --reject: they are rejected. A request with the bystander's private data is always accepted.
 *
 * Commands: read EP STAG OFFSET LENGTH | watermark EP SOFT HARD | watermarks SOFT HARD |
 * accept | reject (the kept requests) | busy (dequeue no events) | serve | end EP | quit
 */
#include <getopt.h>
#include <poll.h>
#include <unistd.h>

#include "program.h"

#define MAX_ENDPOINTS 4096
#define RECEIVES 4
#define REGION_SIZE 65536
#define DTO_QUEUE 65536
#define MAX_SRQ 256

enum { RECEIVE, SEND, READ };

struct endpoint {
  DAT_EP_HANDLE ep; /* null if the entry is free */
  int connected;
};

static struct {
  DAT_IA_HANDLE ia;
  DAT_PZ_HANDLE pz;
  DAT_CNO_HANDLE cno;
  DAT_EVD_HANDLE async_evd, dto_evd, connection_evd;
  DAT_SRQ_HANDLE srq;
  DAT_PSP_HANDLE psp;
  struct memory buffers, region;
  struct endpoint endpoints[MAX_ENDPOINTS];
  DAT_CR_HANDLE kept[MAX_ENDPOINTS];
  int kept_count;
  int keep, reject, busy, shared, hard_mark, soft_mark;
} victim = {.hard_mark = DAT_WATERMARK_INFINITE, .soft_mark = DAT_WATERMARK_INFINITE};

static DAT_DTO_COOKIE cookie_of(int kind, int endpoint, int buffer) {
  const DAT_DTO_COOKIE cookie = {.as_64 = (DAT_UINT64)kind << 32 | (DAT_UINT64)endpoint << 12 |
                                          (DAT_UINT64)buffer};
  return cookie;
}

static size_t place_of(int endpoint, int buffer) {
  return ((size_t)(victim.shared ? 0 : endpoint * RECEIVES) + (size_t)buffer) * MESSAGE_SIZE;
}

static void post_receive(int index, int buffer) {
  DAT_LMR_TRIPLET local = segment(&victim.buffers, place_of(index, buffer), MESSAGE_SIZE);
  const DAT_DTO_COOKIE cookie = cookie_of(RECEIVE, index, buffer);
  if (victim.shared)
    CHECK(dat_srq_post_recv(victim.srq, 1, &local, cookie));
  else
    dat_ep_post_recv(victim.endpoints[index].ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG);
}

static int index_of(DAT_EP_HANDLE ep) {
  for (int i = 0; i < MAX_ENDPOINTS; ++i)
    if (victim.endpoints[i].ep == ep) return i;
  return -1;
}

static void accept_request(DAT_CR_HANDLE cr) {
  const int index = index_of(DAT_HANDLE_NULL);
  struct endpoint* const place = &victim.endpoints[index];
  DAT_EP_ATTR attributes;
  memset(&attributes, 0, sizeof attributes);
  if (index < 0) {
    dat_cr_reject(cr, 0, NULL);
    printf("refused\n");
    return;
  }
  if (victim.shared) {
    DAT_EP_HANDLE probe;
    DAT_EP_PARAM param;
    CHECK(dat_ep_create(victim.ia, victim.pz, victim.dto_evd, victim.dto_evd, victim.connection_evd,
                        NULL, &probe));
    CHECK(dat_ep_query(probe, DAT_EP_FIELD_ALL, &param));
    CHECK(dat_ep_free(probe));
    attributes = param.ep_attr;
    attributes.srq_soft_hw = DAT_HW_DEFAULT;
    CHECK(dat_ep_create_with_srq(victim.ia, victim.pz, victim.dto_evd, victim.dto_evd,
                                 victim.connection_evd, victim.srq, &attributes, &place->ep));
    if (victim.hard_mark != DAT_WATERMARK_INFINITE || victim.soft_mark != DAT_WATERMARK_INFINITE)
      CHECK(dat_ep_set_watermark(place->ep, victim.soft_mark, victim.hard_mark));
  } else {
    const DAT_RETURN made = dat_ep_create(victim.ia, victim.pz, victim.dto_evd, victim.dto_evd,
                                          victim.connection_evd, NULL, &place->ep);
    if (made != DAT_SUCCESS) {
      place->ep = DAT_HANDLE_NULL;
      dat_cr_reject(cr, 0, NULL);
      printf("refused\n");
      return;
    }
    for (int i = 0; i < RECEIVES; ++i) post_receive(index, i);
  }
  if (dat_cr_accept(cr, place->ep, 0, NULL) == DAT_SUCCESS) {
    printf("accepted %d\n", index);
    return;
  }
  dat_cr_reject(cr, 0, NULL);
  dat_ep_free(place->ep);
  place->ep = DAT_HANDLE_NULL;
  printf("refused\n");
}

static void on_request(const DAT_EVENT* event) {
  const DAT_CR_HANDLE cr = event->event_data.cr_arrival_event_data.cr_handle;
  DAT_CR_PARAM param;
  CHECK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
  const int friendly = param.private_data_size == (DAT_COUNT)strlen(BYSTANDER) &&
                       memcmp(param.private_data, BYSTANDER, strlen(BYSTANDER)) == 0;
  printf("request\n");
  if (friendly || (!victim.keep && !victim.reject)) {
    accept_request(cr);
  } else if (victim.reject || victim.kept_count == MAX_ENDPOINTS) {
    CHECK(dat_cr_reject(cr, 0, NULL));
  } else {
    victim.kept[victim.kept_count++] = cr;
  }
}

static void on_connection_event(const DAT_EVENT* event) {
  const int index = index_of(event->event_data.connect_event_data.ep_handle);
  if (index < 0) return;
  if (event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
    victim.endpoints[index].connected = 1;
    printf("established %d\n", index);
    return;
  }
  printf("ended %d %s\n", index,
         event->event_number == DAT_CONNECTION_EVENT_DISCONNECTED              ? "disconnected"
         : event->event_number == DAT_CONNECTION_EVENT_BROKEN                  ? "broken"
         : event->event_number == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR ? "not-accepted"
                                                                               : "otherwise");
  victim.endpoints[index].connected = 0;
  dat_ep_free(victim.endpoints[index].ep);
  victim.endpoints[index].ep = DAT_HANDLE_NULL;
}

static void on_completion(const DAT_EVENT* event) {
  const DAT_DTO_COMPLETION_EVENT_DATA* const data = &event->event_data.dto_completion_event_data;
  const int kind = (int)(data->user_cookie.as_64 >> 32);
  const int buffer = (int)(data->user_cookie.as_64 & 0xFFF);
  const int index = index_of(data->ep_handle);
  if (kind == READ || (data->status != DAT_DTO_SUCCESS && data->status != DAT_DTO_ERR_FLUSHED))
    printf("completion %d %s %d %u\n", index,
           kind == READ   ? "read"
           : kind == SEND ? "send"
                          : "receive",
           (int)data->status, (unsigned)data->transfered_length);
  if (kind == READ) return;
  if (kind == SEND || data->status != DAT_DTO_SUCCESS || index < 0) {
    /* The answer has been sent, or there is none: post the buffer for the next message. */
    if (victim.shared || (kind == SEND && index >= 0 && victim.endpoints[index].connected))
      post_receive(index < 0 ? 0 : index, buffer);
    return;
  }
  DAT_LMR_TRIPLET local =
      segment(&victim.buffers, place_of(index, buffer), (size_t)data->transfered_length);
  const DAT_RETURN sent =
      dat_ep_post_send(victim.endpoints[index].ep, 1, &local, cookie_of(SEND, index, buffer),
                       DAT_COMPLETION_DEFAULT_FLAG);
  if (sent != DAT_SUCCESS && victim.shared) post_receive(index, buffer);
}

static void serve(void) {
  DAT_EVENT event;
  while (dat_evd_dequeue(victim.dto_evd, &event) == DAT_SUCCESS) on_completion(&event);
  while (dat_evd_dequeue(victim.connection_evd, &event) == DAT_SUCCESS) {
    if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
      on_request(&event);
    else
      on_connection_event(&event);
  }
  while (dat_evd_dequeue(victim.async_evd, &event) == DAT_SUCCESS)
    printf("async 0x%x\n", (unsigned)event.event_number);
}

static void post_read(int index, DAT_RMR_CONTEXT stag, DAT_VADDR offset, unsigned length) {
  DAT_LMR_TRIPLET local = segment(&victim.buffers, place_of(index, 0), length);
  const DAT_RMR_TRIPLET remote = {
      .virtual_address = offset, .segment_length = length, .rmr_context = stag};
  CHECK(dat_ep_post_rdma_read(victim.endpoints[index].ep, 1, &local, cookie_of(READ, index, 0),
                              &remote, DAT_COMPLETION_DEFAULT_FLAG));
}

static void obey(const char* line) {
  int index, soft, hard;
  unsigned stag, length;
  unsigned long long offset;
  if (sscanf(line, "read %d %u %llu %u", &index, &stag, &offset, &length) == 4) {
    post_read(index, stag, offset, length);
  } else if (sscanf(line, "watermarks %d %d", &soft, &hard) == 2) {
    victim.soft_mark = soft;
    victim.hard_mark = hard;
  } else if (strcmp(line, "accept\n") == 0) {
    while (victim.kept_count > 0) accept_request(victim.kept[--victim.kept_count]);
  } else if (strcmp(line, "reject\n") == 0) {
    while (victim.kept_count > 0) CHECK(dat_cr_reject(victim.kept[--victim.kept_count], 0, NULL));
  } else if (strcmp(line, "busy\n") == 0) {
    victim.busy = 1;
  } else if (strcmp(line, "serve\n") == 0) {
    victim.busy = 0;
  } else if (sscanf(line, "end %d", &index) == 1) {
    dat_ep_disconnect(victim.endpoints[index].ep, DAT_CLOSE_ABRUPT_FLAG);
  } else {
    exit(strcmp(line, "quit\n") == 0 ? 0 : 2);
  }
  printf("done\n");
}

/* Returns false at the end of the input: the test has ended. */
static int obey_commands(void) {
  static char line[256];
  static size_t filled;
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  while (poll(&input, 1, 0) == 1) {
    if (read(STDIN_FILENO, &line[filled], 1) != 1) return 0;
    if (line[filled++] != '\n') continue;
    line[filled] = '\0';
    filled = 0;
    obey(line);
  }
  return 1;
}

static void open_all(char* ia_name, DAT_CONN_QUAL port, int qlen, int dto_qlen, int srq_size) {
  DAT_SRQ_ATTR srq_attributes = {
      .max_recv_dtos = srq_size, .max_recv_iov = 1, .low_watermark = DAT_SRQ_LW_DEFAULT};
  const size_t buffers = srq_size != 0 ? (size_t)srq_size : (size_t)MAX_ENDPOINTS * RECEIVES;
  victim.shared = srq_size != 0;
  CHECK(dat_ia_open(ia_name, 64, &victim.async_evd, &victim.ia));
  CHECK(dat_pz_create(victim.ia, &victim.pz));
  CHECK(dat_cno_create(victim.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &victim.cno));
  CHECK(dat_evd_create(victim.ia, dto_qlen, victim.cno, DAT_EVD_DTO_FLAG, &victim.dto_evd));
  CHECK(dat_evd_create(victim.ia, qlen, victim.cno,
                       (DAT_EVD_FLAGS)(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG),
                       &victim.connection_evd));
  victim.buffers = register_memory(
      victim.ia, victim.pz, buffers * MESSAGE_SIZE,
      (DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG));
  victim.region = register_memory(victim.ia, victim.pz, REGION_SIZE, DAT_MEM_PRIV_ALL_FLAG);
  if (victim.shared) {
    CHECK(dat_srq_create(victim.ia, victim.pz, &srq_attributes, &victim.srq));
    for (int i = 0; i < srq_size; ++i) post_receive(0, i);
  }
  CHECK(dat_psp_create(victim.ia, port, victim.connection_evd, DAT_PSP_CONSUMER_FLAG, &victim.psp));
  printf("region %u %llu %d\n", (unsigned)victim.region.stag,
         (unsigned long long)(size_t)victim.region.address, REGION_SIZE);
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"ia", required_argument, NULL, 'i'},   {"port", required_argument, NULL, 'p'},
      {"qlen", required_argument, NULL, 'q'}, {"dto-qlen", required_argument, NULL, 'd'},
      {"srq", required_argument, NULL, 's'},  {"keep", no_argument, NULL, 'k'},
      {"reject", no_argument, NULL, 'r'},     {NULL, 0, NULL, 0},
  };
  char* ia_name = NULL;
  DAT_CONN_QUAL port = 0;
  int qlen = 8192, dto_qlen = DTO_QUEUE, srq_size = 0, option;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    switch (option) {
      case 'i':
        ia_name = optarg;
        break;
      case 'p':
        port = strtoull(optarg, NULL, 10);
        break;
      case 'q':
        qlen = atoi(optarg);
        break;
      case 'd':
        dto_qlen = atoi(optarg);
        break;
      case 's':
        srq_size = atoi(optarg);
        break;
      case 'k':
        victim.keep = 1;
        break;
      case 'r':
        victim.reject = 1;
        break;
      default:
        return 2;
    }
  }
  if (ia_name == NULL || port == 0 || srq_size > MAX_SRQ) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  open_all(ia_name, port, qlen, dto_qlen, srq_size);
  while (obey_commands()) {
    DAT_EVD_HANDLE evd;
    if (victim.busy)
      usleep(10000);
    else if (dat_cno_wait(victim.cno, 20000, &evd) != DAT_INVALID_HANDLE)
      serve();
  }
  CHECK(dat_ia_close(victim.ia, DAT_CLOSE_ABRUPT_FLAG));
  return 0;
}
