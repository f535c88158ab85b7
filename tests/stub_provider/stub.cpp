// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/stub_provider/stub.h"

#include <dat/dat_diagnosis_extensions.h>

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/stub_provider/slots.h"

#define STUB_EXPORT extern "C" __attribute__((visibility("default")))

#ifdef STUB_UNRESOLVED
extern "C" void function_that_no_library_has();
#endif

#pragma weak dats_set_last_cause  // other registries lack it

namespace {

// One registered name.
struct Instance {
  DAT_PROVIDER_INFO info{};
  std::string device_name;
  std::string mode;
  std::string rest;  // of the ia_params
  DAT_PROVIDER table{};
};

StubLog the_log{};
std::mutex mutex;  // opens and closes may come from several threads
std::list<Instance> instances;

const Instance& instance_of(DAT_HANDLE object) {
  const DAT_PROVIDER* table = static_cast<StubObject*>(object)->table;
  for (const Instance& instance : instances)
    if (&instance.table == table) return instance;
  __builtin_trap();
}

Instance* instance_of_name(std::string_view name) {
  for (Instance& instance : instances)
    if (instance.device_name == name) return &instance;
  return nullptr;
}

DAT_RETURN ia_open(DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE*, DAT_IA_HANDLE* ia) {
  const std::lock_guard lock(mutex);
  Instance* instance = instance_of_name(name);
  if (instance == nullptr) return DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG1;
  if (instance->mode == "open_fails") return kStubOpenFailure;
  if (instance->mode == "writes") {
    std::puts("host:STUB:1f:abc0: 37 us(37 us):  open_hca: no luck\ntoday");
    return kStubOpenFailure;
  }
  if (instance->mode == "crashes") std::abort();
  while (instance->mode == "hangs") ::pause();
  if (instance->mode == "says_why") {
    const DAT_RETURN code = DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES;
    DAT_RETURN (*const say)(DAT_RETURN, const char*) = &dats_set_last_cause;
    if (say != nullptr) say(code, instance->rest.c_str());
    return code;
  }
  ++the_log.opens;
  the_log.qlen = qlen;
  *ia = new StubObject{&instance->table, {}};
  return DAT_SUCCESS;
}

DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS) {
  const std::lock_guard lock(mutex);
  ++the_log.closes;
  delete static_cast<StubObject*>(ia);
  return DAT_SUCCESS;
}

DAT_RETURN ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE* async_evd, DAT_IA_ATTR_MASK ia_mask,
                    DAT_IA_ATTR* ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR* provider_attr) {
  const std::lock_guard lock(mutex);
  const Instance& instance = instance_of(ia);
  if (async_evd != nullptr) *async_evd = DAT_EVD_OUT_OF_SCOPE;
  if (ia_mask != 0)
    ia_attr->extension_supported =
        instance.mode == "extensions" ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE;
  if (provider_mask != 0) {
    provider_attr->dapl_version_major = instance.info.dapl_version_major;
    provider_attr->dapl_version_minor =
        instance.mode == "lies" ? 7 : instance.info.dapl_version_minor;
    provider_attr->is_thread_safe = instance.info.is_thread_safe;
  }
  return DAT_SUCCESS;
}

DAT_RETURN set_context(DAT_HANDLE handle, DAT_CONTEXT context) {
  static_cast<StubObject*>(handle)->context = context;
  return DAT_SUCCESS;
}

DAT_RETURN get_context(DAT_HANDLE handle, DAT_CONTEXT* context) {
  *context = static_cast<StubObject*>(handle)->context;
  return DAT_SUCCESS;
}

// Uses a function that every provider imports, which maps its pointer back to the application's
// handle.
DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE* pz) { return dats_get_ia_handle(ia, pz); }

DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list args) {
  const std::lock_guard lock(mutex);
  the_log.extension_op = op;
  the_log.extension_handle = handle;
  if (op == DAT_OPEN_EXTENSION_BASE) {
    Instance* instance = instance_of_name(static_cast<const char*>(handle));
    DAT_HANDLE* object = va_arg(args, DAT_HANDLE*);
    the_log.extension_argument = va_arg(args, DAT_UINT64);
    if (instance == nullptr || instance->mode == "open_fails") return kStubOpenFailure;
    *object = new StubObject{&instance->table, {}};
    return DAT_SUCCESS;
  }
  if (op == DAT_CLOSE_EXTENSION_BASE) {
    delete static_cast<StubObject*>(handle);
    return DAT_SUCCESS;
  }
  the_log.extension_argument = va_arg(args, DAT_UINT64);
  return static_cast<DAT_RETURN>(the_log.extension_argument);
}

[[maybe_unused]] Instance& make_instance(const DAT_PROVIDER_INFO& info, std::string mode) {
  const std::lock_guard lock(mutex);
  Instance& instance = instances.emplace_back();
  instance.info = info;
  instance.device_name = info.ia_name;
  instance.mode = std::move(mode);
  stub_slots::fill_unsupported(instance.table);
  instance.table.device_name = instance.device_name.c_str();
  instance.table.ia_open_func = &ia_open;
  instance.table.ia_close_func = &ia_close;
  instance.table.ia_query_func = &ia_query;
  instance.table.set_consumer_context_func = &set_context;
  instance.table.get_consumer_context_func = &get_context;
  instance.table.pz_create_func = &pz_create;
  instance.table.handle_extendedop_func = &extended_op;
  return instance;
}

#ifdef STUB_CONSTRUCTOR
// A provider that needs no init: it registers itself when the library is loaded.
bool register_at_load() {
  DAT_PROVIDER_INFO info{};
  std::snprintf(info.ia_name, sizeof info.ia_name, "at-load");
  info.dapl_version_major = 2;
  the_log.add_results[0] = dat_registry_add_provider(&make_instance(info, "good").table, &info);
  return true;
}
const bool registered = register_at_load();  // must be initialised after everything it uses
#endif

}  // namespace

STUB_EXPORT StubLog* stub_log() { return &the_log; }

#ifndef STUB_NO_INIT
STUB_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO* info, const char* params) {
#ifdef STUB_UNRESOLVED
  function_that_no_library_has();
#endif
  ++the_log.inits;
  the_log.info = *info;
  std::snprintf(the_log.params, sizeof the_log.params, "%s", params);
  const std::string_view text(params);
  Instance& instance = make_instance(*info, std::string(text.substr(0, text.find(' '))));
  if (const std::size_t blank = text.find(' '); blank != std::string_view::npos)
    instance.rest = text.substr(blank + 1);
  if (instance.mode == "nothing") return;
  if (instance.mode == "other_minor") instance.info.dapl_version_minor = 9;
  the_log.add_results[0] = dat_registry_add_provider(&instance.table, &instance.info);
  if (instance.mode == "twice")
    the_log.add_results[1] = dat_registry_add_provider(&instance.table, &instance.info);
}
#endif

#ifndef STUB_NO_FINI
STUB_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO* info) {
  ++the_log.finis;
  const auto instance =
      std::find_if(instances.begin(), instances.end(),
                   [&](const Instance& other) { return other.device_name == info->ia_name; });
  if (instance == instances.end()) return;
  if (instance->mode != "forgets" && instance->mode != "nothing")
    dat_registry_remove_provider(&instance->table, &instance->info);
  const std::lock_guard lock(mutex);
  instances.erase(instance);
}
#endif
