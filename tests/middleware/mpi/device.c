/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The queues and protocols of the device: how messages are sent and matched. */
#define _DEFAULT_SOURCE
#include "device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"

#define EAGER_MAX (EAGER_SIZE - sizeof(header_t))
#define FAST_MAX (FAST_SIZE - sizeof(header_t))

/* A message or a rendezvous that arrived before its receive. */
typedef struct unexpected {
  struct unexpected* next;
  header_t header;
  unsigned char* data;
} unexpected_t;

static options_t opts;
static request_t* posted;
static unexpected_t* arrived;
static volatile unsigned char* flags; /* peers set them by RDMA Write at the end of a rendezvous */
static unsigned char* flag_source;    /* holds the 1 that is written to them */
static region_t flag_region, flag_source_region;
static request_t* flag_owner[FLAGS];

void device_init(const options_t* options, int rank, int size) {
  opts = *options;
  channel_init(options, rank, size);
  flags = calloc(FLAGS, 8);
  flag_source = calloc(1, 8);
  flag_source[7] = 1;
  flag_region = channel_register((void*)flags, FLAGS * 8);
  flag_source_region = channel_register(flag_source, 8);
}

void device_card(card_t* mine) { channel_card(mine); }
void device_start(const card_t* all) { channel_start(all); }

/* ---- rendezvous ------------------------------------------------------------------------- */

/* Called when the receiver has the sender's announcement and the buffer for the data. */
static void answer_rendezvous(request_t* request, const header_t* rts) {
  request->length = rts->length;
  request->peer_request = rts->sender_request;
  region_t region = channel_register(request->data, request->length);
  request->lmr = region.lmr;
  if (opts.read) {
    channel_read(request->peer, request->data, &region, request->length, rts->address,
                 rts->rmr_context, request);
    return;
  }
  header_t cts = {.type = PKT_CTS,
                  .length = rts->length,
                  .sender_request = rts->sender_request,
                  .receiver_request = (uintptr_t)request,
                  .address = (uintptr_t)request->data,
                  .rmr_context = region.rmr_context,
                  .flag = FLAGS};
  request->flag = -1;
  if (!opts.block) { /* a sleeping rank cannot poll memory, and gets a FIN message */
    for (int i = 0; i < FLAGS && request->flag < 0; ++i) {
      if (!flag_owner[i]) {
        flag_owner[i] = request;
        flags[8 * i + 7] = 0;
        request->flag = i;
        cts.flag = (uint32_t)i;
      }
    }
  }
  channel_send(request->peer, &cts, NULL, 0);
}

static void poll_flags(void) {
  for (int i = 0; i < FLAGS; ++i) {
    if (flag_owner[i] && flags[8 * i + 7] == 1) {
      request_t* request = flag_owner[i];
      flag_owner[i] = NULL;
      channel_unregister(request->lmr);
      request->done = 1;
    }
  }
}

static void on_cts(int peer, const header_t* cts) {
  request_t* request = (request_t*)(uintptr_t)cts->sender_request;
  region_t region = channel_register(request->data, request->length);
  request->lmr = region.lmr;
  /* The Write of the data is silent; the flag or FIN that follows it reports the end. */
  channel_write(peer, request->data, &region, request->length, cts->address, cts->rmr_context,
                NULL);
  if (cts->flag < FLAGS) {
    channel_write(peer, flag_source, &flag_source_region, 8, channel_flags_of(peer) + 8 * cts->flag,
                  channel_flags_context_of(peer), request);
  } else {
    header_t fin = {.type = PKT_FIN, .receiver_request = cts->receiver_request};
    fin.sender_request = (uintptr_t)request;
    channel_send(peer, &fin, NULL, 0);
  }
}

/* An RDMA operation of this rank has completed its request. */
void device_rdma_done(int peer, request_t* request, int read) {
  channel_unregister(request->lmr);
  if (read) {
    header_t fin = {.type = PKT_FIN, .receiver_request = request->peer_request};
    channel_send(peer, &fin, NULL, 0);
  }
  request->done = 1;
}

/* The FIN after a rendezvous by Write has been sent, and so have the data before it. */
void device_fin_sent(uint64_t request_id) {
  request_t* request = (request_t*)(uintptr_t)request_id;
  channel_unregister(request->lmr);
  request->done = 1;
}

/* ---- matching --------------------------------------------------------------------------- */

static request_t* take_posted(int peer, int tag) {
  for (request_t** at = &posted; *at; at = &(*at)->next) {
    if ((*at)->peer == peer && (*at)->tag == tag) {
      request_t* found = *at;
      *at = found->next;
      return found;
    }
  }
  return NULL;
}

static void complete_eager(request_t* request, const header_t* header, const void* data) {
  if (header->length > request->length) {
    die("message of %u bytes for a receive of %zu", header->length, request->length);
  }
  memcpy(request->data, data, header->length);
  request->length = header->length;
  request->done = 1;
}

void device_arrived(int peer, const header_t* header, const void* data) {
  if (header->type == PKT_CTS) {
    on_cts(peer, header);
  } else if (header->type == PKT_FIN) {
    request_t* request = (request_t*)(uintptr_t)header->receiver_request;
    channel_unregister(request->lmr);
    request->done = 1;
  } else if (header->type == PKT_EAGER || header->type == PKT_RTS) {
    request_t* request = take_posted(peer, header->tag);
    if (!request) {
      unexpected_t* early = calloc(1, sizeof *early);
      early->header = *header;
      if (header->type == PKT_EAGER) {
        early->data = malloc(header->length + 1u);
        memcpy(early->data, data, header->length);
      }
      unexpected_t** at = &arrived;
      while (*at) {
        at = &(*at)->next;
      }
      *at = early;
    } else if (header->type == PKT_EAGER) {
      complete_eager(request, header, data);
    } else {
      answer_rendezvous(request, header);
    }
  } else {
    die("message of unknown type %d from rank %d", header->type, peer);
  }
}

/* ---- the interface for the collectives ---------------------------------------------------- */

void device_isend(request_t* request, const void* data, size_t length, int peer, int tag) {
  memset(request, 0, sizeof *request);
  request->peer = peer;
  request->tag = tag;
  request->data = (unsigned char*)data;
  request->length = length;
  header_t header = {.type = PKT_EAGER,
                     .source = (uint16_t)channel_rank(),
                     .tag = tag,
                     .length = (uint32_t)length};
  if (peer == channel_rank()) {
    device_arrived(peer, &header, data);
    request->done = 1;
  } else if (length <= EAGER_MAX) {
    channel_send(peer, &header, data, length);
    request->done = 1; /* the data have been copied */
  } else {
    header.type = PKT_RTS;
    header.sender_request = (uintptr_t)request;
    if (opts.read) {
      region_t region = channel_register(request->data, length);
      request->lmr = region.lmr;
      header.address = (uintptr_t)data;
      header.rmr_context = region.rmr_context;
      header.sender_request = (uintptr_t)request;
    }
    channel_send(peer, &header, NULL, 0);
  }
}

void device_irecv(request_t* request, void* data, size_t length, int peer, int tag) {
  memset(request, 0, sizeof *request);
  request->peer = peer;
  request->tag = tag;
  request->data = data;
  request->length = length;
  for (unexpected_t** at = &arrived; *at; at = &(*at)->next) {
    unexpected_t* early = *at;
    if (early->header.source == peer && early->header.tag == tag) {
      *at = early->next;
      if (early->header.type == PKT_EAGER) {
        complete_eager(request, &early->header, early->data);
      } else {
        answer_rendezvous(request, &early->header);
      }
      free(early->data);
      free(early);
      return;
    }
  }
  request_t** at = &posted;
  while (*at) {
    at = &(*at)->next;
  }
  *at = request;
}

void device_wait(request_t* request) {
  while (!request->done) {
    poll_flags();
    if (!request->done) {
      channel_progress(opts.block);
    }
  }
}

void device_drain(void) { channel_drain(); }

void device_finalize(void) {
  channel_close();
  channel_unregister(flag_region.lmr);
  channel_unregister(flag_source_region.lmr);
  channel_end();
}

void device_dump(void) { channel_dump(); }

uint64_t device_flags_address(void) { return (uintptr_t)flags; }
uint32_t device_flags_context(void) { return flag_region.rmr_context; }
