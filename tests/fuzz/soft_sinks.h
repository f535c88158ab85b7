// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/adapter.h"
#include "dapl/transport/cq.h"
#include "dapl/transport/qp.h"
#include "dapl/transport/srq.h"

#include <atomic>
#include <cstdlib>

// The sinks that the fuzzers of the software RNIC pass to it.
namespace udapl::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

struct Silence final : transport::AdapterSink, transport::CqSink, transport::SrqSink {
  void on_catastrophic() noexcept override {}
  void on_internal_error() noexcept override {}
  void on_notify() noexcept override {}
  void on_overflow() noexcept override { std::abort(); }
  void on_low_watermark() noexcept override {}
  void on_async_error() noexcept override {}
};

struct Outcome final : transport::ConnectionSink {
  void on_established(transport::PrivateData) noexcept override { require(!ended); }
  void on_rejected(transport::PrivateData) noexcept override { std::abort(); }
  void on_refused() noexcept override { std::abort(); }
  void on_unreachable() noexcept override { std::abort(); }
  void on_timed_out() noexcept override { std::abort(); }
  void on_accept_failed() noexcept override { end(); }
  void on_disconnected() noexcept override { end(); }
  void on_broken(transport::BreakCause) noexcept override { end(); }
  void on_soft_watermark() noexcept override {}
  void on_async_error() noexcept override {}
  void end() noexcept {
    require(!ended);
    ended = true;
  }
  std::atomic<bool> ended{false};
};

}  // namespace udapl::fuzz
