// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Feature test: adapters, EPs, PZs, memory, waiting.
#include "feature_case.h"

#include <string>

namespace dapltest {
namespace {

// ---- hwconn

void open_and_close(Case& c) {
  if (c.open()) c.success(c.ia.reset(), "dat_ia_close");
}

void open_wrong_names(Case& c) {
  for (std::string name : {"40", "x", "xsdf", "x1", "1x"}) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    Ia ia;
    c.expect(dat_ia_open(name.data(), 8, &async_evd, ia.out()), DAT_PROVIDER_NOT_FOUND,
             "dat_ia_open with an unknown name");
  }
}

void close_null(Case& c) {
  c.expect(dat_ia_close(DAT_HANDLE_NULL, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE,
           "dat_ia_close without a handle");
}

void close_with_endpoint(Case& c) {
  if (!c.make_ep()) return;
  c.expect(dat_ia_close(c.ia.get(), DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE,
           "graceful dat_ia_close with an EP");
  c.success(c.ia.reset(), "abrupt dat_ia_close with an EP");
  // An abrupt close frees every object of the IA.
  c.ep.release();
  c.dto_evd.release();
  c.connection_evd.release();
  c.cr_evd.release();
  c.pz.release();
}

// ---- endpoint

void create_endpoint(Case& c) {
  if (c.make_ep()) c.success(c.ep.reset(), "dat_ep_free");
}

void endpoint_of_freed_zone(Case& c) {
  if (!c.make_evds()) return;
  const DAT_HANDLE gone = c.pz.get();
  if (!c.success(c.pz.reset(), "dat_pz_free")) return;
  c.expect(dat_ep_create(c.ia.get(), gone, c.dto_evd.get(), c.dto_evd.get(), c.connection_evd.get(),
                         nullptr, c.ep.out()),
           DAT_INVALID_HANDLE, "dat_ep_create with a freed PZ");
}

void free_endpoint_with_receive(Case& c) {
  if (!c.make_ep() || !c.success(c.enroll(c.pz.get(), kRegion), "dat_lmr_create")) return;
  DAT_LMR_TRIPLET segment{};
  segment.lmr_context = c.lmr_context;
  segment.virtual_address = reinterpret_cast<std::uintptr_t>(c.buffer.data());
  segment.segment_length = 64;
  DAT_DTO_COOKIE cookie{};
  c.success(dat_ep_post_recv(c.ep.get(), 1, &segment, cookie, DAT_COMPLETION_DEFAULT_FLAG),
            "dat_ep_post_recv");
  c.success(c.ep.reset(), "dat_ep_free with a posted receive");
}

// ---- pz

void create_zone(Case& c) {
  if (c.make_pz()) c.success(c.pz.reset(), "dat_pz_free");
}

void free_zone_of_endpoint(Case& c) {
  if (!c.make_ep()) return;
  c.expect(dat_pz_free(c.pz.get()), DAT_INVALID_STATE, "dat_pz_free with an EP");
}

void free_zone_of_region(Case& c) {
  if (!c.make_pz() || !c.success(c.enroll(c.pz.get(), kRegion), "dat_lmr_create")) return;
  c.expect(dat_pz_free(c.pz.get()), DAT_INVALID_STATE, "dat_pz_free with an LMR");
}

// ---- mem

void enroll_sizes(Case& c) {
  if (!c.make_pz()) return;
  for (const std::uint64_t size : {1U, 4096U, 65536U}) {
    if (c.success(c.enroll(c.pz.get(), size), "dat_lmr_create")) {
      c.success(c.lmr.reset(), "dat_lmr_free");
    }
  }
}

void enroll_again(Case& c) {
  if (!c.make_pz()) return;
  for (int i = 0; i < 2; ++i) {
    if (c.success(c.enroll(c.pz.get(), kRegion), "dat_lmr_create")) {
      c.success(c.lmr.reset(), "dat_lmr_free");
    }
  }
}

void enroll_nothing(Case& c) {
  if (!c.make_pz()) return;
  // Some adapters register zero bytes, others refuse.
  if (c.enroll(c.pz.get(), 0) == DAT_SUCCESS) c.success(c.lmr.reset(), "dat_lmr_free");
}

void enroll_without_zone(Case& c) {
  if (c.open()) {
    c.expect(c.enroll(DAT_HANDLE_NULL, kRegion), DAT_INVALID_HANDLE, "dat_lmr_create without a PZ");
  }
}

void free_null_region(Case& c) {
  c.expect(dat_lmr_free(DAT_HANDLE_NULL), DAT_INVALID_HANDLE, "dat_lmr_free without a handle");
}

// ---- connmgt

void wait_expires(Case& c) {
  if (!c.make_evds()) return;
  constexpr DAT_TIMEOUT kWait = 100'000;
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  const Clock::time_point start = Clock::now();
  c.expect(dat_evd_wait(c.cr_evd.get(), kWait, 1, &event, &more), DAT_TIMEOUT_EXPIRED,
           "dat_evd_wait for 100 ms");
  const Clock::duration span = Clock::now() - start;
  c.require(span >= std::chrono::microseconds(kWait), "dat_evd_wait waits that long");
  c.require(span < std::chrono::seconds(5), "dat_evd_wait waits not much longer");
}

void wait_zero_timeout(Case& c) {
  if (!c.make_evds()) return;
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  const DAT_RETURN status = dat_evd_wait(c.cr_evd.get(), 0, 1, &event, &more);
  c.require(DAT_GET_TYPE(status) == DAT_TIMEOUT_EXPIRED || DAT_GET_TYPE(status) == DAT_QUEUE_EMPTY,
            "dat_evd_wait with a time limit of 0 finds no event");
}

constexpr Feature kFeatures[] = {
    {"hwconn", "open the adapter and close it", open_and_close},
    {"hwconn", "open adapters that do not exist", open_wrong_names},
    {"hwconn", "close without a handle", close_null},
    {"hwconn", "close with an EP that is not freed", close_with_endpoint},
    {"endpoint", "create an EP and free it", create_endpoint},
    {"endpoint", "create an EP with a freed PZ", endpoint_of_freed_zone},
    {"endpoint", "free an EP with a posted receive", free_endpoint_with_receive},
    {"pz", "create a PZ and free it", create_zone},
    {"pz", "free a PZ that an EP uses", free_zone_of_endpoint},
    {"pz", "free a PZ that an LMR uses", free_zone_of_region},
    {"mem", "register memory of several sizes", enroll_sizes},
    {"mem", "register memory once more", enroll_again},
    {"mem", "register 0 bytes", enroll_nothing},
    {"mem", "register without a PZ", enroll_without_zone},
    {"mem", "free an LMR without a handle", free_null_region},
    {"connmgt", "the time limit of dat_evd_wait", wait_expires},
    {"connmgt", "a time limit of 0", wait_zero_timeout},
};

}  // namespace

std::span<const Feature> object_features() { return kFeatures; }

}  // namespace dapltest
