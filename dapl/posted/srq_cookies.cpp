// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/posted/srq_cookies.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace udapl::dapl {

SrqCookies::SrqCookies(int limit) : limit_(limit) { reserve(limit); }

// Allocates outside the lock.
void SrqCookies::reserve(int count) {
  std::size_t blocks_so_far = 0;
  {
    const ScopedLock lock(lock_);
    count -= count_;
    blocks_so_far = blocks_.size();
  }
  if (count <= 0) return;
  auto block = std::make_unique<SrqCookie[]>(static_cast<std::size_t>(count));
  SrqCookie* const cookies = block.get();
  for (int i = 0; i < count; ++i) {
    cookies[i].owner = this;
    cookies[i].next_free = i + 1 < count ? &cookies[i + 1] : nullptr;
  }
  std::vector<std::unique_ptr<SrqCookie[]>> blocks;
  blocks.reserve(blocks_so_far + 1);
  const ScopedLock lock(lock_);
  for (auto& old : blocks_) blocks.push_back(std::move(old));
  blocks.push_back(std::move(block));
  blocks_.swap(blocks);
  cookies[count - 1].next_free = free_;
  free_ = cookies;
  count_ += count;
}

SrqCookie* SrqCookies::claim() noexcept {
  const ScopedLock lock(lock_);
  if (outstanding_ >= limit_ || free_ == nullptr) return nullptr;
  SrqCookie* const cookie = std::exchange(free_, free_->next_free);
  ++outstanding_;
  return cookie;
}

void SrqCookies::retire(SrqCookie& cookie) noexcept {
  const ScopedLock lock(lock_);
  cookie.next_free = free_;
  free_ = &cookie;
  --outstanding_;
}

SrqCookies::Counts SrqCookies::counts() const noexcept {
  const ScopedLock lock(lock_);
  return {limit_, outstanding_};
}

bool SrqCookies::lower_limit(int limit) noexcept {
  const ScopedLock lock(lock_);
  if (limit < outstanding_) return false;
  limit_ = std::min(limit_, limit);
  return true;
}

void SrqCookies::set_limit(int limit) noexcept {
  const ScopedLock lock(lock_);
  limit_ = limit;
}

}  // namespace udapl::dapl
