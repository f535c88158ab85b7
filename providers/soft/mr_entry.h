// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Private to mr_table*.cpp.

#include "providers/soft/mr_table.h"

namespace udapl::soft {

inline constexpr std::uint32_t kGenerationBits = 32 - MrTable::kIndexBits;
inline constexpr std::uint32_t kGenerationMask = (1U << kGenerationBits) - 1;

// One registration or window.
//
// The fields that lock-free readers use are atomic. They change only while `current` is 0. They are
// written with release and read with acquire, so that a reader that finds `current` unchanged after
// it has read them knows that all values belong to one generation.
struct MrTable::Entry {
  std::atomic<std::uint32_t> current{0};  // the current generation; 0: invalid
  std::atomic<std::uint32_t> users{0};    // pins
  std::atomic<std::uint64_t> address{0};  // of the first byte, in this process
  std::atomic<std::uint64_t> length{0};
  std::atomic<ScopeId> pd{0};
  std::atomic<std::uint32_t> rights{0};
  std::atomic<Kind> kind{Kind::kFree};
  std::atomic<bool> zero_based{false};

  // The rest is guarded by the table's lock; the atomic fields may also be read without it.
  transport::WindowScope scope = transport::WindowScope::kPd;
  std::uint32_t generation = 0;           // the last one that was used
  std::atomic<std::uint32_t> stag{0};     // of the registration, or of the window's current binding
  std::atomic<std::uint32_t> windows{0};  // number of windows bound to this registration, or posted
  std::atomic<std::uint32_t> latest{0};   // window: the STag of the latest posted bind
  std::uint32_t life = 0;                 // changes when the entry is allocated or freed
  std::uint32_t next = kNone;             // next entry in the bucket or in the free list
  ScopeId qp = 0;                         // window: the QP through which it is bound
  MrRef mr;                               // window: the registration to which it is bound
  // The grants for this entry that peers on this host have, including withdrawn grants that a peer
  // may still be using. Changed under the lock. No grant is added once the entry is invalid.
  std::atomic<shm::Grants::Grant*> grants{nullptr};
  DAT_LMR_TRIPLET range{};  // window: the range, as posted
};

}  // namespace udapl::soft
