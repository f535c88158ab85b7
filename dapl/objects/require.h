// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/objects/object.h"
#include "dapl/objects/refuse.h"

// The first checks of nearly every call:
//   const auto ia = require<Ia>(ia_handle);
//   if (ia == nullptr) return ia.refusal();
//   const auto pz = require_of<Pz>(*ia, pz_handle);
//   if (pz == nullptr) return pz.refusal();
namespace udapl::dapl {

namespace handles {

struct Kind {
  DAT_RETURN subtype;  // of INVALID_HANDLE
  const char* name;
};

[[nodiscard]] constexpr Kind kind_of(DAT_HANDLE_TYPE type) noexcept {
  switch (type) {
    case DAT_HANDLE_TYPE_IA:
      return {DAT_INVALID_HANDLE_IA, "IA"};
    case DAT_HANDLE_TYPE_EP:
      return {DAT_INVALID_HANDLE_EP, "EP"};
    case DAT_HANDLE_TYPE_LMR:
      return {DAT_INVALID_HANDLE_LMR, "LMR"};
    case DAT_HANDLE_TYPE_RMR:
      return {DAT_INVALID_HANDLE_RMR, "RMR"};
    case DAT_HANDLE_TYPE_PZ:
      return {DAT_INVALID_HANDLE_PZ, "PZ"};
    case DAT_HANDLE_TYPE_PSP:
      return {DAT_INVALID_HANDLE_PSP, "PSP"};
    case DAT_HANDLE_TYPE_RSP:
      return {DAT_INVALID_HANDLE_RSP, "RSP"};
    case DAT_HANDLE_TYPE_CSP:
      return {DAT_INVALID_HANDLE_CSP, "CSP"};
    case DAT_HANDLE_TYPE_CR:
      return {DAT_INVALID_HANDLE_CR, "CR"};
    case DAT_HANDLE_TYPE_CNO:
      return {DAT_INVALID_HANDLE_CNO, "CNO"};
    case DAT_HANDLE_TYPE_SRQ:
      return {DAT_INVALID_HANDLE_SRQ, "SRQ"};
    default:
      return {DAT_INVALID_HANDLE_EVD_REQUEST, "EVD"};
  }
}

// Records that `handle` is not of this kind.
[[gnu::cold, gnu::noinline]] inline Status refuse_handle(Kind kind, DAT_HANDLE handle) noexcept {
  UDAPL_REFUSE(DAT_INVALID_HANDLE, kind.subtype, "%p is not a valid %s handle", handle, kind.name);
}
// Like refuse_handle(), for a handle that is not of this kind or whose object is of another IA.
[[gnu::cold, gnu::noinline]] inline Status refuse_foreign(Kind kind, DAT_HANDLE handle) noexcept {
  UDAPL_REFUSE(DAT_INVALID_HANDLE, kind.subtype, "%p is not a valid %s handle of this IA", handle,
               kind.name);
}

}  // namespace handles

// The object that a handle names, or null and the reason for refusing the handle.
template <class T>
class Required {
 public:
  Required(T* object, Status refusal) noexcept : object_(object), refusal_(refusal) {}

  operator T*() const noexcept { return object_; }
  [[nodiscard]] T* operator->() const noexcept { return object_; }
  [[nodiscard]] Status refusal() const noexcept { return refusal_; }

 private:
  T* object_;
  Status refusal_;
};

// Records the refusal if the result is null.
template <class T>
[[nodiscard, gnu::always_inline]] inline Required<T> require(DAT_HANDLE handle) noexcept {
  if (T* const object = handle_cast<T>(handle); object != nullptr) [[likely]]
    return {object, Status()};
  return {nullptr, handles::refuse_handle(handles::kind_of(T::kType), handle)};
}

// The subtype of INVALID_HANDLE unless a call has several handles of the type.
template <class T>
inline constexpr DAT_RETURN kSubtype = handles::kind_of(T::kType).subtype;

// Also refuses the objects of other IAs, with `subtype`.
template <class T>
[[nodiscard]] Required<T> require_of(const Ia& ia, DAT_HANDLE handle,
                                     DAT_RETURN subtype = kSubtype<T>) noexcept {
  if (T* const object = handle_cast<T>(handle); object != nullptr && object->ia == &ia)
    return {object, Status()};
  return {nullptr, handles::refuse_foreign({subtype, handles::kind_of(T::kType).name}, handle)};
}

// For arguments that may be DAT_HANDLE_NULL, which yields null.
template <class T>
[[nodiscard]] Result<T*> require_or_null(DAT_HANDLE handle,
                                         DAT_RETURN subtype = kSubtype<T>) noexcept {
  T* const object = handle == DAT_HANDLE_NULL ? nullptr : handle_cast<T>(handle);
  if (object != nullptr || handle == DAT_HANDLE_NULL) return object;
  return handles::refuse_handle({subtype, handles::kind_of(T::kType).name}, handle);
}
template <class T>
[[nodiscard]] Result<T*> require_of_or_null(const Ia& ia, DAT_HANDLE handle,
                                            DAT_RETURN subtype = kSubtype<T>) noexcept {
  if (handle == DAT_HANDLE_NULL) return static_cast<T*>(nullptr);
  const auto object = require_of<T>(ia, handle, subtype);
  if (object == nullptr) return object.refusal();
  return static_cast<T*>(object);
}

}  // namespace udapl::dapl
