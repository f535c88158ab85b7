// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

// A child that was forked has copies of its parent's objects and shares its descriptors, but no
// thread of ours: what it did to an object would end or disturb the parent's connections. So in a
// child every call with an inherited handle returns INVALID_STATE. It costs a process that does not
// fork nothing: the tables that handles point at are exchanged in the child, and only there.
namespace udapl::dapl {

// A provider's table, as its objects point at it.
struct GuardedTable {
  DAT_PROVIDER slots;            // first, so that a pointer to it is one to the whole
  const DAT_PROVIDER* original;  // what the slots were before the process was forked
  GuardedTable* next;            // of all tables of this library, for ever
};

// Makes the tables of this library those of a child, whenever the process forks. Once for each
// table; it is never freed. Thread-safe.
void guard_in_children(GuardedTable& table) noexcept;

}  // namespace udapl::dapl
