// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_diagnosis_extensions.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace datinfo {

// A line of dat.conf that can be opened.
struct Entry {
  std::uint32_t line = 0;
  std::string ia_name;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool thread_safe = false;
  std::string library;
  std::string ia_params;
};

// What is to be said about a file or one of its lines.
struct Remark {
  DAT_CONF_KIND kind = DAT_CONF_ERROR;
  std::string file;
  std::uint32_t line = 0;  // 0: the whole file
  std::string text;
};

// A dat.conf as the library reads it. No state; not thread safe as a whole.
struct Conf {
  std::string file;  // the one that was read; empty: none
  std::vector<Entry> entries;
  std::vector<Remark> remarks;  // in file order
};

// The file of that path, or the one that a program with this environment uses.
[[nodiscard]] Conf read_conf(const std::optional<std::string>& path);

// Entries that mean the same to dat_ia_openv(): name, version and thread safety are equal.
[[nodiscard]] bool same_key(const Entry& a, const Entry& b);
// The entries without those that only repeat an earlier key.
[[nodiscard]] std::vector<Entry> unique_keys(const std::vector<Entry>& entries);

}  // namespace datinfo
