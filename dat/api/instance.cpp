// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/instance.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <dlfcn.h>

#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "dat/api/boundary.h"
#include "dat/api/forward.h"
#include "dat/strerror.h"

namespace udapl::dat {

namespace {

std::atomic<bool> finished{false};

[[gnu::destructor]] void finish() { finished.store(true, std::memory_order_release); }

// If DAT_TRACE_LTTNG=1, loads the LTTng probes, with global visibility for the providers that will
// be loaded later. Preloaded probes need no loading.
void load_probes() {
  const char* const wanted = ::secure_getenv("DAT_TRACE_LTTNG");
  if (wanted == nullptr || std::strcmp(wanted, "1") != 0 || &::udapl_trace_probe_1 != nullptr)
    return;
  constexpr const char* kLibrary = "libudapl-lttng.so.1";
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  void* const probe = library == nullptr ? nullptr : ::dlsym(library, "udapl_trace_probe_1");
  if (probe != nullptr)
    trace::set_probe(reinterpret_cast<trace::Probe>(probe));
  else
    UDAPL_TRACE(kError, "DAT_TRACE_LTTNG=1, but there are no LTTng probes: %s", ::dlerror());
}

Registry* make_registry() {
  ConfFile configuration = read_configuration();
  if (configuration.resources_exhausted) {
    const ConfAttempt& failed = configuration.attempts.back();
    UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES), "cannot read %s: %s",
                  failed.path.c_str(), failed.failure.c_str());
    throw ResourcesExhausted();  // the next call reads again
  }
  auto loader = std::make_unique<DlLoader>();
  auto* const made = new Registry(std::move(configuration), *loader, ia_table());
  static_cast<void>(loader.release());  // lives as long as the registry, which is never destroyed
  return made;
}

}  // namespace

constinit Immortal<IaTable> process_ia_table;
constinit Immortal<KnownTables> process_known_tables;
constinit std::atomic<bool> tracing_started{false};

void start_tracing() noexcept {
  static std::once_flag once;
  try {
    std::call_once(once, [] {
      trace::init("dat", "DAT_TRACE_LEVEL");
      load_probes();
      tracing_started.store(true, std::memory_order_release);
    });
  } catch (const std::exception&) {
    // Cannot happen with POSIX threads; the levels remain unchanged.
  }
}

Registry* registry() {
  static Registry* const instance = make_registry();
  if (!finished.load(std::memory_order_acquire)) [[likely]]
    return instance;
  UDAPL_EXPLAIN(kNormal, dat_error(DAT_INVALID_STATE),
                "called after the library's destructors have run");
  return nullptr;
}

void trace_call(const char* function, DAT_HANDLE handle) noexcept {
  trace::emit(
      {.level = trace::kCalls, .kind = trace::Kind::kCall, .object = handle, .function = function});
}

DAT_RETURN trace_return(const char* function, DAT_HANDLE handle, DAT_RETURN code) noexcept {
  const char* const name = type_name(code);
  trace::emit({.level = trace::kCalls,
               .kind = trace::Kind::kReturn,
               .code = code,
               .object = handle,
               .function = function,
               .status = name != nullptr ? name : "unknown error"});
  return code;
}

DAT_RETURN refuse_handle(const char* function, DAT_HANDLE handle, DAT_RETURN_SUBTYPE subtype,
                         trace::Level level) noexcept {
  ensure_tracing();  // the first call of a program may have a bad handle
  const DAT_RETURN code = dat_error(DAT_INVALID_HANDLE, subtype);
  if (trace::enabled(level))
    trace::write_error(level, code, function, "%p is not a handle", handle);
  udapl::cause::note(code, "%s: %p is not a handle", function, handle);
  return code;
}

}  // namespace udapl::dat
