// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "../program.h"
#include "chart.h"
#include "report.h"

#include <algorithm>
#include <set>

namespace datperf {

namespace {

// Colours that colour-blind readers can tell apart, for light and dark backgrounds.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5b6570; --line: #d9dee3; --back: #fff;
  --c0: #0069b4; --c1: #d1450b; --c2: #00845d; --c3: #a8428f; --c4: #8a6d00; --c5: #0091a8;
  --c6: #5a49c8; --c7: #7a3b1d; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #a2adb8; --line: #39424c; --back: #15191d; --c0: #58b0f5;
    --c1: #ff8a55; --c2: #3fcf9f; --c3: #e58ad0; --c4: #dcbc3c; --c5: #4fd0e6; --c6: #a99cff;
    --c7: #d69a77; } }
body { margin: 2rem auto; max-width: 84rem; padding: 0 1rem; color: var(--ink);
  background: var(--back); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; margin: .6rem 0 }
dt, p.note { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr));
  gap: 1.5rem; align-items: start }
figure { margin: 0 } figcaption { font-weight: 600; margin-bottom: .3rem }
figure > svg { width: 100%; height: auto; display: block }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif }
svg .grid { stroke: var(--line) } svg .frame { fill: none; stroke: var(--soft) }
svg .curve { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-dasharray: var(--d) }
svg .tail { fill: none; stroke: var(--c); stroke-width: 1; stroke-dasharray: 2 4; opacity: .8 }
svg .interval { stroke: var(--c); stroke-width: 3; opacity: .45 }
svg .p99 { stroke: var(--ink) }
svg circle, svg rect:not(.frame), svg g path:not(.curve):not(.tail), .legend path:not(.curve)
  { fill: var(--c); stroke: none }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; list-style: none; margin: .3rem 0 0;
  padding: 0 0 0 3.5rem; font-size: 13px }
.legend svg { vertical-align: middle }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 13px }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; white-space: nowrap }
th { color: var(--soft); font-weight: 600 } .word { text-align: left }
)";

using Rows = std::vector<const Row*>;

// A parameter that may differ between cases, and so be the x axis.
struct Dimension {
  const char* label;
  const char* word;  // in the name of a curve
  std::uint32_t Case::*member;
};
constexpr std::array<Dimension, 4> kDimensions{{{"bytes of a transfer", "bytes", &Case::size},
                                                {"transfers in flight", "window", &Case::window},
                                                {"endpoints of a thread", "EPs", &Case::endpoints},
                                                {"threads", "threads", &Case::threads}}};

std::size_t values_of(const Rows& rows, const Dimension& dimension) {
  std::set<std::uint32_t> values;
  for (const Row* row : rows) values.insert(row->what.*dimension.member);
  return values.size();
}

// The dimension with the most values; the first one if several have equally many.
const Dimension& x_of(const Rows& rows) {
  return *std::max_element(kDimensions.begin(), kDimensions.end(),
                           [&](const Dimension& one, const Dimension& other) {
                             return values_of(rows, one) < values_of(rows, other);
                           });
}

std::string curve_name(const Row& row, const Rows& rows, const Dimension& x) {
  std::string name = fmt::format("{} {}", row.column, row.what.operation_name());
  for (const Dimension& dimension : kDimensions)
    if (&dimension != &x && values_of(rows, dimension) > 1 &&
        !(row.what.operation == Operation::kFetchAdd && dimension.member == &Case::size))
      name += fmt::format(", {} {}", row.what.*dimension.member, dimension.word);
  return name;
}

// Which value of a row a chart shows.
enum class Shown : std::uint8_t { kValue, kRate };

Point point_of(const Row& row, const Dimension& x, Shown shown) {
  Point point;
  point.x = row.what.*x.member;
  if (shown == Shown::kRate) {
    point.y = row.per_second;
    // Bandwidth: the same interval, scaled to operations per second. Connections have no interval
    // of their rate.
    const bool bandwidth = row.what.measure == Measure::kBandwidth && row.value.median > 0;
    point.low = bandwidth ? point.y * row.interval.low / row.value.median : point.y;
    point.high = bandwidth ? point.y * row.interval.high / row.value.median : point.y;
    return point;
  }
  point.y = row.value.median;
  point.low = row.interval.low;
  point.high = row.interval.high;
  if (row.what.measure != Measure::kBandwidth) point.tail = row.value.p99;
  return point;
}

std::string chart_of(const Rows& rows, Shown shown, const std::string& title,
                     const std::string& y_label) {
  const Dimension& x = x_of(rows);
  Chart chart;
  chart.title = title;
  chart.x_label = x.label;
  chart.y_label = y_label;
  chart.x_is_size = x.member == &Case::size;
  for (const Row* row : rows) {
    const std::string name = curve_name(*row, rows, x);
    auto curve = std::find_if(chart.curves.begin(), chart.curves.end(),
                              [&](const Curve& one) { return one.name == name; });
    if (curve == chart.curves.end()) curve = chart.curves.insert(curve, Curve{name, {}});
    const Point point = point_of(*row, x, shown);
    if (point.y > 0) curve->points.push_back(point);
  }
  std::erase_if(chart.curves, [](const Curve& curve) { return curve.points.empty(); });
  for (Curve& curve : chart.curves)
    std::sort(curve.points.begin(), curve.points.end(),
              [](const Point& one, const Point& other) { return one.x < other.x; });
  if (chart.curves.empty()) return "";
  return values_of(rows, x) > 1 ? curves_svg(chart) : bars_svg(chart);
}

Rows rows_with(const Report& report, Measure measure, Waiting waiting) {
  Rows rows;
  for (const Row& row : report.rows)
    if (row.what.measure == measure && row.what.waiting == waiting) rows.push_back(&row);
  return rows;
}

std::string charts_of(const Report& report, Measure measure) {
  std::string html;
  for (const Shown shown : {Shown::kValue, Shown::kRate})
    for (const Waiting waiting : {Waiting::kPoll, Waiting::kBlock}) {
      const Rows rows = rows_with(report, measure, waiting);
      if (rows.empty() || (shown == Shown::kRate && measure == Measure::kLatency)) continue;
      const char* how = waiting == Waiting::kPoll ? "polling" : "blocking";
      if (shown == Shown::kRate)
        html += chart_of(
            rows, shown,
            fmt::format("{} a second, {}",
                        measure == Measure::kBandwidth ? "Operations" : "Connections", how),
            "a second");
      else if (measure == Measure::kBandwidth)
        html += chart_of(rows, shown, fmt::format("Bandwidth, {}, MB/s", how), "MB/s (10^6 bytes)");
      else
        html += chart_of(
            rows, shown,
            fmt::format("{}, {}, \u00b5s",
                        measure == Measure::kLatency ? "Latency" : "Set-up of a connection", how),
            "\u00b5s");
    }
  return html.empty() ? "" : "<div class=\"charts\">\n" + html + "</div>\n";
}

std::string table_of(const Report& report, Measure measure) {
  const bool transfers = measure != Measure::kConnections;
  std::string html =
      "<details><summary>Figures</summary><div class=\"wide\"><table>\n<tr><th "
      "class=\"word\">column</th>"
      "<th class=\"word\">operation</th><th class=\"word\">waiting</th>";
  html += transfers ? "<th>bytes</th><th>window</th>" : "";
  html += fmt::format(
      "<th>EPs</th><th>threads</th><th>median, {}</th><th>from</th><th>to</th><th>p99"
      "</th><th>maximum</th><th>a second</th><th>operations</th></tr>\n",
      unit_of(measure));
  for (const Row& row : report.rows) {
    if (row.what.measure != measure) continue;
    html += fmt::format(
        "<tr><td class=\"word\">{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>",
        escaped(row.column), row.what.operation_name(), name_of(row.what.waiting));
    if (transfers) html += fmt::format("<td>{}</td><td>{}</td>", row.what.size, row.what.window);
    html += fmt::format("<td>{}</td><td>{}</td>", row.what.endpoints, row.what.threads);
    for (const double value : {row.value.median, row.interval.low, row.interval.high, row.value.p99,
                               row.value.maximum, row.per_second})
      html += fmt::format("<td>{}</td>", number_text(value));
    html += fmt::format("<td>{}</td></tr>\n", row.operations);
  }
  return html + "</table></div></details>\n";
}

std::string heading(const Report& report) {
  std::string html = "<h1>DAT, measured</h1>\n<dl>";
  const std::array<std::array<std::string, 2>, 6> facts{{{"command", report.command},
                                                         {"program", tools::version_of("datperf")},
                                                         {"date", report.date},
                                                         {"client", report.host},
                                                         {"kernel", report.kernel},
                                                         {"processor", report.processor}}};
  for (const auto& [name, value] : facts)
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escaped(value));
  html += fmt::format(
      "</dl>\n<p class=\"note\">Points are medians; the strokes through them are the interval that "
      "has the median with a probability of {:.0f}%. Dotted curves, and lines after bars, are the "
      "99th percentile. The axes of curves are logarithmic.</p>\n",
      report.rows.empty() ? 0 : 100 * report.rows.front().interval.level);
  return html;
}

}  // namespace

std::string html_of(const Report& report) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>datperf, {}</title>\n<style>{}</style>\n</head>\n<body>\n{}",
      escaped(report.date), kStyle, heading(report));
  const std::array<const char*, 3> titles{"Latency", "Bandwidth and rate", "Connections"};
  for (const Measure measure : {Measure::kLatency, Measure::kBandwidth, Measure::kConnections}) {
    const std::string charts = charts_of(report, measure);
    if (charts.empty()) continue;
    html += fmt::format("<h2>{}</h2>\n{}{}", titles[static_cast<std::size_t>(measure)], charts,
                        table_of(report, measure));
  }
  return html + "</body>\n</html>\n";
}

}  // namespace datperf
