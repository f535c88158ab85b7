// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The HTML page: each matrix is drawn as squares, coloured by the logarithm of the value.
#include "report.h"

#include "../datperf/chart.h"
#include "../program.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace datmesh {

namespace {

using datperf::escaped;

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5b6570; --line: #d9dee3; --back: #fff }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #a2adb8; --line: #39424c; --back: #15191d } }
body { margin: 2rem auto; max-width: 84rem; padding: 0 1rem; color: var(--ink);
  background: var(--back); font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .3rem } p { margin: .4rem 0; overflow-wrap: anywhere }
pre { font-size: 13px; overflow-x: auto } .soft { color: var(--soft) }
.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr));
  gap: 2rem; align-items: start }
figure { margin: 0 } figcaption { font-weight: 600; margin-bottom: .4rem }
svg { width: 100%; height: auto; display: block }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif }
svg .host { stroke: var(--back); stroke-width: 1.4 } svg rect { shape-rendering: crispEdges }
svg .failed { fill: #e00b2c }
)";

// A scale from dark to light in perceptually even steps.
constexpr std::array<std::array<double, 3>, 5> kScale{
    {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};

std::string colour(double fraction) {
  const double place = std::clamp(fraction, 0.0, 1.0) * (kScale.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(place), kScale.size() - 2);
  std::array<int, 3> rgb{};
  for (std::size_t i = 0; i < 3; ++i)
    rgb[i] = static_cast<int>(kScale[low][i] + (kScale[low + 1][i] - kScale[low][i]) *
                                                   (place - static_cast<double>(low)));
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

// A matrix. Value 0: nothing was measured; below 0: the link failed.
struct Map {
  std::string title;
  std::string unit;
  std::vector<std::vector<double>> values;
  double low = 1e300;
  double high = 0;
};

Map map_of(const Mesh& mesh, const char* title, const char* unit, double Link::*value) {
  Map map{title, unit, {}};
  for (const Rank& rank : mesh.ranks) {
    std::vector<double>& row = map.values.emplace_back();
    for (const Link& link : rank.links) {
      row.push_back(link.problem.empty() ? link.*value : -1);
      if (row.back() <= 0) continue;
      map.low = std::min(map.low, row.back());
      map.high = std::max(map.high, row.back());
    }
  }
  return map;
}

constexpr double kLeft = 74;
constexpr double kTop = 22;
constexpr double kSide = 540;

// The name of each host at its first rank, and lines between the hosts.
std::string hosts_svg(const Mesh& mesh, double cell) {
  std::string svg;
  const std::size_t count = mesh.ranks.size();
  double last = -100;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && mesh.ranks[i].host == mesh.ranks[i - 1].host) continue;
    const double at = cell * static_cast<double>(i);
    if (i > 0)
      svg += fmt::format(R"(<path class="host" d="M{0:.1f} {1}V{2}M{3} {4:.1f}H{5}"/>)", kLeft + at,
                         kTop, kTop + kSide, kLeft, kTop + at, kLeft + kSide);
    if (at - last < 13) continue;
    last = at;
    const std::string name = escaped(mesh.ranks[i].host.substr(0, 10));
    svg += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 6,
                       kTop + at + 11, name);
    if (cell * 8 > 50 || count <= 8)
      svg += fmt::format(R"(<text x="{:.1f}" y="{}">{}</text>)", kLeft + at + 2, kTop - 6, name);
  }
  return svg;
}

std::string scale_svg(const Map& map) {
  const double y = kTop + kSide + 16;
  std::string svg;
  for (int i = 0; i < 50; ++i)
    svg += fmt::format(R"(<rect x="{:.1f}" y="{}" width="6.1" height="12" fill="{}"/>)",
                       kLeft + 6 * i, y, colour(i / 49.0));
  svg += fmt::format(R"(<text x="{}" y="{}">{:.4g}</text>)", kLeft, y + 25, map.low);
  svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">{:.4g}</text>)", kLeft + 150,
                     y + 25, std::sqrt(map.low * map.high));
  svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{:.4g} {}</text>)", kLeft + 320,
                     y + 25, map.high, map.unit);
  svg +=
      fmt::format(R"(<rect class="failed" x="{}" y="{}" width="12" height="12"/>)", kLeft + 400, y);
  return svg + fmt::format(R"(<text x="{}" y="{}">failed</text>)", kLeft + 418, y + 10);
}

std::string map_svg(const Mesh& mesh, const Map& map) {
  const double cell = kSide / static_cast<double>(map.values.size());
  const double range = std::max(std::log(map.high / map.low), 1e-9);
  std::string svg;
  for (std::size_t from = 0; from < map.values.size(); ++from)
    for (std::size_t to = 0; to < map.values.size(); ++to) {
      const double value = map.values[from][to];
      if (value == 0) continue;
      const std::string kind =
          value < 0 ? R"(class="failed")"
                    : fmt::format(R"(fill="{}")", colour(std::log(value / map.low) / range));
      svg += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.2f}" height="{:.2f}" {}/>)",
                         kLeft + cell * static_cast<double>(to),
                         kTop + cell * static_cast<double>(from), cell, cell, kind);
    }
  svg += hosts_svg(mesh, cell) + scale_svg(map);
  return fmt::format(
      "<figure><figcaption>{0}</figcaption>\n"
      R"(<svg viewBox="0 0 {1} {2}" role="img" aria-label="{0}">)"
      "\n{3}</svg></figure>\n",
      escaped(map.title), kLeft + kSide + 6, kTop + kSide + 48, svg);
}

}  // namespace

std::string html_of(const Mesh& mesh) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>datmesh, {0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>A mesh of DAT</h1>\n"
      "<p class=\"soft\">{2}, {0}, {3}</p>\n<pre>{4}</pre>\n<div class=\"maps\">\n",
      escaped(mesh.date), kStyle, escaped(tools::version_of("datmesh")), escaped(mesh.command),
      escaped(text_of(mesh)));
  html +=
      map_svg(mesh, map_of(mesh, "RDMA Writes, MB/s: row writes to column", "MB/s", &Link::rate));
  html += map_svg(mesh, map_of(mesh, "Set-up of a connection, \u00b5s: row asks column", "\u00b5s",
                               &Link::setup_us));
  return html + "</div>\n</body>\n</html>\n";
}

}  // namespace datmesh
