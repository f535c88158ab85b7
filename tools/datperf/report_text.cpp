// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "report.h"

#include <fmt/core.h>

#include <algorithm>

namespace datperf {

namespace {

constexpr int kWidth = 10;
constexpr int kValues = 5;

std::string title(const Case& what) {
  const char* wait = what.waiting == Waiting::kPoll ? "polling" : "blocking";
  switch (what.measure) {
    case Measure::kLatency:
      return fmt::format("latency in us, {}", wait);
    case Measure::kBandwidth:
      return fmt::format("bandwidth in MB/s (10^6 bytes), {}", wait);
    case Measure::kConnections:
      return fmt::format("connection set-up in us, {}", wait);
  }
  return {};
}

std::string heading(const Case& what, const std::vector<std::string>& columns) {
  const bool bandwidth = what.measure == Measure::kBandwidth;
  std::string names = fmt::format("{:35}", "");
  std::string fields = fmt::format("{:9}{:>9}{:>7}{:>5}{:>5}", "", "bytes", "window", "EPs", "thr");
  for (const std::string& column : columns) {
    names += fmt::format(" |{:^{}.{}}", column, kWidth * kValues, kWidth * kValues);
    fields += " |";
    for (const char* field : {"median", "from", "to", bandwidth ? "" : "p99",
                              bandwidth                           ? "ops/s"
                              : what.measure == Measure::kLatency ? "max"
                                                                  : "conn/s"})
      fields += fmt::format("{:>{}}", field, kWidth);
  }
  return fmt::format("{}\n{}\n{}\n", title(what), names, fields);
}

std::string values(const Row& row) {
  const bool bandwidth = row.what.measure == Measure::kBandwidth;
  const bool latency = row.what.measure == Measure::kLatency;
  return fmt::format(" |{:>{}}{:>{}}{:>{}}{:>{}}{:>{}}", number_text(row.value.median), kWidth,
                     number_text(row.interval.low), kWidth, number_text(row.interval.high), kWidth,
                     bandwidth ? "" : number_text(row.value.p99), kWidth,
                     number_text(latency ? row.value.maximum : row.per_second), kWidth);
}

}  // namespace

std::string number_text(double value) {
  const double size = value < 0 ? -value : value;
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, size >= 9.995 ? 1 : 2);
}

std::string size_text(std::uint32_t bytes) {
  if (bytes % (1U << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1U << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

std::string table_lines(const Case* before, const Case& what, const std::vector<Row>& rows,
                        const std::vector<std::string>& columns) {
  std::string text;
  if (before == nullptr || before->measure != what.measure || before->waiting != what.waiting)
    text = (before != nullptr ? "\n" : "") + heading(what, columns);
  const bool transfers = what.measure != Measure::kConnections;
  text += fmt::format("{:9}{:>9}{:>7}{:>5}{:>5}", what.operation_name(),
                      transfers ? std::to_string(what.size) : "-",
                      transfers ? std::to_string(what.window) : "-", what.endpoints, what.threads);
  for (const std::string& column : columns) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const Row& one) { return one.column == column; });
    text += row != rows.end() ? values(*row) : fmt::format(" |{:>{}}", "-", kWidth * kValues);
  }
  return text + "\n";
}

}  // namespace datperf
