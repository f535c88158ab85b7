// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "fault.h"
#include "mock_control.h"

// libibverbs declares these as macros around functions of the same name; the double defines the
// functions.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

// The fake RDMA device, with both ends of every connection in this process. A transfer happens
// inside the call that makes it possible, under the device's only lock.
namespace verbs_mock {

struct Mr;
struct Mw;
struct Qp;

inline constexpr std::uint64_t kGuid = 0x02ffee0000000001;
inline constexpr int kMaxPkeys = 3;
inline constexpr int kMaxSge = 16;
inline constexpr std::uint32_t kMaxInline = 256;
inline constexpr int kMaxWr = 16384;
inline constexpr int kMaxCqe = 65536;
inline constexpr int kMaxReads = 16;
inline constexpr std::uint32_t kMaxMessage = 1U << 31;

// An object with asynchronous events. The application must acknowledge all of them before it
// destroys the object.
struct EventSource {
  unsigned unacked = 0;
};

struct Context : verbs_context {
  std::deque<ibv_async_event> events;
  [[nodiscard]] static Context& of(ibv_context* context) noexcept {
    return *static_cast<Context*>(verbs_get_ctx(context));
  }
};

struct Pd : ibv_pd {
  Pd* parent = nullptr;  // of a parent domain
  int uses = 0;
  [[nodiscard]] const Pd* root() const noexcept {
    return parent != nullptr ? parent->root() : this;
  }
};

// The memory and the rights that a key grants.
struct Region {
  const Pd* pd;
  std::uint64_t start;  // as work requests address it
  std::uint64_t length;
  std::byte* memory;  // at `start`
  int access;
  std::uint32_t qp_num;  // 0: any QP of the domain
  Mw* window;            // null: the key of a memory region
};

struct Mr : ibv_mr {
  Region region{};
  int windows = 0;
};

struct Mw : ibv_mw {
  std::uint32_t device_key = 0;  // `rkey` is the application's idea of it
  Region region{};
  Mr* bound = nullptr;
};

enum class Armed { kNo, kSolicited, kAll };

struct Cq : ibv_cq, EventSource {
  std::unique_ptr<ibv_wc[]> ring;
  std::uint32_t mask = 0;
  std::uint32_t head = 0;  // next to poll
  std::uint32_t tail = 0;
  Armed armed = Armed::kNo;
  bool overflowed = false;
  int uses = 0;

  [[nodiscard]] ibv_cq* handle() noexcept { return this; }
  [[nodiscard]] static Cq& of(ibv_cq* cq) noexcept { return *static_cast<Cq*>(cq); }
};

struct Channel : ibv_comp_channel {
  std::deque<Cq*> events;
};

struct Receive {
  std::uint64_t id;
  std::vector<ibv_sge> segments;
};

struct Srq : ibv_srq, EventSource {
  std::deque<Receive> receives;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t limit = 0;  // 0: not armed
  int uses = 0;
};

struct Request {
  ibv_send_wr wr;
  std::vector<ibv_sge> segments;  // for inline data: one, which is `data`
  std::vector<std::byte> data;
  std::uint32_t window_key = 0;  // of a bind: the window's `rkey` at the post, as devices get it
};

struct Qp : ibv_qp, EventSource {
  ibv_qp_state now = IBV_QPS_RESET;  // the real state; `state` is the one last reported
  ibv_qp_cap cap{};
  ibv_qp_attr attr{};  // accumulated from all modifies
  bool all_signalled = false;
  bool drained = false;  // broken, and everything was flushed
  std::deque<Request> requests;
  std::deque<Receive> receives;
};

// The whole state. One per process; never destroyed, as providers still use it in destructors that
// run when the process exits.
struct Device {
  std::mutex mutex;
  std::condition_variable acknowledged;
  bool null_mode = false;
  std::vector<Context*> contexts;
  std::size_t locked_limit = 0;  // 0: none
  std::size_t locked = 0;
  unsigned paged = 0;
  bool pages = false;  // on-demand paging
  bool holds_notifications = false;
  std::vector<Channel*> held_notifications;         // one entry per notification
  std::atomic<unsigned> cq_call_delay{0};           // us
  std::unordered_map<std::uint32_t, Region*> keys;  // local and remote
  std::unordered_map<std::uint32_t, Mw*> windows;   // by the upper part of their keys
  std::unordered_map<std::uint32_t, Qp*> qps;
  std::uint32_t next_key = 0x100;
  std::uint32_t next_qp = 0x11;
  std::uint32_t next_handle = 1;
};
Device& device();

using Lock = std::unique_lock<std::mutex>;

// The functions below require that the device's lock is held.

// Queues an event on the asynchronous descriptor of the context.
void raise_event(ibv_context* context, ibv_event_type type, Qp* qp, Cq* cq, Srq* srq);
// Waits until all delivered events of `source` are acknowledged; drops the others.
void drain_events(Lock& lock, ibv_context* context, EventSource& source);

// Appends a completion. On overflow the QP breaks.
void complete(Qp& qp, Cq& cq, const ibv_wc& completion, bool solicited);
// Moves the QP to the error state: everything that is posted is flushed.
void break_qp(Qp& qp);
// Executes the QP's requests as far as possible, and those of its peer that wait for it.
void advance(Qp& qp);
// Called after receives were posted, or when the QP has become ready to receive.
void wake_senders(const Qp& receiver);

// The memory of `length` bytes at `address` under `key`; null: not allowed. `access`: the required
// rights, 0 for local reading.
[[nodiscard]] std::byte* translate(const Qp& qp, std::uint32_t key, std::uint64_t address,
                                   std::uint64_t length, int access);
// Removes a binding; the key is invalid afterwards.
void unbind(Mw& window);
// The window with this key, bound or not; null: none.
[[nodiscard]] Mw* find_window(std::uint32_t key);
// Binds the window and sets the device's key of it. EINVAL.
[[nodiscard]] int bind(Mw& window, const ibv_mw_bind_info& info, std::uint32_t key,
                       std::uint32_t qp_num);

[[nodiscard]] std::uint32_t take_key();

// Entries of ibv_context_ops, for both modes.
struct DataPath {
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  int (*post_srq_recv)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**);
  int (*poll_cq)(ibv_cq*, int, ibv_wc*);
  int (*req_notify_cq)(ibv_cq*, int);
};
extern const DataPath kWorks;
extern const DataPath kNull;
int poll_cq(ibv_cq* handle, int max, ibv_wc* out);
int request_notification(ibv_cq* handle, int solicited_only);

// Posts of receives, without the device's lock: waits while those at this stage are held.
void hold_at(verbs_mock_hold stage);
[[nodiscard]] bool flushes_lazily() noexcept;  // verbs_mock_flush_lazily

// Ports.
[[nodiscard]] std::uint8_t port_count() noexcept;
[[nodiscard]] int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr,
                             std::size_t size);
// Copies as much of `value` as the caller's version of the structure has.
template <class T>
void give(const T& value, void* place, std::size_t size) {
  std::memset(place, 0, size);
  std::memcpy(place, &value, std::min(size, sizeof value));
}

[[nodiscard]] ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
[[nodiscard]] int dealloc_mw(ibv_mw* mw);
[[nodiscard]] int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* request);
[[nodiscard]] ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init);

constexpr ibv_mtu kActiveMtu = IBV_MTU_1024;

// Must come first in every call that can fail: counts it, and makes it return `result` if it must
// fail.
#define VERBS_MOCK_FAULT(error, result)                   \
  do {                                                    \
    if (verbs_mock_fault(__func__, error)) return result; \
  } while (false)

}  // namespace verbs_mock
