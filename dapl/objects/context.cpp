// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/object.h"
#include "dapl/objects/refuse.h"

#include <cstdint>

namespace udapl::dapl {

namespace {

// The live object of any type that `handle` names, or null.
ObjectHeader* any_object(DAT_HANDLE handle) noexcept {
  auto* const header = static_cast<ObjectHeader*>(handle);
  if (header == nullptr ||
      (reinterpret_cast<std::uintptr_t>(header) & (alignof(ObjectHeader) - 1)) != 0)
    return nullptr;
  const std::uint32_t type =
      header->tag.load(std::memory_order_relaxed) - ObjectHeader::tag_of(DAT_HANDLE_TYPE_CR);
  return type < DAT_HANDLE_TYPE_EXTENSION_BASE ? header : nullptr;
}

}  // namespace

namespace calls {

DAT_RETURN set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context) {
  return boundary([&]() -> Status {
    ObjectHeader* const object = any_object(handle);
    if (object == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1, "%p is not a DAT object", handle);
    object->context = context;
    return Status();
  });
}

DAT_RETURN get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT* context) {
  return boundary([&]() -> Status {
    const ObjectHeader* const object = any_object(handle);
    if (object == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1, "%p is not a DAT object", handle);
    if (context == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null context pointer");
    *context = object->context;
    return Status();
  });
}

DAT_RETURN get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE* handle_type) {
  return boundary([&]() -> Status {
    const ObjectHeader* const object = any_object(handle);
    if (object == nullptr)
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1, "%p is not a DAT object", handle);
    if (handle_type == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null type pointer");
    *handle_type = static_cast<DAT_HANDLE_TYPE>(object->tag.load(std::memory_order_relaxed) -
                                                ObjectHeader::tag_of(DAT_HANDLE_TYPE_CR));
    return Status();
  });
}

}  // namespace calls
}  // namespace udapl::dapl
