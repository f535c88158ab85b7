// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "conf.h"

#include <algorithm>

namespace datinfo {

namespace {

void take(void* context, const DAT_CONF_RECORD* record) {
  Conf& conf = *static_cast<Conf*>(context);
  if (record->kind == DAT_CONF_FILE && *record->text == '\0') {
    conf.file = record->file;
  } else if (record->kind == DAT_CONF_ENTRY) {
    conf.entries.push_back({record->line, record->ia_name, record->dapl_version_major,
                            record->dapl_version_minor, record->is_thread_safe != DAT_FALSE,
                            record->library, record->ia_params});
  } else {
    conf.remarks.push_back({record->kind, record->file, record->line, record->text});
  }
}

}  // namespace

Conf read_conf(const std::optional<std::string>& path) {
  Conf conf;
  const DAT_RETURN status = dat_registry_read_conf(path ? path->c_str() : nullptr, take, &conf);
  if (status != DAT_SUCCESS && conf.remarks.empty()) {
    const char* cause = "";
    dat_last_cause(status, &cause);
    conf.remarks.push_back({DAT_CONF_ERROR, path.value_or(""), 0, cause});
  }
  return conf;
}

bool same_key(const Entry& a, const Entry& b) {
  return a.ia_name == b.ia_name && a.major == b.major && a.minor == b.minor &&
         a.thread_safe == b.thread_safe;
}

std::vector<Entry> unique_keys(const std::vector<Entry>& entries) {
  std::vector<Entry> unique;
  for (const Entry& entry : entries)
    if (std::none_of(unique.begin(), unique.end(),
                     [&](const Entry& other) { return same_key(entry, other); }))
      unique.push_back(entry);
  return unique;
}

}  // namespace datinfo
