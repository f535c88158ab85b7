// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/adapter.h"
#include "providers/verbs/device.h"
#include "providers/verbs/environment.h"

#include <cstddef>

namespace udapl::verbs {

// Derives the attributes of an adapter from those of its device and port. `private_data`:
// ConnectorKit::private_data_room. Pure.
[[nodiscard]] transport::Attributes make_attributes(const Device& device,
                                                    const Environment& environment,
                                                    transport::PrivateDataRoom private_data);

// Whether the device supports RMRs (windows of any type), and whether the peer's Send with
// Invalidate works on them (windows of type 2).
[[nodiscard]] bool has_windows(const Device& device) noexcept;
[[nodiscard]] bool has_type2_windows(const Device& device) noexcept;

}  // namespace udapl::verbs
