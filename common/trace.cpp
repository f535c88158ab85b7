// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/trace.h"

#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include <sys/syscall.h>
#include <unistd.h>

namespace udapl::trace {

std::atomic<int> level_now{kDefaultLevel};

namespace {

std::atomic<const char*> component_name{"udapl"};

const char* level_name(Level level) noexcept {
  if (level <= kError) return "error";
  return level <= kNormal ? "normal" : "detail";
}

}  // namespace

void set_level(int level) noexcept { level_now.store(level, std::memory_order_relaxed); }

void init(const char* component, const char* variable) noexcept {
  component_name.store(component, std::memory_order_relaxed);
  const char* text = ::secure_getenv(variable);
  if (text == nullptr) return;
  const std::string_view value(text);
  int level = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), level);
  if (error != std::errc() || end != value.data() + value.size() || level < 0 || level > kMax) {
    UDAPL_TRACE(kError, "%s=\"%s\" is not a number from 0 to %d, using %d", variable, text,
                static_cast<int>(kMax), kDefaultLevel);
    return;
  }
  set_level(level);
}

void write(Level level, const char* function, const char* format, ...) noexcept {
  const int saved_errno = errno;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  ::localtime_r(&now.tv_sec, &local);

  char line[1024];
  constexpr std::size_t kRoom = sizeof line - 2;  // for the newline and snprintf's terminator
  int used = std::snprintf(line, kRoom, "%02d:%02d:%02d.%06ld %d/%ld %s %s %s: ", local.tm_hour,
                           local.tm_min, local.tm_sec, now.tv_nsec / 1000, ::getpid(),
                           ::syscall(SYS_gettid), component_name.load(std::memory_order_relaxed),
                           level_name(level), function);
  if (used < 0) used = 0;
  auto length = static_cast<std::size_t>(used);
  if (length < kRoom) {
    va_list args;
    va_start(args, format);
    const int more = std::vsnprintf(line + length, kRoom - length, format, args);
    va_end(args);
    if (more > 0) length += static_cast<std::size_t>(more);
  }
  if (length > kRoom - 1) length = kRoom - 1;
  line[length++] = '\n';
  // One write a record, so that records of several threads and processes do not mix.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, length);
  errno = saved_errno;
}

}  // namespace udapl::trace
