// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "common/tracing/cause.h"

namespace udapl::cause {

// For who asks somebody that knows more: has this thread noted a cause since the scope began? Only
// notes of this library count.
class Scope {
 public:
  Scope() noexcept;
  [[nodiscard]] bool explained() const noexcept;

 private:
  const unsigned before_;
};

}  // namespace udapl::cause

// Leaves a function that returns Status or Result with the error `status` of the one that was asked
// within `scope`. Says so in a trace record, and as the cause if that one gave none.
#define UDAPL_PASS_ON(scope, status, ...)                                          \
  do {                                                                             \
    const ::udapl::Status passed_on = (status);                                    \
    UDAPL_TRACE_ERROR(kNormal, passed_on.code(), __VA_ARGS__);                     \
    if (!(scope).explained()) ::udapl::cause::note(passed_on.code(), __VA_ARGS__); \
    return passed_on;                                                              \
  } while (false)
