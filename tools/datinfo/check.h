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

// What is wrong with a dat.conf or may surprise somebody, in file order. Errors: lines that are
// dropped, a file without entries. Warnings: entries that cannot work on this machine, whose RDMA
// devices are below `sysfs`. A library that is named by its path is looked at and not loaded; one
// that the dynamic linker has to find is loaded, in a process of its own. Nothing is opened:
// whether an entry opens is datinfo list's question.
[[nodiscard]] std::vector<Finding> check(const Conf& conf, const std::filesystem::path& sysfs);

// Prints findings, and a last line that counts; as JSON if so asked. The exit status: 1 if there
// are errors, else 0.
[[nodiscard]] int print_check(const Conf& conf, const std::vector<Finding>& findings, bool json);

}  // namespace datinfo
