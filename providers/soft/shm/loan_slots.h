// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/shm/byte_ring.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// Bytes of a stream that do not pass through its ring. The writer of the ring, the lender, states
// in a slot before which byte of the ring they belong, and their address in its own memory. The
// reader, the borrower, copies them from there straight to their destination (peer_memory.h), once
// instead of twice, and returns the slot. If the lender does not want to wait any longer, or the
// borrower cannot reach the bytes, the lender copies them into shared spare memory instead.
// docs/adr/0036. If the lender may write to the destination itself, it does so with some of the
// loans, at the same time as the borrower copies others. docs/adr/0076, docs/adr/0080.
//
// Neither side trusts the other: what the peer publishes is read once and checked; an impossible
// value breaks the stream.
namespace udapl::soft::shm {

struct LoanSlot {
  // Written by the lender, before it increments `lent`.
  std::atomic<std::uint64_t> position;  // index in the ring: the bytes precede the byte there
  std::atomic<std::uint64_t> address;   // in the lender's process
  std::atomic<std::uint32_t> length;    // bytes, 1 to kMaxLent
  // 0, or, once the lender has copied the bytes, their place in the spare memory, counted from 1.
  // The lender may have reused its own memory then. Otherwise who copies the bytes to their
  // destination, if that is decided: see kTaken.
  std::atomic<std::uint32_t> copied_to;
};
// Stored by the side that found 0.
inline constexpr std::uint32_t kTaken = 0x100;    // the borrower copies them, or has done so
inline constexpr std::uint32_t kWriting = 0x200;  // the lender is writing them
inline constexpr std::uint32_t kWritten = 0x300;  // the lender has written them

inline constexpr std::size_t kLoanSlots = 32;
inline constexpr std::size_t kMaxLent = 64 * 1024;  // in one slot

struct LoanControl {
  // Written by the lender.
  alignas(kLineSize) std::atomic<std::uint32_t> lent;  // slots, since the beginning
  std::array<LoanSlot, kLoanSlots> slots;
  // Written by the borrower.
  alignas(kLineSize) std::atomic<std::uint32_t> returned;  // slots, since the beginning
  std::atomic<std::uint32_t> welcome;  // the least number of bytes to lend; 0: lend nothing
  std::atomic<std::uint32_t> refused;  // 1: the borrower cannot reach the bytes
  std::atomic<std::uint32_t> reads;    // 1: a copy is in progress
};
static_assert(sizeof(LoanControl) == 8 * kLineSize, "the layout of shared pages");

// The last eight bytes of each loan that the lender has written: the borrower places the end of a
// segment itself. Written by the lender before kWritten.
using LoanEnds = std::array<std::atomic<std::uint64_t>, kLoanSlots>;
inline constexpr std::size_t kLoanEnd = sizeof(std::uint64_t);

// For the lender's copies: a place for each slot. Pages are allocated only when used.
inline constexpr std::size_t kSpareSize = kLoanSlots * kMaxLent;

}  // namespace udapl::soft::shm
