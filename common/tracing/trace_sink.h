// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

#include "common/tracing/trace_record.h"
#include "common/tracing/trace_settings.h"

// The sinks of text records: one set per library, chosen once. Thread-safe, never locks, never
// waits: a record is written to each sink in one piece, so that records of several threads and
// processes do not mix, or is counted as lost (trace_output.h).
namespace udapl::trace {

// Opens the sinks. Returns null, or the reason why the file is not used; stderr then takes its
// place. Called once.
[[nodiscard]] const char* open_sinks(const Settings& settings) noexcept;

// The name of this library in its records.
[[nodiscard]] const char* component() noexcept;

// `text` ends with a newline. errno is not preserved.
void write_sinks(int level, const char* text, std::size_t length) noexcept;  // to all of them
void write_standard_streams(const char* text, std::size_t length) noexcept;  // stderr and stdout
void write_logs(int level, const char* text, std::size_t length) noexcept;   // file and syslog

// Renders the record as one line, newline included, of at most `room` bytes; returns its length.
[[nodiscard]] std::size_t render(const Record& record, char* line, std::size_t room) noexcept;

}  // namespace udapl::trace
