// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/mr.h"
#include "providers/soft/mr_table.h"

namespace udapl::soft {

// A protection domain: a number by which table entries, QPs and SRQs are compared. Immutable. Owned
// by a PZ.
class Pd final : public transport::Pd {
 public:
  explicit Pd(ScopeId id) noexcept : id_(id) {}
  [[nodiscard]] ScopeId id() const noexcept { return id_; }

 private:
  const ScopeId id_;
};

// A registration in an MrTable, which the destructor revokes. Thread-safe. Owned by an LMR.
class Mr final : public transport::Mr {
 public:
  Mr(MrTable& table, MrRef ref) noexcept : table_(table), ref_(ref) {}
  ~Mr() override { table_.revoke(ref_); }
  Mr(const Mr&) = delete;
  Mr& operator=(const Mr&) = delete;

  [[nodiscard]] DAT_LMR_CONTEXT lmr_context() const noexcept override {
    return MrTable::lmr_context(ref_);
  }
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const noexcept override {
    return table_.rmr_context(ref_);
  }
  [[nodiscard]] bool has_windows() const noexcept override { return table_.has_windows(ref_); }
  [[nodiscard]] MrRef ref() const noexcept { return ref_; }

 private:
  MrTable& table_;
  const MrRef ref_;
};

// A window in an MrTable, which the destructor destroys. Thread-safe. Owned by an RMR.
class Window final : public transport::Window {
 public:
  Window(MrTable& table, std::uint32_t index) noexcept : table_(table), index_(index) {}
  ~Window() override { table_.destroy_window(index_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const noexcept override {
    return table_.window_context(index_);
  }
  [[nodiscard]] std::optional<transport::Binding> binding() const noexcept override {
    return table_.window_binding(index_);
  }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

 private:
  MrTable& table_;
  const std::uint32_t index_;
};

}  // namespace udapl::soft
