// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>
#include <vector>

#include "common/wait_word.h"
#include "dat/conf.h"

namespace udapl::dat {

// Finds and reads dat.conf. Reads files and, in conf_locations() and read_configuration() only, the
// environment. No state: thread safe.

// One place that was tried.
struct ConfAttempt {
  std::string path;
  std::string failure;  // why it could not be read; empty: it was read
};

struct ConfFile {
  std::vector<ConfAttempt> attempts;  // in order; at most the last one succeeded
  Conf conf;                          // empty if none succeeded
  // The last one failed for lack of descriptors or memory, which is temporary.
  bool resources_exhausted = false;

  // The file that was read, nullptr if there is none.
  [[nodiscard]] const std::string* path() const noexcept {
    const bool found = !attempts.empty() && attempts.back().failure.empty();
    return found ? &attempts.back().path : nullptr;
  }
};

// The places of dat.conf: if DAT_OVERRIDE is set and not empty, and the program is not set-uid,
// only the file that it names; otherwise dat.conf in the configured system folder, /etc and
// /etc/rdma.
[[nodiscard]] std::vector<std::string> conf_locations();

// The configuration for the process: read_conf_file(conf_locations()). If DAT_OVERRIDE is set but
// ignored, the first attempt states that.
[[nodiscard]] ConfFile read_configuration();

// Reads and parses the first of `locations` that can be read. A pipe, FIFO or device is read if its
// input arrives within `limit`.
[[nodiscard]] ConfFile read_conf_file(const std::vector<std::string>& locations,
                                      Clock::duration limit = std::chrono::seconds(5));

}  // namespace udapl::dat
