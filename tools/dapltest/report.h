// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace dapltest {

using Clock = std::chrono::steady_clock;

// Returns whether a DAT call succeeded. If not, reports on stderr what failed and why. Thread-safe.
bool ok(DAT_RETURN status, std::string_view what);
[[nodiscard]] std::string describe(DAT_RETURN status);

// Reports an error on stderr; the first one becomes the reason of the verdict. Returns false.
// Thread-safe.
bool fail(const std::string& text);
[[nodiscard]] std::string first_failure();

// Text output that --json suppresses is printed with say(). Thread-safe.
void set_human(bool human);
void say(const std::string& line);

// Durations in nanoseconds, in buckets of about 3 %. Not thread-safe: use one per thread and merge.
class Histogram {
 public:
  void record(Clock::duration span);
  void merge(const Histogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double mean_us() const;
  [[nodiscard]] double min_us() const { return count_ == 0 ? 0 : double(min_) / 1000; }
  [[nodiscard]] double max_us() const { return double(max_) / 1000; }
  // The smallest duration that is not exceeded by this share (0 to 1) of all.
  [[nodiscard]] double percentile_us(double share) const;
  // {"mean": ..., "min": ..., "p50": ..., ...}
  [[nodiscard]] std::string json() const;

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;
  static std::size_t bucket(std::uint64_t value);
  static std::uint64_t upper_end(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

// Prints the progress of a long run on stderr every two seconds. Thread-safe.
class Progress {
 public:
  Progress(std::uint64_t total, bool quiet) : total_(total), quiet_(quiet) {}
  void advance(std::uint64_t steps = 1);

 private:
  static constexpr auto kInterval = std::chrono::seconds(2);
  const std::uint64_t total_;
  const bool quiet_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<std::uint64_t> done_{0};
  std::atomic<Clock::rep> next_{(Clock::now() + kInterval).time_since_epoch().count()};
};

// Builds a JSON object, printed as one line.
class Json {
 public:
  void add(std::string_view key, const std::string& text);
  void add(std::string_view key, const char* text) { add(key, std::string(text)); }
  void add(std::string_view key, std::uint64_t number);
  void add(std::string_view key, double number);
  void add(std::string_view key, bool value);
  void add_raw(std::string_view key, const std::string& json);
  [[nodiscard]] std::string text() const { return "{" + body_ + "}"; }
  [[nodiscard]] static std::string quote(std::string_view text);

 private:
  std::string body_;
};

}  // namespace dapltest
