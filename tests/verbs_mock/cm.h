// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

// The double of librdmacm: connections between ids of this process. An event is there as soon as
// the call that causes it has returned.
namespace verbs_mock::cm {

struct Id;

// As InfiniBand's connection manager delivers it: always of full size, padded with zeros.
inline constexpr std::size_t kRequestData = 56;
inline constexpr std::size_t kRequestDataIb = 92;  // without a header that has IP addresses
inline constexpr std::size_t kReplyData = 196;
inline constexpr std::size_t kRejectData = 148;
// Status of REJECTED.
inline constexpr int kInvalidComm = 6;
inline constexpr int kNoListener = 8;
inline constexpr int kByConsumer = 28;

struct Event : rdma_cm_event {
  std::vector<std::byte> data;
};

struct Channel : rdma_event_channel {
  std::deque<Event*> events;
};

enum class State {
  kIdle,
  kBound,
  kResolved,
  kListening,
  kRequesting,  // active: until the reply
  kReplied,     // active without a QP of its own: until rdma_establish
  kRequested,   // passive: until accept or reject
  kAccepted,    // passive: until the active side is ready
  kEstablished,
  kDisconnecting,  // until the peer agrees
  kDisconnected,   // by the peer; our answer is missing
  kOver
};

struct Id : rdma_cm_id {
  State state = State::kIdle;
  Id* peer = nullptr;      // null: none, or it is gone
  std::uint16_t port = 0;  // taken by this id; 0: none
  int pkey_index = 0;      // negative: a partition that the device is not in
  std::uint32_t qp_num = 0;
  std::uint32_t remote_qp_num = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  unsigned unacked = 0;  // events that the application got
};

// One per process, never destroyed.
struct Manager {
  std::mutex mutex;
  std::condition_variable acknowledged;
  std::map<std::uint16_t, Id*> ports;
  std::set<Id*> ids;
  std::uint16_t next_port = 32768;
  ibv_context* context = nullptr;  // opened at first use, for all ids
};
Manager& manager();

using Lock = std::unique_lock<std::mutex>;

// The functions below want the manager's lock to be held.

// Queues an event on the channel of `id`.
void post(Id& id, rdma_cm_event_type type, int status, std::vector<std::byte> data = {});
[[nodiscard]] std::vector<std::byte> padded(const void* data, std::size_t length, std::size_t size);
// What a request of this id has room for.
[[nodiscard]] inline std::size_t request_data(const rdma_cm_id& id) {
  return id.route.addr.src_addr.sa_family == AF_IB ? kRequestDataIb : kRequestData;
}
// The one context that librdmacm opens for itself and its users; null: errno is set.
[[nodiscard]] ibv_context* shared_context();
// Binds to `address`, whose port 0 stands for a free one. 0 or errno.
[[nodiscard]] int bind(Id& id, const sockaddr& address);
[[nodiscard]] bool is_local(const sockaddr& address);
// Takes the QP of `id`, if it has one, through the states to `to`. 0 or -1.
[[nodiscard]] int move_qp(Id& id, ibv_qp_state to);
// The end of `id` as its peer sees it.
void abandon(Id& id);

[[nodiscard]] inline Id& of(rdma_cm_id* id) { return *static_cast<Id*>(id); }

// As librdmacm fails: -1, and why in errno.
[[nodiscard]] inline int fail(int error) {
  errno = error;
  return -1;
}

[[nodiscard]] inline std::uint16_t& port_of(sockaddr& address) {
  if (address.sa_family == AF_IB) {  // the last two bytes of the service id
    auto* const id =
        reinterpret_cast<std::uint16_t*>(&reinterpret_cast<sockaddr_ib&>(address).sib_sid);
    return id[3];
  }
  // At the same place for both families of IP.
  return reinterpret_cast<sockaddr_in&>(address).sin_port;
}

}  // namespace verbs_mock::cm
