// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The functional feature test: small cases of the API that need no second process. Each makes what
// it needs anew; a case passes only if every call in it did what it had to do.
#include "control.h"

#include <algorithm>
#include <string>
#include <vector>

namespace dapltest {
namespace {

constexpr std::size_t kRegion = 64 * 1024;

// What a case works with. expect() notes what went wrong.
class Case {
 public:
  explicit Case(const Options& options) : options_(options) {}

  // Whether the call had this result (class bits and details do not matter).
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
  // Calls `create` with `port` set until that conn qual is free.
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

struct Feature {
  const char* feature;
  const char* description;
  void (*run)(Case&);
};

// ---- hwconn

void open_and_close(Case& c) {
  if (c.open()) c.success(c.ia.reset(), "dat_ia_close");
}

void open_wrong_names(Case& c) {
  for (std::string name : {"40", "x", "xsdf", "x1", "1x"}) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    Ia ia;
    c.expect(dat_ia_open(name.data(), 8, &async_evd, ia.out()), DAT_PROVIDER_NOT_FOUND,
             "dat_ia_open with a name that is not there");
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
  // All that was in it is gone with it.
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
  const DAT_RETURN status = c.enroll(c.pz.get(), 0);
  // Adapters differ in what they call it.
  c.require(status != DAT_SUCCESS, "dat_lmr_create of 0 bytes fails");
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

void wait_not_at_all(Case& c) {
  if (!c.make_evds()) return;
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  const DAT_RETURN status = dat_evd_wait(c.cr_evd.get(), 0, 1, &event, &more);
  c.require(DAT_GET_TYPE(status) == DAT_TIMEOUT_EXPIRED || DAT_GET_TYPE(status) == DAT_QUEUE_EMPTY,
            "dat_evd_wait with a time limit of 0 returns that nothing is there");
}

// ---- queryinfo

void query_ia(Case& c) {
  if (!c.open()) return;
  DAT_IA_ATTR attributes{};
  DAT_PROVIDER_ATTR provider{};
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  if (c.success(dat_ia_query(c.ia.get(), &async_evd, DAT_IA_FIELD_ALL, &attributes,
                             DAT_PROVIDER_FIELD_ALL, &provider),
                "dat_ia_query")) {
    c.require(attributes.max_eps > 0 && attributes.max_evds > 0 && async_evd != DAT_HANDLE_NULL,
              "dat_ia_query tells limits and the asynchronous EVD");
  }
}

void query_cno(Case& c) {
  if (!c.open() || !c.success(dat_cno_create(c.ia.get(), DAT_OS_WAIT_PROXY_AGENT_NULL, c.cno.out()),
                              "dat_cno_create")) {
    return;
  }
  DAT_CNO_PARAM param{};
  if (c.success(dat_cno_query(c.cno.get(), DAT_CNO_FIELD_ALL, &param), "dat_cno_query")) {
    c.require(param.ia_handle == c.ia.get(), "dat_cno_query tells its IA");
  }
}

void query_evd(Case& c) {
  if (!c.make_evds()) return;
  DAT_EVD_PARAM param{};
  if (c.success(dat_evd_query(c.dto_evd.get(), DAT_EVD_FIELD_ALL, &param), "dat_evd_query")) {
    c.require(param.evd_qlen >= 16 && param.ia_handle == c.ia.get(),
              "dat_evd_query tells length and IA");
  }
}

void query_psp(Case& c) {
  if (!c.make_evds() || !c.at_free_port("dat_psp_create", [&c] {
        return dat_psp_create(c.ia.get(), c.port, c.cr_evd.get(), DAT_PSP_CONSUMER_FLAG,
                              c.psp.out());
      })) {
    return;
  }
  DAT_PSP_PARAM param{};
  if (c.success(dat_psp_query(c.psp.get(), DAT_PSP_FIELD_ALL, &param), "dat_psp_query")) {
    c.require(param.conn_qual == c.port, "dat_psp_query tells the conn qual");
  }
}

void query_rsp(Case& c) {
  if (!c.make_ep() || !c.at_free_port("dat_rsp_create", [&c] {
        return dat_rsp_create(c.ia.get(), c.port, c.ep.get(), c.cr_evd.get(), c.rsp.out());
      })) {
    return;
  }
  DAT_RSP_PARAM param{};
  if (c.success(dat_rsp_query(c.rsp.get(), DAT_RSP_FIELD_ALL, &param), "dat_rsp_query")) {
    c.require(param.conn_qual == c.port && param.ep_handle == c.ep.get(),
              "dat_rsp_query tells conn qual and EP");
  }
}

// A connection to ourselves, up to the request.
void query_cr(Case& c) {
  if (!c.make_ep() || !c.at_free_port("dat_psp_create", [&c] {
        return dat_psp_create(c.ia.get(), c.port, c.cr_evd.get(), DAT_PSP_CONSUMER_FLAG,
                              c.psp.out());
      })) {
    return;
  }
  DAT_IA_ATTR attributes{};
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  if (!c.success(dat_ia_query(c.ia.get(), nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr),
                 "dat_ia_query") ||
      !c.success(dat_ep_connect(c.ep.get(), attributes.ia_address_ptr, c.port, 10'000'000, 0,
                                nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                 "dat_ep_connect") ||
      !c.success(dat_evd_wait(c.cr_evd.get(), 10'000'000, 1, &event, &more), "dat_evd_wait")) {
    return;
  }
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  DAT_CR_PARAM param{};
  if (c.success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param), "dat_cr_query")) {
    c.require(param.remote_ia_address_ptr != nullptr, "dat_cr_query tells who connects");
  }
  c.success(dat_cr_reject(cr, 0, nullptr), "dat_cr_reject");
}

void query_ep(Case& c) {
  if (!c.make_ep()) return;
  DAT_EP_PARAM param{};
  if (c.success(dat_ep_query(c.ep.get(), DAT_EP_FIELD_ALL, &param), "dat_ep_query")) {
    c.require(param.ep_state == DAT_EP_STATE_UNCONNECTED && param.pz_handle == c.pz.get(),
              "dat_ep_query tells state and PZ");
  }
}

void query_pz(Case& c) {
  if (!c.make_pz()) return;
  DAT_PZ_PARAM param{};
  if (c.success(dat_pz_query(c.pz.get(), DAT_PZ_FIELD_ALL, &param), "dat_pz_query")) {
    c.require(param.ia_handle == c.ia.get(), "dat_pz_query tells its IA");
  }
}

void query_lmr(Case& c) {
  if (!c.make_pz() || !c.success(c.enroll(c.pz.get(), kRegion), "dat_lmr_create")) return;
  DAT_LMR_PARAM param{};
  if (c.success(dat_lmr_query(c.lmr.get(), DAT_LMR_FIELD_ALL, &param), "dat_lmr_query")) {
    c.require(param.length == kRegion && param.lmr_context == c.lmr_context,
              "dat_lmr_query tells length and context");
  }
}

void query_rmr(Case& c) {
  if (!c.make_pz()) return;
  const DAT_RETURN status = dat_rmr_create(c.pz.get(), c.rmr.out());
  if (DAT_GET_TYPE(status) == DAT_GET_TYPE(DAT_MODEL_NOT_SUPPORTED)) {
    say("The adapter has no RMRs.");
    return;
  }
  DAT_RMR_PARAM param{};
  if (c.success(status, "dat_rmr_create") &&
      c.success(dat_rmr_query(c.rmr.get(), DAT_RMR_FIELD_ALL, &param), "dat_rmr_query")) {
    c.require(param.pz_handle == c.pz.get(), "dat_rmr_query tells its PZ");
  }
}

void query_ia_badly(Case& c) {
  if (!c.open()) return;
  c.expect(dat_ia_query(c.ia.get(), nullptr, DAT_IA_FIELD_ALL, nullptr, 0, nullptr),
           DAT_INVALID_PARAMETER, "dat_ia_query without a place for the answer");
}

void query_null_ia(Case& c) {
  DAT_IA_ATTR attributes{};
  c.expect(dat_ia_query(DAT_HANDLE_NULL, nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr),
           DAT_INVALID_HANDLE, "dat_ia_query without a handle");
}

void query_cno_badly(Case& c) {
  if (!c.open() || !c.success(dat_cno_create(c.ia.get(), DAT_OS_WAIT_PROXY_AGENT_NULL, c.cno.out()),
                              "dat_cno_create")) {
    return;
  }
  c.expect(dat_cno_query(c.cno.get(), DAT_CNO_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER,
           "dat_cno_query without a place for the answer");
}

void query_null_cno(Case& c) {
  DAT_CNO_PARAM param{};
  c.expect(dat_cno_query(DAT_HANDLE_NULL, DAT_CNO_FIELD_ALL, &param), DAT_INVALID_HANDLE,
           "dat_cno_query without a handle");
}

void query_evd_badly(Case& c) {
  if (!c.make_evds()) return;
  c.expect(dat_evd_query(c.dto_evd.get(), DAT_EVD_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER,
           "dat_evd_query without a place for the answer");
}

void query_null_evd(Case& c) {
  DAT_EVD_PARAM param{};
  c.expect(dat_evd_query(DAT_HANDLE_NULL, DAT_EVD_FIELD_ALL, &param), DAT_INVALID_HANDLE,
           "dat_evd_query without a handle");
}

void query_psp_badly(Case& c) {
  if (!c.make_evds() || !c.at_free_port("dat_psp_create", [&c] {
        return dat_psp_create(c.ia.get(), c.port, c.cr_evd.get(), DAT_PSP_CONSUMER_FLAG,
                              c.psp.out());
      })) {
    return;
  }
  c.expect(dat_psp_query(c.psp.get(), DAT_PSP_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER,
           "dat_psp_query without a place for the answer");
}

void query_null_psp(Case& c) {
  DAT_PSP_PARAM param{};
  c.expect(dat_psp_query(DAT_HANDLE_NULL, DAT_PSP_FIELD_ALL, &param), DAT_INVALID_HANDLE,
           "dat_psp_query without a handle");
}

// The numbers of the cases are those of the packaged program.
constexpr Feature kFeatures[] = {
    {"hwconn", "open the adapter and close it", open_and_close},
    {"hwconn", "open adapters that are not there", open_wrong_names},
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
    {"connmgt", "a time limit of 0", wait_not_at_all},
    {"queryinfo", "IA", query_ia},
    {"queryinfo", "CNO", query_cno},
    {"queryinfo", "EVD", query_evd},
    {"queryinfo", "PSP", query_psp},
    {"queryinfo", "RSP", query_rsp},
    {"queryinfo", "CR", query_cr},
    {"queryinfo", "EP", query_ep},
    {"queryinfo", "PZ", query_pz},
    {"queryinfo", "LMR", query_lmr},
    {"queryinfo", "RMR", query_rmr},
    {"queryinfo", "IA, bad parameter", query_ia_badly},
    {"queryinfo", "IA, bad handle", query_null_ia},
    {"queryinfo", "CNO, bad parameter", query_cno_badly},
    {"queryinfo", "CNO, bad handle", query_null_cno},
    {"queryinfo", "EVD, bad parameter", query_evd_badly},
    {"queryinfo", "EVD, bad handle", query_null_evd},
    {"queryinfo", "PSP, bad parameter", query_psp_badly},
    {"queryinfo", "PSP, bad handle", query_null_psp},
};

bool run_case(const Options& options, const Feature& feature, std::uint32_t number) {
  const std::string rule(69, '*');
  say(rule);
  say(fmt::format("Function feature: {:<40} case: {}", feature.feature, number));
  say(fmt::format("Description: {}", feature.description));
  Case c(options);
  feature.run(c);
  say(fmt::format("Result: {}", c.good() ? "PASS" : "FAIL"));
  say(rule);
  return c.good();
}

}  // namespace

bool run_features(const Options& options, Json& json) {
  std::uint32_t number = 0;
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  for (const Feature& feature : kFeatures) {
    if (options.feature != feature.feature) {
      continue;
    }
    const std::uint32_t current = number++;
    if (options.cases.empty() ||
        std::find(options.cases.begin(), options.cases.end(), current) != options.cases.end()) {
      ++(run_case(options, feature, current) ? passed : failed);
    }
  }
  json.add("feature", options.feature);
  json.add("passed", passed);
  json.add("failed", failed);
  if (passed + failed == 0) {
    return fail(fmt::format("{} has the cases 0 to {} only", options.feature, number - 1));
  }
  return failed == 0;
}

}  // namespace dapltest
