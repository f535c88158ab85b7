// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "chart.h"
#include "report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace datperf {

namespace {

constexpr double kWidth = 620;
constexpr double kHeight = 330;
constexpr double kLeft = 64;
constexpr double kRight = 14;
constexpr double kTop = 14;
constexpr double kBottom = 46;
constexpr std::size_t kColours = 8;

// A logarithmic axis: from `low` at pixel `from` to `high` at pixel `to`.
struct Axis {
  double low;
  double high;
  double from;
  double to;
  [[nodiscard]] double at(double value) const {
    return from + (to - from) * std::log(value / low) / std::log(high / low);
  }
};

// Leaves some room on both sides, so that no point lies on the frame.
Axis axis_over(double low, double high, double from, double to, double room) {
  const double factor = std::max(std::pow(high / low, room), 1.15);
  return {low / factor, high * factor, from, to};
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", kind,
                     x1, y1, x2, y2);
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", x, y, anchor,
                     escaped(words));
}

std::string tick_text(double value) {
  if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", value);
}

// Ticks at 1, 2, 5, 10 and so on; if there are many decades, at powers of ten only.
std::vector<double> ticks_of(const Axis& axis) {
  const bool many = axis.high / axis.low > 3000;
  std::vector<double> ticks;
  for (int decade = static_cast<int>(std::floor(std::log10(axis.low))); decade < 12; ++decade)
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double value = digit * std::pow(10, decade);
      if (value >= axis.low && value <= axis.high && (digit == 1.0 || !many))
        ticks.push_back(value);
    }
  return ticks;
}

std::string x_ticks(const Chart& chart, const Axis& x, const Axis& y) {
  std::set<double> values;
  for (const Curve& curve : chart.curves)
    for (const Point& point : curve.points) values.insert(point.x);
  std::string svg;
  double last = -1e9;
  for (const double value : values) {
    svg += line(x.at(value), y.from, x.at(value), y.to, "grid");
    if (x.at(value) - last < 52) continue;  // the labels would touch
    last = x.at(value);
    svg += text(last, y.from + 16, "middle",
                chart.x_is_size ? size_text(static_cast<std::uint32_t>(value)) : tick_text(value));
  }
  return svg;
}

std::string frame(const Chart& chart, const Axis& x, const Axis& y) {
  std::string svg = x_ticks(chart, x, y);
  for (const double value : ticks_of(y)) {
    svg += line(x.from, y.at(value), x.to, y.at(value), "grid");
    svg += text(x.from - 6, y.at(value) + 4, "end", tick_text(value));
  }
  svg += fmt::format(R"(<rect class="frame" x="{}" y="{}" width="{}" height="{}"/>)", x.from, y.to,
                     x.to - x.from, y.from - y.to);
  svg += text((x.from + x.to) / 2, kHeight - 8, "middle", chart.x_label);
  svg += fmt::format(
      R"svg(<text transform="translate(14 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>)svg",
      (y.from + y.to) / 2, escaped(chart.y_label));
  return svg;
}

// The style of a curve's group. If there are more curves than colours, the line styles differ.
std::string style_of(std::size_t index) {
  constexpr std::array<const char*, 4> kDashes{"none", "8 3", "3 2", "10 2 2 2"};
  return fmt::format("--c:var(--c{});--d:{}", index % kColours,
                     kDashes[index / kColours % kDashes.size()]);
}

// Not every reader can tell the colours apart, so each curve has a shape as well, and curves of the
// same colour have different shapes.
std::string mark(std::size_t index, double x, double y, const std::string& hint) {
  const std::string title = fmt::format("<title>{}</title>", escaped(hint));
  switch ((index + index / kColours) % 4) {
    case 0:
      return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.6">{}</circle>)", x, y, title);
    case 1:
      return fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="6.6" height="6.6">{}</rect>)",
                         x - 3.3, y - 3.3, title);
    case 2:
      return fmt::format(R"(<path d="M{:.1f} {:.1f}l4.4 7.6h-8.8z">{}</path>)", x, y - 4.8, title);
    default:
      return fmt::format(R"(<path d="M{:.1f} {:.1f}l4.6 4.6l-4.6 4.6l-4.6 -4.6z">{}</path>)", x,
                         y - 4.6, title);
  }
}

std::string path_of(const Curve& curve, const Axis& x, const Axis& y, double Point::*value,
                    const char* kind) {
  std::string points;
  for (const Point& point : curve.points)
    if (point.*value > 0)
      points += fmt::format("{}{:.1f} {:.1f}", points.empty() ? "M" : "L", x.at(point.x),
                            y.at(point.*value));
  return points.empty() ? "" : fmt::format(R"(<path class="{}" d="{}"/>)", kind, points);
}

std::string curve_svg(const Chart& chart, std::size_t index, const Axis& x, const Axis& y) {
  const Curve& curve = chart.curves[index];
  std::string svg = fmt::format(R"(<g style="{}">)", style_of(index));
  svg += path_of(curve, x, y, &Point::tail, "tail");
  svg += path_of(curve, x, y, &Point::y, "curve");
  for (const Point& point : curve.points) {
    svg += line(x.at(point.x), y.at(point.low), x.at(point.x), y.at(point.high), "interval");
    std::string hint = fmt::format(
        "{}, {}: {} ({} to {})", curve.name,
        chart.x_is_size ? size_text(static_cast<std::uint32_t>(point.x)) : tick_text(point.x),
        number_text(point.y), number_text(point.low), number_text(point.high));
    if (point.tail > 0) hint += fmt::format(", p99 {}", number_text(point.tail));
    svg += mark(index, x.at(point.x), y.at(point.y), hint);
  }
  return svg + "</g>\n";
}

std::string legend(const Chart& chart) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < chart.curves.size(); ++i)
    html += fmt::format(R"(<li style="{}"><svg width="30" height="12" aria-hidden="true">)"
                        R"(<path class="curve" d="M0 6H30"/>{}</svg> {}</li>)",
                        style_of(i), mark(i, 15, 6, ""), escaped(chart.curves[i].name));
  return html + "</ul>";
}

std::string figure(const Chart& chart, const std::string& svg, double height,
                   const std::string& below) {
  return fmt::format(
      "<figure><figcaption>{0}</figcaption>\n"
      R"(<svg viewBox="0 0 {1} {2}" role="img" aria-label="{0}">)"
      "\n{3}</svg>\n{4}</figure>\n",
      escaped(chart.title), kWidth, height, svg, below);
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string curves_svg(const Chart& chart) {
  double x_low = 1e300;
  double x_high = 0;
  double y_low = 1e300;
  double y_high = 0;
  for (const Curve& curve : chart.curves)
    for (const Point& point : curve.points) {
      x_low = std::min(x_low, point.x);
      x_high = std::max(x_high, point.x);
      y_low = std::min(y_low, point.low);
      y_high = std::max({y_high, point.high, point.tail});
    }
  const Axis x = axis_over(x_low, x_high, kLeft, kWidth - kRight, 0.04);
  const Axis y = axis_over(y_low, y_high, kHeight - kBottom, kTop, 0.05);
  std::string svg = frame(chart, x, y);
  for (std::size_t i = 0; i < chart.curves.size(); ++i) svg += curve_svg(chart, i, x, y);
  return figure(chart, svg, kHeight, legend(chart));
}

std::string bars_svg(const Chart& chart) {
  constexpr double kNames = 190;
  constexpr double kValues = 190;
  constexpr double kBar = 26;
  double most = 0;
  for (const Curve& curve : chart.curves)
    for (const Point& point : curve.points) most = std::max({most, point.y, point.tail});
  std::string svg;
  double top = 6;
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    const Point& point = chart.curves[i].points.front();
    const auto width = [&](double value) { return (kWidth - kNames - kValues) * value / most; };
    svg += text(kNames - 8, top + 14, "end", chart.curves[i].name);
    svg += fmt::format(
        R"svg(<rect style="--c:var(--c{})" x="{}" y="{}" width="{:.1f}" height="18"/>)svg",
        i % kColours, kNames, top, width(point.y));
    std::string value = number_text(point.y);
    if (point.tail > 0) {
      svg += line(kNames + width(point.tail), top - 2, kNames + width(point.tail), top + 20, "p99");
      value += fmt::format(", p99 {}", number_text(point.tail));
    }
    svg += text(kNames + std::max(width(point.y), width(point.tail)) + 8, top + 14, "start", value);
    top += kBar;
  }
  return figure(chart, svg, top + 4, "");
}

}  // namespace datperf
