// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/mappings.h"

#include "common/not_cancelled.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace udapl {

std::optional<bool> all_mappings(std::uint64_t address, std::uint64_t length,
                                 MappingTest pass) noexcept {
  const NotCancelled scope;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                             &std::fclose);
  if (maps == nullptr) return std::nullopt;
  // Lines are "start-end rwxs offset device inode path", in the order of addresses. The path may be
  // longer than the buffer, so only the beginning of a line is parsed.
  std::uint64_t next = address;  // first byte not yet known to pass
  const std::uint64_t last = address + (length - 1);
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
    if (start > next || !pass(rights)) return false;
    if (end > last) return true;
    next = end;
  }
  return false;
}

}  // namespace udapl
