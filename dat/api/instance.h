// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <atomic>

#include "common/immortal.h"
#include "dat/ia_table.h"
#include "dat/known_tables.h"
#include "dat/registry.h"

namespace udapl::dat {

// The objects of the process. None is ever destroyed: applications and providers may call
// from their own destructors, in any order.

extern constinit Immortal<IaTable> process_ia_table;
[[nodiscard]] inline IaTable& ia_table() noexcept { return process_ia_table.object; }

extern constinit Immortal<KnownTables> process_known_tables;
[[nodiscard]] inline KnownTables& known_tables() noexcept { return process_known_tables.object; }

// Whether the trace variables have been read.
extern constinit std::atomic<bool> tracing_started;
// Reads the trace variables and loads the LTTng probes. Thread safe; only the first call has an
// effect.
[[gnu::cold, gnu::noinline]] void start_tracing() noexcept;

// Called at the beginning of every API function that may be the first one a program calls: so that
// call is traced as well, and the variables that the program has set before it take effect.
[[gnu::always_inline]] inline void ensure_tracing() noexcept {
  if (!tracing_started.load(std::memory_order_acquire)) [[unlikely]]
    start_tracing();
}

// The first call creates the registry and reads dat.conf. Returns null once the destructors of this
// library have run. Thread safe.
[[nodiscard]] Registry* registry();

}  // namespace udapl::dat
