// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/memory/shared_mapping.h"

#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/tracing/trace.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace udapl::dapl {

bool is_shared_mapping(DAT_VADDR address, DAT_VLEN length) noexcept {
  const NotCancelled scope;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                             &std::fclose);
  if (maps == nullptr) {
    UDAPL_TRACE(kError, "/proc/self/maps: %s", ErrnoText(errno).c_str());
    return false;
  }
  // Lines are "start-end rwxs offset device inode path", in the order of addresses. The path may be
  // longer than the buffer, so only the beginning of a line is parsed.
  DAT_VADDR next = address;  // first byte not yet known to be shared
  const DAT_VADDR last = address + (length - 1);
  char line[256];
  bool at_start = true;
  while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
    const bool begins = at_start;
    at_start = std::strchr(line, '\n') != nullptr;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    char rights[5] = "";
    if (!begins || std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, rights) != 3)
      continue;
    if (end <= next) continue;
    if (start > next || rights[3] != 's') return false;
    if (end > last) return true;
    next = end;
  }
  return false;
}

}  // namespace udapl::dapl
