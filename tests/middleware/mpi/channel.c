/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Sending with credits, and the progress engine. connect.c makes and ends the connections. */
#define _DEFAULT_SOURCE
#include "channel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "links.h"

#define MAGIC 0x4d50494du
#define EMPTY_POLLS_BEFORE_SLEEP 4

channel_t ch;

void die(const char* format, ...) {
  va_list arguments;
  char text[512];
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "rank %d: %s\n", ch.rank, text);
  channel_dump();
  _exit(1);
}

void check(DAT_RETURN status, const char* what) {
  if (status != DAT_SUCCESS) {
    const char *major = "?", *minor = "?";
    dat_strerror(status, &major, &minor);
    die("%s: 0x%x %s %s", what, (unsigned)status, major, minor);
  }
}

int channel_rank(void) { return ch.rank; }
uint64_t channel_flags_of(int peer) { return ch.peers[peer].link->hello.flags; }
uint32_t channel_flags_context_of(int peer) { return ch.peers[peer].link->hello.flags_context; }

region_t channel_register(void* data, size_t length) {
  region_t region;
  DAT_REGION_DESCRIPTION where;
  DAT_VLEN size;
  DAT_VADDR address;
  where.for_va = data;
  check(dat_lmr_create(ch.ia, DAT_MEM_TYPE_VIRTUAL, where, length, ch.pz, DAT_MEM_PRIV_ALL_FLAG,
                       DAT_VA_TYPE_VA, &region.lmr, &region.lmr_context, &region.rmr_context, &size,
                       &address),
        "dat_lmr_create");
  return region;
}

void channel_unregister(DAT_LMR_HANDLE lmr) { check(dat_lmr_free(lmr), "dat_lmr_free"); }

static DAT_LMR_TRIPLET triplet(const void* data, size_t length, DAT_LMR_CONTEXT context) {
  DAT_LMR_TRIPLET iov;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)data;
  iov.segment_length = (DAT_SEG_LENGTH)length;
  iov.lmr_context = context;
  return iov;
}

void post_recv(recv_buf_t* buffer) {
  DAT_LMR_TRIPLET iov = triplet(buffer->data, EAGER_SIZE, buffer->link->region.lmr_context);
  DAT_DTO_COOKIE cookie;
  cookie.as_ptr = &buffer->work;
  check(dat_ep_post_recv(buffer->link->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG),
        "dat_ep_post_recv");
}

/* ---- posting ------------------------------------------------------------------------------ */

static work_t* start_work(link_t* link, int kind) {
  work_t* work = calloc(1, sizeof *work);
  work->kind = kind;
  work->link = link;
  work->weight = 1 + link->suppressed;
  link->suppressed = 0;
  ++link->outstanding;
  return work;
}

/* Every fourth request notifies, so that a sleeping rank gets its buffers back. */
static DAT_COMPLETION_FLAGS flags_for(link_t* link, int wanted) {
  return wanted || ++link->posted % 4 == 0 ? DAT_COMPLETION_DEFAULT_FLAG
                                           : DAT_COMPLETION_UNSIGNALLED_FLAG;
}

static void fill_header(link_t* link, header_t* header) {
  header->magic = MAGIC;
  header->source = (uint16_t)ch.rank;
  header->credits = (uint16_t)link->give_back;
  header->fast_credits = (uint16_t)link->fast_give_back;
  link->give_back = link->fast_give_back = 0;
  if (header->type != PKT_CREDIT) {
    header->sequence = link->next_out++;
  }
}

/* Writes to the peer's ring: the payload, then the header, whose last byte the peer polls. */
static void post_fast(link_t* link, op_t* op, send_buf_t* buffer) {
  const size_t length = op->header.length + sizeof(header_t);
  fill_header(link, &op->header);
  op->header.generation = (uint8_t)(1 + link->fast_out / FAST_SLOTS % 255);
  memcpy(buffer->data, op->data, op->header.length);
  memcpy(buffer->data + op->header.length, &op->header, sizeof op->header);
  DAT_LMR_TRIPLET iov = triplet(buffer->data, length, ch.send_region.lmr_context);
  DAT_RMR_TRIPLET remote;
  remote.virtual_address =
      link->hello.ring + (link->fast_out % FAST_SLOTS + 1) * FAST_SIZE - length;
  remote.segment_length = (DAT_SEG_LENGTH)length;
  remote.rmr_context = link->hello.ring_context;
  ++link->fast_out;
  --link->fast_credits;
  work_t* work = start_work(link, WORK_SEND);
  work->buffer = buffer;
  DAT_DTO_COOKIE cookie;
  cookie.as_ptr = work;
  check(dat_ep_post_rdma_write(link->ep, 1, &iov, cookie, &remote, flags_for(link, 0)),
        "dat_ep_post_rdma_write (ring)");
}

static void post_message(link_t* link, op_t* op, send_buf_t* buffer) {
  const size_t payload = op->data ? op->header.length : 0;
  fill_header(link, &op->header);
  work_t* work = start_work(link, WORK_SEND);
  work->buffer = buffer;
  work->fin = op->header.type == PKT_FIN ? op->header.sender_request : 0;
  memcpy(buffer->data, &op->header, sizeof op->header);
  memcpy(buffer->data + sizeof op->header, op->data ? op->data : buffer->data, payload);
  /* Header and payload are two segments, as they would be without the copy. */
  DAT_LMR_TRIPLET iov[2];
  iov[0] = triplet(buffer->data, sizeof op->header, ch.send_region.lmr_context);
  iov[1] = triplet(buffer->data + sizeof op->header, payload, ch.send_region.lmr_context);
  DAT_DTO_COOKIE cookie;
  cookie.as_ptr = work;
  check(dat_ep_post_send(link->ep, payload ? 2 : 1, iov, cookie, flags_for(link, work->fin != 0)),
        "dat_ep_post_send");
}

static void post_rdma(link_t* link, op_t* op) {
  DAT_LMR_TRIPLET iov = triplet(op->rdma_data, op->rdma_length, op->region.lmr_context);
  DAT_RMR_TRIPLET remote;
  DAT_DTO_COOKIE cookie;
  remote.virtual_address = op->address;
  remote.segment_length = (DAT_SEG_LENGTH)op->rdma_length;
  remote.rmr_context = op->context;
  if (op->kind == OP_READ) {
    work_t* work = start_work(link, WORK_READ);
    work->request = op->request;
    cookie.as_ptr = work;
    check(dat_ep_post_rdma_read(link->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG),
          "dat_ep_post_rdma_read");
  } else if (op->request) {
    work_t* work = start_work(link, WORK_WRITE);
    work->request = op->request;
    cookie.as_ptr = work;
    check(dat_ep_post_rdma_write(link->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG),
          "dat_ep_post_rdma_write");
  } else {
    ++link->outstanding;
    ++link->suppressed;
    cookie.as_64 = 0;
    check(dat_ep_post_rdma_write(link->ep, 1, &iov, cookie, &remote, DAT_COMPLETION_SUPPRESS_FLAG),
          "dat_ep_post_rdma_write (suppressed)");
  }
}

/* Posts the pending operations of a peer, as far as credits, buffers and the EP's queue allow. */
static void push(peer_t* peer) {
  link_t* link = peer->link;
  while (peer->first && link && link->state == LINK_UP && link->outstanding < MAX_REQUESTS - 2) {
    op_t* op = peer->first;
    if (op->kind == OP_MESSAGE) {
      const int fast = link->hello.ring != 0 && !ch.options.block && op->header.type == PKT_EAGER &&
                       op->header.length + sizeof(header_t) <= FAST_SIZE && link->fast_credits > 0;
      send_buf_t* buffer = ch.free_sends;
      if (!buffer || (!fast && op->header.type != PKT_CREDIT && link->credits == 0)) {
        return;
      }
      ch.free_sends = buffer->next;
      if (fast) {
        post_fast(link, op, buffer);
      } else {
        link->credits -= op->header.type != PKT_CREDIT;
        post_message(link, op, buffer);
      }
    } else {
      post_rdma(link, op);
    }
    peer->first = op->next;
    if (!peer->first) {
      peer->last = NULL;
    }
    free(op->data);
    free(op);
  }
}

static void enqueue(int rank, op_t* op) {
  peer_t* peer = &ch.peers[rank];
  if (peer->last) {
    peer->last->next = op;
  } else {
    peer->first = op;
  }
  peer->last = op;
  if (!peer->link) {
    link_connect(rank);
  }
  push(peer);
}

void channel_send(int peer, const header_t* header, const void* data, size_t length) {
  op_t* op = calloc(1, sizeof *op);
  op->kind = OP_MESSAGE;
  op->header = *header;
  if (header->type == PKT_EAGER) {
    op->data = malloc(length + 1);
    memcpy(op->data, data, length);
  }
  enqueue(peer, op);
}

static void rdma(int kind, int peer, void* data, const region_t* region, size_t length,
                 uint64_t address, uint32_t context, request_t* request) {
  op_t* op = calloc(1, sizeof *op);
  op->kind = kind;
  op->rdma_data = data;
  op->rdma_length = length;
  op->region = *region;
  op->address = address;
  op->context = context;
  op->request = request;
  enqueue(peer, op);
}

void channel_write(int peer, void* data, const region_t* region, size_t length, uint64_t address,
                   uint32_t context, request_t* request) {
  rdma(OP_WRITE, peer, data, region, length, address, context, request);
}

void channel_read(int peer, void* data, const region_t* region, size_t length, uint64_t address,
                  uint32_t context, request_t* request) {
  rdma(OP_READ, peer, data, region, length, address, context, request);
}

/* ---- receiving ---------------------------------------------------------------------------- */

static void take_credits(link_t* link, const header_t* header) {
  if (header->magic != MAGIC || header->source != link->rank) {
    die("from rank %d: magic 0x%x, source %d", link->rank, header->magic, header->source);
  }
  link->credits += header->credits;
  link->fast_credits += header->fast_credits;
  if (link->credits > CREDITS || link->fast_credits > FAST_SLOTS) {
    die("rank %d gave %d credits, %d for the ring", link->rank, link->credits, link->fast_credits);
  }
}

/* Returns credits in a message ahead of the pending operations, because those may wait for credits
 * themselves, on both sides at the same time. The message needs no credit and has no sequence
 * number. */
static void return_credits(link_t* link) {
  peer_t* peer = &ch.peers[link->rank];
  push(peer); /* pending messages carry the credits */
  if ((link->give_back < CREDITS / 2 && link->fast_give_back < FAST_SLOTS / 2) ||
      (peer->first && peer->first->header.type == PKT_CREDIT)) {
    return;
  }
  op_t* op = calloc(1, sizeof *op);
  op->kind = OP_MESSAGE;
  op->header.type = PKT_CREDIT;
  op->next = peer->first;
  peer->first = op;
  if (!peer->last) {
    peer->last = op;
  }
  push(peer);
}

static int poll_ring(link_t* link) {
  int found = 0;
  for (;;) {
    unsigned char* slot = link->ring + link->fast_in % FAST_SLOTS * FAST_SIZE;
    volatile unsigned char* last = slot + FAST_SIZE - 1;
    if (*last != (unsigned char)(1 + link->fast_in / FAST_SLOTS % 255)) {
      return found;
    }
    header_t header;
    memcpy(&header, slot + FAST_SIZE - sizeof header, sizeof header);
    if (header.magic == MAGIC && header.sequence != link->next_in) {
      return found; /* an earlier message is still in the queue */
    }
    take_credits(link, &header);
    ++link->fast_in;
    ++link->next_in;
    ++link->fast_give_back;
    found = 1;
    unsigned char data[FAST_SIZE];
    memcpy(data, slot + FAST_SIZE - sizeof header - header.length, header.length);
    device_arrived(link->rank, &header, data);
    return_credits(link);
  }
}

static void on_receive(link_t* link, recv_buf_t* buffer, size_t length) {
  header_t header;
  memcpy(&header, buffer->data, sizeof header);
  if (length != sizeof header + (header.type == PKT_EAGER ? header.length : 0)) {
    die("from rank %d: %zu bytes, the header says %u", link->rank, length, header.length);
  }
  take_credits(link, &header);
  if (header.type != PKT_CREDIT) {
    while (header.sequence != link->next_in) {
      /* Entries written to the ring before this message have arrived by now. */
      if (!poll_ring(link)) {
        die("from rank %d: message %u instead of %u, and the ring is empty", link->rank,
            header.sequence, link->next_in);
      }
    }
    ++link->next_in;
    ++link->give_back;
    device_arrived(link->rank, &header, buffer->data + sizeof header);
  }
  memset(buffer->data, 0xdd, length);
  post_recv(buffer);
  return_credits(link);
}

static void on_transfer(const DAT_DTO_COMPLETION_EVENT_DATA* done) {
  work_t* work = done->user_cookie.as_ptr;
  link_t* link = work->link;
  if (done->ep_handle != link->ep) {
    die("completion of another EP than its cookie's");
  }
  if (done->status != DAT_DTO_SUCCESS) {
    if (link->state == LINK_UP && !ch.closing) {
      die("transfer with rank %d (kind %d): status %d", link->rank, work->kind, done->status);
    }
    return; /* flushed by the end of the connection */
  }
  if (work->kind == WORK_RECV) {
    on_receive(link, (recv_buf_t*)work, done->transfered_length);
    return;
  }
  link->outstanding -= work->weight;
  if (work->kind == WORK_SEND) {
    work->buffer->next = ch.free_sends;
    ch.free_sends = work->buffer;
    if (work->fin) {
      device_fin_sent(work->fin);
    }
  } else {
    device_rdma_done(link->rank, work->request, work->kind == WORK_READ);
  }
  free(work);
}

void channel_on_event(const DAT_EVENT* event) {
  /* Some providers report flushed receives as events of the IB extension. */
  if (event->event_number == DAT_DTO_COMPLETION_EVENT ||
      event->event_number == DAT_IB_EXTENSION_RANGE_BASE) {
    on_transfer(&event->event_data.dto_completion_event_data);
  } else if (event->event_number == DAT_CONNECTION_REQUEST_EVENT) {
    link_on_request(&event->event_data.cr_arrival_event_data);
  } else {
    link_on_event(event->event_number, &event->event_data.connect_event_data);
  }
}

static int poll_queues(void) {
  DAT_EVENT event;
  int found = 0;
  for (int i = 0; i < ch.evds; ++i) {
    while (dat_evd_dequeue(ch.evd[i], &event) == DAT_SUCCESS) {
      channel_on_event(&event);
      ++found;
    }
  }
  if (!ch.options.block) {
    for (int i = 0; i < ch.size; ++i) {
      if (ch.peers[i].link && ch.peers[i].link->state == LINK_UP) {
        found += poll_ring(ch.peers[i].link);
      }
    }
  }
  return found;
}

void channel_progress(int may_sleep) {
  static int empty;
  int found = poll_queues();
  for (int i = 0; i < ch.size; ++i) {
    push(&ch.peers[i]);
  }
  if (found || !may_sleep || ++empty < EMPTY_POLLS_BEFORE_SLEEP) {
    empty = found ? 0 : empty;
    return;
  }
  empty = 0;
  if (ch.cno) {
    DAT_EVD_HANDLE evd;
    check(dat_cno_wait(ch.cno, DAT_TIMEOUT_INFINITE, &evd), "dat_cno_wait");
  } else {
    DAT_EVENT event;
    DAT_COUNT more;
    check(dat_evd_wait(ch.evd[0], DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
    channel_on_event(&event);
  }
}

void channel_drain(void) {
  for (int i = 0; i < ch.size; ++i) {
    link_t* link = ch.peers[i].link;
    while (ch.peers[i].first || (link && link->outstanding > 0)) {
      channel_progress(0);
      usleep(ch.options.block ? 1000 : 0);
    }
  }
}

void channel_dump(void) {
  for (int i = 0; i < ch.size; ++i) {
    const peer_t* peer = &ch.peers[i];
    const link_t* link = peer->link;
    if (link) {
      fprintf(stderr,
              "rank %d to %d: state %d, credits %d+%d, in %u out %u, ring in %u out %u, "
              "%d outstanding (%d suppressed), %s\n",
              ch.rank, i, link->state, link->credits, link->fast_credits, link->next_in,
              link->next_out, link->fast_in, link->fast_out, link->outstanding, link->suppressed,
              peer->first ? "messages wait" : "nothing waits");
    }
  }
}
