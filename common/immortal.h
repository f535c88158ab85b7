// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// A static object that is never destroyed, and takes no memory from the heap: applications may call
// from their own destructors, in any order. If T has a constexpr constructor, declare it constinit:
// it is then usable from the first instruction on.
template <class T>
union Immortal {
  constexpr Immortal() noexcept : object() {}
  ~Immortal() {}
  T object;
};

}  // namespace udapl
