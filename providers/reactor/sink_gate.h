// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/sink_gate.h"
#include "providers/reactor/reactor.h"

namespace udapl {

// Sink calls made by the driving thread.
using SinkGate = transport::SinkGate<Deferred>;

}  // namespace udapl
