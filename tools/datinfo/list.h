// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace datinfo {

struct ListOptions {
  std::vector<std::string> names;  // empty: all
  bool attributes = false;         // print attributes even if no name is given
  bool json = false;
  std::chrono::milliseconds limit{10000};
  std::filesystem::path sysfs = "/sys";
  std::filesystem::path dev = "/dev";
};

// Opens the entries of the dat.conf in use and prints the outcomes. Returns the exit status: 0 if
// all named entries open or, without names, if at least one entry opens; else 1.
[[nodiscard]] int list(const ListOptions& options);

}  // namespace datinfo
