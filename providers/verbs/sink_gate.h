// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/sink_gate.h"
#include "providers/verbs/service.h"

namespace udapl::verbs {

// Sink calls in the service thread.
using SinkGate = transport::SinkGate<Deferred>;

}  // namespace udapl::verbs
