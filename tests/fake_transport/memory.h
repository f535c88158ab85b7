// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/mr.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace udapl::fake {

// One lock for all QPs, CQs, SRQs and memory of the process. Never held while a sink is called.
std::mutex& world();

class Qp;

class Pd final : public transport::Pd {};

class Mr final : public transport::Mr {
 public:
  Mr(Pd& pd, const transport::MrInit& init);
  ~Mr() override;
  [[nodiscard]] DAT_LMR_CONTEXT lmr_context() const noexcept override { return context_; }
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const noexcept override;
  [[nodiscard]] bool has_windows() const noexcept override;

  Pd* const pd;
  const transport::MrInit init;
  int windows = 0;  // under world()

 private:
  const DAT_LMR_CONTEXT context_;
};

class Window final : public transport::Window {
 public:
  Window(Pd& pd, bool qp_scope);
  ~Window() override;
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const noexcept override;
  [[nodiscard]] std::optional<transport::Binding> binding() const noexcept override;

  Pd* const pd;
  const bool qp_scope;
  // Under world().
  DAT_RMR_CONTEXT context = 0;
  std::optional<transport::Binding> bound;
  Mr* mr = nullptr;
  const Qp* qp = nullptr;
};

// The registrations of the process. All under world().
class MemoryTable {
 public:
  static MemoryTable& instance();

  DAT_LMR_CONTEXT add(Mr& mr);
  void remove(const Mr& mr);
  [[nodiscard]] Mr* find(DAT_LMR_CONTEXT context);
  // Binds `window` and returns its new context, which is valid at once; the old one becomes
  // invalid.
  DAT_RMR_CONTEXT bind(Window& window, const transport::BindRequest& request, const Qp& qp);
  void unbind(Window& window);
  [[nodiscard]] Window* find_window(DAT_RMR_CONTEXT context);

  // docs/semantics.md#local-memory, for one segment list; pd null: any.
  [[nodiscard]] DAT_RETURN check(const DAT_LMR_TRIPLET* segments, DAT_COUNT count, const Pd* pd,
                                 unsigned privilege);
  // The memory for a remote access to `target` over `qp`; null: refused.
  [[nodiscard]] std::byte* remote(const DAT_RMR_TRIPLET& target, std::uint64_t length, const Pd& pd,
                                  const Qp& qp, unsigned privilege);
  // The memory behind a checked segment.
  [[nodiscard]] std::byte* local(const DAT_LMR_TRIPLET& segment);

 private:
  DAT_LMR_CONTEXT next_ = 0x100;
  std::map<DAT_LMR_CONTEXT, Mr*> regions_;
  std::map<DAT_RMR_CONTEXT, Window*> windows_;
};

}  // namespace udapl::fake
