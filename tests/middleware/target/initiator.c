/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include "iser.h"

static uint8_t byte_of(uint32_t initiator, uint32_t version, uint32_t place) {
  return (uint8_t)(initiator * 59 + version * 31 + place * 7 + (place >> 8) * 3);
}

typedef struct {
  uint32_t number, tag;
  DAT_IA_HANDLE ia;
  DAT_IA_ATTR attr;
  DAT_EVD_HANDLE async_evd, recv_evd, request_evd, connect_evd;
  DAT_PZ_HANDLE pz;
  DAT_EP_HANDLE ep;
  command_t* messages; /* DEPTH to receive into, DEPTH to send from */
  region_t message_region, data_region;
  uint8_t* data;
  DAT_RMR_HANDLE windows[DEPTH];
  DAT_RMR_CONTEXT contexts[DEPTH];
  command_t current[DEPTH];
  int busy[DEPTH], outstanding;
  uint32_t versions[BLOCKS], lengths[BLOCKS]; /* version 0: unknown */
  int block_busy[BLOCKS];
} initiator_t;

static uint8_t* buffer(initiator_t* me, int slot) { return me->data + slot * (BLOCK + 13) + slot; }

static void post_recv(initiator_t* me, int i) {
  DAT_LMR_TRIPLET iov = part_of(&me->message_region, &me->messages[i], sizeof(command_t));
  DAT_DTO_COOKIE cookie;
  cookie.as_64 = (DAT_UINT64)i;
  OK(dat_ep_post_recv(me->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void log_in(initiator_t* me, int reuse) {
  DAT_EP_ATTR attr;
  DAT_EVENT event;
  DAT_COUNT more;
  attributes(&attr, &me->attr);
  attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  for (;;) {
    if (me->ep && reuse) {
      OK(dat_ep_reset(me->ep));
    } else {
      if (me->ep) {
        OK(dat_ep_free(me->ep));
      }
      OK(dat_ep_create(me->ia, me->pz, me->recv_evd, me->request_evd, me->connect_evd, &attr,
                       &me->ep));
    }
    for (int i = 0; i < DEPTH; ++i) {
      post_recv(me, i);
    }
    OK(dat_ep_connect(me->ep, (DAT_IA_ADDRESS_PTR)&common->address, common->qual,
                      DAT_TIMEOUT_INFINITE, 0, NULL, DAT_QOS_BEST_EFFORT,
                      DAT_CONNECT_DEFAULT_FLAG));
    OK(dat_evd_wait(me->connect_evd, WAIT_US, 1, &event, &more));
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
      return;
    }
    DIE("initiator %u: event %x", me->number, event.event_number);
  }
}

static void issue(initiator_t* me, int slot) {
  command_t* command = &me->messages[DEPTH + slot];
  DAT_LMR_TRIPLET iov;
  DAT_DTO_COOKIE cookie;
  DAT_RMR_COOKIE bind_cookie;
  uint8_t* data = buffer(me, slot);
  uint32_t block = ++me->tag * 5 % BLOCKS;
  while (me->block_busy[block]) {
    block = (block + 1) % BLOCKS;
  }
  memset(command, 0, offsetof(command_t, data));
  command->initiator = me->number;
  command->tag = me->tag;
  command->block = block;
  command->address = (uintptr_t)data;
  if (me->versions[block] == 0 || me->tag % 3 == 0) {
    command->operation = WRITE_BLOCK;
    command->length = me->tag % 7 ? 1 + me->tag * 7919u % BLOCK : me->tag % 300;
    command->immediate = command->length < IMMEDIATE ? command->length
                         : me->tag % 2               ? IMMEDIATE
                                                     : 0;
    for (uint32_t i = 0; i < command->length; ++i) {
      data[i] = byte_of(me->number, command->tag, i);
    }
    memcpy(command->data, data, command->immediate);
  } else {
    command->operation = READ_BLOCK;
    command->length = me->lengths[block];
    memset(data, 0xA5, BLOCK);
  }
  command->context = me->data_region.remote;
  if (!options.no_windows) {
    iov = part_of(&me->data_region, data, command->length ? command->length : 1);
    bind_cookie.as_64 = 1000;
    OK(dat_rmr_bind(me->windows[slot], me->data_region.lmr, &iov,
                    command->operation == READ_BLOCK ? DAT_MEM_PRIV_REMOTE_WRITE_FLAG
                                                     : DAT_MEM_PRIV_REMOTE_READ_FLAG,
                    DAT_VA_TYPE_VA, me->ep, bind_cookie, DAT_COMPLETION_SUPPRESS_FLAG,
                    &command->context));
  }
  iov = part_of(&me->message_region, command,
                (uint32_t)offsetof(command_t, data) + command->immediate);
  cookie.as_64 = 2000;
  OK(dat_ep_post_send(me->ep, 1, &iov, cookie, DAT_COMPLETION_SUPPRESS_FLAG));
  me->current[slot] = *command;
  me->busy[slot] = 1;
  me->block_busy[block] = 1;
  ++me->outstanding;
}

static void finish(initiator_t* me, const DAT_DTO_COMPLETION_EVENT_DATA* done) {
  command_t answered = me->messages[done->user_cookie.as_64];
  int slot = 0;
  uint32_t sum = 0;
  if (done->status != DAT_DTO_SUCCESS || done->transfered_length != offsetof(command_t, data)) {
    DIE("initiator %u: receive: status %d, %u bytes", me->number, done->status,
        (unsigned)done->transfered_length);
  }
  while (slot < DEPTH && !(me->busy[slot] && me->current[slot].tag == answered.tag)) {
    ++slot;
  }
  if (slot == DEPTH || answered.operation != GOOD) {
    DIE("initiator %u: answer to command %u", me->number, answered.tag);
  }
  command_t* command = &me->current[slot];
  if (!options.no_windows && (done->operation != DAT_DTO_RECEIVE_WITH_INVALIDATE ||
                              done->rmr_context != command->context)) {
    DIE("initiator %u: operation %d, context %x, not %x", me->number, done->operation,
        done->rmr_context, command->context);
  }
  if (command->operation == WRITE_BLOCK) {
    me->versions[command->block] = command->tag;
    me->lengths[command->block] = command->length;
  }
  const uint8_t* data = buffer(me, slot);
  for (uint32_t i = 0; i < command->length; ++i) {
    const uint8_t right = byte_of(me->number, me->versions[command->block], i);
    if (data[i] != right) {
      DIE("initiator %u: command %u (%u), byte %u of %u is %02x, not %02x", me->number,
          command->tag, command->operation, i, command->length, data[i], right);
    }
    sum = sum * 3 + right;
  }
  if (sum != answered.sum) {
    DIE("initiator %u: command %u (%u): the target has something else, immediate %u of %u",
        me->number, command->tag, command->operation, command->immediate, command->length);
  }
  me->busy[slot] = me->block_busy[command->block] = 0;
  --me->outstanding;
  post_recv(me, (int)done->user_cookie.as_64);
}

static void log_out(initiator_t* me, int how) {
  DAT_EVENT event;
  DAT_COUNT more;
  OK(dat_ep_disconnect(me->ep, how ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG));
  OK(dat_evd_wait(me->connect_evd, WAIT_US, 1, &event, &more));
  if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED) {
    DIE("initiator %u: event %x at the end of a session", me->number, event.event_number);
  }
  /* The flushed receive behind all others says that nothing more comes. */
  DAT_DTO_COOKIE cookie;
  DAT_LMR_TRIPLET iov = part_of(&me->message_region, me->messages, sizeof(command_t));
  cookie.as_64 = 99;
  OK(dat_ep_post_recv(me->ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG));
  do {
    OK(dat_evd_wait(me->recv_evd, WAIT_US, 1, &event, &more));
  } while (event.event_data.dto_completion_event_data.user_cookie.as_64 != 99);
  while (dat_evd_dequeue(me->request_evd, &event) == DAT_SUCCESS) {
    const int status = (int)event.event_data.dto_completion_event_data.status;
    if (how || (status != DAT_DTO_ERR_FLUSHED && event.event_number == DAT_DTO_COMPLETION_EVENT)) {
      DIE("initiator %u: request completed with status %d", me->number, status);
    }
  }
  for (int slot = 0; slot < DEPTH; ++slot) { /* what the target did with those is unknown */
    if (me->busy[slot] && me->current[slot].operation == WRITE_BLOCK) {
      me->versions[me->current[slot].block] = 0;
    }
    me->busy[slot] = 0;
  }
  memset(me->block_busy, 0, sizeof me->block_busy);
  me->outstanding = 0;
}

void* run_initiator(void* argument) {
  initiator_t* me = calloc(1, sizeof *me);
  me->number = (uint32_t)(uintptr_t)argument;
  while (!common->ready) {
    usleep(1000);
  }
  me->async_evd = DAT_HANDLE_NULL;
  OK(dat_ia_openv((DAT_NAME_PTR)options.ia_name, 8, &me->async_evd, &me->ia, DAT_VERSION_MAJOR,
                  DAT_VERSION_MINOR, options.threadsafe ? DAT_TRUE : DAT_FALSE));
  OK(dat_ia_query(me->ia, NULL, DAT_IA_FIELD_ALL, &me->attr, DAT_PROVIDER_FIELD_NONE, NULL));
  OK(dat_pz_create(me->ia, &me->pz));
  OK(dat_evd_create(me->ia, DEPTH + 1, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &me->recv_evd));
  OK(dat_evd_create(me->ia, 2 * DEPTH, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
                    &me->request_evd));
  OK(dat_evd_create(me->ia, 4, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &me->connect_evd));
  me->messages = calloc(2 * DEPTH, sizeof(command_t));
  me->message_region = add(me->ia, me->pz, me->messages, 2 * DEPTH * sizeof(command_t),
                           DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
  me->data = calloc(DEPTH + 1, BLOCK + 13);
  me->data_region =
      add(me->ia, me->pz, me->data, (DEPTH + 1) * (BLOCK + 13), DAT_MEM_PRIV_ALL_FLAG);
  for (int i = 0; i < DEPTH && !options.no_windows; ++i) {
    OK(dat_rmr_create_for_ep(me->pz, &me->windows[i]));
  }
  for (int session = 0; session < options.sessions; ++session) {
    const int how = session % 3; /* 0: end with commands outstanding */
    int issued = 0;
    log_in(me, session % 2);
    for (;;) {
      for (int slot = 0; slot < DEPTH && issued < options.commands; ++slot) {
        if (!me->busy[slot]) {
          issue(me, slot);
          ++issued;
        }
      }
      if (issued == options.commands && (how == 0 || me->outstanding == 0)) {
        break;
      }
      DAT_EVENT event;
      DAT_COUNT more;
      OK(dat_evd_wait(me->recv_evd, WAIT_US, 1, &event, &more));
      do {
        finish(me, &event.event_data.dto_completion_event_data);
      } while (dat_evd_dequeue(me->recv_evd, &event) == DAT_SUCCESS);
    }
    log_out(me, how == 2);
  }
  OK(dat_ep_free(me->ep));
  for (int i = 0; i < DEPTH && !options.no_windows; ++i) {
    OK(dat_rmr_free(me->windows[i]));
  }
  OK(dat_lmr_free(me->message_region.lmr));
  OK(dat_lmr_free(me->data_region.lmr));
  OK(dat_pz_free(me->pz));
  OK(dat_evd_free(me->recv_evd));
  OK(dat_evd_free(me->request_evd));
  OK(dat_evd_free(me->connect_evd));
  OK(dat_ia_close(me->ia, DAT_CLOSE_GRACEFUL_FLAG));
  free(me->messages);
  free(me->data);
  free(me);
  __sync_sub_and_fetch(&common->left, 1);
  return NULL;
}
