// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Macros for Clang's thread-safety analysis; empty on other compilers. tests/tidy checks the tree
// with `clang++ -Wthread-safety -Werror`, so code that forgets a lock does not compile.
#if defined(__clang__)
#define UDAPL_TSA(x) __attribute__((x))
#else
#define UDAPL_TSA(x)
#endif

#define UDAPL_CAPABILITY(name) UDAPL_TSA(capability(name))
#define UDAPL_SCOPED_CAPABILITY UDAPL_TSA(scoped_lockable)
#define UDAPL_GUARDED_BY(x) UDAPL_TSA(guarded_by(x))
#define UDAPL_REQUIRES(...) UDAPL_TSA(requires_capability(__VA_ARGS__))
#define UDAPL_EXCLUDES(...) UDAPL_TSA(locks_excluded(__VA_ARGS__))
#define UDAPL_ACQUIRE(...) UDAPL_TSA(acquire_capability(__VA_ARGS__))
#define UDAPL_RELEASE(...) UDAPL_TSA(release_capability(__VA_ARGS__))
#define UDAPL_TRY_ACQUIRE(...) UDAPL_TSA(try_acquire_capability(__VA_ARGS__))
#define UDAPL_ACQUIRED_BEFORE(...) UDAPL_TSA(acquired_before(__VA_ARGS__))
#define UDAPL_ACQUIRED_AFTER(...) UDAPL_TSA(acquired_after(__VA_ARGS__))
#define UDAPL_NO_THREAD_SAFETY_ANALYSIS UDAPL_TSA(no_thread_safety_analysis)
