// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <string>

namespace udapl::soft::test {

// Returns what a call writes to stderr.
template <class F>
[[nodiscard]] std::string errors_of(F call) {
  const Fd memory(::memfd_create("stderr", MFD_CLOEXEC));
  const Fd saved(::dup(STDERR_FILENO));
  BOOST_REQUIRE(memory.valid() && saved.valid());
  ::dup2(memory.get(), STDERR_FILENO);
  call();
  ::dup2(saved.get(), STDERR_FILENO);
  std::string text(4096, '\0');
  const auto size = ::pread(memory.get(), text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

}  // namespace udapl::soft::test
