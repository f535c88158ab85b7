// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

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
// dropped, a file without entries. Warnings: entries that cannot work on this machine. Nothing is
// loaded; whether an entry opens is datinfo list's question.
[[nodiscard]] std::vector<Finding> check(const Conf& conf);

// Prints findings, and a last line that counts; as JSON if so asked. The exit status: 1 if there
// are errors, else 0.
[[nodiscard]] int print_check(const Conf& conf, const std::vector<Finding>& findings, bool json);

}  // namespace datinfo
