/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* eager.c - credits, rings, and what waits for them. */
#include "btl.h"

#include <stdlib.h>
#include <string.h>

/* A fragment that has no payload. */
struct frag* control(int rank, enum kind kind, struct header header) {
  struct frag* frag = take_fragment(EAGER, 1);
  need(frag != NULL, "there are too few fragments");
  header.kind = kind;
  header.from = (uint32_t)layer.me;
  frag->rank = rank;
  frag->use = SENDS;
  frag->length = sizeof header;
  memcpy(contents(frag->memory, EAGER, sizeof header), &header, sizeof header);
  return frag;
}

void return_credits(int rank, enum connection c) {
  struct peer* p = &layer.peers[rank];
  if (++p->owed[c] >= WINDOW) {
    const struct header header = {.count = (uint32_t)p->owed[c]};
    p->owed[c] = 0;
    post_send(p->ep[c], control(rank, CREDITS, header));
  }
}

void return_slots(int rank) {
  struct peer* p = &layer.peers[rank];
  if (++p->slots_owed >= SLOT_WINDOW) {
    const struct header header = {.count = p->slots_owed};
    p->slots_owed = 0;
    post_send(p->ep[EAGER], control(rank, SLOT_CREDITS, header));
  }
}

/* Posts the receives, behind what the peer may have sent, and offers it a ring. */
void start_traffic(int rank) {
  struct peer* p = &layer.peers[rank];
  DAT_LMR_CONTEXT local;
  DAT_RMR_CONTEXT remote;
  struct header header = {0};
  for (int c = 0; c < CONNECTIONS; ++c) {
    add_fragments((enum connection)c, RECEIVES + CONTROL);
    for (int i = 0; i < RECEIVES + CONTROL; ++i) {
      struct frag* frag = take_fragment((enum connection)c, 1);
      frag->use = RECEIVES_IT;
      frag->rank = rank;
      post_receive(p->ep[c], frag);
    }
    p->tokens[c] = RECEIVES;
  }
  p->ring = calloc(SLOTS, EAGER_SIZE);
  p->ring_lmr = register_memory(p->ring, (size_t)SLOTS * EAGER_SIZE, 1, &local, &remote);
  header.address = (uint64_t)(uintptr_t)p->ring;
  header.context = remote;
  post_send(p->ep[EAGER], control(rank, RING, header));
}

static void write_to_ring(struct peer* p, struct frag* frag) {
  const unsigned char* from = contents(frag->memory, EAGER, frag->length);
  const uint32_t size = (uint32_t)(frag->memory + EAGER_SIZE - from);
  const uint32_t slot = p->peers_head++ % SLOTS;
  DAT_LMR_TRIPLET local = segment_of(frag, from, size);
  DAT_RMR_TRIPLET target;
  struct footer* footer = footer_of(frag->memory);
  footer->size = frag->length;
  footer->active = 1;
  memset(&target, 0, sizeof target);
  target.rmr_context = p->peers_ring_context;
  target.virtual_address = p->peers_ring + (uint64_t)(slot + 1) * EAGER_SIZE - size;
  target.segment_length = size;
  frag->use = WRITES;
  dat(dat_ep_post_rdma_write(p->ep[EAGER], 1, &local, cookie_of(frag), &target,
                             DAT_COMPLETION_DEFAULT_FLAG),
      "dat_ep_post_rdma_write to a ring");
  --p->slot_tokens;
  ++p->by_ring;
  ++layer.outstanding;
}

void progress_eager(struct peer* p) {
  while (p->state == CONNECTED && p->first != NULL &&
         (p->slot_tokens > 0 || p->tokens[EAGER] > 0)) {
    struct frag* frag = p->first;
    p->first = frag->next;
    if (p->slot_tokens > 0) {
      write_to_ring(p, frag);
    } else {
      --p->tokens[EAGER];
      ++p->by_send;
      post_send(p->ep[EAGER], frag);
    }
  }
}

void send_eagerly(int rank, struct frag* frag) {
  struct peer* p = &layer.peers[rank];
  frag->next = NULL;
  *(p->first == NULL ? &p->first : &p->last->next) = frag;
  p->last = frag;
  progress_eager(p);
}
