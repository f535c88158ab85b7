// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Any text as environment variables for tracing, one "NAME=value" per line: the result must keep
// the promises of trace_settings.h.
#include "common/tracing/trace_settings.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "common/tracing/trace.h"

namespace {

std::map<std::string, std::string> variables;

const char* value(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace udapl::trace;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  variables.clear();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : line.size());
    if (const std::size_t equals = line.find('='); equals != std::string_view::npos)
      variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  for (const char* const prefix : {"DAT", "DAPL"}) {
    const Settings settings = read_settings(prefix, value);
    require(settings.level >= 0 && settings.level <= kMax);
    require(settings.sinks != 0 && settings.sinks <= (kStderr | kStdout | kSyslog | kFile));
    require(settings.path.empty() == ((settings.sinks & kFile) == 0));
    for (const std::string& complaint : settings.complaints)
      require(complaint.find("_TRACE_") != std::string::npos ||
              complaint.find("_DBG_") != std::string::npos);
  }
  return 0;
}
