// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/cq.h"
#include "dapl/transport/sink.h"
#include "dapl/transport/srq.h"
#include "tests/fake_transport/memory.h"

#include <atomic>
#include <deque>
#include <functional>
#include <set>
#include <vector>

namespace udapl::fake {

class Qp;

// A posted receive.
struct Buffer {
  transport::WorkId id;
  std::vector<DAT_LMR_TRIPLET> segments;
  bool quiet;
};

// A completion queue that a test can also fill by hand.
class Cq final : public transport::Cq {
 public:
  static constexpr bool kDrivesProgress = true;

  Cq(int depth, transport::CqSink& sink) : sink_(sink), depth_(depth) {}
  ~Cq() override;
  int poll(transport::Completion* out, int max) noexcept override;
  // Runs the scheduler if `drive` is set, otherwise only counts.
  bool progress() noexcept override;
  [[nodiscard]] bool turn_due() const noexcept { return false; }
  void arm() noexcept override;
  void await_several(std::size_t count) noexcept override { awaited = count; }
  [[nodiscard]] int size() noexcept override;
  Status resize(int depth) override;
  [[nodiscard]] int depth() const noexcept override;

  // ---- for tests
  // Adds a completion. `notify`: whether it is a notification.
  void push(const transport::Completion& completion, bool notify);
  // The queue overflows.
  void overflow();
  [[nodiscard]] bool armed() const;
  // Sets a function that the next poll calls, once.
  void on_next_poll(std::function<void()> call);
  std::atomic<int> polls{0};
  std::atomic<int> progresses{0};
  std::atomic<std::size_t> awaited{0};  // as await_several() was told last
  std::atomic<bool> drive{false};
  std::atomic<bool> refuse_resize{false};

  // ---- for Qp, under world()
  void push_locked(const transport::Completion& completion, bool notify);
  void purge_locked(const void* qp_context);
  void add_feeder(Qp& qp) { feeders_.insert(&qp); }
  void remove_feeder(Qp& qp) { feeders_.erase(&qp); }

 private:
  void overflow_locked();

  transport::CqSink& sink_;
  int depth_;
  bool armed_ = false;
  bool overflowed_ = false;
  std::deque<transport::Completion> completions_;
  std::function<void()> next_poll_;
  std::set<Qp*> feeders_;
};

// A shared receive queue.
class Srq final : public transport::Srq {
 public:
  Srq(Pd& pd, int depth, transport::SrqSink& sink) : pd_(pd), depth_(depth), sink_(sink) {}
  ~Srq() override;
  DAT_RETURN post_recv(transport::WorkId id, const DAT_LMR_TRIPLET* segments,
                       DAT_COUNT count) noexcept override;
  Status resize(int depth) override;
  Status set_low_watermark(int mark) noexcept override;
  [[nodiscard]] int available() const noexcept override;

  // ---- for tests
  void fail();  // an asynchronous error
  std::atomic<bool> refuse_resize{false};
  std::atomic<bool> refuse_watermark{false};

  // ---- for Qp, under world()
  [[nodiscard]] bool take_locked(Buffer* buffer);

 private:
  void check_mark_locked();

  Pd& pd_;
  int depth_;
  transport::SrqSink& sink_;
  int mark_ = 0;
  std::deque<Buffer> buffers_;
};

}  // namespace udapl::fake
