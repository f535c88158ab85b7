// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/dat_registry.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

// What the simulated application knows: its posted work and the results that it expects.
namespace udapl::sim {

inline constexpr std::size_t kSlots = 8;  // of a kind, per endpoint
inline constexpr std::size_t kSlotSize = 16384;
inline constexpr std::size_t kSourceSize = 32768;
inline constexpr std::size_t kMaxNodes = 3;
inline constexpr std::uint64_t kForbidden = 0xBADBADBADBADBAD;  // a write that must not arrive

// The parts of an endpoint's memory, which is within that of its node.
enum Area : std::size_t { kSendArea, kReceiveArea, kWriteArea, kTargetArea, kSinkArea, kAreas };
inline constexpr std::size_t kAreaSize = kSlots * kSlotSize;
inline constexpr std::size_t kWordsSize = 4096;  // the word that atomics change, and their results
inline constexpr std::size_t kEndpointSize = kAreas * kAreaSize + kSourceSize + kWordsSize;

[[nodiscard]] inline std::byte pattern(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>(number * 131 + at * 7 + (at >> 8));
}

// kWrite: also those with immediate data.
enum class Kind : std::uint8_t { kSend, kWrite, kRead, kAtomic, kBind };
inline constexpr std::size_t kKinds = 5;

// A posted request and its expected result.
struct Request {
  std::uint64_t cookie = 0;
  Kind kind = Kind::kSend;
  std::uint64_t number = 0;  // counts requests of this kind
  std::size_t length = 0;
  std::size_t offset = 0;       // kRead: in the peer's source
  std::uint64_t original = 0;   // kAtomic: the expected result
  std::size_t window = 0;       // kBind: which one; kRead: whose key it used, see by_window
  DAT_RMR_CONTEXT context = 0;  // kBind: of the new binding; 0: an unbind
  bool by_window = false;
  bool immediate = false;
  bool suppressed = false;  // success brings no event
  bool forbidden = false;   // kRead with a revoked key: it must not succeed
};

struct Receive {
  std::uint64_t cookie;
  std::size_t slot;
};

// A message in flight to the peer.
struct Message {
  std::uint64_t number;  // counts Sends; unused with immediate data
  std::size_t length;
  std::uint64_t writes_before;
  bool immediate;
  std::uint32_t value;
  DAT_RMR_CONTEXT invalidates;  // 0: nothing
};

// A memory window of an endpoint: number 0 covers its source, for the peer's Reads, number 1 its
// target area, for the peer's Writes.
struct Window {
  static constexpr std::size_t kSource = 0;
  static constexpr std::size_t kTarget = 1;
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  bool of_ep = false;  // has EP scope: only then the peer can invalidate it
  bool zero_based = false;
  enum class State : std::uint8_t { kUnbound, kBinding, kBound, kDying } state = State::kUnbound;
  DAT_RMR_CONTEXT context = 0;
  DAT_RMR_CONTEXT stale = 0;     // of an earlier binding: must not work any more
  std::uint64_t reads = 0;       // of the peer, in flight, that use it
  std::uint64_t last_write = 0;  // the peer's last Write through it; earlier ones arrive before
};

struct Node;

// One side of a connection, and the expected results of its actions.
struct Side {
  Node* node = nullptr;
  Side* peer = nullptr;
  bool client = false;
  bool uses_srq = false;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE receive_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL;
  std::byte* memory = nullptr;
  enum class State : std::uint8_t { kIdle, kConnecting, kConnected, kEnded } state = State::kIdle;
  bool disconnects = false;  // the application has disconnected, or done something that ends it
  bool failed_request = false;
  bool failed_receive = false;
  std::deque<Request> requests;
  std::deque<Receive> receives;  // not with an SRQ
  std::deque<Message> messages;  // sent, and not yet received by the peer
  std::array<std::uint64_t, kKinds> posted{};
  std::array<std::uint64_t, kKinds> done{};
  std::array<Window, 2> windows;
  std::uint64_t receives_posted = 0;
  std::uint64_t postponed_receives = 0;  // promised to the peer, to be posted later
  std::uint64_t next_cookie = 1;
  std::uint64_t last_shared = 0;   // cookie of the last receive that was taken from the SRQ
  std::uint64_t credits = 0;       // receives that the peer has posted and this side has not used
  std::uint64_t writes_seen = 0;   // of the peer, known to have arrived
  std::uint64_t word = 0;          // the peer's atomic word after all posted atomics
  std::uint64_t attempts = 0;      // to connect or to accept, in total
  std::uint64_t srq_releases = 0;  // asynchronous events of the end of an EP with an SRQ

  [[nodiscard]] std::byte* slot(Area area, std::uint64_t number) const {
    return memory + area * kAreaSize + (number % kSlots) * kSlotSize;
  }
  [[nodiscard]] std::byte* source() const { return memory + kAreas * kAreaSize; }
  // 0: the word that the peer's atomics change; from 1 on: the results of our own.
  [[nodiscard]] std::uint64_t* words() const {
    return reinterpret_cast<std::uint64_t*>(source() + kSourceSize);
  }
  // Whether any events are still expected.
  [[nodiscard]] bool busy() const {
    for (const Request& request : requests)
      if (!request.suppressed) return true;
    return !messages.empty();
  }
};

struct Node {
  const DAT_PROVIDER* table = nullptr;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE pump = DAT_HANDLE_NULL;  // dequeuing from it drives the adapter
  DAT_EVD_HANDLE connections = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE arrivals = DAT_HANDLE_NULL;
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
  DAT_CONN_QUAL port = 0;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
  std::byte* memory = nullptr;
  std::size_t endpoints = 0;
  std::map<std::uint64_t, std::byte*> shared;  // the buffers in the SRQ, by cookie
  std::uint64_t next_shared = 1;
  std::size_t shared_total = 0;
  std::deque<std::byte*> postponed_buffers;  // buffers to be posted to the SRQ later
  int watermarks_armed = 0;
  int stalled = 0;  // steps in which it does nothing
};

}  // namespace udapl::sim
