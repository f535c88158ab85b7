// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace udapl {

// Whom to call and how, in two words: Call::to<&Qp::on_grace>(this). The function is noexcept.
struct Call {
  void (*function)(void* object) noexcept;
  void* object;

  template <auto Member, class T>
  [[nodiscard]] static Call to(T* object) noexcept {
    return {[](void* o) noexcept { (static_cast<T*>(o)->*Member)(); }, object};
  }
};

}  // namespace udapl
