// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_diagnosis_extensions.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace datinfo {

// A valid line of dat.conf.
struct Entry {
  std::uint32_t line = 0;
  std::string ia_name;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool thread_safe = false;
  std::string library;
  std::string ia_params;
};

// A remark about a file or one of its lines.
struct Remark {
  DAT_CONF_KIND kind = DAT_CONF_ERROR;
  std::string file;
  std::uint32_t line = 0;  // 0: the whole file
  std::string text;
};

// A dat.conf as the library reads it. Plain data, not thread-safe.
struct Conf {
  std::string file;  // the file that was read; empty if none
  std::vector<Entry> entries;
  std::vector<Remark> remarks;  // in file order
};

// Reads the file at `path`, or the one that a program with this environment would use.
[[nodiscard]] Conf read_conf(const std::optional<std::string>& path);

// Whether two entries are the same to dat_ia_openv(): equal name, version and thread safety.
[[nodiscard]] bool same_key(const Entry& a, const Entry& b);
// The entries, without those that repeat an earlier key.
[[nodiscard]] std::vector<Entry> unique_keys(const std::vector<Entry>& entries);

}  // namespace datinfo
