// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// DAT for a server under a fuzzer: one adapter, and peers controlled by the input. The sources of
// the tools are compiled into a fuzzer and linked with this in place of libdat2.
//
// The input starts with the private data of each peer's request. Messages follow, which go to the
// connections in turn. Each item is {2 bytes, bytes}: the low 13 bits of the two bytes are the
// length; kFill means zeros up to the size of the receive; kWrong means a message or an answer that
// fails. At the end of the input the peers disconnect.
//
// Aborts if a local segment is not inside memory registered with its context, and if a freed handle
// is used.
#pragma once

#include <cstddef>
#include <span>

namespace fuzz {

inline constexpr std::size_t kLargest = 8192;  // bytes of the largest transfer
inline constexpr unsigned kLength = 0x1FFF, kFill = 0x8000, kWrong = 0x4000;

// Starts with new peers, at most `peers`. Everything created with earlier ones must have been
// freed. With more than one peer, the EVD of their requests fails when nothing happens any more.
void begin(std::span<const std::byte> input, std::size_t peers = 1);

}  // namespace fuzz
