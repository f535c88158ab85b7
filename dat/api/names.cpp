// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <dat/dat_diagnosis_extensions.h>

#include "common/dat_names.h"
#include "dat/api/forward.h"

extern "C" {

UDAPL_API const char* dat_event_name(DAT_EVENT_NUMBER number) { return udapl::event_name(number); }

UDAPL_API const char* dat_dto_status_name(DAT_DTO_COMPLETION_STATUS status) {
  return udapl::dto_status_name(status);
}

UDAPL_API const char* dat_dto_operation_name(DAT_DTOS operation) {
  return udapl::operation_name(operation);
}

UDAPL_API const char* dat_handle_type_name(DAT_HANDLE_TYPE type) {
  const char* const name = udapl::handle_type_name(type);
  return *name != '\0' ? name : "unknown object";
}

UDAPL_API const char* dat_ep_state_name(DAT_EP_STATE state) { return udapl::ep_state_name(state); }

}  // extern "C"
