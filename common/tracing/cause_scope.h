// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "common/tracing/cause.h"

namespace udapl::cause {

// Tells whether a callee has already recorded a cause: whether this thread has noted one since the
// scope began. Only notes of this library count.
class Scope {
 public:
  Scope() noexcept;
  [[nodiscard]] bool explained() const noexcept;

 private:
  const unsigned before_;
};

}  // namespace udapl::cause

// Returns the error `status` of a callee from a function that returns Status or Result. Writes a
// trace record, and notes a cause if the callee, called within `scope`, has noted none.
#define UDAPL_PASS_ON(scope, status, ...)                                          \
  do {                                                                             \
    const ::udapl::Status passed_on = (status);                                    \
    UDAPL_TRACE_ERROR(kNormal, passed_on.code(), __VA_ARGS__);                     \
    if (!(scope).explained()) ::udapl::cause::note(passed_on.code(), __VA_ARGS__); \
    return passed_on;                                                              \
  } while (false)
