// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include <sys/stat.h>

namespace udapl::trace {

// A sink of records: stderr, a file, the system's log. The caller never waits and gets no signal,
// whatever the state of the sink: records that cannot be written are counted, and the next one that
// can be written is preceded by a record with their number. Thread-safe without locks; errno is not
// preserved.
class Output {
 public:
  constexpr Output() noexcept = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Writes whole lines. If longer than PIPE_BUF, they are written in pieces, between which other
  // records may appear.
  void write(int fd, std::string_view lines) noexcept;
  // Like write(), but only while `fd` is still this file: programs close descriptors that they do
  // not own, and the number may then refer to another file.
  void write_to(int fd, const struct stat& file, std::string_view lines) noexcept;
  // Writes one line to the system's log at the socket `path` like syslog(3), but without waiting.
  void log(int socket, const char* path, int priority, std::string_view line) noexcept;

 private:
  void write_checked(int fd, mode_t mode, std::string_view lines) noexcept;
  void put(int fd, mode_t mode, std::string_view piece) noexcept;
  void count_lost(unsigned count) noexcept { lost_.fetch_add(count, std::memory_order_relaxed); }

  std::atomic<unsigned> lost_{0};
  std::atomic<bool> cut_{false};  // the last line lacks its end
};

}  // namespace udapl::trace
