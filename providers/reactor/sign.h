// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/prefetch.h"
#include "providers/reactor/tuning.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace udapl {

// Tells without a call whether a poller may have input. It watches a word that changes with input:
// while the word is unchanged, the sign is quiet, which means that there is no input. Any thread
// reads it while the poller is watched; the poller sets it under its own lock.
class Sign {
 public:
  // Forgets the words and the hint.
  void clear() noexcept {
    watch(nullptr);
    also(nullptr, 0);
    next_at(nullptr);
  }
  // Watches `word`, which is unchanged while it has the value of seen(). Null: the poller has no
  // such word and must be called. The word must stay valid until the next call of watch(), or until
  // Reactor::unwatch().
  void watch(const std::atomic<std::uint64_t>* word) noexcept {
    word_.store(word, std::memory_order_release);
  }
  void seen(std::uint64_t value) noexcept { seen_.store(value, std::memory_order_relaxed); }
  // Watches a second word: the sign is not quiet once that has reached `value`. Null: none.
  void also(const std::atomic<std::uint64_t>* word, std::uint64_t value) noexcept {
    awaited_.store(value, std::memory_order_relaxed);
    second_.store(word, std::memory_order_release);
  }
  // Where the next input will probably arrive: only a prefetch hint. If there is one, the word
  // counts bytes.
  void next_at(const void* place) noexcept { next_.store(place, std::memory_order_relaxed); }
  [[nodiscard]] bool quiet() const noexcept {
    const std::atomic<std::uint64_t>* const word = word_.load(std::memory_order_acquire);
    if (word == nullptr) return false;
    const std::uint64_t value = word->load(std::memory_order_relaxed);
    const std::uint64_t seen = seen_.load(std::memory_order_relaxed);
    if (value == seen) return !second_reached();
    fetch_next(value - seen);
    return false;
  }
  // If the sign is not quiet: whether that is because a word has changed.
  [[nodiscard]] bool shows_input() const noexcept {
    return word_.load(std::memory_order_relaxed) != nullptr;
  }

 private:
  void fetch_next(std::uint64_t bytes) const noexcept {
    const void* const next = next_.load(std::memory_order_relaxed);
    if (next != nullptr)
      prefetch_bytes(next, std::min<std::uint64_t>(bytes, tuning::kFetchedAtOnce));
  }
  [[nodiscard]] bool second_reached() const noexcept {
    const std::atomic<std::uint64_t>* const word = second_.load(std::memory_order_acquire);
    return word != nullptr &&
           word->load(std::memory_order_relaxed) >= awaited_.load(std::memory_order_relaxed);
  }

  std::atomic<const std::atomic<std::uint64_t>*> word_{nullptr};
  std::atomic<std::uint64_t> seen_{0};
  std::atomic<const std::atomic<std::uint64_t>*> second_{nullptr};
  std::atomic<std::uint64_t> awaited_{0};
  std::atomic<const void*> next_{nullptr};
};

}  // namespace udapl
