/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* connect.c - the adapter, and the two connections of each pair of ranks. */
#include "btl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT 60000000
#define FIRST_QUAL 45000

/* Takes what a new EP has by default, and changes what this layer depends on. */
static void choose_attributes(void) {
  DAT_EP_HANDLE dummy;
  DAT_EP_PARAM param;
  const int requests = RECEIVES + SLOTS + CONTROL + PUTS + 4;
  dat(dat_ep_create(layer.ia, layer.pz, layer.dto_evd, layer.dto_evd, layer.connection_evd, NULL,
                    &dummy),
      "dat_ep_create of a dummy");
  dat(dat_ep_query(dummy, DAT_EP_FIELD_ALL, &param), "dat_ep_query");
  layer.ep_attr = param.ep_attr;
  if (layer.ep_attr.max_recv_dtos < RECEIVES + CONTROL) {
    layer.ep_attr.max_recv_dtos = RECEIVES + CONTROL;
  }
  if (layer.ep_attr.max_request_dtos < requests) {
    layer.ep_attr.max_request_dtos = requests;
  }
  need(layer.ep_attr.max_recv_dtos <= layer.attr.max_dto_per_ep &&
           layer.ep_attr.max_request_dtos <= layer.attr.max_dto_per_ep,
       "the adapter has too few requests for each EP");
  dat(dat_ep_free(dummy), "dat_ep_free of a dummy");
}

static DAT_COUNT least(DAT_COUNT wanted, DAT_COUNT most) { return wanted < most ? wanted : most; }

void open_adapter(void) {
  DAT_CONN_QUAL qual = FIRST_QUAL + (DAT_CONN_QUAL)layer.me;
  DAT_RETURN status;
  layer.async_evd = DAT_HANDLE_NULL;
  dat(dat_ia_openv((DAT_NAME_PTR)layer.ia_name, 64, &layer.async_evd, &layer.ia, DAT_VERSION_MAJOR,
                   DAT_VERSION_MINOR, layer.threadsafe ? DAT_TRUE : DAT_FALSE),
      "dat_ia_open");
  dat(dat_ia_query(layer.ia, &layer.async_evd, DAT_IA_FIELD_ALL, &layer.attr,
                   DAT_PROVIDER_FIELD_NONE, NULL),
      "dat_ia_query");
  dat(dat_pz_create(layer.ia, &layer.pz), "dat_pz_create");
  dat(dat_evd_create(layer.ia, least(4096, layer.attr.max_evd_qlen), DAT_HANDLE_NULL,
                     DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG, &layer.dto_evd),
      "dat_evd_create for transfers");
  dat(dat_evd_create(layer.ia, least(256, layer.attr.max_evd_qlen), DAT_HANDLE_NULL,
                     DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG, &layer.connection_evd),
      "dat_evd_create for connections");
  do {
    status =
        dat_psp_create(layer.ia, qual++, layer.connection_evd, DAT_PSP_CONSUMER_FLAG, &layer.psp);
  } while (DAT_GET_TYPE(status) == DAT_CONN_QUAL_IN_USE);
  dat(status, "dat_psp_create");
  layer.job->quals[layer.me] = qual - 1;
  choose_attributes();
}

static DAT_EP_HANDLE make_ep(void) {
  DAT_EP_HANDLE ep;
  dat(dat_ep_create(layer.ia, layer.pz, layer.dto_evd, layer.dto_evd, layer.connection_evd,
                    &layer.ep_attr, &ep),
      "dat_ep_create");
  return ep;
}

static void connect_to(int rank, enum connection which) {
  struct peer* p = &layer.peers[rank];
  struct hello hello = {(uint32_t)layer.me, which};
  p->connects[which] = 1;
  p->ep[which] = make_ep();
  dat(dat_ep_connect(p->ep[which], layer.attr.ia_address_ptr, layer.job->quals[rank], TIMEOUT,
                     sizeof hello, &hello, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
      "dat_ep_connect");
}

/* Asks a peer to connect to this rank: the one that has something to send does not connect. */
void wish_for(int rank) {
  layer.peers[rank].state = CONNECTING;
  layer.job->wishes[rank][layer.me] = 1;
}

/* If both wish, the lower rank connects. */
void make_wished_connections(void) {
  for (int r = 0; r < layer.ranks; ++r) {
    struct peer* p = &layer.peers[r];
    if (!layer.job->wishes[layer.me][r]) {
      continue;
    }
    layer.job->wishes[layer.me][r] = 0;
    if (p->connects[EAGER] || p->state == CONNECTED || (p->state == CONNECTING && r < layer.me)) {
      continue;
    }
    p->state = CONNECTING;
    connect_to(r, EAGER);
  }
}

/* Now both sides know whose EP it is. The lower rank makes the second connection when it has the
 * first. */
static void know(int rank, enum connection which, DAT_EP_HANDLE ep) {
  struct peer* p = &layer.peers[rank];
  if (which >= CONNECTIONS || p->known[which]) {
    need(0, "a connection is there twice");
    return;
  }
  p->ep[which] = ep;
  p->known[which] = 1;
  if (which == EAGER && layer.me < rank) {
    connect_to(rank, LONG);
  }
  if (p->known[EAGER] && p->known[LONG]) {
    p->state = CONNECTED;
    start_traffic(rank);
  }
}

/* The receive is posted when the peer may have sent already. */
static void exchange_hello(DAT_EP_HANDLE ep, const struct hello* ours) {
  struct frag* in = take_fragment(EAGER, 1);
  struct frag* out = take_fragment(EAGER, 1);
  need(in != NULL && out != NULL, "there are too few fragments");
  in->use = RECEIVES_HELLO;
  out->use = SENDS_HELLO;
  out->length = sizeof *ours;
  memcpy(out->memory + EAGER_SIZE - sizeof(struct footer) - sizeof *ours, ours, sizeof *ours);
  post_receive(ep, in);
  post_send(ep, out);
}

void on_hello(const DAT_DTO_COMPLETION_EVENT_DATA* dto, const struct hello* hello) {
  struct peer* p;
  enum connection which = (enum connection)hello->connection;
  need(hello->rank < (uint32_t)layer.ranks, "a hello of an unknown rank");
  p = &layer.peers[hello->rank];
  if (which == CONNECTIONS) { /* of the side that accepted, and does not know */
    which = p->ep[EAGER] == dto->ep_handle ? EAGER : LONG;
  }
  know((int)hello->rank, which, dto->ep_handle);
}

/* An EP that this side accepted has a peer only if private data told which. */
static int find(DAT_EP_HANDLE ep, int* rank, enum connection* which) {
  for (int r = 0; r < layer.ranks; ++r) {
    for (int c = 0; c < CONNECTIONS; ++c) {
      if (layer.peers[r].ep[c] == ep) {
        *rank = r;
        *which = (enum connection)c;
        return 1;
      }
    }
  }
  return 0;
}

static void on_established(const DAT_CONNECTION_EVENT_DATA* event) {
  int rank = 0;
  enum connection which = CONNECTIONS;
  const int found = find(event->ep_handle, &rank, &which);
  if (layer.tells_by_message) {
    const struct hello ours = {(uint32_t)layer.me, which};
    exchange_hello(event->ep_handle, &ours);
    return;
  }
  need(found, "ESTABLISHED for an EP without a peer");
  if (layer.peers[rank].connects[which]) {
    struct hello theirs;
    need(event->private_data_size >= (DAT_COUNT)sizeof theirs, "ESTABLISHED without private data");
    memcpy(&theirs, event->private_data, sizeof theirs);
    need(theirs.rank == (uint32_t)rank && theirs.connection == which, "wrong private data");
  }
  know(rank, which, event->ep_handle);
}

static void on_request(const DAT_CR_ARRIVAL_EVENT_DATA* event) {
  DAT_CR_PARAM param;
  struct hello hello;
  dat(dat_cr_query(event->cr_handle, DAT_CR_FIELD_ALL, &param), "dat_cr_query");
  need(param.private_data_size >= (DAT_COUNT)sizeof hello, "a request without private data");
  memcpy(&hello, param.private_data, sizeof hello);
  if (layer.peers[hello.rank].state == CLOSED) {
    layer.peers[hello.rank].state = CONNECTING;
  }
  if (layer.tells_by_message) {
    dat(dat_cr_accept(event->cr_handle, make_ep(), 0, NULL), "dat_cr_accept");
  } else {
    const DAT_EP_HANDLE ep = make_ep();
    const struct hello answer = {(uint32_t)layer.me, hello.connection};
    dat(dat_cr_accept(event->cr_handle, ep, sizeof answer, (DAT_PVOID)&answer), "dat_cr_accept");
    layer.peers[hello.rank].ep[hello.connection] = ep;
  }
}

static void on_disconnected(const DAT_CONNECTION_EVENT_DATA* event) {
  int rank = 0;
  enum connection which = CONNECTIONS;
  need(layer.job->done == layer.ranks, "DISCONNECTED too early");
  need(find(event->ep_handle, &rank, &which), "DISCONNECTED of an EP without a peer");
  need(!layer.peers[rank].ended[which], "DISCONNECTED twice");
  layer.peers[rank].ended[which] = 1;
}

int take_connection_events(void) {
  DAT_EVENT event;
  int count = 0;
  for (; dat_evd_dequeue(layer.connection_evd, &event) == DAT_SUCCESS; ++count) {
    switch (event.event_number) {
      case DAT_CONNECTION_REQUEST_EVENT:
        on_request(&event.event_data.cr_arrival_event_data);
        break;
      case DAT_CONNECTION_EVENT_ESTABLISHED:
        on_established(&event.event_data.connect_event_data);
        break;
      case DAT_CONNECTION_EVENT_DISCONNECTED:
        on_disconnected(&event.event_data.connect_event_data);
        break;
      default:
        fprintf(stderr, "rank %d: event 0x%x\n", layer.me, (unsigned)event.event_number);
        need(0, "unexpected event of a connection");
    }
  }
  while (dat_evd_dequeue(layer.async_evd, &event) == DAT_SUCCESS) {
    need(0, "an asynchronous error");
  }
  return count;
}

void disconnect_all(void) {
  for (int r = 0; r < layer.me; ++r) {
    for (int c = 0; c < CONNECTIONS; ++c) {
      dat(dat_ep_disconnect(layer.peers[r].ep[c], DAT_CLOSE_DEFAULT), "dat_ep_disconnect");
    }
  }
}

int all_ended(void) {
  for (int r = 0; r < layer.ranks; ++r) {
    if (r != layer.me && !(layer.peers[r].ended[EAGER] && layer.peers[r].ended[LONG])) {
      return 0;
    }
  }
  return 1;
}

void close_adapter(void) {
  for (int r = 0; r < layer.ranks; ++r) {
    struct peer* p = &layer.peers[r];
    for (int c = 0; r != layer.me && c < CONNECTIONS; ++c) {
      dat(dat_ep_free(p->ep[c]), "dat_ep_free");
    }
    if (p->ring != NULL) {
      dat(dat_lmr_free(p->ring_lmr), "dat_lmr_free of a ring");
      free(p->ring);
    }
  }
  dat(dat_psp_free(layer.psp), "dat_psp_free");
  free_fragments();
  dat(dat_evd_free(layer.dto_evd), "dat_evd_free for transfers");
  dat(dat_evd_free(layer.connection_evd), "dat_evd_free for connections");
  dat(dat_pz_free(layer.pz), "dat_pz_free");
  dat(dat_ia_close(layer.ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}
