// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// A callback in two words, an object and a member function of it, which must be noexcept:
// Call::to<&IdlePages::on_idle>(this).
struct Call {
  void (*function)(void* object) noexcept;
  void* object;

  template <auto Member, class T>
  [[nodiscard]] static Call to(T* object) noexcept {
    return {[](void* o) noexcept { (static_cast<T*>(o)->*Member)(); }, object};
  }
};

}  // namespace udapl
