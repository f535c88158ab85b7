// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "observe.h"

#undef dat_strerror

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

namespace conformance {

namespace {

std::atomic<int> file{-1};
int error = 0;
std::mutex lock;
// The codes seen since the last test ended. The size is fixed, because a test may have used up all
// memory; no test fills half of it.
std::array<std::pair<const char*, DAT_RETURN>, 512> seen;
std::size_t seen_count = 0;

}  // namespace

bool observe_into(const char* path) {
  file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return file >= 0;
}

DAT_RETURN observed(const char* function, DAT_RETURN rc) {
  if (file.load(std::memory_order_relaxed) < 0) return rc;
  const std::lock_guard guard(lock);
  const std::pair<const char*, DAT_RETURN> now(function, DAT_GET_TYPE(rc));
  const auto end = seen.begin() + seen_count;
  if (std::find(seen.begin(), end, now) == end && seen_count < seen.size())
    seen[seen_count++] = now;
  return rc;
}

void end_observed_test(const char* test) {
  if (file < 0) return;
  std::string lines;
  {
    const std::lock_guard guard(lock);
    for (std::size_t i = 0; i < seen_count; ++i) {
      const auto& [function, type] = seen[i];
      const char* code = "?";
      ::dat_strerror(type, &code, nullptr);
      lines += std::string(function) + "\t" + code + "\t" + test + "\n";
    }
    seen_count = 0;
  }
  // Use a single write, so that lines of several processes do not mix.
  errno = 0;
  if (::write(file, lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) {
    error = errno != 0 ? errno : EIO;
    file = -1;
  }
}

int observe_error() { return error; }

}  // namespace conformance
