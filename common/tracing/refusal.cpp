// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/tracing/refusal.h"

#include "common/tracing/trace.h"

#include <algorithm>
#include <cstring>

namespace udapl::trace {

void Refusal::report(DAT_RETURN code) const noexcept {
  const DAT_RETURN type = DAT_GET_TYPE(code);
  const bool self_explanatory = type == static_cast<DAT_RETURN>(DAT_CONN_QUAL_IN_USE) ||
                                type == static_cast<DAT_RETURN>(DAT_PORT_IN_USE);
  if (shown_ || expected_ || self_explanatory || !enabled(kError)) return;
  write_error(kError, code, call_, "refused%s%s", reason_[0] != '\0' ? ": " : "", reason_.data());
}

bool Refusal::wants_reason() noexcept { return this_thread().refusal != nullptr; }

bool Refusal::has_reason() noexcept {
  const Refusal* const current = this_thread().refusal;
  return current != nullptr && current->reason_[0] != '\0';
}

void Refusal::set_reason(const char* text) noexcept {
  Refusal* const current = this_thread().refusal;
  if (current == nullptr) return;
  const std::size_t length = std::min(std::strlen(text), current->reason_.size() - 1);
  std::memcpy(current->reason_.data(), text, length);
  current->reason_[length] = '\0';
}

void Refusal::mark_shown() noexcept {
  Refusal* const current = this_thread().refusal;
  if (current != nullptr) current->shown_ = true;
}

void Refusal::mark_expected() noexcept {
  Refusal* const current = this_thread().refusal;
  if (current != nullptr) current->expected_ = true;
}

}  // namespace udapl::trace
