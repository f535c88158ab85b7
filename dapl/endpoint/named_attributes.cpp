// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/named_attributes.h"

#include <dat/dat_trclvl.h>

#include "common/fault_safe_copy.h"
#include "common/printable.h"
#include "common/tracing/trace.h"
#include "dapl/endpoint/ep_config.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"

#include <strings.h>

#include <cstdint>
#include <cstring>

// Other registries lack these functions.
#pragma weak dat_trclvl_query
#pragma weak dat_trclvl_modify

namespace udapl::dapl {

namespace {

constexpr const char* kTrue = "true";
constexpr const char* kFalse = "false";

Status check_component(DAT_COUNT component) noexcept {
  if (component == DAT_TRCLVL_DAPL) return Status();
  // A call with the provider's own handle comes from the registry, which does not forward calls for
  // its own component.
  UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "component %d is not of this library",
               component);
}

// The functions that applications get as debug_query and debug_modify. Applications pass the IA
// handle of the registry, so these functions forward the call to the registry, which finds the
// provider of the IA and calls back with the provider's own handle. Other registries lack the
// functions for this; the call then applies to this library.
DAT_RETURN trclvl_query(DAT_IA_HANDLE ia, DAT_COUNT component, DAT_COUNT* level) {
  DAT_RETURN (*const registry)(DAT_IA_HANDLE, DAT_COUNT, DAT_COUNT*) = &::dat_trclvl_query;
  if (handle_cast<Ia>(ia) == nullptr && registry != nullptr) return registry(ia, component, level);
  return boundary([&]() -> Status {
    if (ia == DAT_HANDLE_NULL) UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA, "null IA");
    if (const Status status = check_component(component); !status.ok()) return status;
    if (level == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null pointer for the level");
    *level = trace::level();
    return Status();
  });
}

DAT_RETURN trclvl_modify(DAT_IA_HANDLE ia, DAT_COUNT component, DAT_COUNT level) {
  DAT_RETURN (*const registry)(DAT_IA_HANDLE, DAT_COUNT, DAT_COUNT) = &::dat_trclvl_modify;
  if (handle_cast<Ia>(ia) == nullptr && registry != nullptr) return registry(ia, component, level);
  return boundary([&]() -> Status {
    if (ia == DAT_HANDLE_NULL) UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA, "null IA");
    if (const Status status = check_component(component); !status.ok()) return status;
    if (level < TRC_LVL_OFF || level > TRC_LVL_MAX)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "level %d", level);
    trace::set_level(level);
    return Status();
  });
}

}  // namespace

std::vector<DAT_NAMED_ATTR> vendor_attributes(const transport::Attributes& adapter) {
  return {{DAT_VENDOR_ATTR_DELAYED_ACK_SUPPORTED, adapter.delayed_ack ? kTrue : kFalse},
          {DAT_VENDOR_ATTR_EXTENSION, kTrue},
          {DAT_VENDOR_ATTR_EXT_VERSION, "1.0"},
          {DAT_VENDOR_ATTR_DEBUG_QUERY, reinterpret_cast<const char*>(&trclvl_query)},
          {DAT_VENDOR_ATTR_DEBUG_MODIFY, reinterpret_cast<const char*>(&trclvl_modify)}};
}

namespace {

// A copy of a named attribute of the consumer. No name or value that we know is longer.
struct Text {
  static constexpr std::size_t kRoom = 64;
  char name[kRoom];
  char value[kRoom];
};

// Element `i` of a list at any address.
const DAT_NAMED_ATTR* element(const DAT_NAMED_ATTR* list, DAT_COUNT i) noexcept {
  const auto offset = static_cast<std::uintptr_t>(i) * sizeof *list;
  return reinterpret_cast<const DAT_NAMED_ATTR*>(reinterpret_cast<std::uintptr_t>(list) + offset);
}

// Copies the attribute. Its pointers may never have been initialised: returns false if they do not
// point to texts.
bool read(const DAT_NAMED_ATTR* from, Text* text) noexcept {
  DAT_NAMED_ATTR pointers;
  if (!copy_fault_safe(&pointers, from, sizeof pointers) ||
      !copy_text_fault_safe(text->name, pointers.name, Text::kRoom) ||
      !copy_text_fault_safe(text->value, pointers.value, Text::kRoom)) {
    *text = {};
    return false;
  }
  make_printable(text->name, std::strlen(text->name));
  make_printable(text->value, std::strlen(text->value));
  return true;
}

// Applies one attribute of an EP, and copies it to `text`. Returns null on success, otherwise a
// description of the error.
const char* apply(const transport::Attributes& adapter, const DAT_NAMED_ATTR* attribute,
                  EpConfig* config, Text* text) noexcept {
  if (!read(attribute, text)) return "unreadable";
  if (!adapter.delayed_ack || std::strcmp(text->name, DAT_EP_ATTR_DELAYED_ACK) != 0)
    return "no such attribute";
  const bool wanted = ::strcasecmp(text->value, kTrue) == 0;
  if (!wanted && ::strcasecmp(text->value, kFalse) != 0) return "must be true or false";
  config->delayed_ack = wanted;
  return nullptr;
}

}  // namespace

Status apply_ep_attributes(const transport::Attributes& adapter, const DAT_EP_ATTR& from,
                           DAT_RETURN arg, EpConfig* config) {
  const DAT_COUNT count = from.ep_provider_specific_count;
  const DAT_NAMED_ATTR* const list = from.ep_provider_specific;
  if (count < 0 || (count > 0 && list == nullptr))
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "%d provider-specific attributes at %p", count,
                 static_cast<const void*>(list));
  Text text{};
  for (DAT_COUNT i = 0; i < count; ++i)
    if (const char* const wrong = apply(adapter, element(list, i), config, &text); wrong != nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "EP attribute \"%s\" = \"%s\" on %s: %s", text.name,
                   text.value, adapter.device_name.c_str(), wrong);
  show_ep_attributes(adapter, config);
  return Status();
}

void adopt_ep_attributes(const transport::Attributes& adapter, const DAT_EP_ATTR& from,
                         EpConfig* config) noexcept {
  constexpr DAT_COUNT kMaxPlausible = 16;  // larger numbers are treated as garbage
  const DAT_COUNT count = from.ep_provider_specific_count;
  const DAT_NAMED_ATTR* const list = from.ep_provider_specific;
  Text text{};
  if (list != nullptr && count > 0 && count <= kMaxPlausible)
    for (DAT_COUNT i = 0; i < count; ++i)
      if (const char* const wrong = apply(adapter, element(list, i), config, &text);
          wrong != nullptr)
        UDAPL_TRACE(kNormal, "ignored: EP attribute \"%s\" = \"%s\" on %s: %s", text.name,
                    text.value, adapter.device_name.c_str(), wrong);
  show_ep_attributes(adapter, config);
}

void show_ep_attributes(const transport::Attributes& adapter, EpConfig* config) noexcept {
  // The structure has no const pointer; consumers must not write to it.
  static DAT_NAMED_ATTR off[] = {{DAT_EP_ATTR_DELAYED_ACK, kFalse}};
  static DAT_NAMED_ATTR on[] = {{DAT_EP_ATTR_DELAYED_ACK, kTrue}};
  config->attr.ep_provider_specific_count = adapter.delayed_ack ? 1 : 0;
  config->attr.ep_provider_specific = !adapter.delayed_ack  ? nullptr
                                      : config->delayed_ack ? on
                                                            : off;
}

}  // namespace udapl::dapl
