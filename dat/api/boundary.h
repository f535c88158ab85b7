// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cxxabi.h>

#include <new>

#include "common/not_cancelled.h"
#include "common/result.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "dat/api/forward.h"
#include "dat/api/instance.h"

namespace udapl::dat {

// Thrown by a body if a resource is temporarily exhausted and the cause was noted. The function
// returns INSUFFICIENT_RESOURCES.
struct ResourcesExhausted {};

// Runs the body of an API function that may allocate. No exception of ours leaves it, but the
// exception by which GCC implements pthread_exit must. Traces the call and its return under the
// name of the calling function.
template <class Body>
DAT_RETURN boundary(Body&& body, const char* function = __builtin_FUNCTION()) {
  const NotCancelled scope;
  ensure_tracing();
  try {
    if (!trace::enabled(trace::kCalls)) [[likely]]
      return body();
    trace_call(function, DAT_HANDLE_NULL);
    return trace_return(function, DAT_HANDLE_NULL, body());
  } catch (const std::bad_alloc&) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
                  "out of memory");
    return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  } catch (const ResourcesExhausted&) {
    return dat_error(DAT_INSUFFICIENT_RESOURCES);
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INTERNAL_ERROR), "unexpected exception");
    return dat_error(DAT_INTERNAL_ERROR);
  }
}

}  // namespace udapl::dat
