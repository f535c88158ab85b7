// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Common code of the command line programs: their version, and printing that survives write errors
// (a full disk, a closed descriptor) and reports them at the end. Thread safety: any thread may
// call print(), only the main one ended().
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <utility>

namespace tools {

/** The text for --version, such as "dattx (udapl) 2.0.0". */
inline std::string version_of(const char* program) {
  return fmt::format("{} (udapl) {}", program, UDAPL_VERSION);
}

/** The errno of the first failed write to standard output, or 0. */
inline std::atomic<int> output_error{0};

inline void note_error(bool good) {
  int none = 0;
  if (!good) output_error.compare_exchange_strong(none, errno);
}

/** Like fmt::print, but records write errors for ended() instead of throwing. */
template <typename... Args>
void print(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  const bool good = std::fwrite(text.data(), 1, text.size(), to) == text.size();
  if (to == stdout) note_error(good);
}
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  tools::print(stdout, format, std::forward<Args>(args)...);
}

/** Flushes standard output. */
inline void flush() { note_error(std::fflush(stdout) == 0); }

/** Returns the exit status of a program: `status`. If not all output could be written, prints a
 * line on stderr and returns 1 in place of 0. */
inline int ended(const char* program, int status) {
  errno = 0;
  note_error(std::cout.flush().good());
  flush();
  if (std::ferror(stdout) == 0 && std::cout.good()) return status;
  const int error = output_error;
  std::fprintf(stderr, "%s: standard output: %s\n", program,
               error != 0 ? std::strerror(error) : "cannot be written");
  return status == 0 ? 1 : status;
}

}  // namespace tools
