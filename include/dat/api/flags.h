/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/** @file
 * Sets of flags in C++ from C++11 on: `A | B` of two flags of one kind is of that kind, so no cast
 * is needed. Empty in C. A program's own operators of the same kind take precedence over these.
 */
#pragma once

#if defined(__cplusplus) && __cplusplus >= 201103L

#include <dat/api/connection.h>
#include <dat/api/evd.h>
#include <dat/api/types.h>

/* Some programs include the headers inside their own extern "C", which does not allow templates. */
extern "C++" {

/* Has a member only for the enumerations that are sets. */
template <typename Flags>
struct dat_flags;

#define DAT_FLAGS_(Flags)   \
  template <>               \
  struct dat_flags<Flags> { \
    typedef Flags type;     \
  }
DAT_FLAGS_(DAT_EVD_FLAGS);
DAT_FLAGS_(DAT_MEM_PRIV_FLAGS);
DAT_FLAGS_(DAT_COMPLETION_FLAGS);
DAT_FLAGS_(DAT_CONNECT_FLAGS);
#undef DAT_FLAGS_

template <typename Flags>
constexpr typename dat_flags<Flags>::type operator|(Flags a, Flags b) {
  return static_cast<Flags>(static_cast<int>(a) | static_cast<int>(b));
}

template <typename Flags>
constexpr typename dat_flags<Flags>::type operator&(Flags a, Flags b) {
  return static_cast<Flags>(static_cast<int>(a) & static_cast<int>(b));
}

template <typename Flags>
inline typename dat_flags<Flags>::type& operator|=(Flags& a, Flags b) {
  return a = static_cast<Flags>(static_cast<int>(a) | static_cast<int>(b));
}

} /* extern "C++" */

#endif
