// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/await_posts.h"

#include "common/backoff.h"
#include "common/process_barrier.h"
#include "common/tracing/trace.h"

#include <chrono>

namespace udapl::dapl {

namespace {

constexpr std::chrono::seconds kLongestPost{1};

bool is_posting(const ObjectHeader& object) noexcept {
  return object.posting_request.load(std::memory_order_acquire) ||
         object.posting_receive.load(std::memory_order_acquire);
}

}  // namespace

void await_posts(const ObjectHeader& object) noexcept {
  process_barrier();
  if (!is_posting(object)) [[likely]]
    return;
  const auto limit = std::chrono::steady_clock::now() + kLongestPost;
  for (Backoff backoff; is_posting(object); backoff.wait()) {
    if (std::chrono::steady_clock::now() < limit) continue;
    UDAPL_TRACE(kError, "%p is destroyed within a post", static_cast<const void*>(&object));
    return;
  }
}

}  // namespace udapl::dapl
