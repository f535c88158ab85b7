/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* channel.h - connections, credits, the ring, and the progress engine below device.c. */
#pragma once

#include "device.h"

enum { PKT_EAGER = 1, PKT_RTS, PKT_CTS, PKT_FIN, PKT_CREDIT };

typedef struct {
  DAT_LMR_HANDLE lmr;
  DAT_LMR_CONTEXT lmr_context;
  DAT_RMR_CONTEXT rmr_context;
} region_t;

void channel_init(const options_t* options, int rank, int size);
void channel_card(card_t* mine);
void channel_start(const card_t* all);
int channel_rank(void);

region_t channel_register(void* data, size_t length);
void channel_unregister(DAT_LMR_HANDLE lmr);

void channel_send(int peer, const header_t* header, const void* data, size_t length);
void channel_write(int peer, void* data, const region_t* region, size_t length, uint64_t address,
                   uint32_t context, request_t* request);
void channel_read(int peer, void* data, const region_t* region, size_t length, uint64_t address,
                  uint32_t context, request_t* request);
uint64_t channel_flags_of(int peer);
uint32_t channel_flags_context_of(int peer);

void channel_progress(int may_sleep);
void channel_drain(void); /* waits until all sends are complete */
void channel_close(void); /* ends the connections, frees everything but the PZ */
void channel_end(void);   /* closes the adapter */
void channel_dump(void);

/* Callbacks, implemented in device.c. */
void device_arrived(int peer, const header_t* header, const void* data);
void device_rdma_done(int peer, request_t* request, int read);
void device_fin_sent(uint64_t request_id);
uint64_t device_flags_address(void);
uint32_t device_flags_context(void);
