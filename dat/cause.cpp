// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/cause.h"

#include <cstdio>
#include <cstring>

#include "common/printable.h"
#include "dat/strerror.h"

namespace udapl::dat::cause {

namespace {

struct Cause {
  DAT_RETURN status;
  char text[DAT_LAST_CAUSE_MAX];
};

// Zero-initialised and trivial: no constructor runs when a thread starts, no destructor when it
// ends, and untouched pages cost nothing.
constinit thread_local Cause last{};
constinit thread_local char unknown[192]{};

constexpr std::string_view kCut = "...";

DAT_RETURN without_class(DAT_RETURN status) noexcept {
  return status & static_cast<DAT_RETURN>(DAT_TYPE_MASK | DAT_SUBTYPE_MASK);
}

}  // namespace

void set(DAT_RETURN status, std::string_view text) noexcept {
  Cause& cause = last;
  cause.status = without_class(status);
  constexpr std::size_t kRoom = sizeof cause.text - 1;
  const bool fits = text.size() <= kRoom;
  const std::size_t length = fits ? text.size() : kRoom - kCut.size();
  // A provider may pass our own text back to us.
  std::memmove(cause.text, text.data(), length);
  if (!fits) kCut.copy(cause.text + length, kCut.size());
  const std::size_t end = fits ? length : kRoom;
  cause.text[end] = '\0';
  // The text may contain names in files and data of peers and devices, and programs print it on
  // terminals.
  for (std::size_t begin = 0; begin < end;) {
    const std::size_t line = std::string_view(cause.text + begin, end - begin).find('\n');
    const std::size_t part = line == std::string_view::npos ? end - begin : line;
    make_printable(cause.text + begin, part);
    begin += part + 1;
  }
}

void clear() noexcept { last.text[0] = '\0'; }

const char* text() noexcept { return last.text; }

const char* explain(DAT_RETURN status) noexcept {
  if (without_class(status) == DAT_SUCCESS) return "";
  const Cause& cause = last;
  if (cause.text[0] != '\0' && cause.status == without_class(status)) return cause.text;
  const char* type = type_name(status);
  const char* subtype = subtype_name(status);
  if (subtype == nullptr) subtype = "";
  std::snprintf(unknown, sizeof unknown, "%s%s%s (0x%x): no cause recorded",
                type != nullptr ? type : "unknown error", *subtype != '\0' ? ", " : "", subtype,
                status);
  return unknown;
}

}  // namespace udapl::dat::cause
