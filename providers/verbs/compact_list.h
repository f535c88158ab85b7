// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/result.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// Requests and receives with empty segments: some devices mistake an empty segment for one of
// 2 GiB, so these are left out.
namespace udapl::verbs {

// The non-empty segments of a list, up to `limit` bytes in total.
struct CompactList {
  // More segments than any device accepts in one request.
  static constexpr std::size_t kMaxSegments = 256;
  static constexpr DAT_RETURN kTooMany = dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

  CompactList(const ibv_sge* list, int count, std::uint64_t limit) noexcept {
    for (int i = 0; i < count && limit != 0; ++i) {
      if (list[i].length == 0) continue;
      if (size == kMaxSegments) {
        fits = false;
        return;
      }
      ibv_sge& segment = segments[size++];
      segment = list[i];
      segment.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, segment.length));
      limit -= segment.length;
    }
  }

  std::size_t size = 0;
  bool fits = true;  // false: more than kMaxSegments
  ibv_sge segments[kMaxSegments];
};

// Called after a post of `receive` has failed with `error`. libsiw refuses a receive without
// segments with -EINVAL: posts it again by `post` with an empty segment, which the kernel's siw
// skips without checking its key. Returns the error of that post, or else `error`.
template <class Post>
[[nodiscard]] int post_again(ibv_recv_wr& receive, int error, const Post& post) noexcept {
  if (std::abs(error) != EINVAL || receive.num_sge != 0) return error;
  ibv_sge empty{};
  receive.sg_list = &empty;
  receive.num_sge = 1;
  return post();
}

}  // namespace udapl::verbs
