// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "machine.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <thread>

namespace datperf {

namespace {

std::string processor() {
  const std::string count = fmt::format("{} processors", std::thread::hardware_concurrency());
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos)
        return fmt::format("{}, {}", line.substr(colon + 2), count);
  return count;
}

}  // namespace

Report describe_machine() {
  Report report;
  utsname names{};
  if (::uname(&names) == 0) {
    report.host = names.nodename;
    report.kernel = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
  }
  report.processor = processor();
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&now, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  report.date = text;
  return report;
}

}  // namespace datperf
