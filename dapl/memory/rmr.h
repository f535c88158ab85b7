// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/memory/pz.h"
#include "dapl/objects/object.h"
#include "dapl/transport/mr.h"

#include <memory>

namespace udapl::dapl {

// A remote memory region: a window that dat_rmr_bind (datapath.h) binds to part of an LMR. Only the
// transport stores the binding. Thread-safe. Uses its Pz. Owned by an Ia.
class Rmr : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_RMR;

  // `scope`: DAT_RMR_SCOPE_PZ or DAT_RMR_SCOPE_EP.
  Rmr(const DAT_PROVIDER* table, Ia& owner, Pz& pz, DAT_RMR_SCOPE scope,
      std::unique_ptr<transport::Window> window) noexcept;

  [[nodiscard]] transport::Window& window() const noexcept { return *window_; }
  [[nodiscard]] Pz& pz() const noexcept { return *pz_.get(); }
  [[nodiscard]] DAT_RMR_SCOPE scope() const noexcept { return scope_; }

 private:
  const Use<Pz> pz_;
  const DAT_RMR_SCOPE scope_;
  const std::unique_ptr<transport::Window> window_;
};

}  // namespace udapl::dapl
