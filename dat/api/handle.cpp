// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/api/forward.h"

using namespace udapl::dat;

extern "C" {

UDAPL_API DAT_RETURN dat_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context) {
  return forward_either<&DAT_PROVIDER::set_consumer_context_func>(__func__, dat_handle, context);
}

UDAPL_API DAT_RETURN dat_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT* context) {
  return forward_either<&DAT_PROVIDER::get_consumer_context_func>(__func__, dat_handle, context);
}

UDAPL_API DAT_RETURN dat_get_handle_type(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE* handle_type) {
  return forward_either<&DAT_PROVIDER::get_handle_type_func>(__func__, dat_handle, handle_type);
}

}  // extern "C"
