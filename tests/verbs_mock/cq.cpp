// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Completion channels and queues.
#include "device.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <utility>

#include "mock_control.h"

namespace verbs_mock {

namespace {

[[nodiscard]] std::uint32_t waiting(const Cq& cq) { return cq.tail - cq.head; }

std::atomic<bool> rounds{false};  // verbs_mock_round_cqs

std::atomic<unsigned> most_entries{0};

// The entries that a CQ gets for so many requested ones.
[[nodiscard]] int granted(int entries) {
  return rounds ? static_cast<int>(std::bit_ceil(static_cast<std::uint32_t>(entries) + 1)) - 1
                : entries;
}

[[nodiscard]] std::uint32_t ring_size(int entries) {
  return std::bit_ceil(static_cast<std::uint32_t>(entries));
}

Cq* create(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel) {
  if (entries < 1 || entries > kMaxCqe) {
    errno = EINVAL;
    return nullptr;
  }
  const int real = granted(entries);
  const std::uint32_t size = ring_size(real);
  auto* const cq = new Cq{};
  cq->ring = std::make_unique<ibv_wc[]>(size);
  cq->mask = size - 1;
  ibv_cq& visible = *cq->handle();
  visible.context = context;
  visible.channel = channel;
  visible.cq_context = cq_context;
  visible.cqe = real;
  const Lock lock(device().mutex);
  visible.handle = device().next_handle++;
  if (channel != nullptr) ++channel->refcnt;
  verbs_mock_count(Kind::kCq, 1);
  return cq;
}

void push(Cq& cq, const ibv_wc& completion) { cq.ring[cq.tail++ & cq.mask] = completion; }

int take(Cq& cq, int max, ibv_wc* out) {
  int taken = 0;
  while (taken < max && cq.head != cq.tail) out[taken++] = cq.ring[cq.head++ & cq.mask];
  return taken;
}

// ---- the null mode: single-threaded; every post has completed when it returns -------------------

[[nodiscard]] ibv_wc_opcode opcode_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    default:
      return IBV_WC_SEND;
  }
}

void push_null(Qp& qp, ibv_cq* cq, std::uint64_t id, ibv_wc_opcode opcode) {
  ibv_wc completion{};
  completion.wr_id = id;
  completion.opcode = opcode;
  completion.qp_num = qp.qp_num;
  push(Cq::of(cq), completion);
}

int post_send_null(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr**) {
  Qp& qp = *static_cast<Qp*>(handle);
  for (; wr != nullptr; wr = wr->next)
    if (qp.all_signalled || (wr->send_flags & IBV_SEND_SIGNALED) != 0)
      push_null(qp, qp.send_cq, wr->wr_id, opcode_of(wr->opcode));
  return 0;
}

int post_recv_null(ibv_qp* handle, ibv_recv_wr* wr, ibv_recv_wr**) {
  Qp& qp = *static_cast<Qp*>(handle);
  for (; wr != nullptr; wr = wr->next) push_null(qp, qp.recv_cq, wr->wr_id, IBV_WC_RECV);
  return 0;
}

int post_srq_recv_null(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**) { return 0; }

int poll_null(ibv_cq* cq, int max, ibv_wc* out) { return take(Cq::of(cq), max, out); }

int request_notification_null(ibv_cq*, int) { return 0; }

void delay_call() {
  const std::chrono::microseconds time(device().cq_call_delay.load(std::memory_order_relaxed));
  if (time.count() == 0) return;
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

const DataPath kNull = {&post_send_null, &post_recv_null, &post_srq_recv_null, &poll_null,
                        &request_notification_null};

int poll_cq(ibv_cq* handle, int max, ibv_wc* out) {
  if (verbs_mock_fault("poll_cq", EIO)) return -1;
  Cq& cq = Cq::of(handle);
  delay_call();
  const Lock lock(device().mutex);
  if (cq.overflowed) return -1;
  return take(cq, max, out);
}

int request_notification(ibv_cq* handle, int solicited_only) {
  if (verbs_mock_fault("req_notify_cq", ENOMEM)) return ENOMEM;
  Cq& cq = Cq::of(handle);
  delay_call();
  const Lock lock(device().mutex);
  if (cq.armed != Armed::kAll) cq.armed = solicited_only != 0 ? Armed::kSolicited : Armed::kAll;
  return 0;
}

void complete(Qp& qp, Cq& cq, const ibv_wc& completion, bool solicited) {
  if (cq.overflowed) return;
  if (waiting(cq) >= static_cast<std::uint32_t>(cq.handle()->cqe)) {
    cq.overflowed = true;
    raise_event(qp.context, IBV_EVENT_CQ_ERR, nullptr, &cq, nullptr);
    break_qp(qp);
    return;
  }
  push(cq, completion);
  if (cq.armed == Armed::kAll || (cq.armed == Armed::kSolicited && !verbs_mock_is_siw() &&
                                  (solicited || completion.status != IBV_WC_SUCCESS))) {
    cq.armed = Armed::kNo;
    if (cq.handle()->channel == nullptr) return;
    auto* const channel = static_cast<Channel*>(cq.handle()->channel);
    channel->events.push_back(&cq);
    if (device().holds_notifications)
      device().held_notifications.push_back(channel);
    else
      ::eventfd_write(channel->fd, 1);
  }
}

}  // namespace verbs_mock

using namespace verbs_mock;

extern "C" {

void verbs_mock_hold_notifications(bool hold) {
  const Lock lock(device().mutex);
  device().holds_notifications = hold;
  if (hold) return;
  for (Channel* const channel : std::exchange(device().held_notifications, {}))
    ::eventfd_write(channel->fd, 1);
}

void verbs_mock_round_cqs(bool round) {
  rounds = round;
  most_entries = 0;
}

unsigned verbs_mock_most_cq_entries() { return most_entries; }

void verbs_mock_delay_cq_calls(unsigned microseconds) { device().cq_call_delay = microseconds; }

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  VERBS_MOCK_FAULT(EMFILE, nullptr);
  const int fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (fd < 0) return nullptr;
  auto* const channel = new Channel{};
  channel->context = context;
  channel->fd = fd;
  verbs_mock_count(Kind::kCompChannel, 1);
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* handle) {
  auto* const channel = static_cast<Channel*>(handle);
  {
    const Lock lock(device().mutex);
    if (channel->refcnt != 0) return EBUSY;
    std::erase(device().held_notifications, channel);
  }
  ::close(channel->fd);
  delete channel;
  verbs_mock_count(Kind::kCompChannel, -1);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  if (vector != 0) {
    errno = EINVAL;
    return nullptr;
  }
  Cq* const cq = create(context, entries, cq_context, channel);
  return cq != nullptr ? cq->handle() : nullptr;
}

int ibv_destroy_cq(ibv_cq* handle) {
  Cq& cq = Cq::of(handle);
  Lock lock(device().mutex);
  if (cq.uses != 0) return EBUSY;
  if (handle->channel != nullptr) {
    std::erase(static_cast<Channel*>(handle->channel)->events, &cq);
    --handle->channel->refcnt;
  }
  drain_events(lock, handle->context, cq);
  delete &cq;
  verbs_mock_count(Kind::kCq, -1);
  return 0;
}

int ibv_resize_cq(ibv_cq* handle, int entries) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  if (entries < 1 || entries > kMaxCqe) return EINVAL;
  Cq& cq = Cq::of(handle);
  const Lock lock(device().mutex);
  const std::uint32_t count = waiting(cq);
  if (static_cast<std::uint32_t>(entries) < count) return EINVAL;
  const int real = granted(entries);
  const std::uint32_t size = ring_size(real);
  auto ring = std::make_unique<ibv_wc[]>(size);
  for (std::uint32_t i = 0; i < count; ++i) ring[i] = cq.ring[(cq.head + i) & cq.mask];
  cq.ring = std::move(ring);
  cq.mask = size - 1;
  cq.head = 0;
  cq.tail = count;
  handle->cqe = real;
  unsigned most = most_entries;
  while (most < static_cast<unsigned>(real) &&
         !most_entries.compare_exchange_weak(most, static_cast<unsigned>(real))) {
  }
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* handle, ibv_cq** cq, void** cq_context) {
  VERBS_MOCK_FAULT(EINTR, -1);
  auto* const channel = static_cast<Channel*>(handle);
  for (;;) {
    eventfd_t one = 0;
    if (::eventfd_read(channel->fd, &one) != 0) return -1;
    const Lock lock(device().mutex);
    if (channel->events.empty()) continue;  // its CQ was destroyed
    Cq& notified = *channel->events.front();
    channel->events.pop_front();
    ++notified.unacked;
    *cq = notified.handle();
    *cq_context = (*cq)->cq_context;
    return 0;
  }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  const Lock lock(device().mutex);
  Cq::of(cq).unacked -= count;
  device().acknowledged.notify_all();
}

}  // extern "C"
