// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_diagnosis_extensions.h>

#include <string>
#include <string_view>

namespace udapl::dat::cause {

// The last cause of the calling thread: one status and one text of at most DAT_LAST_CAUSE_MAX
// bytes. The memory is thread-local; nothing is allocated and nothing has to be freed. Signal
// handlers see whatever the interrupted code left.

// Replaces status and text. A text that is too long is cut and ends with "...".
void set(DAT_RETURN status, std::string_view text) noexcept;

// Clears the text: a text that is found later was then set after this call.
void clear() noexcept;

// The text, whatever its status; "" if there is none.
[[nodiscard]] const char* text() noexcept;

// dat_last_cause: the text if it was set for `status`, otherwise one made from the name of
// `status`. Valid until the next call of set or explain in this thread. Not null.
[[nodiscard]] const char* explain(DAT_RETURN status) noexcept;

}  // namespace udapl::dat::cause
