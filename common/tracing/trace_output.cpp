// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/tracing/trace_output.h"

#include <climits>
#include <cstdio>
#include <cstring>

#include "common/nonblocking/system_log.h"
#include "common/nonblocking/write_now.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_sink.h"

namespace udapl::trace {

namespace {

constexpr std::size_t kNotice = 256;
constexpr std::size_t kPiece = PIPE_BUF - kNotice;  // so that it goes out whole with its notice

std::size_t render_notice(unsigned lost, char* line) noexcept {
  char text[96];
  std::snprintf(text, sizeof text, "%u record%s before this one could not be written here", lost,
                lost == 1 ? "" : "s");
  return render({.level = kError, .component = component(), .function = "trace", .text = text},
                line, kNotice - 1);
}

// As much of `lines` as fits into a piece, if possible up to the end of a line.
std::size_t piece_length(std::string_view lines) noexcept {
  if (lines.size() <= kPiece) return lines.size();
  const std::size_t end = lines.rfind('\n', kPiece - 1);
  return end == std::string_view::npos ? kPiece : end + 1;
}

}  // namespace

void Output::write(int fd, std::string_view lines) noexcept {
  struct stat now {};
  if (::fstat(fd, &now) != 0) return count_lost(1);
  write_checked(fd, now.st_mode, lines);
}

void Output::write_to(int fd, const struct stat& file, std::string_view lines) noexcept {
  struct stat now {};
  if (::fstat(fd, &now) != 0 || now.st_dev != file.st_dev || now.st_ino != file.st_ino)
    return count_lost(1);
  write_checked(fd, now.st_mode, lines);
}

void Output::write_checked(int fd, mode_t mode, std::string_view lines) noexcept {
  while (!lines.empty()) {
    const std::size_t length = piece_length(lines);
    put(fd, mode, lines.substr(0, length));
    lines.remove_prefix(length);
  }
}

void Output::put(int fd, mode_t mode, std::string_view piece) noexcept {
  char text[PIPE_BUF];
  std::size_t length = 0;
  const bool cut = cut_.exchange(false, std::memory_order_relaxed);
  if (cut) text[length++] = '\n';
  const unsigned lost = lost_.exchange(0, std::memory_order_relaxed);
  if (lost != 0) length += render_notice(lost, text + length);
  std::memcpy(text + length, piece.data(), piece.size());
  length += piece.size();
  const ssize_t written = write_now(fd, mode, text, length);
  if (written == static_cast<ssize_t>(length)) return;
  count_lost(lost + 1);
  if (written > 0 || cut) cut_.store(true, std::memory_order_relaxed);
}

void Output::log(int socket, const char* path, int priority, std::string_view line) noexcept {
  const unsigned lost = lost_.exchange(0, std::memory_order_relaxed);
  if (lost != 0) {
    char notice[kNotice];
    const std::size_t length = render_notice(lost, notice);
    if (!write_to_log(socket, path, priority, {notice, length})) return count_lost(lost + 1);
  }
  if (!write_to_log(socket, path, priority, line)) count_lost(1);
}

}  // namespace udapl::trace
