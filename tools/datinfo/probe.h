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

// The outcome of opening one IA.
struct Outcome {
  bool opened = false;
  std::string status;     // name of the DAT_RETURN; empty if the open did not return
  std::string library;    // the file that was loaded; empty if none
  std::string cause;      // dat_last_cause(), or what happened to the child
  std::string output;     // what the provider wrote to stdout and stderr
  Attributes attributes;  // filled in if the open succeeded
};

// Opens each entry in a child process of its own, because a provider may crash, hang or write to
// stdout. At most four children run at a time; one that takes longer than `limit` is killed. The
// outcomes are in the order of the entries. Tracing is off in the children. REQUIRES: the process
// has one thread and has not used the registry.
[[nodiscard]] std::vector<Outcome> probe(const std::vector<Entry>& entries,
                                         std::chrono::milliseconds limit);

}  // namespace datinfo
