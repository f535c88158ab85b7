// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>

// What a program prints, its exit status on the last line. `conf` is the dat.conf it is to use.
std::string output_of(const std::string& command, const std::string& conf);
