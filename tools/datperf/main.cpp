// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// datperf - measures DAT between two processes: latency, bandwidth, message rate and connection
// set-up. Prints a table, JSON, CSV, or a page with curves.
#include "../program.h"
#include "both.h"
#include "machine.h"
#include "measure.h"
#include "options.h"
#include "report.h"
#include "server.h"

#include <unistd.h>

#include <fstream>

namespace {

using namespace datperf;

// Shows progress such as "3/20" on a terminal, if standard output goes elsewhere.
void show_progress(std::size_t done, std::size_t all) {
  if (::isatty(STDERR_FILENO) != 0 && ::isatty(STDOUT_FILENO) == 0)
    tools::print(stderr, "\r{}/{}{}", done, all, done == all ? "\n" : "");
}

bool save(const std::string& name, const std::string& text) {
  if (name.empty()) return true;
  if (name == "-") {
    tools::print("{}", text);
    return true;
  }
  errno = 0;
  std::ofstream file(name, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return true;
  tools::print(stderr, "datperf: {}: {}\n", name, std::strerror(errno != 0 ? errno : EIO));
  return false;
}

// Whether a report can be written there; if not, says why.
bool is_writable(const std::string& name) {
  errno = 0;
  if (name.empty() || name == "-" || std::ofstream(name, std::ios::app)) return true;
  tools::print(stderr, "datperf: {}: {}\n", name, std::strerror(errno != 0 ? errno : EIO));
  return false;
}

int run_client(const Options& options, const std::string& command) {
  for (const std::string& name : {options.json, options.csv, options.html})
    if (!is_writable(name)) return 1;  // before anything is measured
  const Plan& plan = options.plan;
  Report report = describe_machine();
  report.command = command;
  report.effort = plan.effort;
  report.columns = columns_of(plan);
  const bool table = options.json != "-" && options.csv != "-";
  std::optional<Case> before;
  std::size_t done = 0;
  measure_all(plan, [&](const Case& what, const std::vector<Row>& rows) {
    if (table) {
      tools::print("{}", table_lines(before ? &*before : nullptr, what, rows, report.columns));
      tools::flush();
    }
    before = what;
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
    show_progress(++done, plan.cases.size());
  });
  const bool saved = save(options.json, options.json.empty() ? "" : json_of(report)) &&
                     save(options.csv, options.csv.empty() ? "" : csv_of(report)) &&
                     save(options.html, options.html.empty() ? "" : html_of(report));
  return saved ? 0 : 1;
}

int run(const Options& options, const std::string& command) {
  if (options.command == Command::kServer) return serve(options.plan, options.clients, [] {});
  if (options.command == Command::kClient) return run_client(options, command);
  return with_own_server(options.plan, [&] { return run_client(options, command); });
}

}  // namespace

int main(int argc, char** argv) {
  std::string command = "datperf";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  int status = 0;
  try {
    if (const std::optional<Options> options = parse(argc, argv, status))
      status = run(*options, command);
  } catch (const std::exception& error) {
    tools::flush();
    tools::print(stderr, "datperf: {}\n", error.what());
    status = 1;
  }
  return tools::ended("datperf", status);
}
