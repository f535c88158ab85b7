// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>
#include <string_view>
#include <vector>

// The trace settings of the environment (docs/tracing.md). No state; pure, so that tests can pass
// their own environment.
namespace udapl::trace {

// Where records go, or-ed together.
enum Sink : unsigned { kStderr = 1, kStdout = 2, kSyslog = 4, kFile = 8 };

struct Settings {
  int level;
  unsigned sinks = kStderr;
  std::string path;                     // of kFile
  std::vector<std::string> complaints;  // what was wrong and what is done instead, one line each
};

// The value of a variable, or null.
using Environment = const char* (*)(const char* name);

// REQUIRES: `prefix` is "DAT" or "DAPL". The variables:
//   <prefix>_TRACE_LEVEL   0 to 10
//   <prefix>_TRACE_SINK    stderr, stdout, syslog, file:PATH ("%p" in it: the process id), or
//                          several, separated by commas; default for DAPL: that of DAT
//   <prefix>_DBG_TYPE, _DBG_LEVEL, _DBG_DEST   as in the libraries before this one, if the new
//                          ones are not set
[[nodiscard]] Settings read_settings(std::string_view prefix, Environment environment);

}  // namespace udapl::trace
