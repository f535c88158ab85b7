/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* huge.c - messages that are written by RDMA. */
#include "btl.h"

#include <stdlib.h>
#include <string.h>

struct huge* make_huge(int rank, uint32_t sequence, uint32_t length, struct huge** list) {
  struct huge* h = calloc(1, sizeof *h);
  h->rank = rank;
  h->sequence = sequence;
  h->length = length;
  h->bytes = calloc(1, length);
  h->lmr = register_memory(h->bytes, length, list == &layer.peers[rank].incoming, &h->context,
                           &h->remote);
  h->next = *list;
  *list = h;
  return h;
}

struct huge* find_huge(struct huge* list, uint32_t sequence) {
  while (list != NULL && list->sequence != sequence) {
    list = list->next;
  }
  need(list != NULL, "an answer without a message");
  return list;
}

void free_huge(struct huge* h, struct huge** list) {
  while (*list != h) {
    list = &(*list)->next;
  }
  *list = h->next;
  dat(dat_lmr_free(h->lmr), "dat_lmr_free of a message");
  free(h->bytes);
  free(h);
}

void announce(int rank, uint32_t sequence, uint32_t length) {
  struct huge* h = make_huge(rank, sequence, length, &layer.peers[rank].outgoing);
  const struct header header = {.sequence = sequence, .length = length};
  fill(h->bytes, length, rank, sequence);
  send_eagerly(rank, control(rank, ANNOUNCE, header));
}

void progress_puts(int rank) {
  struct peer* p = &layer.peers[rank];
  for (struct huge* h = p->outgoing; h != NULL; h = h->next) {
    while (h->address != 0 && h->posted < h->length && p->puts < PUTS) {
      const uint32_t left = h->length - h->posted;
      const uint32_t size = left < PUT_SIZE ? left : PUT_SIZE;
      struct frag* frag = take_fragment(EAGER, 1);
      DAT_LMR_TRIPLET local;
      DAT_RMR_TRIPLET target;
      if (frag == NULL) {
        return;
      }
      frag->use = PUT;
      frag->rank = rank;
      frag->huge = h;
      frag->length = size;
      local = segment_of(frag, h->bytes + h->posted, size);
      local.lmr_context = h->context;
      memset(&target, 0, sizeof target);
      target.rmr_context = h->target;
      target.virtual_address = h->address + h->posted;
      target.segment_length = size;
      dat(dat_ep_post_rdma_write(p->ep[LONG], 1, &local, cookie_of(frag), &target,
                                 DAT_COMPLETION_DEFAULT_FLAG),
          "dat_ep_post_rdma_write of a message");
      h->posted += size;
      ++p->puts;
      ++layer.outstanding;
    }
  }
}

/* The Writes were on one connection, and this goes over the other: it relies on their completion.
 */
void on_put(struct frag* frag) {
  struct huge* h = frag->huge;
  struct peer* p = &layer.peers[h->rank];
  const int rank = h->rank;
  --p->puts;
  h->completed += frag->length;
  if (h->completed == h->length) {
    const struct header header = {.sequence = h->sequence};
    send_eagerly(rank, control(rank, FINISHED, header));
    free_huge(h, &p->outgoing);
    ++p->by_put;
  }
  give_back(frag);
  progress_puts(rank);
}
