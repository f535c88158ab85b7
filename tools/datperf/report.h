// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How results are shown. The functions only make text.
#pragma once

#include "plan.h"

namespace datperf {

/** The heading of a section of the table if `what` is of another one than `before` (null: none),
 *  and the line of the case. */
[[nodiscard]] std::string table_lines(const Case* before, const Case& what,
                                      const std::vector<Row>& rows,
                                      const std::vector<std::string>& columns);

[[nodiscard]] std::string json_of(const Report& report);
[[nodiscard]] std::string csv_of(const Report& report);
/** A page that needs nothing else: curves as SVG, and tables. */
[[nodiscard]] std::string html_of(const Report& report);

/** "us" or "MB/s" */
[[nodiscard]] inline const char* unit_of(Measure measure) {
  return measure == Measure::kBandwidth ? "MB/s" : "us";
}

/** "64 KiB" */
[[nodiscard]] std::string size_text(std::uint32_t bytes);

/** Three digits that count: "1.23", "12.3", "123", "1230". */
[[nodiscard]] std::string number_text(double value);

}  // namespace datperf
