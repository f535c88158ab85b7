// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// foreign LIBDAT2 local|global|namespace IA_NAME...
//
// Loads a DAT registry by its path, as plug-ins of MPI libraries do, opens and closes each IA twice
// and prints every result. Not linked with any registry, so the same program runs on ours and on
// others.
#include <dat/udat.h>

#include <cstdio>
#include <cstring>

#include <dlfcn.h>

namespace {

decltype(&dat_ia_openv) open_ia;
decltype(&dat_ia_close) close_ia;
decltype(&dat_pz_create) pz_create;

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlvsym(library, name, "DAT_2.0"));
  if (function == nullptr) std::printf("%s is missing\n", name);
}

void try_ia(char* name) {
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = nullptr;
  const DAT_RETURN opened = open_ia(name, 8, &async_evd, &ia, 2, 0, DAT_FALSE);
  std::printf("open %s: 0x%08x\n", name, opened);
  if (opened != DAT_SUCCESS) return;
  DAT_PZ_HANDLE pz = nullptr;
  // If the registry translates handles both ways, the stub returns the number of its IA.
  const DAT_RETURN created = pz_create(ia, &pz);
  std::printf("ia %p, pz_create 0x%08x %s\n", ia, created, pz == ia ? "same" : "different");
  const DAT_RETURN closed = close_ia(ia, DAT_CLOSE_ABRUPT_FLAG);
  std::printf("close: 0x%08x\n", closed);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int visible = std::strcmp(argv[2], "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL;
  void* library = std::strcmp(argv[2], "namespace") == 0 ? ::dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW)
                                                         : ::dlopen(argv[1], RTLD_NOW | visible);
  if (library == nullptr) {
    std::printf("%s\n", ::dlerror());
    return 1;
  }
  find(library, "dat_ia_openv", open_ia);
  find(library, "dat_ia_close", close_ia);
  find(library, "dat_pz_create", pz_create);
  for (int i = 3; i < argc; ++i)
    for (int round = 0; round < 2; ++round) try_ia(argv[i]);
  return 0;
}
