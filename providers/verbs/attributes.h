// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/adapter.h"
#include "providers/verbs/device.h"
#include "providers/verbs/environment.h"

#include <cstddef>

namespace udapl::verbs {

// What an adapter tells of itself, from what its device and port say. `max_private_data`:
// ConnectorKit::request_room. Pure.
[[nodiscard]] transport::Attributes make_attributes(const Device& device,
                                                    const Environment& environment,
                                                    std::size_t max_private_data);

// Can an RMR be made, and does the peer's Send with Invalidate work on it?
[[nodiscard]] bool has_windows(const Device& device) noexcept;
[[nodiscard]] bool has_type2_windows(const Device& device) noexcept;

}  // namespace udapl::verbs
