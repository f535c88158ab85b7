// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Which libdat2 a program runs on: libdapl2 has one of the same name, and which is found depends on
// where one looks.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tools {

/** Its file, as the dynamic linker found it. */
inline std::string registry_file() {
  // dlsym, as the address of a function may be that of a stub in the program.
  Dl_info info{};
  void* const function = ::dlsym(RTLD_DEFAULT, "dat_ia_openv");
  if (function == nullptr || ::dladdr(function, &info) == 0 || info.dli_fname == nullptr)
    return "?";
  return info.dli_fname;
}

}  // namespace tools
