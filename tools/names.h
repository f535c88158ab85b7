// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_diagnosis_extensions.h>
#include <fmt/core.h>

#include <string>

// Missing in versions of our libdat2 that are older than the tools.
#pragma weak dat_event_name
#pragma weak dat_dto_status_name

namespace tools {

inline std::string event_name(DAT_EVENT_NUMBER number) {
  return dat_event_name != nullptr ? std::string(dat_event_name(number))
                                   : fmt::format("event {:#x}", static_cast<unsigned>(number));
}

inline std::string status_name(DAT_DTO_COMPLETION_STATUS status) {
  return dat_dto_status_name != nullptr ? std::string(dat_dto_status_name(status))
                                        : fmt::format("status {}", static_cast<int>(status));
}

}  // namespace tools
