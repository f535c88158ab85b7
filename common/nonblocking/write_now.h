// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

#include <sys/types.h>

namespace udapl {

// Writes to a descriptor that this library does not own, or that may stand still, what can be
// written at once: returns how many bytes, or -1 with errno. `length` is PIPE_BUF at most; a pipe
// takes all of it or nothing. Never blocks (but for what a file system does to a regular file), and
// no signal comes of it: not SIGPIPE if nobody reads, not SIGXFSZ beyond a file size limit, not
// SIGTTOU in a background job. The description, which other processes may share, is not changed.
// Thread-safe.
ssize_t write_now(int fd, mode_t mode, const char* text, std::size_t length) noexcept;

}  // namespace udapl
