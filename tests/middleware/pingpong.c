/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_pingpong - messages of growing length back and forth, in the style of a network benchmark
 * that runs over everything. Its EPs are for 20,000 requests, on EVDs for 1,024 events; no request
 * is signalled. Memory is registered for each length, with -s the same memory twice, to send from
 * it and to receive into it. A message has arrived when, as -c says
 *   memory  its last byte has changed, also that of a Send, whose completion nobody waits for
 *   queue   its completion has been polled
 *   wait    dat_evd_wait has returned it
 *   cno     dat_cno_wait has returned
 * With -r messages are RDMA Writes, and unless memory is polled, each is followed by an empty Send.
 */
#define _DEFAULT_SOURCE
#include <dat/udat.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS 1024
#define REQUESTS 20000
#define LONGEST ((size_t)1 << 20)

/* What the two processes tell each other without DAT. */
struct wire {
  volatile int arrived, passed, gone;
  uint64_t address[2];
  DAT_RMR_CONTEXT context[2];
  DAT_CONN_QUAL qualifier;
};

enum arrival { MEMORY, QUEUE, WAIT, CNO };
static const char* const arrivals[] = {"memory", "queue", "wait", "cno"};

static const char* ia_name = "soft";
static int threadsafe, writes, same, rounds = 60, limit = 120, connects, me;
static int missed; /* receives whose data was there before their completion */
static enum arrival arrival;
static struct wire* wire;
static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_CNO_HANDLE cno;
static DAT_EVD_HANDLE async_evd, cr_evd, connection_evd, request_evd, recv_evd;
static DAT_PSP_HANDLE psp;
static DAT_EP_HANDLE ep;
static DAT_LMR_HANDLE lmrs[2];
static DAT_LMR_CONTEXT send_context, recv_context;
static unsigned char *out, *in;

static void die(const char* what, long is, long wanted) {
  fprintf(stderr, "mw_pingpong[%d]: %s: 0x%lx instead of 0x%lx\n", me, what, is, wanted);
  wire->gone = 1;
  _exit(1);
}

static void ok(DAT_RETURN code, const char* call) {
  if (code != DAT_SUCCESS) die(call, (long)code, DAT_SUCCESS);
}
#define OK(call) ok(call, #call)

/* As over the socket that such programs have beside: no DAT call is made meanwhile. */
static void meet(void) {
  const int before = wire->passed;
  if (__sync_add_and_fetch(&wire->arrived, 1) == 2) {
    wire->arrived = 0;
    __sync_synchronize();
    wire->passed = before + 1;
  }
  while (wire->passed == before) {
    if (wire->gone) die("the other process", 0, 1);
    usleep(50);
  }
}

static unsigned char byte_of(int from, int round, size_t i, size_t length) {
  if (i == length - 1) return (unsigned char)(1 + round % 100); /* never what was there before */
  return (unsigned char)((size_t)(from * 89 + round * 7) + i + (i >> 8));
}

static void check(int round, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    const unsigned char wanted = byte_of(!me, round, i, length);
    if (in[i] == wanted) continue;
    fprintf(stderr, "round %d, byte %zu of %zu\n", round, i, length);
    die("data", in[i], wanted);
  }
}

static void open_ia(void) {
  OK(dat_ia_openv((DAT_NAME_PTR)ia_name, EVENTS, &async_evd, &ia, DAT_VERSION_MAJOR,
                  DAT_VERSION_MINOR, threadsafe ? DAT_TRUE : DAT_FALSE));
  OK(dat_pz_create(ia, &pz));
  OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
  OK(dat_evd_create(ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &request_evd));
  OK(dat_evd_create(ia, EVENTS, cno, DAT_EVD_DTO_FLAG, &recv_evd));
  OK(dat_evd_create(ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connection_evd));
}

static void create_ep(void) {
  DAT_EP_ATTR attr;
  memset(&attr, 0, sizeof attr);
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = attr.max_rdma_size = 8 * LONGEST;
  attr.qos = DAT_QOS_BEST_EFFORT;
  attr.max_recv_dtos = attr.max_request_dtos = REQUESTS;
  attr.max_recv_iov = attr.max_request_iov = 4;
  attr.max_rdma_read_in = attr.max_rdma_read_out = 4;
  attr.request_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG;
  attr.recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  OK(dat_ep_create(ia, pz, recv_evd, request_evd, connection_evd, &attr, &ep));
}

static DAT_EVENT next(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, const char* what) {
  DAT_EVENT event;
  DAT_COUNT more;
  ok(dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more), what);
  if (event.event_number != number) die(what, (long)event.event_number, (long)number);
  return event;
}

static void connect_both(void) {
  if (connects) {
    DAT_IA_ATTR attr;
    OK(dat_ia_query(ia, &async_evd, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, NULL));
    create_ep();
    meet();
    OK(dat_ep_connect(ep, attr.ia_address_ptr, wire->qualifier, DAT_TIMEOUT_INFINITE, 0, NULL,
                      DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  } else {
    OK(dat_evd_create(ia, EVENTS, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd));
    OK(dat_psp_create_any(ia, &wire->qualifier, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
    meet();
    const DAT_EVENT request = next(cr_evd, DAT_CONNECTION_REQUEST_EVENT, "the request");
    create_ep();
    OK(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, ep, 0, NULL));
  }
  next(connection_evd, DAT_CONNECTION_EVENT_ESTABLISHED, "the connection");
}

static void register_memory(size_t length) {
  DAT_REGION_DESCRIPTION region;
  DAT_RMR_CONTEXT remote;
  in = malloc(length);
  out = same ? in : malloc(length);
  memset(in, 0, length);
  region.for_va = in;
  OK(dat_lmr_create(
      ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz,
      DAT_MEM_PRIV_READ_FLAG | DAT_MEM_PRIV_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
      DAT_VA_TYPE_VA, &lmrs[0], &recv_context, &remote, NULL, NULL));
  region.for_va = out;
  OK(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz,
                    DAT_MEM_PRIV_READ_FLAG | DAT_MEM_PRIV_WRITE_FLAG, DAT_VA_TYPE_VA, &lmrs[1],
                    &send_context, NULL, NULL, NULL));
  wire->address[me] = (uintptr_t)in;
  wire->context[me] = remote;
}

static void free_memory(void) {
  OK(dat_lmr_free(lmrs[1]));
  OK(dat_lmr_free(lmrs[0]));
  if (!same) free(out);
  free(in);
}

static DAT_LMR_TRIPLET segment(const void* memory, size_t length, DAT_LMR_CONTEXT context) {
  DAT_LMR_TRIPLET result;
  result.virtual_address = (uintptr_t)memory;
  result.segment_length = (DAT_SEG_LENGTH)length;
  result.lmr_context = context;
  return result;
}

static void prepare(size_t length) {
  DAT_DTO_COOKIE none;
  none.as_64 = 0;
  if (writes && arrival == MEMORY) return;
  DAT_LMR_TRIPLET place = segment(in, length, recv_context);
  OK(dat_ep_post_recv(ep, writes ? 0 : 1, writes ? NULL : &place, none,
                      DAT_COMPLETION_DEFAULT_FLAG));
}

static void send_message(int round, size_t length) {
  DAT_DTO_COOKIE none;
  DAT_LMR_TRIPLET from = segment(out, length, send_context);
  none.as_64 = 0;
  for (size_t i = 0; i < length; ++i) out[i] = byte_of(me, round, i, length);
  if (!writes) {
    OK(dat_ep_post_send(ep, 1, &from, none, DAT_COMPLETION_SUPPRESS_FLAG));
    return;
  }
  DAT_RMR_TRIPLET to;
  memset(&to, 0, sizeof to);
  to.virtual_address = wire->address[!me];
  to.segment_length = (DAT_SEG_LENGTH)length;
  to.rmr_context = wire->context[!me];
  OK(dat_ep_post_rdma_write(ep, 1, &from, none, &to, DAT_COMPLETION_SUPPRESS_FLAG));
  if (arrival != MEMORY) OK(dat_ep_post_send(ep, 0, NULL, none, DAT_COMPLETION_SUPPRESS_FLAG));
}

static void poll_for(DAT_EVD_HANDLE evd, const char* what) {
  DAT_EVENT event;
  while (dat_evd_dequeue(evd, &event) != DAT_SUCCESS)
    if (wire->gone) die(what, 0, 1);
  if (event.event_number != DAT_DTO_COMPLETION_EVENT) die(what, (long)event.event_number, 1);
  const long status = (long)event.event_data.dto_completion_event_data.status;
  if (status != DAT_DTO_SUCCESS) die(what, status, DAT_DTO_SUCCESS);
}

__attribute__((no_sanitize("thread"))) static void await_message(int round, size_t length) {
  DAT_EVENT event;
  DAT_EVD_HANDLE evd;
  const volatile unsigned char* last = in + length - 1;
  switch (arrival) {
    case MEMORY:
      while (*last != byte_of(!me, round, length - 1, length))
        if (wire->gone) die("a message", 0, 1);
      if (!writes && dat_evd_dequeue(recv_evd, &event) != DAT_SUCCESS) ++missed;
      break;
    case QUEUE:
      poll_for(recv_evd, "a receive");
      break;
    case WAIT:
      event = next(recv_evd, DAT_DTO_COMPLETION_EVENT, "a receive");
      if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
        die("a receive", (long)event.event_data.dto_completion_event_data.status, 0);
      break;
    case CNO:
      OK(dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd));
      poll_for(recv_evd, "a receive");
      break;
  }
  check(round, length);
}

/* Empties the queues after a length: what has been suppressed is done, then. */
static void settle(void) {
  DAT_DTO_COOKIE last;
  meet();
  for (; missed > 0; --missed) poll_for(recv_evd, "a receive that was missed");
  last.as_64 = 1;
  OK(dat_ep_post_recv(ep, 0, NULL, last, DAT_COMPLETION_DEFAULT_FLAG));
  meet();
  OK(dat_ep_post_send(ep, 0, NULL, last, DAT_COMPLETION_DEFAULT_FLAG));
  poll_for(request_evd, "the last request");
  poll_for(recv_evd, "the last receive");
}

static void exchange(size_t length) {
  const int count = length > 100000 ? rounds / 10 + 1 : rounds;
  register_memory(length);
  prepare(length);
  meet();
  for (int round = 0; round < count; ++round) {
    if (connects) send_message(2 * round, length);
    await_message(2 * round + connects, length);
    if (round + 1 < count) prepare(length);
    if (!connects) send_message(2 * round + 1, length);
  }
  settle();
  free_memory();
  meet();
}

/* The connector ends the connection, the acceptor polls for its end. Handles are freed in an order
   in which some are still in use; nobody looks. */
static void end(void) {
  DAT_EVENT event;
  if (connects) {
    OK(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
    next(connection_evd, DAT_CONNECTION_EVENT_DISCONNECTED, "the end");
  } else {
    while (dat_evd_dequeue(connection_evd, &event) != DAT_SUCCESS) continue;
    if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED)
      die("the end", (long)event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
  }
  OK(dat_ep_free(ep));
  (void)dat_pz_free(pz);
  (void)dat_evd_free(request_evd);
  (void)dat_evd_free(recv_evd);
  (void)dat_evd_free(connection_evd);
  if (!connects) (void)dat_evd_free(cr_evd); /* of a PSP */
  (void)dat_evd_free(async_evd);             /* of the IA */
  (void)dat_cno_free(cno);
  if (!connects) OK(dat_psp_free(psp));
  OK(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
}

static int run(void) {
  static const size_t lengths[] = {1, 2, 3, 8, 13, 64, 1021, 4096, 16387, 65536, 300000, LONGEST};
  alarm((unsigned)limit);
  open_ia();
  connect_both();
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) exchange(lengths[i]);
  end();
  return 0;
}

static void parse(int argc, char** argv) {
  for (int option; (option = getopt(argc, argv, "D:Tc:i:rsw:")) != -1;) {
    switch (option) {
      case 'D':
        ia_name = optarg;
        break;
      case 'T':
        threadsafe = 1;
        break;
      case 'c':
        while (arrival < CNO && strcmp(arrivals[arrival], optarg) != 0) ++arrival;
        break;
      case 'i':
        rounds = atoi(optarg);
        break;
      case 'r':
        writes = 1;
        break;
      case 's':
        same = 1;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        fprintf(stderr,
                "usage: %s [-D ia] [-T] [-c memory|queue|wait|cno] [-i rounds] [-r] [-s] [-w "
                "seconds]\n",
                argv[0]);
        exit(2);
    }
  }
}

int main(int argc, char** argv) {
  int failed = 0, status;
  parse(argc, argv);
  wire = mmap(NULL, sizeof *wire, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (me = 0; me < 2; ++me) {
    connects = me;
    if (fork() == 0) exit(run());
  }
  while (wait(&status) > 0)
    if (status != 0) failed = wire->gone = 1;
  printf("mw_pingpong: %s\n", failed ? "failed" : "ok");
  return failed;
}
