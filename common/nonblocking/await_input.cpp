// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/nonblocking/await_input.h"

#include <poll.h>

#include <chrono>

namespace udapl {

bool await_input(int fd, Clock::time_point until) noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd entry{fd, POLLIN, 0};
  return left > 0 && ::poll(&entry, 1, static_cast<int>(left)) != 0;
}

}  // namespace udapl
