// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include <sys/stat.h>

namespace udapl::trace {

// A place that records are written to: stderr, a file, the system's log. Whatever state it is in,
// the caller does not wait and gets no signal: what cannot be written is counted, and the next
// record that can be is preceded by one that tells the number. Thread-safe without locks; errno is
// not preserved.
class Output {
 public:
  constexpr Output() noexcept = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Whole lines. Longer than PIPE_BUF: in pieces, which records of others may separate.
  void write(int fd, std::string_view lines) noexcept;
  // Only as long as `fd` is the file that it was: programs close descriptors that are not theirs,
  // and the number is then another file's.
  void write_to(int fd, const struct stat& file, std::string_view lines) noexcept;
  // One line to the system's log at the socket `path`, as syslog(3) does, but without waiting.
  void log(int socket, const char* path, int priority, std::string_view line) noexcept;

 private:
  void write_checked(int fd, mode_t mode, std::string_view lines) noexcept;
  void put(int fd, mode_t mode, std::string_view piece) noexcept;
  void lose(unsigned count) noexcept { lost_.fetch_add(count, std::memory_order_relaxed); }

  std::atomic<unsigned> lost_{0};
  std::atomic<bool> cut_{false};  // the last line has no end
};

}  // namespace udapl::trace
