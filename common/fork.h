// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

// What this copy of the library knows of fork(). Thread-safe. Children that are not made by fork()
// (posix_spawn, vfork) share nothing with us and do not count.
namespace udapl::forks {

using Handler = void (*)() noexcept;

// From now on forks are noticed, and `in_child` runs in every child before fork() returns there. It
// may touch memory of ours and nothing else: other threads of the parent are gone, their locks are
// not. Once a process; false: no memory.
bool watch(Handler in_child) noexcept;

// How many forks lie between the process that began to watch and this one.
[[nodiscard]] unsigned generation() noexcept;

// Whether a child may share descriptors with this process; then closing one ends nothing.
[[nodiscard]] bool descriptors_may_be_shared() noexcept;

}  // namespace udapl::forks
