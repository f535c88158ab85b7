// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/objects/trace_points.h"
#include "dapl/posted/cookie_ring.h"

// The trace records of posts and completions. dapl/objects/trace_points.h says how to call them.
namespace udapl::dapl::point {

// A request or receive is about to be posted to the transport. `object`: the EP or SRQ.
[[gnu::cold, gnu::noinline]] void post(const ObjectHeader& object, const Cookie& cookie,
                                       std::uint32_t flags) noexcept;
// A completion has been polled from the transport; its cookie has not been released.
[[gnu::cold, gnu::noinline]] void completion(const transport::Completion& completion,
                                             DAT_EVD_HANDLE evd) noexcept;
}  // namespace udapl::dapl::point
