// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>

#include <fcntl.h>
#include <unistd.h>

#include "common/fd.h"

namespace udapl {

// Keeps descriptors 0, 1 and 2 open during its lifetime, so that no descriptor that another library
// opens is one of these (see Fd::made). Another thread may get these numbers as soon as it is
// destroyed.
class StandardFdsTaken {
 public:
  StandardFdsTaken() noexcept {
    for (Fd& place : places_) {
      place.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
      if (place.get() <= STDERR_FILENO) continue;
      place.reset();
      return;
    }
  }

 private:
  std::array<Fd, STDERR_FILENO + 1> places_;
};

}  // namespace udapl
