// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/resource.h>

namespace udapl::test {

// What this process has used so far.
inline double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace udapl::test
