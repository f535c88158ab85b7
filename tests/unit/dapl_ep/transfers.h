// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A connected pair of EPs with memory on both sides, and shorthands for posts.
#pragma once

#include "tests/unit/dapl_ep/support.h"

namespace udapl::test {

struct Transfers : Rig {
  explicit Transfers(bool thread_safe = true, const DAT_EP_ATTR& attr = attributes(),
                     Adjust adjust = nullptr)
      : Rig(thread_safe, adjust),
        active(side(attr)),
        passive(side(attr)),
        from(ia, pz),
        to(ia, pz) {
    join(active, passive);
    for (std::size_t i = 0; i < from.bytes.size(); ++i)
      from.bytes[i] = static_cast<std::uint8_t>(i + 1);
  }
  DAT_RETURN write(const std::vector<DAT_LMR_TRIPLET>& local, const DAT_RMR_TRIPLET* remote,
                   unsigned flags = kDefault) {
    std::vector<DAT_LMR_TRIPLET> list = local;
    return ia->ep_post_rdma_write_func(active.ep, static_cast<DAT_COUNT>(list.size()),
                                       list.empty() ? nullptr : list.data(), cookie_of(1), remote,
                                       flags_of(flags));
  }
  DAT_RETURN read(const std::vector<DAT_LMR_TRIPLET>& local, const DAT_RMR_TRIPLET* remote,
                  unsigned flags = kDefault) {
    std::vector<DAT_LMR_TRIPLET> list = local;
    return ia->ep_post_rdma_read_func(active.ep, static_cast<DAT_COUNT>(list.size()),
                                      list.empty() ? nullptr : list.data(), cookie_of(1), remote,
                                      flags_of(flags));
  }
  DAT_RETURN send(const std::vector<DAT_LMR_TRIPLET>& local, unsigned flags = kDefault) {
    std::vector<DAT_LMR_TRIPLET> list = local;
    return ia->ep_post_send_func(active.ep, static_cast<DAT_COUNT>(list.size()),
                                 list.empty() ? nullptr : list.data(), cookie_of(1),
                                 flags_of(flags));
  }

  Side active;
  Side passive;
  Buffer from;
  Buffer to;
};

}  // namespace udapl::test
