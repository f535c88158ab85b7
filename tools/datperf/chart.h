// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Drawings as SVG for a page whose style sheet defines the classes and --c0 to --c7, the colours of
// curves.
#pragma once

#include <string>
#include <vector>

namespace datperf {

struct Point {
  double x = 0;
  double y = 0;
  double low = 0;  // where y lies
  double high = 0;
  double tail = 0;  // the 99th percentile; 0: none
};

struct Curve {
  std::string name;
  std::vector<Point> points;  // by x
};

/** All values are greater than 0: both axes are logarithmic. */
struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool x_is_size = false;  // of bytes
  std::vector<Curve> curves;
};

[[nodiscard]] std::string curves_svg(const Chart& chart);
/** For curves of one point: bars from 0. */
[[nodiscard]] std::string bars_svg(const Chart& chart);

/** For HTML and SVG. */
[[nodiscard]] std::string escaped(const std::string& text);

}  // namespace datperf
