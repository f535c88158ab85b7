// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

namespace conformance {

// A connected pair whose passive side has an RMR and memory to bind it to. `made` is false if the
// IA has no RMRs.
struct RmrFixture {
  static constexpr std::size_t kSize = 256;

  explicit RmrFixture(bool for_ep = false)
      : target(pair.ia, pair.pz, kSize), here(pair.ia, pair.pz, kSize) {
    const DAT_RETURN rc =
        for_ep ? dat_rmr_create_for_ep(pair.pz, rmr.out()) : dat_rmr_create(pair.pz, rmr.out());
    made = pair.ia.attr.max_rmrs > 0 && DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED;
    if (made) REQUIRE_OK(rc);
    target.fill(1);
    here.fill(2);
    pair.connect();
  }

  DAT_RETURN bind(DAT_LMR_TRIPLET range, DAT_MEM_PRIV_FLAGS privileges, std::uint64_t value,
                  DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) {
    return dat_rmr_bind(rmr, target.lmr, &range, privileges, DAT_VA_TYPE_VA, pair.passive.ep,
                        cookie(value), flags, &context);
  }
  void expect_bound(std::uint64_t value, DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS) {
    const DAT_EVENT event = expect_event(pair.passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    const auto& data = event.event_data.rmr_completion_event_data;
    BOOST_CHECK(data.rmr_handle == rmr);  // rmr_bind_event
    BOOST_CHECK_EQUAL(data.user_cookie.as_64, value);
    BOOST_CHECK_EQUAL(data.status, status);
  }
  [[nodiscard]] DAT_RMR_TRIPLET window(std::size_t length, std::size_t offset = 0) const {
    DAT_RMR_TRIPLET triplet = target.remote(length, offset);
    triplet.rmr_context = context;
    return triplet;
  }
  void expect_read_refused(const DAT_RMR_TRIPLET& from) {
    REQUIRE_OK(pair.active.post_read(here, from, 99));
    expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 99);
    expect_connection_end(pair.active.connect_evd);
    expect_connection_end(pair.passive.connect_evd);
  }

  Pair pair;
  Buffer target;
  Buffer here;
  Rmr rmr;
  DAT_RMR_CONTEXT context = 0;
  bool made = false;
};

inline constexpr const char* kNoRmr = "the IA has no RMRs";
inline constexpr DAT_MEM_PRIV_FLAGS kRead = DAT_MEM_PRIV_REMOTE_READ_FLAG;
inline constexpr auto kReadWrite =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);

}  // namespace conformance
