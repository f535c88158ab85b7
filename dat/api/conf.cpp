// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/conf.h"

#include <dat/dat_diagnosis_extensions.h>

#include "common/tracing/cause.h"
#include "dat/api/boundary.h"
#include "dat/api/forward.h"
#include "dat/conf_file.h"

using namespace udapl;
using namespace udapl::dat;

namespace {

DAT_CONF_RECORD blank_record(DAT_CONF_KIND kind, const std::string& file, std::size_t line) {
  DAT_CONF_RECORD record{};
  record.kind = kind;
  record.file = file.c_str();
  record.line = static_cast<DAT_UINT32>(line);
  record.text = record.ia_name = record.library = "";
  record.provider_version = record.ia_params = record.platform_params = "";
  return record;
}

DAT_CONF_RECORD record_of(const ConfEntry& entry, const std::string& file) {
  DAT_CONF_RECORD record = blank_record(DAT_CONF_ENTRY, file, entry.line);
  record.ia_name = entry.ia_name.c_str();
  record.dapl_version_major = entry.major;
  record.dapl_version_minor = entry.minor;
  record.is_thread_safe = entry.thread_safe ? DAT_TRUE : DAT_FALSE;
  record.library = entry.library_path.c_str();
  record.provider_version = entry.provider_version.c_str();
  record.ia_params = entry.ia_params.c_str();
  record.platform_params = entry.platform_params.c_str();
  return record;
}

DAT_CONF_RECORD record_of(const ConfDiagnostic& diagnostic, const std::string& file) {
  DAT_CONF_KIND kind = DAT_CONF_ERROR;
  if (diagnostic.issue == ConfIssue::kSkipped) kind = DAT_CONF_UNUSED;
  if (diagnostic.issue == ConfIssue::kTolerated) kind = DAT_CONF_REMARK;
  DAT_CONF_RECORD record = blank_record(kind, file, diagnostic.line);
  record.text = diagnostic.reason.c_str();
  record.ia_name = diagnostic.ia_name.c_str();
  return record;
}

void visit_lines(const ConfFile& read, DAT_CONF_VISITOR visit, void* context) {
  const std::string& path = *read.path();
  auto diagnostic = read.conf.diagnostics.begin();
  const auto end = read.conf.diagnostics.end();
  for (const ConfEntry& entry : read.conf.entries) {
    for (; diagnostic != end && diagnostic->line <= entry.line; ++diagnostic) {
      const DAT_CONF_RECORD record = record_of(*diagnostic, path);
      visit(context, &record);
    }
    const DAT_CONF_RECORD record = record_of(entry, path);
    visit(context, &record);
  }
  for (; diagnostic != end; ++diagnostic) {
    const DAT_CONF_RECORD record = record_of(*diagnostic, path);
    visit(context, &record);
  }
}

}  // namespace

extern "C" {

UDAPL_API DAT_RETURN dat_registry_read_conf(const char* file, DAT_CONF_VISITOR visit,
                                            void* context) {
  return boundary([&]() -> DAT_RETURN {
    if (visit == nullptr) {
      UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2), "no visitor");
      return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    }
    const ConfFile read = file == nullptr ? read_configuration() : read_conf_file({file});
    for (const ConfAttempt& attempt : read.attempts) {
      DAT_CONF_RECORD record = blank_record(DAT_CONF_FILE, attempt.path, 0);
      record.text = attempt.failure.c_str();
      visit(context, &record);
    }
    if (read.path() != nullptr) {
      visit_lines(read, visit, context);
      return DAT_SUCCESS;
    }
    UDAPL_EXPLAIN(kNormal, dat_error(DAT_PROVIDER_NOT_FOUND), "%s: %s",
                  read.attempts.back().path.c_str(), read.attempts.back().failure.c_str());
    return dat_error(DAT_PROVIDER_NOT_FOUND);
  });
}

}  // extern "C"
