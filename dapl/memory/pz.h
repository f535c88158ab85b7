// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/objects/object.h"
#include "dapl/transport/mr.h"

#include <memory>
#include <utility>

namespace udapl::dapl {

// A protection zone: groups EPs and SRQs with the memory they may access. EPs, LMRs, RMRs and SRQs
// count as its users. Immutable, so thread-safe. Owned by an Ia.
class Pz : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_PZ;

  Pz(const DAT_PROVIDER* table, Ia& owner, std::unique_ptr<transport::Pd> pd) noexcept
      : ObjectHeader(table, kType, &owner), pd_(std::move(pd)) {}

  [[nodiscard]] transport::Pd& pd() const noexcept { return *pd_; }

 private:
  const std::unique_ptr<transport::Pd> pd_;
};

}  // namespace udapl::dapl
