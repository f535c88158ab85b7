// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "dapl/transport/types.h"

namespace udapl::dapl {

// The rest of a batch of completions: those that an EVD has taken off its CQ but not dequeued yet.
//
// Not thread-safe: the lock of the CQ protects it. On the hot path: everything is inline.
class CompletionStash {
 public:
  static constexpr int kSize = 16;

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  // Whether the latest batch filled the stash. Then the CQ most likely holds more.
  [[nodiscard]] bool was_filled() const noexcept { return end() == all_ + kSize; }
  [[nodiscard]] const transport::Completion* begin() const noexcept { return first_; }
  [[nodiscard]] const transport::Completion* end() const noexcept { return first_ + count_; }

  // REQUIRES: not empty.
  [[nodiscard]] const transport::Completion& front() const noexcept { return *first_; }
  void drop_front() noexcept {
    --count_;
    ++first_;
  }
  // Valid until the next batch.
  [[nodiscard]] const transport::Completion& take_front() noexcept {
    --count_;
    return *first_++;
  }

  // Room for a batch of kSize. REQUIRES: empty. Then call set_batch() with its size.
  [[nodiscard]] transport::Completion* room() noexcept { return all_; }
  void set_batch(int count) noexcept {
    first_ = all_;
    count_ = count;
  }
  // Removes the completions for which `remove` returns true. Lock analysis is off, because `remove`
  // may require the lock of the CQ.
  template <class Predicate>
  void remove_if(Predicate remove) noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
    transport::Completion* kept = first_;
    for (const transport::Completion& completion : *this)
      if (!remove(completion)) *kept++ = completion;
    count_ = static_cast<int>(kept - first_);
  }

 private:
  transport::Completion* first_ = all_;
  int count_ = 0;  // completions from first_
  transport::Completion all_[kSize];
};

}  // namespace udapl::dapl
