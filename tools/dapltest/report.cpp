// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "report.h"
#include "../json.h"
#include "../program.h"

#include <dat/dat_diagnosis_extensions.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <mutex>

// Missing in other libraries named libdat2.
#pragma weak dat_last_cause

namespace dapltest {
namespace {

std::mutex output;
std::string failure;  // the first one; protected by `output`
std::atomic<bool> is_human{true};

}  // namespace

std::string describe(DAT_RETURN status) {
  const char* major = "unknown error";
  const char* minor = "";
  dat_strerror(status, &major, &minor);
  const std::string text = fmt::format("{} {}", major, minor);
  if (dat_last_cause != nullptr) {
    const char* cause = nullptr;
    if (dat_last_cause(status, &cause) == DAT_SUCCESS && cause != nullptr && *cause != '\0') {
      return std::string_view(cause).find(major) == std::string_view::npos
                 ? fmt::format("{} ({})", text, cause)
                 : cause;
    }
  }
  return text;
}

bool ok(DAT_RETURN status, std::string_view what) {
  return status == DAT_SUCCESS || fail(fmt::format("{}: {}", what, describe(status)));
}

bool fail(const std::string& text) {
  const std::lock_guard guard(output);
  tools::flush();
  tools::print(stderr, "dapltest: {}\n", text);
  if (failure.empty()) {
    failure = text;
  }
  return false;
}

std::string first_failure() {
  const std::lock_guard guard(output);
  return failure;
}

void set_human(bool human) { is_human = human; }

void say(const std::string& line) {
  if (!is_human) {
    return;
  }
  const std::lock_guard guard(output);
  tools::print("{}\n", line);
  tools::flush();
}

// ---- Histogram

std::size_t Histogram::bucket(std::uint64_t value) {
  if (value < (1U << kSubBits)) {
    return value;
  }
  const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kSubBits;
  return (std::size_t{shift + 1} << kSubBits) + ((value >> shift) & ((1U << kSubBits) - 1));
}

std::uint64_t Histogram::upper_end(std::size_t bucket) {
  if (bucket < (1U << kSubBits)) {
    return bucket;
  }
  const std::size_t shift = (bucket >> kSubBits) - 1;
  const std::uint64_t base = (1U << kSubBits) + (bucket & ((1U << kSubBits) - 1));
  return ((base + 1) << shift) - 1;
}

void Histogram::record(Clock::duration span) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(span).count();
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
  ++buckets_[bucket(value)];
  ++count_;
  sum_ += value;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Histogram::mean_us() const { return count_ == 0 ? 0 : double(sum_) / double(count_) / 1000; }

double Histogram::percentile_us(double share) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * double(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= wanted && seen > 0) {
      return double(std::clamp(upper_end(i), min_, max_)) / 1000;
    }
  }
  return 0;
}

std::string Histogram::json() const {
  Json json;
  json.add("count", count_);
  json.add("mean", mean_us());
  json.add("min", min_us());
  json.add("p50", percentile_us(0.50));
  json.add("p90", percentile_us(0.90));
  json.add("p99", percentile_us(0.99));
  json.add("p99.9", percentile_us(0.999));
  json.add("max", max_us());
  return json.text();
}

// ---- Progress

void Progress::advance(std::uint64_t steps) {
  const std::uint64_t done = done_.fetch_add(steps, std::memory_order_relaxed) + steps;
  if (quiet_) {
    return;
  }
  const Clock::time_point now = Clock::now();
  Clock::rep next = next_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < next ||
      !next_.compare_exchange_strong(next, (now + kInterval).time_since_epoch().count())) {
    return;
  }
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double share = double(done) / double(total_);
  const std::lock_guard guard(output);
  tools::print(stderr, "dapltest: {:.0f} % ({} of {}), {:.0f} s left\n", share * 100, done, total_,
               elapsed / share - elapsed);
}

// ---- Json

std::string Json::quote(std::string_view text) { return tools::Json().text(text).result(); }

void Json::add_raw(std::string_view key, const std::string& json) {
  if (!body_.empty()) {
    body_ += ", ";
  }
  body_ += quote(key) + ": " + json;
}

void Json::add(std::string_view key, const std::string& text) { add_raw(key, quote(text)); }
void Json::add(std::string_view key, std::uint64_t number) { add_raw(key, std::to_string(number)); }
void Json::add(std::string_view key, double number) {
  add_raw(key, std::isfinite(number) ? fmt::format("{:.9g}", number) : "null");
}
void Json::add(std::string_view key, bool value) { add_raw(key, value ? "true" : "false"); }

}  // namespace dapltest
