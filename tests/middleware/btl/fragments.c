/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* fragments.c - registered memory in fragments, and their posts. */
#include "btl.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNED(size) (((size) + 7U) / 8U * 8U)

static const uint32_t kSizes[CONNECTIONS] = {EAGER_SIZE, LONG_SIZE};
static const int kFragments[CONNECTIONS] = {EAGER_FRAGS, LONG_FRAGS};

static struct frag* free_frags[CONNECTIONS];
static int free_count[CONNECTIONS];
static struct pool {
  struct pool* next;
  unsigned char* memory;
  struct frag* frags;
  DAT_LMR_HANDLE lmr;
} * pools;

DAT_LMR_HANDLE register_memory(void* memory, size_t size, int remote, DAT_LMR_CONTEXT* context,
                               DAT_RMR_CONTEXT* remote_context) {
  const int rights = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
                     (remote ? DAT_MEM_PRIV_REMOTE_WRITE_FLAG : 0);
  DAT_REGION_DESCRIPTION region;
  DAT_LMR_HANDLE lmr;
  DAT_VLEN length;
  DAT_VADDR address;
  memset(&region, 0, sizeof region);
  region.for_va = memory;
  dat(dat_lmr_create(layer.ia, DAT_MEM_TYPE_VIRTUAL, region, size, layer.pz,
                     (DAT_MEM_PRIV_FLAGS)rights, DAT_VA_TYPE_VA, &lmr, context, remote_context,
                     &length, &address),
      "dat_lmr_create");
  return lmr;
}

void give_back(struct frag* frag) {
  frag->use = FREE;
  frag->next = free_frags[frag->size];
  free_frags[frag->size] = frag;
  ++free_count[frag->size];
}

void add_fragments(enum connection size, int count) {
  struct pool* pool = calloc(1, sizeof *pool);
  DAT_LMR_CONTEXT context;
  DAT_RMR_CONTEXT remote;
  pool->memory = malloc((size_t)count * kSizes[size]);
  pool->frags = calloc((size_t)count, sizeof *pool->frags);
  pool->lmr = register_memory(pool->memory, (size_t)count * kSizes[size], 0, &context, &remote);
  pool->next = pools;
  pools = pool;
  for (int i = 0; i < count; ++i) {
    struct frag* frag = &pool->frags[i];
    frag->size = size;
    frag->memory = pool->memory + (size_t)i * kSizes[size];
    frag->context = context;
    give_back(frag);
  }
}

void make_fragments(void) {
  for (int c = 0; c < CONNECTIONS; ++c) {
    add_fragments((enum connection)c, kFragments[c]);
  }
}

void free_fragments(void) {
  for (struct pool *pool = pools, *next; pool != NULL; pool = next) {
    next = pool->next;
    dat(dat_lmr_free(pool->lmr), "dat_lmr_free of fragments");
    free(pool->memory);
    free(pool->frags);
    free(pool);
  }
}

struct frag* take_fragment(enum connection size, int reserved) {
  struct frag* frag = free_frags[size];
  if (frag == NULL || (!reserved && size == EAGER && free_count[size] <= EAGER_RESERVED)) {
    return NULL;
  }
  free_frags[size] = frag->next;
  --free_count[size];
  return frag;
}

/* Where the contents of a fragment begin: they end before the footer. */
unsigned char* contents(const unsigned char* memory, enum connection size, uint32_t length) {
  return (unsigned char*)memory + kSizes[size] - sizeof(struct footer) - ALIGNED(length);
}
struct footer* footer_of(const unsigned char* memory) {
  return (struct footer*)(memory + EAGER_SIZE - sizeof(struct footer));
}

DAT_LMR_TRIPLET segment_of(const struct frag* frag, const unsigned char* from, uint32_t length) {
  DAT_LMR_TRIPLET segment;
  memset(&segment, 0, sizeof segment);
  segment.lmr_context = frag->context;
  segment.virtual_address = (DAT_VADDR)(uintptr_t)from;
  segment.segment_length = length;
  return segment;
}

DAT_DTO_COOKIE cookie_of(struct frag* frag) {
  DAT_DTO_COOKIE cookie;
  cookie.as_64 = 0;
  cookie.as_ptr = frag;
  return cookie;
}

void post_receive(DAT_EP_HANDLE ep, struct frag* frag) {
  DAT_LMR_TRIPLET segment = segment_of(frag, frag->memory, kSizes[frag->size]);
  dat(dat_ep_post_recv(ep, 1, &segment, cookie_of(frag), DAT_COMPLETION_DEFAULT_FLAG),
      "dat_ep_post_recv");
}

void post_send(DAT_EP_HANDLE ep, struct frag* frag) {
  DAT_LMR_TRIPLET segment =
      segment_of(frag, contents(frag->memory, frag->size, frag->length), frag->length);
  dat(dat_ep_post_send(ep, 1, &segment, cookie_of(frag), DAT_COMPLETION_DEFAULT_FLAG),
      "dat_ep_post_send");
  ++layer.outstanding;
}

int few_fragments(void) { return free_count[EAGER] <= EAGER_RESERVED; }
