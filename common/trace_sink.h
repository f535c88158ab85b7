// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

#include "common/trace_record.h"
#include "common/trace_settings.h"

// Where text records go. One set of sinks a library, chosen once. Thread-safe, never locks: every
// record is one system call for each sink, so that records of several threads and processes do not
// mix.
namespace udapl::trace {

// False: the file cannot be opened; errno says why, and stderr takes its place.
bool open_sinks(const Settings& settings) noexcept;

// `text` ends with a newline. Errors of the sinks are not noticed. errno is not preserved.
void write_sinks(int level, const char* text, std::size_t length) noexcept;  // to all of them
void write_people(const char* text, std::size_t length) noexcept;            // stderr and stdout
void write_logs(int level, const char* text, std::size_t length) noexcept;   // file and syslog

// The record as one line, newline included, at most `room` bytes; returns its length.
[[nodiscard]] std::size_t render(const Record& record, char* line, std::size_t room) noexcept;

}  // namespace udapl::trace
