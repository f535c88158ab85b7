// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// A static object that is never destroyed, because applications may make calls in their own static
// destructors, in any order. Takes no memory from the heap. If T has a constexpr constructor,
// declare it constinit: it is then usable before any constructor has run.
template <class T>
union Immortal {
  constexpr Immortal() noexcept : object() {}
  ~Immortal() {}
  T object;
};

}  // namespace udapl
