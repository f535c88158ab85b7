// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/sink.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace udapl::soft::test {

class CountingCqSink final : public transport::CqSink {
 public:
  void on_notify() noexcept override { ++notified; }
  void on_overflow() noexcept override { ++overflowed; }
  std::atomic<int> notified{0};
  std::atomic<int> overflowed{0};
};

class CountingSrqSink final : public transport::SrqSink {
 public:
  void on_low_watermark() noexcept override { ++low; }
  void on_async_error() noexcept override { ++errors; }
  std::atomic<int> low{0};
  std::atomic<int> errors{0};
};

// Records the sink calls of a QP in order, for example "established disconnected".
class RecordingSink final : public transport::ConnectionSink {
 public:
  void on_established(transport::PrivateData d) noexcept override { add("established", d); }
  void on_rejected(transport::PrivateData d) noexcept override { add("rejected", d); }
  void on_refused() noexcept override { add("refused"); }
  void on_unreachable() noexcept override { add("unreachable"); }
  void on_timed_out() noexcept override { add("timed_out"); }
  void on_accept_failed() noexcept override { add("accept_failed"); }
  void on_disconnected() noexcept override { add("disconnected"); }
  void on_broken(transport::BreakCause cause) noexcept override {
    reason = cause.why;
    detail = cause.detail;
    add("broken");
  }
  void on_soft_watermark() noexcept override { ++soft_watermarks; }
  void on_async_error() noexcept override { add("async_error"); }

  [[nodiscard]] std::string calls() const {
    const std::scoped_lock lock(mutex_);
    return calls_;
  }
  [[nodiscard]] bool ended() const {
    const std::string all = calls();
    return all.find("broken") != std::string::npos || all.find("disconnected") != std::string::npos;
  }
  std::atomic<transport::BreakReason> reason{transport::BreakReason::kTransportLost};
  std::atomic<const char*> detail{""};
  std::atomic<int> soft_watermarks{0};
  std::vector<std::byte> private_data;  // to be read only after the call

 private:
  void add(const char* what, transport::PrivateData data = {}) noexcept {
    const std::scoped_lock lock(mutex_);
    if (!calls_.empty()) calls_ += ' ';
    calls_ += what;
    private_data.assign(data.begin(), data.end());
  }
  mutable std::mutex mutex_;
  std::string calls_;
};

}  // namespace udapl::soft::test
