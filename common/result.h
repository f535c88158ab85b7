// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <optional>
#include <type_traits>
#include <utility>

namespace udapl {

// The outcome of an internal call: a DAT_RETURN that cannot be dropped by accident. Zero is
// success.
class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;
  constexpr explicit Status(DAT_RETURN code) noexcept : code_(code) {}

  [[nodiscard]] constexpr bool ok() const noexcept { return code_ == DAT_SUCCESS; }
  [[nodiscard]] constexpr DAT_RETURN code() const noexcept { return code_; }
  [[nodiscard]] constexpr DAT_RETURN type() const noexcept { return code_ & DAT_TYPE_MASK; }

 private:
  DAT_RETURN code_ = DAT_SUCCESS;
};
static_assert(std::is_trivially_copyable_v<Status>);

// Builds an error in the full form: class ERROR, type and subtype.
[[nodiscard]] constexpr DAT_RETURN dat_error(DAT_RETURN type,
                                             DAT_RETURN subtype = DAT_NO_SUBTYPE) noexcept {
  return static_cast<DAT_RETURN>(DAT_CLASS_ERROR) | type | subtype;
}
[[nodiscard]] constexpr Status failure(DAT_RETURN type,
                                       DAT_RETURN subtype = DAT_NO_SUBTYPE) noexcept {
  return Status(dat_error(type, subtype));
}

// A value, or the status that tells why there is none. `status().ok()` is true if there is a value.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(value)) {}
  Result(Status why) noexcept : status_(why) {}  // REQUIRES: !why.ok()

  [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] T& operator*() & noexcept { return *value_; }
  [[nodiscard]] T&& operator*() && noexcept { return *std::move(value_); }
  [[nodiscard]] T* operator->() noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace udapl
