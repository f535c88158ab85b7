// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/ia.h"

namespace udapl::dapl {

DAT_IA_HANDLE Ia::handle() const noexcept {
  DAT_IA_HANDLE number = DAT_HANDLE_NULL;
  auto* const raw = const_cast<Ia*>(this);
  if (::dats_get_ia_handle(raw, &number) != DAT_SUCCESS) return DAT_HANDLE_NULL;
  return number;
}

}  // namespace udapl::dapl
