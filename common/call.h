// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// A callback in two words, an object and a member function of it: Call::to<&Qp::on_grace>(this).
// The member function must be noexcept.
struct Call {
  void (*function)(void* object) noexcept;
  void* object;

  template <auto Member, class T>
  [[nodiscard]] static Call to(T* object) noexcept {
    return {[](void* o) noexcept { (static_cast<T*>(o)->*Member)(); }, object};
  }
};

}  // namespace udapl
