// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/tracing/cause.h"

#include "common/tracing/refusal.h"

#include <dat/dat_diagnosis_extensions.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

// Null if the registry is not ours.
#pragma weak dats_set_last_cause

namespace udapl::cause {

void note(DAT_RETURN code, const char* format, ...) noexcept {
  DAT_RETURN (*const set)(DAT_RETURN, const char*) = &::dats_set_last_cause;
  if (set == nullptr && !trace::Refusal::wants_reason()) return;
  const int saved_errno = errno;
  char text[1024];
  va_list args;
  va_start(args, format);
  const int length = std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (length >= 0) {
    trace::Refusal::set_reason(text);
    if (set != nullptr) set(code, text);
  }
  errno = saved_errno;
}

const char* remedy(int error) noexcept {
  switch (error) {
    case EMFILE:
      return "\ntry: a higher limit of open files for this process (ulimit -n)";
    case ENFILE:
      return "\ntry: a higher limit of open files for this machine (sysctl fs.file-max)";
    case EAGAIN:
      return "\ntry: higher limits of processes and threads (ulimit -u), or of the container "
             "(of RDMA objects: rdma.max of its cgroup)";
    case ENOMEM:
      return "\ntry: higher limits of memory (ulimit -v, and -l for locked memory), or of the "
             "container";
    case EADDRINUSE:
      return "\ntry: another connection qualifier; `ss -tanp` shows which program uses it";
    case EACCES:
    case EPERM:
      return "\ntry: as a user who has the permission, or have it granted";
    default:
      return "";
  }
}

}  // namespace udapl::cause
