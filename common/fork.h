// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// Detects forks, for this copy of the library. Thread-safe. Children that are not made by fork()
// (posix_spawn, vfork) share nothing with us and do not count.
namespace udapl::forks {

using Handler = void (*)() noexcept;

// Starts to detect forks. `in_child` then runs in every child before fork() returns there. It may
// only access memory of this library: the other threads of the parent are gone, but the locks that
// they held are not released. Called once per process. Returns false if out of memory.
bool watch(Handler in_child) noexcept;

// The number of forks between the process that called watch() and this one.
[[nodiscard]] unsigned generation() noexcept;

// Whether a related process may share descriptors with this one; then closing one does not end its
// connection. One that was forked a moment ago still does (unshared_fd.h).
[[nodiscard]] bool descriptors_may_be_shared() noexcept;

}  // namespace udapl::forks
