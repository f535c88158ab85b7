// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Finds out which libdat2 a program uses: libdapl2 has a library of the same name, and which one
// the dynamic linker finds depends on its search path.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tools {

/** The file of libdat2, as the dynamic linker found it. */
inline std::string registry_file() {
  // Use dlsym, because the address of the function may be that of a stub in the program.
  Dl_info info{};
  void* const function = ::dlsym(RTLD_DEFAULT, "dat_ia_openv");
  if (function == nullptr || ::dladdr(function, &info) == 0 || info.dli_fname == nullptr)
    return "?";
  return info.dli_fname;
}

}  // namespace tools
