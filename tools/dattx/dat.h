// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <string_view>
#include <utility>

namespace dattx {

// Returns whether a DAT call succeeded. If not, reports on stderr what failed and why.
[[nodiscard]] bool ok(DAT_RETURN status, std::string_view what);

// Owns one DAT handle and frees it. A failing free is reported and otherwise ignored, as there is
// nothing left to do about it. Not thread-safe.
template <DAT_RETURN (*kFree)(DAT_HANDLE)>
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  [[nodiscard]] DAT_HANDLE get() const { return handle_; }
  // For the OUT parameter of the creating call; on its failure the handle stays null.
  [[nodiscard]] DAT_HANDLE* out() {
    reset();
    return &handle_;
  }
  void reset() {
    if (handle_ != DAT_HANDLE_NULL) {
      [[maybe_unused]] const bool freed =
          ok(kFree(std::exchange(handle_, DAT_HANDLE_NULL)), "free");
    }
  }

 private:
  DAT_HANDLE handle_ = DAT_HANDLE_NULL;
};

inline DAT_RETURN close_ia(DAT_HANDLE ia) { return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }

using Ia = Handle<close_ia>;
using Pz = Handle<dat_pz_free>;
using Lmr = Handle<dat_lmr_free>;
using Evd = Handle<dat_evd_free>;
using Ep = Handle<dat_ep_free>;
using Psp = Handle<dat_psp_free>;

}  // namespace dattx
