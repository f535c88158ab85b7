// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl::soft::test {

// How the two ends of a Pair are connected.
enum class Path {
  kTcp,
  kInProcess,  // by a MemoryLink, without sockets
  kRings,      // in shared memory
  kDirect,     // rings, and direct access to the peer's memory
};

// The same in all of a test program; the programs are built from the same objects otherwise.
extern const Path kPath;

[[nodiscard]] inline bool has_rings() { return kPath == Path::kRings || kPath == Path::kDirect; }
[[nodiscard]] inline bool is_direct() { return kPath == Path::kDirect; }

}  // namespace udapl::soft::test
