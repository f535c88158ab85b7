// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"

#include <string_view>

// The system's log, as syslog(3) writes to it, but without waiting for a daemon that does not read.
// Thread-safe.
namespace udapl {

inline constexpr const char* kSystemLog = "/dev/log";

// Opens the socket for all lines of the process. It is not connected, so it outlives the daemon.
[[nodiscard]] Fd open_log_socket() noexcept;

// Writes one line to the log at the socket `path`. Returns false if it could not be written now.
[[nodiscard]] bool write_to_log(int socket, const char* path, int priority,
                                std::string_view line) noexcept;

}  // namespace udapl
