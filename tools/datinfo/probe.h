// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "conf.h"

namespace datinfo {

struct Attribute {
  enum class Kind { kText, kNumber, kFlag };  // a flag is "yes" or "no"
  std::string name;
  std::string value;
  Kind kind = Kind::kText;
};
using Attributes = std::vector<Attribute>;

// What came of opening one IA.
struct Outcome {
  bool opened = false;
  std::string status;     // name of the DAT_RETURN; empty if the open did not end
  std::string library;    // the file that was loaded; empty if none was
  std::string cause;      // dat_last_cause(), or what happened to the child
  std::string output;     // what the provider wrote to stdout and stderr while it failed
  Attributes attributes;  // if it opened
};

// Opens each entry in a child process of its own, as a provider may crash, hang or write, four at
// a time; one that takes longer than `limit` is killed. The outcomes are in the order of the
// entries. Traces are off in the children. REQUIRES: the process has one thread and has not used
// the registry.
[[nodiscard]] std::vector<Outcome> probe(const std::vector<Entry>& entries,
                                         std::chrono::milliseconds limit);

}  // namespace datinfo
