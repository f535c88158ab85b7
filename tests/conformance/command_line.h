// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "harness.h"

// The command line of datconform.
namespace conformance {

struct Command {
  Options options;
  std::string junit;
  std::string quirks;
  std::string observe;
  int isolate = 0;  // seconds; 0: do not isolate
  int jobs = 1;     // with isolate
  int listen = 0;   // port; 0: do not listen
  int result_fd = -1;
  int partner_fd = -1;
  bool list = false;
  bool coverage = false;
  bool fail_fast = false;
  bool help = false;
  bool version = false;
  std::string wrong;        // an error in the arguments; empty if none
  std::vector<char*> rest;  // arguments for Boost.Test
};

// Reads datconform's own arguments, as "--name value" or "--name=value". The result refers to those
// that are Boost.Test's.
Command read_command(int argc, char** argv);

}  // namespace conformance
