// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// RDMAP message headers that follow the DDP header, as values, with their encodings.
// Stateless; safe from any thread. Spec: RFC 5040 §4, RFC 7306 §5-6.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "providers/soft/iwarp/wire.h"

namespace udapl::iwarp {

struct ReadRequest {
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_to = 0;
  std::uint32_t size = 0;  // bytes
  std::uint32_t source_stag = 0;
  std::uint64_t source_to = 0;

  friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};

enum class AtomicOp : std::uint8_t { kFetchAdd = 0, kCompareSwap = 2 };

// All values in host order. For FetchAdd compare/compare_mask are not used by the target.
struct AtomicRequest {
  AtomicOp op = AtomicOp::kFetchAdd;
  std::uint32_t request_id = 0;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint64_t add_swap = 0;
  std::uint64_t add_swap_mask = 0;  // FetchAdd: carry barriers, 0 = plain 64-bit add
  std::uint64_t compare = 0;
  std::uint64_t compare_mask = ~std::uint64_t{0};

  friend bool operator==(const AtomicRequest&, const AtomicRequest&) = default;

  static AtomicRequest fetch_add(std::uint32_t id, std::uint32_t stag, std::uint64_t to,
                                 std::uint64_t addend) noexcept {
    return {AtomicOp::kFetchAdd, id, stag, to, addend, 0, 0, ~std::uint64_t{0}};
  }
  static AtomicRequest compare_swap(std::uint32_t id, std::uint32_t stag, std::uint64_t to,
                                    std::uint64_t expected, std::uint64_t desired) noexcept {
    return {AtomicOp::kCompareSwap, id, stag, to, desired, ~std::uint64_t{0}, expected,
            ~std::uint64_t{0}};
  }
};

struct AtomicResponse {
  std::uint32_t request_id = 0;
  std::uint64_t original = 0;  // host order

  friend bool operator==(const AtomicResponse&, const AtomicResponse&) = default;
};

// The 8 payload bytes of an Immediate Data message.
using ImmediateBytes = std::array<std::byte, kImmediateSize>;

// Their contents for "RDMA Write with immediate" (both values in network order on the wire).
struct WriteImmediate {
  std::uint32_t immediate = 0;     // the consumer's value
  std::uint32_t write_length = 0;  // bytes of the RDMA Write that precedes this message

  friend bool operator==(const WriteImmediate&, const WriteImmediate&) = default;
};

// Each encode writes exactly k...Size bytes to `out`; each decode reads the same number.
void encode(const ReadRequest& in, std::byte* out) noexcept;
void encode(const AtomicRequest& in, std::byte* out) noexcept;
void encode(const AtomicResponse& in, std::byte* out) noexcept;
ImmediateBytes encode(const WriteImmediate& in) noexcept;

ReadRequest decode_read_request(const std::byte* in) noexcept;
// The sub-opcode is not validated: check it with known_atomic() before use.
AtomicRequest decode_atomic_request(const std::byte* in) noexcept;
AtomicResponse decode_atomic_response(const std::byte* in) noexcept;
WriteImmediate decode_write_immediate(const ImmediateBytes& in) noexcept;

constexpr bool known_atomic(AtomicOp op) noexcept {
  return op == AtomicOp::kFetchAdd || op == AtomicOp::kCompareSwap;
}

// Returns the new value of a target location that holds `original` (host order). The caller makes
// load, apply and store one atomic step. RFC 7306 §5.1.1 (masked add), §5.1.3 (masked swap).
std::uint64_t apply(const AtomicRequest& request, std::uint64_t original) noexcept;

}  // namespace udapl::iwarp
