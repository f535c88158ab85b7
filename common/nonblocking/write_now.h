// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

#include <sys/types.h>

namespace udapl {

// Writes as much as possible without waiting to a descriptor that this library does not own, or
// that may be blocked. Returns the number of bytes, or -1 with errno. `length` is at most PIPE_BUF;
// a pipe takes all of it or nothing. Never blocks (except as a file system may for a regular file),
// and raises no signal: neither SIGPIPE without a reader, nor SIGXFSZ beyond a file size limit, nor
// SIGTTOU in a background job. Does not change the description, which other processes may share.
// Thread-safe.
ssize_t write_now(int fd, mode_t mode, const char* text, std::size_t length) noexcept;

}  // namespace udapl
