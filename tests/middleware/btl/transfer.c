/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* transfer.c - messages: their bytes, which way each is sent, and what arrives. */
#include "btl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EAGER_ROOM (EAGER_SIZE - sizeof(struct footer) - sizeof(struct header))

/* ---- bytes of messages ----------------------------------------------------------------------- */

/* The bytes of a message follow from who sends it to whom, and from its number. */
static unsigned char byte_of(int from, int to, uint32_t sequence, uint32_t i) {
  const uint32_t seed = ((uint32_t)from * 31 + (uint32_t)to) * 2654435761U + sequence * 40503U;
  return (unsigned char)(seed + i + (i >> 8));
}

void fill(unsigned char* bytes, uint32_t length, int to, uint32_t sequence) {
  for (uint32_t i = 0; i < length; ++i) {
    bytes[i] = byte_of(layer.me, to, sequence, i);
  }
}

static void arrived(int rank, uint32_t sequence, const unsigned char* bytes, uint32_t length) {
  struct peer* p = &layer.peers[rank];
  need(sequence < (uint32_t)layer.messages && !p->seen[sequence], "a message arrived twice");
  p->seen[sequence] = 1;
  ++p->arrived;
  for (uint32_t i = 0; i < length; ++i) {
    if (bytes[i] != byte_of(rank, layer.me, sequence, i)) {
      fprintf(stderr, "message %u of %d, %u bytes, at %u\n", sequence, rank, length, i);
      need(0, "a wrong byte");
    }
  }
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
  fill(to + sizeof header, length, rank, p->next);
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
