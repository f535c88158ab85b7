// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Formats results. The functions only produce text.
#pragma once

#include "plan.h"

namespace datperf {

/** The line of a case in the table, preceded by a heading if the case starts a new section:
 * `before` is the previous case (null: none). */
[[nodiscard]] std::string table_lines(const Case* before, const Case& what,
                                      const std::vector<Row>& rows,
                                      const std::vector<std::string>& columns);

[[nodiscard]] std::string json_of(const Report& report);
[[nodiscard]] std::string csv_of(const Report& report);
/** A self-contained page with curves as SVG, and tables. */
[[nodiscard]] std::string html_of(const Report& report);

/** The unit of a value: "us" or "MB/s". */
[[nodiscard]] inline const char* unit_of(Measure measure) {
  return measure == Measure::kBandwidth ? "MB/s" : "us";
}

/** A size as text, such as "64 KiB". */
[[nodiscard]] std::string size_text(std::uint32_t bytes);

/** At least three significant digits: "1.23", "12.3", "123", "1230". */
[[nodiscard]] std::string number_text(double value);

}  // namespace datperf
