// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/tracing/trace.h"
#include "dapl/objects/ep_state.h"
#include "dapl/objects/object.h"
#include "dapl/transport/cm.h"
#include "dapl/transport/types.h"

// The trace records of the provider core. Call each only if trace::enabled(): they are cold and out
// of line, so that a disabled point costs a load and a branch.
namespace udapl::dapl {

// For trace::set_describe: what a handle is, including a freed or invalid one.
[[nodiscard]] trace::Identity identify(const void* object) noexcept;

namespace point {

[[gnu::cold, gnu::noinline]] void state(const ObjectHeader& ep, EpInput why, DAT_EP_STATE from,
                                        DAT_EP_STATE to) noexcept;
// An event of a connection or a connection request. `object`: the EP, or the service point.
[[gnu::cold, gnu::noinline]] void connection(const ObjectHeader& object, DAT_EVENT_NUMBER number,
                                             const transport::Endpoints& ends,
                                             transport::PrivateData data) noexcept;
[[gnu::cold, gnu::noinline]] void arm(const ObjectHeader& object, const char* what) noexcept;
[[gnu::cold, gnu::noinline]] void wake(const ObjectHeader& object, const char* why) noexcept;

}  // namespace point
}  // namespace udapl::dapl
