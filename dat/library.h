// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <string>

namespace udapl::dat {

// What a provider library exports for the registry. Either may be missing.
struct ProviderEntryPoints {
  DAT_PROVIDER_INIT_FUNC init = nullptr;
  DAT_PROVIDER_FINI_FUNC fini = nullptr;
};

struct LoadResult {
  bool loaded = false;
  ProviderEntryPoints entry_points;
  std::string failure;  // the dynamic linker's message, if not loaded
};

// Loads provider libraries. Libraries are never unloaded, because a provider's threads, its
// thread-local destructors, and other libraries bound to its symbols may outlive the last IA. An
// interface, so that the registry can be tested without libraries.
class Loader {
 public:
  Loader() = default;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  virtual ~Loader() = default;

  // Thread safe. Runs the library's constructors, which may call the registry: call it with no lock
  // held. To load a library again is cheap and not an error.
  virtual LoadResult load(const std::string& path) = 0;
};

// The dynamic linker: symbols are bound at once and globally visible, as OpenFabrics providers
// need.
class DlLoader final : public Loader {
 public:
  LoadResult load(const std::string& path) override;
};

}  // namespace udapl::dat
