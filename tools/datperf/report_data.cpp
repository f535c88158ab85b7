// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Reports for other programs: JSON and CSV.
#include "../json.h"
#include "../program.h"
#include "report.h"

namespace datperf {

namespace {

using tools::Json;

std::string digits(double value) { return fmt::format("{:.6g}", value); }

void field(Json& json, const char* name, double value) { json.key(name).word(digits(value)); }

void add_row(Json& json, const Row& row) {
  const Case& what = row.what;
  json.open('{');
  json.key("column").text(row.column);
  json.key("measure").text(name_of(what.measure));
  json.key("operation").text(what.operation_name());
  json.key("waiting").text(name_of(what.waiting));
  if (what.measure != Measure::kConnections) {
    json.key("bytes").number(what.size);
    json.key("window").number(what.window);
  }
  json.key("endpoints").number(what.endpoints);
  json.key("threads").number(what.threads);
  json.key("unit").text(unit_of(what.measure));
  json.key("operations").number(row.operations);
  field(json, "minimum", row.value.minimum);
  field(json, "median", row.value.median);
  field(json, "p99", row.value.p99);
  field(json, "maximum", row.value.maximum);
  field(json, "median_low", row.interval.low);
  field(json, "median_high", row.interval.high);
  field(json, "confidence", row.interval.level);
  field(json, "per_second", row.per_second);
  json.key("rounds").open('[');
  for (const double value : row.rounds) json.word(digits(value));
  json.close(']').close('}');
}

// Quotes a CSV field as in RFC 4180.
std::string in_quotes(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace

std::string json_of(const Report& report) {
  Json json;
  json.open('{');
  json.key("program").text(tools::version_of("datperf"));
  json.key("command").text(report.command);
  json.key("date").text(report.date);
  json.key("host").text(report.host);
  json.key("kernel").text(report.kernel);
  json.key("processor").text(report.processor);
  json.key("rounds").number(report.effort.rounds);
  json.key("rows").open('[');
  for (const Row& row : report.rows) add_row(json, row);
  json.close(']').close('}');
  return json.result() + "\n";
}

std::string csv_of(const Report& report) {
  std::string csv =
      "column,measure,operation,waiting,bytes,window,endpoints,threads,unit,operations,minimum,"
      "median,p99,maximum,median_low,median_high,confidence,per_second\n";
  for (const Row& row : report.rows) {
    const Case& what = row.what;
    const bool transfers = what.measure != Measure::kConnections;
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{},", in_quotes(row.column),
                       name_of(what.measure), what.operation_name(), name_of(what.waiting),
                       transfers ? std::to_string(what.size) : "",
                       transfers ? std::to_string(what.window) : "", what.endpoints, what.threads,
                       unit_of(what.measure), row.operations);
    csv += fmt::format("{},{},{},{},{},{},{},{}\n", digits(row.value.minimum),
                       digits(row.value.median), digits(row.value.p99), digits(row.value.maximum),
                       digits(row.interval.low), digits(row.interval.high),
                       digits(row.interval.level), digits(row.per_second));
  }
  return csv;
}

}  // namespace datperf
