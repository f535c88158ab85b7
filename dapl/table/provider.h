// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/dat_registry.h>

#include "common/result.h"
#include "dapl/table/fork_guard.h"
#include "dapl/transport/adapter.h"

#include <memory>
#include <string>
#include <string_view>

namespace udapl::dapl {

// Opens the transport for an IA. `ia_params`: the seventh field of the dat.conf entry.
using AdapterFactory = Result<std::unique_ptr<transport::Adapter>> (*)(
    std::string_view ia_params, transport::AdapterSink& sink);

// The parts of a provider library: the tables for both kinds of dat.conf entry (see
// provider_table.h) and the factory of its adapters.
struct ProviderKit {
  const DAT_PROVIDER* threadsafe;
  const DAT_PROVIDER* nonthreadsafe;
  AdapterFactory open_adapter;
};

// A name under which the library is registered. Thread-safe, since it is immutable except for its
// table, which is changed in a forked child. Never freed, because handles, even stale ones, point
// at its table.
class Provider {
 public:
  Provider(const ProviderKit& kit, const DAT_PROVIDER_INFO& info, std::string_view ia_params);
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  [[nodiscard]] const DAT_PROVIDER& table() const noexcept { return table_.slots; }
  [[nodiscard]] const DAT_PROVIDER_INFO& info() const noexcept { return info_; }
  [[nodiscard]] const std::string& ia_params() const noexcept { return ia_params_; }
  [[nodiscard]] AdapterFactory open_adapter() const noexcept { return open_adapter_; }

 private:
  DAT_PROVIDER_INFO info_;
  std::string ia_params_;
  AdapterFactory open_adapter_;
  GuardedTable table_;  // device_name is info_.ia_name
};

// The bodies of dat_provider_init and dat_provider_fini of a provider library. `ia_params` may be
// null. A failure is traced; the registry then finds no provider. Thread-safe.
void register_provider(const ProviderKit& kit, const DAT_PROVIDER_INFO* info,
                       const char* ia_params) noexcept;
void unregister_provider(const DAT_PROVIDER_INFO* info) noexcept;

// The registered provider of that name and kind, or null. Thread-safe.
[[nodiscard]] Provider* find_provider(std::string_view ia_name, bool thread_safe) noexcept;

namespace calls {
// The ia_open slots.
DAT_RETURN ia_open_threadsafe(const DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen,
                              DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia);
DAT_RETURN ia_open_nonthreadsafe(const DAT_NAME_PTR name, DAT_COUNT async_evd_min_qlen,
                                 DAT_EVD_HANDLE* async_evd, DAT_IA_HANDLE* ia);
}  // namespace calls

}  // namespace udapl::dapl
