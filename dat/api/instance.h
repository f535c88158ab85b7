// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dat/ia_table.h"
#include "dat/known_tables.h"
#include "dat/registry.h"

namespace udapl::dat {

// The objects of the process. None is ever destroyed: applications and providers may call
// from their own destructors, in any order.

// An object that is constant-initialised, so usable from the first instruction on, and never
// destroyed.
template <class T>
union Immortal {
  constexpr Immortal() noexcept : object() {}
  ~Immortal() {}
  T object;
};

extern constinit Immortal<IaTable> process_ia_table;
[[nodiscard]] inline IaTable& ia_table() noexcept { return process_ia_table.object; }

extern constinit Immortal<KnownTables> process_known_tables;
[[nodiscard]] inline KnownTables& known_tables() noexcept { return process_known_tables.object; }

// The first call creates the registry and reads dat.conf. Returns null once the destructors of this
// library have run. Thread safe.
[[nodiscard]] Registry* registry();

}  // namespace udapl::dat
