// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace udapl::transport {

// Names a posted work request: the address of the core's cookie slot. Never interpreted below the
// core.
using WorkId = std::uint64_t;

using PrivateData = std::span<const std::byte>;

// How to execute and report a work request. Or-ed together.
enum WorkFlag : std::uint32_t {
  kSignalled = 1U << 0,  // a successful completion is put on the CQ; a failed one always is
  kSolicited = 1U << 1,  // Send only: the peer's receive completion is a solicited one
  kFence =
      1U << 2,  // start only after all earlier RDMA Reads and atomics of this QP have completed
  kQuiet = 1U << 3,   // a successful completion is queued, but is not a notification
  kUnseen = 1U << 4,  // the consumer does not see a successful completion: it only frees places
};
using WorkFlags = std::uint32_t;

// The outcome of one work request. Filled by Cq::poll.
struct Completion {
  WorkId id;
  void* qp_context;  // QpInit::context of the QP that did the work. Always set for an SRQ receive:
                     // the QP that consumed the buffer. Otherwise may be null: the id names the QP.
  DAT_DTO_COMPLETION_STATUS status;
  // Always set. For a receive, failed or not: RECEIVE, RECEIVE_WITH_INVALIDATE or a receive of the
  // IB extension. For a request: any value below the first extension, or the extension operation;
  // the cookie behind the id has the exact operation.
  DAT_DTOS operation;
  std::uint32_t length;         // bytes moved; 0 on failure
  DAT_RMR_CONTEXT rmr_context;  // RECEIVE_WITH_INVALIDATE and SUCCESS: what was invalidated; else 0
  std::uint32_t immediate;      // a receive of immediate data: the value; else 0
};

}  // namespace udapl::transport
