// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The objects behind the handles of fake_dat.cpp: queues, endpoints, memory, and peers controlled
// by the input (see fake_dat.h). Functions must be called with `mutex` held.
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

inline constexpr DAT_COUNT kMaxDtos = 1024;

struct Endpoint;

struct Queue {
  DAT_EVD_FLAGS flags;
  std::size_t length;
  std::deque<DAT_EVENT> events;
  std::deque<Endpoint*> receivers{};  // endpoints whose receives complete here, the next one first
  Endpoint* connected = nullptr;      // the endpoint whose connection events arrive here
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

// Protects all of this, because a server may have a thread for each group of connections.
inline std::mutex mutex;
using Lock = std::lock_guard<std::mutex>;

inline std::map<DAT_HANDLE, std::unique_ptr<Queue>> queues;
inline std::map<DAT_HANDLE, std::unique_ptr<Endpoint>> endpoints;
inline std::map<DAT_LMR_CONTEXT, Region> regions;
// The private data of delivered requests, by handle.
inline std::map<DAT_HANDLE, std::unique_ptr<std::vector<std::byte>>> arrived;

Queue& queue(DAT_HANDLE handle);
Endpoint& endpoint(DAT_HANDLE handle);

/** Aborts unless every segment is inside its region. */
void check(std::span<const DAT_LMR_TRIPLET> segments);

void complete(Queue& to, Endpoint& of, DAT_DTOS operation, DAT_DTO_COOKIE cookie,
              DAT_DTO_COMPLETION_STATUS status, std::size_t length);
void connection_event(Endpoint& of, DAT_EVENT_NUMBER number);
/** Ends the connection and flushes its receives. */
void end(Endpoint& ep);

/** Takes the next event of a queue. If there is none, lets the peers continue first. */
DAT_RETURN take(Queue& from, DAT_EVENT* event);
/** Executes a Send, Write or Read, which completes immediately. */
DAT_RETURN request(Endpoint& ep, std::span<const DAT_LMR_TRIPLET> segments, DAT_DTO_COOKIE cookie);

}  // namespace fuzz
