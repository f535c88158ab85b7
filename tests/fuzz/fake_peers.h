// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What fake_dat.cpp has behind its handles: queues, endpoints, memory, and peers that do what the
// input says (see fake_dat.h). Functions are called with `mutex` held.
#pragma once

#include <dat/udat.h>

#include <cstddef>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

constexpr DAT_RETURN failure(DAT_RETURN_TYPE type) { return DAT_CLASS_ERROR | type; }

inline constexpr DAT_COUNT kMostDtos = 1024;

struct Endpoint;

struct Queue {
  DAT_EVD_FLAGS flags;
  std::size_t length;
  std::deque<DAT_EVENT> events;
  std::deque<Endpoint*> receivers{};  // whose receives complete here: the next one first
  Endpoint* connected = nullptr;      // whose connection events come here
};

struct Receive {
  std::vector<DAT_LMR_TRIPLET> segments;
  DAT_DTO_COOKIE cookie;
};

struct Endpoint {
  Queue *receives, *requests, *connection;
  std::size_t max_receives, max_requests;
  std::deque<Receive> posted;
  bool over = false;
};

struct Region {
  DAT_VADDR begin;
  DAT_VLEN length;
};

// A server may have a thread for each group of connections.
inline std::mutex mutex;
using Lock = std::lock_guard<std::mutex>;

inline std::map<DAT_HANDLE, std::unique_ptr<Queue>> queues;
inline std::map<DAT_HANDLE, std::unique_ptr<Endpoint>> endpoints;
inline std::map<DAT_LMR_CONTEXT, Region> regions;
// Private data of the requests that were delivered, by handle.
inline std::map<DAT_HANDLE, std::unique_ptr<std::vector<std::byte>>> arrived;

Queue& queue(DAT_HANDLE handle);
Endpoint& endpoint(DAT_HANDLE handle);

/** Every segment is inside its region. */
void check(std::span<const DAT_LMR_TRIPLET> segments);

void complete(Queue& to, Endpoint& of, DAT_DTOS operation, DAT_DTO_COOKIE cookie,
              DAT_DTO_COMPLETION_STATUS status, std::size_t length);
void connection_event(Endpoint& of, DAT_EVENT_NUMBER number);
/** The connection ends: receives are flushed. */
void end(Endpoint& ep);

/** The next event of a queue; what the peers do next if there is none. */
DAT_RETURN take(Queue& from, DAT_EVENT* event);
/** A Send, Write or Read: complete at once. */
DAT_RETURN request(Endpoint& ep, std::span<const DAT_LMR_TRIPLET> segments, DAT_DTO_COOKIE cookie);

}  // namespace fuzz
