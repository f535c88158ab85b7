// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "common/tracing/trace.h"

namespace udapl::dat {

namespace {

// Whether dlmopen has loaded this library into a namespace of its own. The dynamic linker has no
// global scope there, and may crash when asked for one.
bool is_in_own_namespace(void* library) {
  Lmid_t space = LM_ID_BASE;
  return ::dlinfo(library, RTLD_DI_LMID, &space) == 0 && space != LM_ID_BASE;
}

// OpenFabrics providers import the registry functions without naming the library that contains
// them, so they must be in the global scope. They are not if the application loaded this library
// with RTLD_LOCAL (as plug-ins do): opening it again adds it. The handle is never closed, since the
// providers are bound to this library. Returns the scope for providers.
int make_registry_global() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&make_registry_global), &self) == 0)
    return RTLD_GLOBAL;
  static void* const handle = ::dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr && is_in_own_namespace(handle)) return RTLD_LOCAL;
  // If the registry is linked into the program statically, there is no library to open, and no
  // need.
  if (handle == nullptr ||
      ::dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) == nullptr)
    UDAPL_TRACE(kDetail, "the visibility of %s is unchanged", self.dli_fname);
  return RTLD_GLOBAL;
}

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

LoadResult DlLoader::load(const std::string& path) {
  const int scope = make_registry_global();
  LoadResult result;
  // An empty name would give the program itself.
  if (path.empty()) {
    result.failure = "the library name is empty";
    return result;
  }
  if (struct stat status{}; path.find('/') != std::string::npos &&
                            ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    result.failure = path + ": not a regular file";  // opening a FIFO would wait for a writer
    return result;
  }
  void* library = ::dlopen(path.c_str(), RTLD_NOW | scope);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    result.failure = reason != nullptr ? reason : path + ": cannot be loaded";
    return result;
  }
  result.loaded = true;
  result.entry_points.init = find<DAT_PROVIDER_INIT_FUNC>(library, DAT_PROVIDER_INIT_FUNC_STR);
  result.entry_points.fini = find<DAT_PROVIDER_FINI_FUNC>(library, DAT_PROVIDER_FINI_FUNC_STR);
  return result;
}

}  // namespace udapl::dat
