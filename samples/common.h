/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Shared by the samples with two sides: opens an adapter, creates the objects of one connection,
 * connects or accepts, and waits for events. Errors end the program with a message.
 *
 * Not thread-safe: one thread per struct connection.
 */
#pragma once

#include <arpa/inet.h>
#include <dat/dat_diagnosis_extensions.h>
#include <dat/udat.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_LENGTH 16
#define TIMEOUT_US (10 * 1000 * 1000)

/* The objects of one connection. */
struct connection {
  DAT_IA_HANDLE ia;           /* the opened adapter */
  DAT_EVD_HANDLE async_evd;   /* errors of the adapter; created by dat_ia_open */
  DAT_PZ_HANDLE pz;           /* protection zone: the memory that the endpoint may access */
  DAT_EVD_HANDLE recv_evd;    /* completions of receives */
  DAT_EVD_HANDLE request_evd; /* completions of sends and RDMA */
  DAT_EVD_HANDLE connect_evd; /* established, disconnected, ... */
  DAT_EP_HANDLE ep;           /* our end of the connection */
};

/* Registered memory: lmr_context names it in our own posts, rmr_context in the peer's. */
struct memory {
  void* address;
  DAT_LMR_HANDLE lmr;
  DAT_LMR_CONTEXT lmr_context;
  DAT_RMR_CONTEXT rmr_context;
};

/* Ends the program unless a DAT call succeeded. DAT_SUCCESS is the only success. */
#define CHECK(call) check((call), #call)
static inline void check(DAT_RETURN status, const char* call) {
  const char *major = "?", *minor = "?";
  if (status == DAT_SUCCESS) {
    return;
  }
  dat_strerror(status, &major, &minor);
  fprintf(stderr, "%s\n  failed: %s, %s\n", call, major, minor);
  exit(1);
}

/* Waits for the next event of a queue. No step takes long, so a timeout means a dead peer. */
static inline DAT_EVENT wait_event(DAT_EVD_HANDLE evd) {
  DAT_EVENT event;
  DAT_COUNT more;
  CHECK(dat_evd_wait(evd, TIMEOUT_US, 1, &event, &more));
  return event;
}

/* Waits for a connection event, which must be the expected one. Its private data, if any, stays
 * valid until the endpoint is reset or freed. */
static inline DAT_CONNECTION_EVENT_DATA wait_connection(const struct connection* c,
                                                        DAT_EVENT_NUMBER expected) {
  const DAT_EVENT event = wait_event(c->connect_evd);
  if (event.event_number != expected) {
    fprintf(stderr, "%s instead of %s\n", dat_event_name(event.event_number),
            dat_event_name(expected));
    exit(1);
  }
  return event.event_data.connect_event_data;
}

/* Waits for the completion of a posted operation; it contains the status and length. */
static inline DAT_DTO_COMPLETION_EVENT_DATA wait_transfer(DAT_EVD_HANDLE evd) {
  return wait_event(evd).event_data.dto_completion_event_data;
}

/* The same, but a failure ends the program. Returns the number of bytes. */
static inline DAT_SEG_LENGTH wait_success(DAT_EVD_HANDLE evd) {
  const DAT_DTO_COMPLETION_EVENT_DATA done = wait_transfer(evd);
  if (done.status != DAT_DTO_SUCCESS) {
    fprintf(stderr, "a transfer failed: %s\n", dat_dto_status_name(done.status));
    exit(1);
  }
  return done.transfered_length;
}

/* Opens the adapter and creates an unconnected endpoint with its queues. */
static inline void open_connection(struct connection* c, char* ia_name) {
  memset(c, 0, sizeof *c);
  c->async_evd = DAT_HANDLE_NULL; /* null: dat_ia_open creates one */
  CHECK(dat_ia_open(ia_name, QUEUE_LENGTH, &c->async_evd, &c->ia));
  CHECK(dat_pz_create(c->ia, &c->pz));
  CHECK(dat_evd_create(c->ia, QUEUE_LENGTH, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &c->recv_evd));
  CHECK(dat_evd_create(c->ia, QUEUE_LENGTH, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &c->request_evd));
  CHECK(dat_evd_create(c->ia, QUEUE_LENGTH, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
                       &c->connect_evd));
  CHECK(dat_ep_create(c->ia, c->pz, c->recv_evd, c->request_evd, c->connect_evd, NULL, &c->ep));
}

/* Registers memory; only registered memory can be transferred. */
static inline struct memory register_memory(const struct connection* c, void* address, size_t size,
                                            DAT_MEM_PRIV_FLAGS privileges) {
  struct memory memory = {.address = address};
  DAT_REGION_DESCRIPTION region = {.for_va = address};
  DAT_VLEN length;
  DAT_VADDR start;
  CHECK(dat_lmr_create(c->ia, DAT_MEM_TYPE_VIRTUAL, region, size, c->pz, privileges, DAT_VA_TYPE_VA,
                       &memory.lmr, &memory.lmr_context, &memory.rmr_context, &length, &start));
  return memory;
}

/* A piece of registered memory, in the form that the post calls take. */
static inline DAT_LMR_TRIPLET segment(const struct memory* memory, size_t offset, size_t size) {
  DAT_LMR_TRIPLET triplet = {.virtual_address = (DAT_VADDR)(uintptr_t)memory->address + offset,
                             .segment_length = (DAT_SEG_LENGTH)size,
                             .lmr_context = memory->lmr_context};
  return triplet;
}

static inline void post_recv(const struct connection* c, const struct memory* memory, size_t size) {
  DAT_LMR_TRIPLET local = segment(memory, 0, size);
  const DAT_DTO_COOKIE cookie = {.as_64 = 0}; /* our own value, returned in the completion */
  CHECK(dat_ep_post_recv(c->ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static inline void post_send(const struct connection* c, const struct memory* memory, size_t size) {
  DAT_LMR_TRIPLET local = segment(memory, 0, size);
  const DAT_DTO_COOKIE cookie = {.as_64 = 0};
  CHECK(dat_ep_post_send(c->ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

/* Server: waits for one client and accepts it. Before that, each side must have posted receives for
 * the first messages of the other side. The client gets the private data with its "established"
 * event. */
static inline void accept_client(struct connection* c, DAT_CONN_QUAL port, void* private_data,
                                 DAT_COUNT private_data_size) {
  DAT_EVD_HANDLE request_evd;
  DAT_PSP_HANDLE listener;
  DAT_EVENT event;
  DAT_COUNT more;
  CHECK(dat_evd_create(c->ia, QUEUE_LENGTH, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &request_evd));
  CHECK(dat_psp_create(c->ia, port, request_evd, DAT_PSP_CONSUMER_FLAG, &listener));
  printf("listening on port %llu\n", (unsigned long long)port);
  fflush(stdout);
  CHECK(dat_evd_wait(request_evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
  CHECK(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, c->ep, private_data_size,
                      private_data));
  wait_connection(c, DAT_CONNECTION_EVENT_ESTABLISHED);
  CHECK(dat_psp_free(listener));
  CHECK(dat_evd_free(request_evd));
}

/* Client: connects to the server. Returns the server's private data. */
static inline DAT_CONNECTION_EVENT_DATA connect_to(struct connection* c, const char* host,
                                                   DAT_CONN_QUAL port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  DAT_IA_ATTR attributes;
  int error;
  /* An adapter reaches addresses of its own family: IPv4 or IPv6. */
  CHECK(dat_ia_query(c->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, NULL));
  hints.ai_family = attributes.ia_address_ptr->sa_family;
  error = getaddrinfo(host, NULL, &hints, &found);
  if (error != 0) {
    fprintf(stderr, "%s: %s\n", host, gai_strerror(error));
    exit(1);
  }
  CHECK(dat_ep_connect(c->ep, found->ai_addr, port, TIMEOUT_US, 0, NULL, DAT_QOS_BEST_EFFORT,
                       DAT_CONNECT_DEFAULT_FLAG));
  freeaddrinfo(found);
  return wait_connection(c, DAT_CONNECTION_EVENT_ESTABLISHED);
}

/* Frees each object before those that it uses. A graceful close fails if an object is left. */
static inline void close_connection(struct connection* c) {
  CHECK(dat_ep_free(c->ep));
  CHECK(dat_evd_free(c->connect_evd));
  CHECK(dat_evd_free(c->request_evd));
  CHECK(dat_evd_free(c->recv_evd));
  CHECK(dat_pz_free(c->pz));
  CHECK(dat_ia_close(c->ia, DAT_CLOSE_GRACEFUL_FLAG));
}

/* Parses a number from the command line (decimal, octal or hexadecimal); ends the program if it is
 * invalid. */
static inline long long number(const char* text, long long smallest, long long largest) {
  char* end;
  const long long value = strtoll(text, &end, 0);
  if (end == text || *end != '\0' || value < smallest || value > largest) {
    fprintf(stderr, "'%s' is not a number from %lld to %lld\n", text, smallest, largest);
    exit(2);
  }
  return value;
}
