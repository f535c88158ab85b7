// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dat/registry.h"

// Providers without libraries, for the tests of the registry. One World exists at a time; it owns
// the registry and the "libraries", whose init and fini functions are closures of the test.
namespace fake {

// A provider table, with counters of its calls. The IAs that it opens are distinct objects.
class Provider {
 public:
  explicit Provider(std::string device_name);

  DAT_PROVIDER table{};
  DAT_RETURN open_code = DAT_SUCCESS;
  DAT_RETURN close_code = DAT_SUCCESS;
  DAT_RETURN related_code = DAT_SUCCESS;
  DAT_BOOLEAN related_answer = DAT_FALSE;
  int extension_supported = 0;
  std::function<void()> during_open;
  std::function<void()> during_query;  // the registry's query, made before open returns
  std::function<void()> during_related;
  std::atomic<int> opened{0};
  std::atomic<int> closed{0};
  std::atomic<int> queried{0};

 private:
  std::string device_name_;
};

// A provider library, as the dynamic linker finds it at a path.
struct Library {
  std::function<void(const DAT_PROVIDER_INFO&, const std::string&)> init;
  std::function<void(const DAT_PROVIDER_INFO&)> fini;
  std::function<void()> during_load;  // plays the library's constructors
  bool has_init = true;
  bool has_fini = true;
  std::atomic<int> loads{0};
  std::atomic<int> inits{0};
  std::atomic<int> finis{0};
};

class World final : public udapl::dat::Loader {
 public:
  static constexpr std::size_t kLibraries = 8;

  World();
  ~World() override;

  // Makes `lib<index>.so` loadable.
  Library& add_library(std::size_t index);
  // The same, with an ordinary provider: init registers it under the given name, fini removes it.
  Library& add_library(std::size_t index, Provider& provider);

  // Reads this text as dat.conf. To be called once, before open().
  void configure(const std::string& conf_text);
  udapl::dat::Registry& registry() { return *registry_; }

  // dat_ia_openv and dat_ia_close.
  DAT_RETURN open(const std::string& name, DAT_IA_HANDLE* ia = nullptr, std::uint32_t major = 2,
                  std::uint32_t minor = 0, bool thread_safe = false);
  DAT_RETURN close(DAT_IA_HANDLE ia);

  udapl::dat::LoadResult load(const std::string& path) override;

  static World* current;
  udapl::dat::IaTable table;
  std::array<std::unique_ptr<Library>, kLibraries> libraries;
  std::atomic<int> calls_in_init_or_fini{0};
  std::atomic<bool> overlapped{false};

 private:
  std::unique_ptr<udapl::dat::Registry> registry_;
};

}  // namespace fake
