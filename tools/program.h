// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the command line programs have in common: their version, and printing that survives an
// output which cannot be written (a full disk, a closed descriptor) and tells of it at the end.
// Thread safety: print() may be called by any thread, ended() by the main one.
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

/** "dattx (udapl) 2.0.0" */
inline std::string version_of(const char* program) {
  return fmt::format("{} (udapl) {}", program, UDAPL_VERSION);
}

/** Why standard output could not be written, the first time: an errno, or 0. */
inline std::atomic<int> output_error{0};

inline void note_error(bool good) {
  int none = 0;
  if (!good) output_error.compare_exchange_strong(none, errno);
}

/** As fmt::print, which throws what no thread of ours could handle better than ended(). */
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

/** What was printed is to be seen now. */
inline void flush() { note_error(std::fflush(stdout) == 0); }

/** The exit status of a program: `status`, but 1, with a line on stderr, for a success of which
 *  not every word was written. */
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
