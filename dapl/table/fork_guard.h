// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

// A forked child has copies of its parent's objects and shares its descriptors, but has none of the
// provider's threads: operations on an object would end or disturb the parent's connections. So in
// a child every call with an inherited handle returns INVALID_STATE. A process that does not fork
// pays nothing: the tables that handles point at are replaced in the child only.
namespace udapl::dapl {

// A provider's table, as its objects point at it.
struct GuardedTable {
  DAT_PROVIDER slots;            // first, so that a pointer to it also points to the GuardedTable
  const DAT_PROVIDER* original;  // the slots before the process was forked
  GuardedTable* next;            // list of all tables of this library; never removed
};

// Registers a table to be replaced in every forked child. Call once for each table; the table is
// never freed. Thread-safe.
void guard_in_children(GuardedTable& table) noexcept;

}  // namespace udapl::dapl
