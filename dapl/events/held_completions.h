// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/posted/completion.h"
#include "dapl/transport/types.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace udapl::dapl {

// The completions of a merged EVD that arrived before the ESTABLISHED event of their EP was queued.
// Those of one EP leave in the order in which they came.
//
// Not thread-safe: the lock of the CQ protects it. Owned by an Evd.
class HeldCompletions {
 public:
  // Throws std::bad_alloc.
  void reserve(std::size_t count) { completions_.reserve(count); }

  [[nodiscard]] bool empty() const noexcept { return completions_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return completions_.size(); }
  [[nodiscard]] bool full() const noexcept { return size() == completions_.capacity(); }
  // Whether completions of this EP are held. If so, later ones have to be held as well.
  [[nodiscard]] bool has_any_of(const void* ep) const noexcept {
    return has_any_of(ep, completions_.size());
  }

  // REQUIRES: !full().
  void hold(const transport::Completion& completion) noexcept {
    completions_.push_back(completion);
  }
  // Calls `take` for each completion, in order, unless an older one of its EP stays held, and
  // removes those for which it returns true. Lock analysis is off, because `take` may require
  // locks.
  template <class Take>
  void release(Take take) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < completions_.size(); ++i) {
      const transport::Completion completion = completions_[i];
      if (has_any_of(ep_of(completion), kept) || !take(completion))
        completions_[kept++] = completion;
    }
    completions_.resize(kept);
  }
  // Removes the completions for which `remove` returns true.
  template <class Predicate>
  void remove_if(Predicate remove) noexcept {
    std::erase_if(completions_, remove);
  }

 private:
  [[nodiscard]] bool has_any_of(const void* ep, std::size_t among) const noexcept {
    return std::any_of(
        completions_.begin(), completions_.begin() + static_cast<std::ptrdiff_t>(among),
        [ep](const transport::Completion& completion) { return ep_of(completion) == ep; });
  }

  std::vector<transport::Completion> completions_;
};

}  // namespace udapl::dapl
