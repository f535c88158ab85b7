// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// DAT for a server under a fuzzer: one adapter, and peers that do what the input says. Sources of
// the tools are compiled into a fuzzer and linked with this in place of libdat2.
//
// The input is first the private data of each peer's request, then messages, which go to the
// connections in turn; each is {2 bytes, bytes}: the low 13 bits of the two are the length, kFill
// stands for zeros up to the size of the receive that takes it, kWrong for a message or an answer
// that fails. When it is used up the peers have hung up.
//
// Aborts if a local segment is not inside memory that is registered under its context, and if a
// freed handle is used.
#pragma once

#include <cstddef>
#include <span>

namespace fuzz {

inline constexpr std::size_t kLargest = 8192;  // bytes of a transfer
inline constexpr unsigned kLength = 0x1FFF, kFill = 0x8000, kWrong = 0x4000;

// New peers, at most so many; everything that was made with those before has been freed. With more
// than one the EVD of their requests fails when nothing happens any more.
void begin(std::span<const std::byte> input, std::size_t peers = 1);

}  // namespace fuzz
