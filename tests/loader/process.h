// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>

// Runs a program with the dat.conf `conf`; returns its output, with its exit status in the last
// line.
std::string output_of(const std::string& command, const std::string& conf);
