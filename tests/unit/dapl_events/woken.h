// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <future>

#include "dapl/events/cno.h"
#include "tests/unit/dapl_events/support.h"

namespace udapl::test {

// The result of a wait on a CNO.
struct Woken {
  DAT_RETURN code;
  DAT_EVD_HANDLE evd;
};

[[nodiscard]] inline Woken wait(const OpenIa& ia, DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout = 0) {
  Woken woken{0, ia.raw};
  woken.code = ia->cno_wait_func(cno, timeout, &woken.evd);
  return woken;
}

// Starts a wait in another thread and returns when the CNO has registered the waiter. REQUIRES: no
// EVD attached yet.
[[nodiscard]] inline std::future<Woken> sleeper(const OpenIa& ia, DAT_CNO_HANDLE cno,
                                                DAT_TIMEOUT timeout = kLate) {
  auto result =
      std::async(std::launch::async, [&ia, cno, timeout] { return wait(ia, cno, timeout); });
  while (static_cast<dapl::Cno*>(cno)->check_free().ok()) std::this_thread::yield();
  return result;
}

}  // namespace udapl::test
