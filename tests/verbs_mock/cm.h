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

// The double of librdmacm: connections between ids of this process. An event is queued by the time
// the call that causes it returns.
namespace verbs_mock::cm {

struct Id;

// Sizes of private data. As with InfiniBand's connection manager, it is always delivered in full
// size, padded with zeros.
inline constexpr std::size_t kRequestData = 56;
inline constexpr std::size_t kRequestDataIb = 92;  // without the header with IP addresses
inline constexpr std::size_t kReplyData = 196;
inline constexpr std::size_t kRejectData = 148;
// Values of the status of REJECTED.
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
  kDisconnecting,  // until the peer disconnects, too
  kDisconnected,   // by the peer; this side has not answered yet
  kOver
};

struct Id : rdma_cm_id {
  State state = State::kIdle;
  Id* peer = nullptr;      // null: none, or it was destroyed
  std::uint16_t port = 0;  // bound by this id; 0: none
  int pkey_index = 0;      // negative: a partition that the device is not in
  std::uint32_t qp_num = 0;
  std::uint32_t remote_qp_num = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  unsigned unacked = 0;  // events that the application has got and not acknowledged
};

// One per process, never destroyed.
struct Manager {
  std::mutex mutex;
  std::condition_variable changed;  // an event was acknowledged, or a state has changed
  std::map<std::uint16_t, Id*> ports;
  std::set<Id*> ids;
  std::uint16_t next_port = 32768;
  ibv_context* context = nullptr;  // opened at first use, for all ids
};
Manager& manager();

using Lock = std::unique_lock<std::mutex>;

// The functions below require that the manager's lock is held.

// Queues an event on the channel of `id`.
void post(Id& id, rdma_cm_event_type type, int status, std::vector<std::byte> data = {});
[[nodiscard]] std::vector<std::byte> padded(const void* data, std::size_t length, std::size_t size);
// How many bytes of private data a request of this id can carry.
[[nodiscard]] inline std::size_t request_data(const rdma_cm_id& id) {
  return id.route.addr.src_addr.sa_family == AF_IB ? kRequestDataIb : kRequestData;
}
// The only context that librdmacm opens, for itself and its users; null: errno is set.
[[nodiscard]] ibv_context* shared_context();
// Binds to `address`; its port 0 means any free one. Returns 0 or errno.
[[nodiscard]] int bind(Id& id, const sockaddr& address);
[[nodiscard]] bool is_local(const sockaddr& address);
// Moves the QP of `id`, if it has one, to the state `to`. Returns 0 or -1.
[[nodiscard]] int move_qp(Id& id, ibv_qp_state to);
// Ends the connection of `id` from its peer's point of view.
void abandon(Id& id);

[[nodiscard]] inline Id& of(rdma_cm_id* id) { return *static_cast<Id*>(id); }

// Returns -1 with errno set, as librdmacm does on failure.
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
  // sin6_port has the same offset.
  return reinterpret_cast<sockaddr_in&>(address).sin_port;
}

}  // namespace verbs_mock::cm
