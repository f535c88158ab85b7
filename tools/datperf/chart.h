// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// SVG charts, for a page whose style sheet defines the classes and the colours of curves, --c0 to
// --c7.
#pragma once

#include <string>
#include <vector>

namespace datperf {

struct Point {
  double x = 0;
  double y = 0;
  double low = 0;  // the interval of y
  double high = 0;
  double tail = 0;  // the 99th percentile; 0: none
};

struct Curve {
  std::string name;
  std::vector<Point> points;  // sorted by x
};

/** All values must be greater than 0, because both axes are logarithmic. */
struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool x_is_size = false;  // x is in bytes
  std::vector<Curve> curves;
};

[[nodiscard]] std::string curves_svg(const Chart& chart);
/** A bar chart from 0, for curves with a single point. */
[[nodiscard]] std::string bars_svg(const Chart& chart);

/** Escapes a text for HTML and SVG. */
[[nodiscard]] std::string escaped(const std::string& text);

}  // namespace datperf
