// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The functional feature test: small cases of the API that need no second process. Each creates its
// own objects; a case passes only if every call in it returned the expected result.
#pragma once

#include "control.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dapltest {

inline constexpr std::size_t kRegion = 64 * 1024;  // bytes of memory that a case may register

// The objects of one case. expect() records failures.
class Case {
 public:
  explicit Case(const Options& options) : options_(options) {}

  // Returns whether the call had this result (class bits and subtypes are ignored).
  bool expect(DAT_RETURN status, DAT_RETURN type, const char* what) {
    if (DAT_GET_TYPE(status) == DAT_GET_TYPE(type)) {
      return true;
    }
    good_ = fail(fmt::format("{}: {}, expected {}", what, describe(status), describe(type)));
    return false;
  }
  bool success(DAT_RETURN status, const char* what) { return expect(status, DAT_SUCCESS, what); }
  bool require(bool condition, const char* what) {
    if (!condition) {
      good_ = fail(fmt::format("{}: no", what));
    }
    return condition;
  }
  [[nodiscard]] bool good() const { return good_; }

  bool open() { return success(open_ia(options_.device, ia), "dat_ia_open"); }
  bool make_pz() { return open() && success(dat_pz_create(ia.get(), pz.out()), "dat_pz_create"); }
  bool make_evds() {
    return make_pz() && make_evd(DAT_EVD_DTO_FLAG, dto_evd) &&
           make_evd(DAT_EVD_CONNECTION_FLAG, connection_evd) && make_evd(DAT_EVD_CR_FLAG, cr_evd);
  }
  bool make_ep() {
    return make_evds() && success(dat_ep_create(ia.get(), pz.get(), dto_evd.get(), dto_evd.get(),
                                                connection_evd.get(), nullptr, ep.out()),
                                  "dat_ep_create");
  }
  DAT_RETURN enroll(DAT_HANDLE zone, std::uint64_t size) {
    buffer.resize(kRegion);
    DAT_REGION_DESCRIPTION description{};
    description.for_va = buffer.data();
    DAT_VLEN registered_size = 0;
    DAT_VADDR registered_address = 0;
    return dat_lmr_create(ia.get(), DAT_MEM_TYPE_VIRTUAL, description, static_cast<DAT_VLEN>(size),
                          zone, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, lmr.out(), &lmr_context,
                          &rmr_context, &registered_size, &registered_address);
  }
  // Calls `create` with one `port` after another until the conn qual is free.
  template <class Create>
  bool at_free_port(const char* what, Create create) {
    DAT_RETURN status = DAT_SUCCESS;
    for (port = 30000; port < 30100; ++port) {
      status = create();
      if (DAT_GET_TYPE(status) != DAT_CONN_QUAL_IN_USE) {
        break;
      }
    }
    return success(status, what);
  }

  std::vector<std::byte> buffer;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
  DAT_CONN_QUAL port = 0;
  Ia ia;
  Pz pz;
  Cno cno;
  Evd dto_evd;
  Evd connection_evd;
  Evd cr_evd;
  Lmr lmr;
  Handle<dat_rmr_free> rmr;
  Ep ep;
  Psp psp;
  Rsp rsp;

 private:
  bool make_evd(int flags, Evd& to) {
    return success(
        dat_evd_create(ia.get(), 16, DAT_HANDLE_NULL, static_cast<DAT_EVD_FLAGS>(flags), to.out()),
        "dat_evd_create");
  }

  const Options& options_;
  bool good_ = true;
};

// One case of the test.
struct Feature {
  const char* feature;
  const char* description;
  void (*run)(Case&);
};

// In the order of their numbers, which are those of the packaged dapltest.
[[nodiscard]] std::span<const Feature> object_features();
[[nodiscard]] std::span<const Feature> query_features();

}  // namespace dapltest
