// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Private to mr_table*.cpp.

#include "providers/soft/mr_table.h"

namespace udapl::soft {

inline constexpr std::uint32_t kGenerationBits = 32 - MrTable::kIndexBits;
inline constexpr std::uint32_t kGenerationMask = (1U << kGenerationBits) - 1;

// One registration or window.
//
// Fields that lock-free readers look at are atomic. They change only while `current` is 0, and are
// written with release and read with acquire, so that a reader who finds `current` unchanged
// afterwards has read one life's values.
struct MrTable::Entry {
  std::atomic<std::uint32_t> current{0};  // the generation in force; 0: invalid
  std::atomic<std::uint32_t> users{0};    // pins
  std::atomic<std::uint64_t> address{0};  // of the first byte in this process
  std::atomic<std::uint64_t> length{0};
  std::atomic<ScopeId> pd{0};
  std::atomic<std::uint32_t> rights{0};
  std::atomic<Kind> kind{Kind::kFree};
  std::atomic<bool> zero_based{false};

  // The rest is guarded by the table's lock, but for what outsiders read at any time.
  transport::WindowScope scope = transport::WindowScope::kPd;
  std::uint32_t generation = 0;           // the last one given out
  std::atomic<std::uint32_t> stag{0};     // a registration's; of a window the one in force
  std::atomic<std::uint32_t> windows{0};  // bound to this registration, or about to be
  std::atomic<std::uint32_t> latest{0};   // a window's: of the latest posted bind
  std::uint32_t life = 0;                 // counts what the entry was used for
  std::uint32_t next = kNone;             // in the bucket or the free list
  ScopeId qp = 0;                         // a window's: bound through
  MrRef mr;                               // a window's: bound to
  // What peers on this host have been told of it, or take no notice of yet that it is over. Changed
  // under the lock; none is added once the entry is invalid.
  std::atomic<shm::Grants::Grant*> grants{nullptr};
  DAT_LMR_TRIPLET range{};  // a window's, as posted
};

}  // namespace udapl::soft
