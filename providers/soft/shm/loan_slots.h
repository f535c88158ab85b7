// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/shm/byte_ring.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// Loans: bytes of a stream that do not pass through its ring. The lender is the writer of the ring,
// the borrower its reader. The lender states in a slot the address of the bytes in its own memory,
// and before which byte of the ring they belong. The borrower copies them from that memory straight
// to their destination (peer_memory.h), which is one copy instead of two, and returns the slot. The
// lender copies them into shared spare memory instead if it does not want to wait any longer, or if
// the borrower cannot reach them (docs/adr/0036). If the lender can write to the destination, it
// writes some of the loans itself while the borrower copies others (docs/adr/0076, docs/adr/0080).
//
// Neither side trusts the other. Each reads what the peer publishes once, and checks it; an
// impossible value breaks the stream.
namespace udapl::soft::shm {

struct LoanSlot {
  // Written by the lender, before it increments `lent`.
  std::atomic<std::uint64_t> position;  // index in the ring: the bytes precede the byte there
  std::atomic<std::uint64_t> address;   // in the lender's process
  std::atomic<std::uint32_t> length;    // bytes, 1 to kMaxLent
  // 1 to kLoanSlots: the lender has copied the bytes to this place of the spare memory, and may
  // have reused its own memory. kTaken, kWriting, kWritten: the side that copies the bytes to their
  // destination. 0: that is undecided.
  std::atomic<std::uint32_t> copied_to;
};
// Stored by the side that has found 0; kWriting may also be stored with a new loan.
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

// The last eight bytes of each loan that the lender has written. The lender stores them before
// kWritten, and the borrower takes them from here, because it places the end of a segment itself.
using LoanEnds = std::array<std::atomic<std::uint64_t>, kLoanSlots>;
inline constexpr std::size_t kLoanEnd = sizeof(std::uint64_t);

// The spare memory has as many places as there are slots. Pages are allocated only when used.
inline constexpr std::size_t kSpareSize = kLoanSlots * kMaxLent;

}  // namespace udapl::soft::shm
