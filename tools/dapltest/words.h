// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The words of a command line: what a single one means, and where they come from.
#pragma once

#include <dat/udat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dapltest {

// BE, HT, ...
[[nodiscard]] std::optional<DAT_QOS> qos_of(const std::string& word);
[[nodiscard]] bool is_one_of(const std::string& word, const std::vector<std::string>& words);
[[nodiscard]] std::optional<std::uint32_t> number(const std::string& word);

// Replaces "-f file" with the words in that file. Returns false, after a message, if it cannot be
// read.
[[nodiscard]] bool read_script(std::vector<std::string>& arguments);

}  // namespace dapltest
