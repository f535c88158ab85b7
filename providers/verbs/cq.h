// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include <dat/dat_ib_extensions.h>

#include "common/annotations.h"
#include "common/mutex.h"
#include "common/spin_lock.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"
#include "providers/verbs/qp_map.h"
#include "providers/verbs/service.h"
#include "providers/verbs/sink_gate.h"
#include "providers/verbs/work_tag.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace udapl::verbs {

class Adapter;

// A completion queue on a verbs CQ. Thread-safe as transport::Cq says. Owned by an EVD.
//
// A poll is one ibv_poll_cq of up to 16 completions and one pass over them; no lock, no allocation.
// Completions whose QP number is not in the map belong to a QP that is gone, and are dropped: so a
// Qp that is reset takes a new ibv_qp with a new number.
//
// Two things take completions off the verbs CQ without handing them out, and put them into `held_`
// for the next poll: size(), as verbs does not tell how many wait, and the filter. The filter runs
// in the service thread when an armed CQ fires that quiet completions are put on: the device cannot
// tell a quiet completion from a notification. It is on from the first poll after expect_quiet().
class Cq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = false;  // for dapl::CompletionQueue
  static constexpr int kBatch = 16;

  enum class Role { kReceive, kRequest };

  // INSUFFICIENT_RESOURCES. Throws std::bad_alloc. REQUIRES: depth > 0.
  static Result<std::unique_ptr<transport::Cq>> create(Adapter& adapter, int depth,
                                                       transport::CqSink& sink);
  Cq(Adapter& adapter, transport::CqSink& sink);
  ~Cq() override;
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  int poll(transport::Completion* out, int max) noexcept override;
  void progress() noexcept override {}
  void arm() noexcept override;
  [[nodiscard]] int size() const noexcept override;
  Status resize(int depth) override;
  [[nodiscard]] int depth() const noexcept override;

  // ---- for Qp ----------------------------------------------------------------------------------
  [[nodiscard]] ibv_cq* get() const noexcept { return cq_; }
  // The QP feeds this CQ: once for each role that it has, after ibv_create_qp and before its first
  // post; detach after ibv_destroy_qp. attach throws std::bad_alloc.
  void attach(Qp& qp, std::uint32_t number, void* context, Role role, bool solicited_only);
  void detach(std::uint32_t number, Role role, bool solicited_only) noexcept;
  // A request with kQuiet is about to be posted.
  void expect_quiet() noexcept {
    if (mode_.load(std::memory_order_relaxed) == 0) [[unlikely]]
      mode_.store(kFilterWanted, std::memory_order_relaxed);
  }

  // ---- for Adapter: in the service thread ------------------------------------------------------
  void on_event() noexcept;  // the completion channel names this CQ
  void on_error() noexcept;  // IBV_EVENT_CQ_ERR

 private:
  Adapter& adapter_;
  transport::CqSink& sink_;
  ibv_cq* cq_ = nullptr;
  std::atomic<unsigned> mode_{0};
  static constexpr unsigned kFilterWanted = 1;
};

}  // namespace udapl::verbs
