/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The adapter, its queues, and the connections: made on demand, possibly by both sides at once. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "links.h"

#define CONNECT_ATTEMPTS 10

static int at_most(int wanted, int limit) { return wanted < limit ? wanted : limit; }

static void make_queues(const DAT_IA_ATTR* ia_attr, const DAT_PROVIDER_ATTR* provider) {
  const int transfers =
      at_most(2 * ch.size * (RECV_BUFS + MAX_REQUESTS) + 64, ia_attr->max_evd_qlen);
  if (!ch.options.split && provider->evd_stream_merging_supported[2][3] &&
      provider->evd_stream_merging_supported[1][2] &&
      provider->evd_stream_merging_supported[1][3] &&
      dat_evd_create(ch.ia, transfers, DAT_HANDLE_NULL,
                     DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG | DAT_EVD_CR_FLAG,
                     &ch.evd[0]) == DAT_SUCCESS) {
    ch.evd[1] = ch.evd[2] = ch.evd[0];
    ch.evds = 1;
    return;
  }
  if (ch.options.block) {
    check(dat_cno_create(ch.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &ch.cno), "dat_cno_create");
  }
  check(dat_evd_create(ch.ia, transfers, ch.cno, DAT_EVD_DTO_FLAG, &ch.evd[0]), "dat_evd_create");
  check(dat_evd_create(ch.ia, 4 * ch.size, ch.cno, DAT_EVD_CONNECTION_FLAG, &ch.evd[1]),
        "dat_evd_create");
  check(dat_evd_create(ch.ia, 4 * ch.size, ch.cno, DAT_EVD_CR_FLAG, &ch.evd[2]), "dat_evd_create");
  ch.evds = 3;
}

static void listen_somewhere(void) {
  DAT_RETURN status;
  const int random_source = open("/dev/urandom", O_RDONLY);
  ch.qual = (DAT_CONN_QUAL)getpid();
  do {
    if (!ch.options.pid_quals &&
        read(random_source, &ch.qual, sizeof ch.qual) != (ssize_t)sizeof ch.qual) {
      die("no random numbers");
    }
    status = dat_psp_create(ch.ia, ch.qual, ch.evd[2], DAT_PSP_CONSUMER_FLAG, &ch.psp);
    ch.qual += ch.options.pid_quals ? 100000 : 0; /* the conn qual may be in use */
  } while (DAT_GET_TYPE(status) == DAT_CONN_QUAL_IN_USE ||
           DAT_GET_TYPE(status) == DAT_CONN_QUAL_UNAVAILABLE);
  ch.qual -= ch.options.pid_quals ? 100000 : 0;
  close(random_source);
  check(status, "dat_psp_create");
}

void channel_init(const options_t* options, int rank, int size) {
  DAT_IA_ATTR ia_attr;
  DAT_PROVIDER_ATTR provider;
  ch.options = *options;
  ch.rank = rank;
  ch.size = size;
  ch.async_evd = DAT_HANDLE_NULL;
  check(dat_ia_openv((DAT_NAME_PTR)options->ia, 8, &ch.async_evd, &ch.ia, DAT_VERSION_MAJOR,
                     DAT_VERSION_MINOR, options->threadsafe ? DAT_TRUE : DAT_FALSE),
        "dat_ia_open");
  memset(&ia_attr, 0, sizeof ia_attr);
  memset(&provider, 0, sizeof provider);
  check(dat_ia_query(ch.ia, &ch.async_evd, DAT_IA_FIELD_ALL, &ia_attr, DAT_PROVIDER_FIELD_ALL,
                     &provider),
        "dat_ia_query");
  memcpy(&ch.address, ia_attr.ia_address_ptr,
         ia_attr.ia_address_ptr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                       : sizeof(struct sockaddr_in));
  check(dat_pz_create(ch.ia, &ch.pz), "dat_pz_create");
  make_queues(&ia_attr, &provider);

  DAT_EP_ATTR* attr = &ch.ep_attributes;
  memset(attr, 0, sizeof *attr);
  attr->service_type = DAT_SERVICE_TYPE_RC;
  attr->max_message_size = ia_attr.max_message_size;
  attr->max_rdma_size = ia_attr.max_rdma_size;
  attr->qos = DAT_QOS_BEST_EFFORT;
  attr->recv_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
  attr->request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  attr->max_recv_dtos = at_most(RECV_BUFS, ia_attr.max_dto_per_ep);
  attr->max_request_dtos = at_most(MAX_REQUESTS, ia_attr.max_dto_per_ep);
  attr->max_recv_iov = at_most(4, ia_attr.max_iov_segments_per_dto);
  attr->max_request_iov = at_most(4, ia_attr.max_iov_segments_per_dto);
  attr->max_rdma_read_in = at_most(4, ia_attr.max_rdma_read_per_ep_in);
  attr->max_rdma_read_out = at_most(4, ia_attr.max_rdma_read_per_ep_out);
  attr->max_rdma_read_iov = 1;
  attr->max_rdma_write_iov = 1;

  ch.send_memory = calloc(SEND_BUFS, EAGER_SIZE);
  ch.send_region = channel_register(ch.send_memory, SEND_BUFS * EAGER_SIZE);
  for (int i = 0; i < SEND_BUFS; ++i) {
    ch.send_bufs[i].data = ch.send_memory + i * EAGER_SIZE;
    ch.send_bufs[i].next = ch.free_sends;
    ch.free_sends = &ch.send_bufs[i];
  }
  listen_somewhere();
}

void channel_card(card_t* mine) {
  memset(mine, 0, sizeof *mine);
  mine->address = ch.address;
  mine->qual = ch.qual;
}

void channel_start(const card_t* all) {
  memcpy(ch.cards, all, (size_t)ch.size * sizeof *all);
  for (int i = 1; ch.options.connect_all && i < ch.size; ++i) {
    const int rank = (ch.rank + i) % ch.size;
    if (!ch.peers[rank].link) {
      link_connect(rank);
    }
    channel_progress(0);
  }
}

/* ---- connections ------------------------------------------------------------------------ */

static link_t* make_link(int rank, int state) {
  link_t* link = calloc(1, sizeof *link);
  link->rank = rank;
  link->state = state;
  link->credits = CREDITS;
  link->fast_credits = FAST_SLOTS;
  const size_t length = FAST_SLOTS * FAST_SIZE + RECV_BUFS * EAGER_SIZE;
  if (posix_memalign((void**)&link->memory, 4096, length) != 0) {
    die("out of memory");
  }
  memset(link->memory, 0, length);
  link->ring = link->memory;
  link->region = channel_register(link->memory, length);
  for (int i = 0; i < RECV_BUFS; ++i) {
    recv_buf_t* buffer = &link->recvs[i];
    buffer->work.kind = WORK_RECV;
    buffer->work.link = buffer->link = link;
    buffer->data = link->memory + FAST_SLOTS * FAST_SIZE + i * EAGER_SIZE;
  }
  check(dat_ep_create(ch.ia, ch.pz, ch.evd[0], ch.evd[0], ch.evd[1], &ch.ep_attributes, &link->ep),
        "dat_ep_create");
  link->next = ch.links;
  ch.links = link;
  return link;
}

static void post_all(link_t* link) {
  for (int i = 0; i < RECV_BUFS; ++i) {
    post_recv(&link->recvs[i]);
  }
}

static hello_t hello_for(const link_t* link) {
  hello_t hello;
  memset(&hello, 0, sizeof hello);
  hello.rank = ch.rank;
  hello.ring = ch.options.block ? 0 : (uintptr_t)link->ring;
  hello.ring_context = link->region.rmr_context;
  hello.flags = device_flags_address();
  hello.flags_context = device_flags_context();
  return hello;
}

static void call(link_t* link) {
  hello_t hello = hello_for(link);
  check(dat_ep_connect(link->ep, (DAT_IA_ADDRESS_PTR)&ch.cards[link->rank].address,
                       ch.cards[link->rank].qual, DAT_TIMEOUT_INFINITE, sizeof hello, &hello,
                       DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
        "dat_ep_connect");
}

void link_connect(int rank) {
  link_t* link = make_link(rank, LINK_CONNECTING);
  ch.peers[rank].link = link;
  post_all(link);
  call(link);
}

/* If two ranks connect to each other at the same time, the request of the lower rank wins. */
void link_on_request(const DAT_CR_ARRIVAL_EVENT_DATA* arrival) {
  DAT_CR_PARAM param;
  hello_t hello;
  if (arrival->conn_qual != ch.qual) {
    die("a request for conn qual %llx instead of %llx", (unsigned long long)arrival->conn_qual,
        (unsigned long long)ch.qual);
  }
  check(dat_cr_query(arrival->cr_handle, DAT_CR_FIELD_ALL, &param), "dat_cr_query");
  if (param.private_data_size < (DAT_COUNT)sizeof hello) {
    die("a request with %d bytes of private data", param.private_data_size);
  }
  memcpy(&hello, param.private_data, sizeof hello);
  peer_t* peer = &ch.peers[hello.rank];
  if (peer->link && (peer->link->state != LINK_CONNECTING || ch.rank < hello.rank)) {
    check(dat_cr_reject(arrival->cr_handle, 0, NULL), "dat_cr_reject");
    return;
  }
  if (peer->link) {
    peer->link->state = LINK_LOST; /* its PEER_REJECTED will arrive later */
  }
  peer->link = make_link(hello.rank, LINK_ACCEPTING);
  peer->link->hello = hello;
  hello = hello_for(peer->link);
  /* Receives are posted once the connection is established; the peer may send earlier. */
  check(dat_cr_accept(arrival->cr_handle, peer->link->ep, sizeof hello, &hello), "dat_cr_accept");
}

static void on_refused(link_t* link, DAT_EVENT_NUMBER number) {
  if (link->state == LINK_LOST) {
    link->state = LINK_DOWN;
    return;
  }
  if (number == DAT_CONNECTION_EVENT_PEER_REJECTED && ch.rank > link->rank) {
    /* The peer's own request is on its way; pending operations wait for that connection. */
    link->state = LINK_DOWN;
    ch.peers[link->rank].link = NULL;
    return;
  }
  if (++link->attempts > CONNECT_ATTEMPTS) {
    die("cannot connect to rank %d: event 0x%x", link->rank, number);
  }
  usleep(10000u << link->attempts);
  check(dat_ep_reset(link->ep), "dat_ep_reset");
  post_all(link); /* the earlier receives have been flushed */
  call(link);
}

void link_on_event(DAT_EVENT_NUMBER number, const DAT_CONNECTION_EVENT_DATA* data) {
  link_t* link = ch.links;
  while (link && link->ep != data->ep_handle) {
    link = link->next;
  }
  if (!link) {
    die("event 0x%x for an unknown EP", number);
  }
  switch (number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
      if (link->state == LINK_CONNECTING) {
        if (data->private_data_size < (DAT_COUNT)sizeof link->hello) {
          die("rank %d accepted with %d bytes", link->rank, data->private_data_size);
        }
        memcpy(&link->hello, data->private_data, sizeof link->hello);
        if (link->hello.rank != link->rank) {
          die("rank %d answered as %d", link->rank, link->hello.rank);
        }
      } else {
        post_all(link);
      }
      link->state = LINK_UP;
      break;
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
    case DAT_CONNECTION_EVENT_UNREACHABLE:
    case DAT_CONNECTION_EVENT_TIMED_OUT:
      on_refused(link, number);
      break;
    case DAT_CONNECTION_EVENT_DISCONNECTED:
    case DAT_CONNECTION_EVENT_BROKEN:
      if (!ch.closing || number == DAT_CONNECTION_EVENT_BROKEN) {
        die("the connection to rank %d ended: event 0x%x", link->rank, number);
      }
      link->state = LINK_DOWN;
      break;
    default:
      die("connection event 0x%x of rank %d", number, link->rank);
  }
}

/* ---- the end ---------------------------------------------------------------------------- */

void channel_close(void) {
  ch.closing = 1;
  for (int i = 0; i < ch.size; ++i) {
    link_t* link = ch.peers[i].link;
    if (link && link->state == LINK_UP) {
      check(dat_ep_disconnect(
                link->ep, ch.options.graceful ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG),
            "dat_ep_disconnect");
    }
  }
  for (link_t* link = ch.links; link; link = link->next) {
    while (link->state != LINK_DOWN) {
      DAT_EVENT event;
      DAT_COUNT more;
      check(dat_evd_wait(ch.evds == 1 ? ch.evd[0] : ch.evd[1], 20000000, 1, &event, &more),
            "no end of a connection: dat_evd_wait");
      channel_on_event(&event);
    }
  }
  check(dat_psp_free(ch.psp), "dat_psp_free");
  DAT_EVENT event;
  for (int i = 0; i < ch.evds; ++i) {
    while (dat_evd_dequeue(ch.evd[i], &event) == DAT_SUCCESS) {
      if (event.event_number == DAT_CONNECTION_REQUEST_EVENT) {
        dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, NULL);
      }
    }
  }
  while (ch.links) {
    link_t* link = ch.links;
    ch.links = link->next;
    check(dat_ep_free(link->ep), "dat_ep_free");
    channel_unregister(link->region.lmr);
    free(link->memory);
    free(link);
  }
  channel_unregister(ch.send_region.lmr);
}

void channel_end(void) {
  for (int i = 0; i < ch.evds; ++i) {
    check(dat_evd_free(ch.evd[i]), "dat_evd_free");
  }
  if (ch.cno) {
    check(dat_cno_free(ch.cno), "dat_cno_free");
  }
  check(dat_pz_free(ch.pz), "dat_pz_free");
  check(dat_ia_close(ch.ia, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}
