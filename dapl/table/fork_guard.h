// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

// A forked child has copies of its parent's objects and shares its descriptors, but has none of the
// provider's threads: operations on an object would end or disturb the parent's connections. So
// every call with an inherited handle returns INVALID_STATE in a child. This costs nothing in a
// process that does not fork, because the slots of the tables are replaced in the child only.
namespace udapl::dapl {

// The table of a provider, at which its objects point.
struct GuardedTable {
  DAT_PROVIDER slots;            // first, so that a pointer to it also points to the GuardedTable
  const DAT_PROVIDER* original;  // the slots before the process was forked
  GuardedTable* next;            // list of all tables of this library; never removed
};

// Registers a table to be replaced in every forked child. Call once for each table; the table is
// never freed. Thread-safe.
void guard_in_children(GuardedTable& table) noexcept;

}  // namespace udapl::dapl
