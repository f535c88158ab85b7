// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "conf.h"

namespace datinfo {

enum class Severity { kError, kWarning, kRemark };

struct Finding {
  Severity severity = Severity::kError;
  std::string file;
  std::uint32_t line = 0;  // 0: the whole file
  std::string text;
};

// Returns what is wrong with a dat.conf or may be surprising, in file order. Errors: lines that are
// dropped, wrong settings, entries without a library, a file without entries. Warnings: entries
// that cannot work on this machine, whose RDMA devices are listed below `sysfs`. A library given as
// a path is examined but not loaded; one that the dynamic linker has to find is loaded in a child
// process. No adapter is opened: `datinfo list` does that.
[[nodiscard]] std::vector<Finding> check(const Conf& conf, const std::filesystem::path& sysfs);

// Prints the findings and a final line with their number, or JSON. Returns the exit status: 1 if
// there are errors, else 0.
[[nodiscard]] int print_check(const Conf& conf, const std::vector<Finding>& findings, bool json);

}  // namespace datinfo
