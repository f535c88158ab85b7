// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "common/tracing/cause.h"

#include <new>

namespace udapl::dapl {

// Runs the body of a control entry of the provider table and turns exceptions into codes, because
// no exception may leave a C function. Our code throws none of its own, but the standard library
// throws if memory runs out.
template <class Body>
[[nodiscard]] DAT_RETURN boundary(Body&& body) noexcept {
  try {
    return Status(body()).code();
  } catch (const std::bad_alloc&) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY),
                  "out of memory");
    return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
  } catch (...) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INTERNAL_ERROR), "unexpected exception");
    return dat_error(DAT_INTERNAL_ERROR);
  }
}

}  // namespace udapl::dapl
