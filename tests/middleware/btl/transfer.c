/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* transfer.c - credits, rings, and messages that are written by RDMA. */
#include "btl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EAGER_ROOM (EAGER_SIZE - sizeof(struct footer) - sizeof(struct header))

/* ---- bytes of messages ----------------------------------------------------------------------- */

static uint32_t mixed(uint32_t from, uint32_t to, uint32_t sequence) {
  return (from * 31 + to) * 2654435761U + sequence * 40503U;
}

static void fill(unsigned char* bytes, uint32_t length, uint32_t seed) {
  for (uint32_t i = 0; i < length; ++i) {
    bytes[i] = (unsigned char)(seed + i + (i >> 8));
  }
}

static void arrived(int rank, uint32_t sequence, const unsigned char* bytes, uint32_t length) {
  struct peer* p = &layer.peers[rank];
  const uint32_t seed = mixed((uint32_t)rank, (uint32_t)layer.me, sequence);
  need(sequence < (uint32_t)layer.messages && !p->seen[sequence], "a message arrived twice");
  p->seen[sequence] = 1;
  ++p->arrived;
  for (uint32_t i = 0; i < length; ++i) {
    if (bytes[i] != (unsigned char)(seed + i + (i >> 8))) {
      fprintf(stderr, "message %u of %d, %u bytes, at %u\n", sequence, rank, length, i);
      need(0, "a wrong byte");
    }
  }
}

/* ---- credits --------------------------------------------------------------------------------- */

static struct frag* control(int rank, enum kind kind, struct header header) {
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

static void return_credits(int rank, enum connection c) {
  struct peer* p = &layer.peers[rank];
  if (++p->owed[c] >= WINDOW) {
    const struct header header = {.count = (uint32_t)p->owed[c]};
    p->owed[c] = 0;
    post_send(p->ep[c], control(rank, CREDITS, header));
  }
}

static void return_slots(int rank) {
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

/* ---- the eager path -------------------------------------------------------------------------- */

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

static void progress_eager(struct peer* p) {
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

static void send_eagerly(int rank, struct frag* frag) {
  struct peer* p = &layer.peers[rank];
  frag->next = NULL;
  *(p->first == NULL ? &p->first : &p->last->next) = frag;
  p->last = frag;
  progress_eager(p);
}

/* ---- messages that are written by RDMA ------------------------------------------------------- */

static struct huge* make_huge(int rank, uint32_t sequence, uint32_t length, struct huge** list) {
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

static struct huge* find_huge(struct huge* list, uint32_t sequence) {
  while (list != NULL && list->sequence != sequence) {
    list = list->next;
  }
  need(list != NULL, "an answer without a message");
  return list;
}

static void free_huge(struct huge* h, struct huge** list) {
  while (*list != h) {
    list = &(*list)->next;
  }
  *list = h->next;
  dat(dat_lmr_free(h->lmr), "dat_lmr_free of a message");
  free(h->bytes);
  free(h);
}

static void announce(int rank, uint32_t sequence, uint32_t length) {
  struct huge* h = make_huge(rank, sequence, length, &layer.peers[rank].outgoing);
  const struct header header = {.sequence = sequence, .length = length};
  fill(h->bytes, length, mixed((uint32_t)layer.me, (uint32_t)rank, sequence));
  send_eagerly(rank, control(rank, ANNOUNCE, header));
}

static void progress_puts(int rank) {
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
static void on_put(struct frag* frag) {
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

/* ---- receiving ------------------------------------------------------------------------------- */

static void on_fragment(enum connection c, const unsigned char* bytes, uint32_t length) {
  struct header header;
  struct peer* p;
  struct huge* h;
  int rank;
  need(length >= sizeof header, "a fragment is too short");
  memcpy(&header, bytes, sizeof header);
  need(header.from < (uint32_t)layer.ranks, "a fragment of an unknown rank");
  rank = (int)header.from;
  p = &layer.peers[rank];
  switch (header.kind) {
    case DATA:
      need(length == header.length + sizeof header, "a fragment has the wrong length");
      arrived(rank, header.sequence, bytes + sizeof header, header.length);
      break;
    case ANNOUNCE: {
      struct header answer = {.sequence = header.sequence};
      h = make_huge(rank, header.sequence, header.length, &p->incoming);
      answer.address = (uint64_t)(uintptr_t)h->bytes;
      answer.context = h->remote;
      send_eagerly(rank, control(rank, CLEAR, answer));
      break;
    }
    case CLEAR:
      h = find_huge(p->outgoing, header.sequence);
      h->address = header.address;
      h->target = header.context;
      progress_puts(rank);
      break;
    case FINISHED:
      h = find_huge(p->incoming, header.sequence);
      arrived(rank, header.sequence, h->bytes, h->length);
      free_huge(h, &p->incoming);
      break;
    case CREDITS:
      p->tokens[c] += (int)header.count;
      progress_eager(p);
      break;
    case SLOT_CREDITS:
      p->slot_tokens += (int)header.count;
      progress_eager(p);
      break;
    case RING:
      p->peers_ring = header.address;
      p->peers_ring_context = header.context;
      p->slot_tokens = SLOTS;
      progress_eager(p);
      break;
    default:
      need(0, "a fragment of an unknown kind");
  }
}

static int needs_credit(const unsigned char* bytes) {
  struct header header;
  memcpy(&header, bytes, sizeof header);
  return header.kind < CREDITS;
}

/* A receive is posted again before its credit is returned. */
static void on_receive(struct frag* frag, uint32_t length) {
  struct peer* p = &layer.peers[frag->rank];
  const enum connection c = frag->size;
  const int rank = frag->rank, counts = needs_credit(frag->memory);
  on_fragment(c, frag->memory, length);
  post_receive(p->ep[c], frag);
  if (counts) {
    return_credits(rank, c);
  }
}

static void on_completion(const DAT_DTO_COMPLETION_EVENT_DATA* dto) {
  struct frag* frag = dto->user_cookie.as_ptr;
  if (dto->status == DAT_DTO_ERR_FLUSHED && layer.job->done == layer.ranks &&
      frag->use == RECEIVES_IT) {
    return;
  }
  if (dto->status != DAT_DTO_SUCCESS) {
    fprintf(stderr, "rank %d: use %d, status %d\n", layer.me, frag->use, (int)dto->status);
    need(0, "a transfer failed");
  }
  switch (frag->use) {
    case RECEIVES_IT:
      on_receive(frag, (uint32_t)dto->transfered_length);
      return;
    case RECEIVES_HELLO: {
      struct hello hello;
      need(dto->transfered_length == sizeof hello, "a hello has the wrong length");
      memcpy(&hello, frag->memory, sizeof hello);
      give_back(frag);
      on_hello(dto, &hello);
      return;
    }
    case PUT:
      --layer.outstanding;
      on_put(frag);
      return;
    default:
      need(frag->use != FREE, "a completion of a free fragment");
      --layer.outstanding;
      give_back(frag);
  }
}

int take_completions(void) {
  DAT_EVENT event;
  int count = 0;
  for (; dat_evd_dequeue(layer.dto_evd, &event) == DAT_SUCCESS; ++count) {
    need(event.event_number == DAT_DTO_COMPLETION_EVENT, "not a completion");
    on_completion(&event.event_data.dto_completion_event_data);
  }
  return count;
}

/* One slot of each ring in turn. */
int take_slots(void) {
  int count = 0;
  for (int r = 0; r < layer.ranks; ++r) {
    struct peer* p = &layer.peers[r];
    const unsigned char* slot;
    struct footer* footer;
    if (p->ring == NULL) {
      continue;
    }
    slot = p->ring + (size_t)(p->ring_head % SLOTS) * EAGER_SIZE;
    footer = footer_of(slot);
    if (__atomic_load_n(&footer->active, __ATOMIC_ACQUIRE) != 1) {
      continue;
    }
    ++p->ring_head;
    need(footer->size <= EAGER_SIZE - sizeof *footer, "a slot has a wrong size");
    on_fragment(EAGER, contents(slot, EAGER, footer->size), footer->size);
    footer->active = 0;
    return_slots(r);
    ++count;
  }
  return count;
}

/* ---- sending --------------------------------------------------------------------------------- */

static int send_in(struct frag* frag, int rank, uint32_t length) {
  struct peer* p = &layer.peers[rank];
  const struct header header = {DATA, (uint32_t)layer.me, p->next, length, 0, 0, 0};
  unsigned char* to;
  frag->use = SENDS;
  frag->rank = rank;
  frag->length = length + (uint32_t)sizeof header;
  to = contents(frag->memory, frag->size, frag->length);
  memcpy(to, &header, sizeof header);
  fill(to + sizeof header, length, mixed((uint32_t)layer.me, (uint32_t)rank, p->next));
  ++p->next;
  return 1;
}

/* Sends the next message to a peer, if its kind of memory and credit is there. The first one is
 * what makes the connections. Returns whether it did. */
int send_next(int rank) {
  struct peer* p = &layer.peers[rank];
  const int choice = rand() % 20;
  struct frag* frag;
  if (p->next == (uint32_t)layer.messages) {
    return 0;
  }
  if (p->state == CLOSED) {
    wish_for(rank);
  }
  if (choice > 1 && choice < 6) {
    frag = p->state == CONNECTED && p->tokens[LONG] > 0 ? take_fragment(LONG, 0) : NULL;
    if (frag == NULL) {
      return 0;
    }
    send_in(frag, rank, (uint32_t)rand() % (uint32_t)(LONG_SIZE - EAGER_SIZE));
    --p->tokens[LONG];
    ++p->by_long;
    post_send(p->ep[LONG], frag);
    return 1;
  }
  if (few_fragments()) {
    return 0;
  }
  if (choice <= 1) {
    if (p->outgoing != NULL && p->outgoing->next != NULL) {
      return 0;
    }
    announce(rank, p->next++, 1 + (uint32_t)rand() % HUGE_MOST);
    return 1;
  }
  frag = take_fragment(EAGER, 0);
  send_in(frag, rank, (uint32_t)rand() % (choice < 13 ? 64U : (uint32_t)EAGER_ROOM - 7U));
  send_eagerly(rank, frag);
  return 1;
}

/* Whether all messages have been sent and received, and nothing is in progress. */
int idle(void) {
  for (int r = 0; r < layer.ranks; ++r) {
    const struct peer* p = &layer.peers[r];
    if (r != layer.me &&
        (p->next < (uint32_t)layer.messages || p->first != NULL || p->outgoing != NULL ||
         p->incoming != NULL || p->arrived < (uint32_t)layer.messages)) {
      return 0;
    }
  }
  return layer.outstanding == 0;
}
