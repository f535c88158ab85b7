// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <span>

namespace udapl {

// The epoll sets of other reactors, which a leader watches while it sleeps. The first place is for
// the set of its own reactor.
class Elsewhere {
 public:
  void clear() noexcept {
    count_ = 0;
    has_input = false;
  }
  [[nodiscard]] bool full() const noexcept { return count_ + 1 == sets_.size(); }
  void add(int epoll) noexcept { sets_[++count_] = {epoll, POLLIN, 0}; }
  [[nodiscard]] bool any() const noexcept { return count_ != 0; }
  [[nodiscard]] std::span<pollfd> with_own() noexcept { return {sets_.data(), count_ + 1}; }

  bool has_input = false;  // there is input that no descriptor shows: do not sleep

 private:
  std::array<pollfd, 32> sets_;
  std::size_t count_ = 0;  // the leader's own set is not counted
};

}  // namespace udapl
