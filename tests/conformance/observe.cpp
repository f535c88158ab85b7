// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "observe.h"

#undef dat_strerror

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace conformance {

namespace {

std::atomic<int> file{-1};
std::mutex lock;
std::set<std::pair<const char*, DAT_RETURN>> seen;  // since the last test ended

}  // namespace

bool observe_into(const char* path) {
  file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return file >= 0;
}

DAT_RETURN observed(const char* function, DAT_RETURN rc) {
  if (file.load(std::memory_order_relaxed) < 0) return rc;
  const std::lock_guard guard(lock);
  seen.emplace(function, DAT_GET_TYPE(rc));
  return rc;
}

void end_observed_test(const char* test) {
  if (file < 0) return;
  std::string lines;
  {
    const std::lock_guard guard(lock);
    for (const auto& [function, type] : seen) {
      const char* code = "?";
      ::dat_strerror(type, &code, nullptr);
      lines += std::string(function) + "\t" + code + "\t" + test + "\n";
    }
    seen.clear();
  }
  // One write, so that the lines of processes do not mix.
  if (::write(file, lines.data(), lines.size()) < 0) file = -1;
}

}  // namespace conformance
