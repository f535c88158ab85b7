// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The limit test: how many objects of a kind can exist at the same time.
#include "control.h"

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace dapltest {
namespace {

constexpr std::size_t kBuffer = 4096;
constexpr int kTries = 64;  // other conn quals, if programs use these
constexpr std::uint64_t kLargestRegion = std::uint64_t{1} << 30;

// The objects that an object under test needs. A run has `width` such sets.
struct Surroundings {
  Adapter adapter;
  Pz pz;
  Evd dto_evd;
  Evd connection_evd;
  Evd cr_evd;

  [[nodiscard]] bool create(const std::string& device) {
    const auto evd = [&](int flags, Evd& to) {
      return ok(dat_evd_create(adapter.handle(), 16, DAT_HANDLE_NULL,
                               static_cast<DAT_EVD_FLAGS>(flags), to.out()),
                "creating an event dispatcher");
    };
    return adapter.open(device) && ok(dat_pz_create(adapter.handle(), pz.out()), "creating a PZ") &&
           evd(DAT_EVD_DTO_FLAG, dto_evd) && evd(DAT_EVD_CONNECTION_FLAG, connection_evd) &&
           evd(DAT_EVD_CR_FLAG, cr_evd);
  }

  [[nodiscard]] DAT_RETURN create_ep(Ep& ep) const {
    return dat_ep_create(adapter.handle(), pz.get(), dto_evd.get(), dto_evd.get(),
                         connection_evd.get(), nullptr, ep.out());
  }
};

// One run of the limit test.
class Limits {
 public:
  Limits(const Options& options, Json& json) : options_(options), json_(json) {}

  [[nodiscard]] bool run(const std::string& limit) {
    say(std::string(70, '*'));
    say(fmt::format("Limitation Test                      {}", limit));
    std::deque<Surroundings> sets(options_.width);
    for (Surroundings& set : sets) {
      if (!set.create(options_.device)) {
        return false;
      }
    }
    sets_ = &sets;
    const bool good = dispatch(limit);
    say(std::string(70, '*'));
    return good;
  }

 private:
  bool dispatch(const std::string& limit) {
    if (limit == "limit_rpost") {
      return receives();
    }
    if (limit == "limit_size_lmr") {
      return region_size();
    }
    if (limit == "limit_ia") {
      return count<Ia>(limit, "IAs opened", "dat_ia_open",
                       [this](Surroundings&, Ia& ia) { return open_ia(options_.device, ia); });
    }
    if (limit == "limit_pz") {
      return count<Pz>(limit, "PZs created", "dat_pz_create", [](Surroundings& set, Pz& pz) {
        return dat_pz_create(set.adapter.handle(), pz.out());
      });
    }
    if (limit == "limit_cno") {
      return count<Cno>(limit, "CNOs created", "dat_cno_create", [](Surroundings& set, Cno& cno) {
        return dat_cno_create(set.adapter.handle(), DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out());
      });
    }
    if (limit == "limit_evd") {
      return count<Evd>(limit, "EVDs created", "dat_evd_create", [](Surroundings& set, Evd& evd) {
        return dat_evd_create(set.adapter.handle(), 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
                              evd.out());
      });
    }
    if (limit == "limit_ep") {
      return count<Ep>(limit, "EPs created", "dat_ep_create",
                       [](Surroundings& set, Ep& ep) { return set.create_ep(ep); });
    }
    if (limit == "limit_psp") {
      return count<Psp>(limit, "PSPs created", "dat_psp_create",
                        [this](Surroundings& set, Psp& psp) {
                          return dat_psp_create(set.adapter.handle(), next_port(), set.cr_evd.get(),
                                                DAT_PSP_CONSUMER_FLAG, psp.out());
                        });
    }
    if (limit == "limit_rsp") {
      return reserved_points();
    }
    return regions();
  }

  [[nodiscard]] DAT_CONN_QUAL next_port() {
    port_ = port_ >= 65535 ? 1024 : port_ + 1;
    return port_;
  }

  // Creates objects, from each set in turn, until a call fails or `maximum` is reached. A conn qual
  // that another program uses is passed over.
  template <class Object, class Create>
  bool count(const std::string& limit, const char* what, const char* call, Create create) {
    std::deque<Object> objects;
    for (std::uint32_t i = 0; i < options_.maximum; ++i) {
      Object object;
      DAT_RETURN status = DAT_CONN_QUAL_IN_USE;
      for (int tries = 0; tries < kTries && DAT_GET_TYPE(status) == DAT_CONN_QUAL_IN_USE; ++tries)
        status = create((*sets_)[i % sets_->size()], object);
      if (status != DAT_SUCCESS) {
        say(fmt::format("LimitTest: {} #{} fails: {}", call, i + 1, describe(status)));
        break;
      }
      objects.push_back(std::move(object));
    }
    return result(limit, what, objects.size());
  }

  bool result(const std::string& limit, const char* what, std::uint64_t number) {
    say(fmt::format("LimitTest: {}: {}", what, number));
    json_.add(limit, number);
    return number > 0 || fail(fmt::format("{}: none succeeded", limit));
  }

  bool reserved_points() {
    std::deque<Ep> endpoints;
    return count<Rsp>(
        "limit_rsp", "RSPs created", "dat_rsp_create", [&](Surroundings& set, Rsp& rsp) {
          const DAT_RETURN status = set.create_ep(endpoints.emplace_back());
          return status != DAT_SUCCESS
                     ? status
                     : dat_rsp_create(set.adapter.handle(), next_port(), endpoints.back().get(),
                                      set.cr_evd.get(), rsp.out());
        });
  }

  static DAT_RETURN enroll(Surroundings& set, void* start, std::uint64_t size, Lmr& lmr,
                           DAT_LMR_CONTEXT* context) {
    DAT_REGION_DESCRIPTION description{};
    description.for_va = start;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN registered_size = 0;
    DAT_VADDR registered_address = 0;
    return dat_lmr_create(set.adapter.handle(), DAT_MEM_TYPE_VIRTUAL, description,
                          static_cast<DAT_VLEN>(size), set.pz.get(), DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, lmr.out(), context, &rmr_context, &registered_size,
                          &registered_address);
  }

  bool regions() {
    std::vector<std::byte> buffer(kBuffer);
    return count<Lmr>("limit_lmr", "LMRs created", "dat_lmr_create",
                      [&](Surroundings& set, Lmr& lmr) {
                        DAT_LMR_CONTEXT context = 0;
                        return enroll(set, buffer.data(), buffer.size(), lmr, &context);
                      });
  }

  bool receives() {
    Surroundings& set = sets_->front();
    std::vector<std::byte> buffer(kBuffer);
    Lmr lmr;
    DAT_LMR_CONTEXT context = 0;
    if (!ok(enroll(set, buffer.data(), buffer.size(), lmr, &context), "registering memory")) {
      return false;
    }
    Ep ep;  // must be freed before the memory
    if (!ok(set.create_ep(ep), "creating an endpoint")) {
      return false;
    }
    DAT_LMR_TRIPLET segment{};
    segment.lmr_context = context;
    segment.virtual_address = reinterpret_cast<std::uintptr_t>(buffer.data());
    segment.segment_length = kBuffer;
    std::uint32_t posted = 0;
    for (; posted < options_.maximum; ++posted) {
      DAT_DTO_COOKIE cookie{};
      const DAT_RETURN status =
          dat_ep_post_recv(ep.get(), 1, &segment, cookie, DAT_COMPLETION_DEFAULT_FLAG);
      if (status != DAT_SUCCESS) {
        say(fmt::format("LimitTest: dat_ep_post_recv #{} fails: {}", posted + 1, describe(status)));
        break;
      }
    }
    return result("limit_rpost", "recv buffers posted per EP", posted);
  }

  bool region_size() {
    void* const area = mmap(nullptr, kLargestRegion, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED) {
      return fail(fmt::format("no address space for {} bytes", kLargestRegion));
    }
    std::uint64_t largest = 0;
    for (std::uint64_t size = kBuffer; size <= kLargestRegion; size *= 2) {
      Lmr lmr;
      DAT_LMR_CONTEXT context = 0;
      const DAT_RETURN status = enroll(sets_->front(), area, size, lmr, &context);
      if (status != DAT_SUCCESS) {
        say(fmt::format("LimitTest: dat_lmr_create of {:#x} bytes fails: {}", size,
                        describe(status)));
        break;
      }
      largest = size;
    }
    munmap(area, kLargestRegion);
    return result("limit_size_lmr", "bytes of the largest LMR", largest);
  }

  const Options& options_;
  Json& json_;
  std::deque<Surroundings>* sets_ = nullptr;
  std::uint32_t port_ = 20000;
};

}  // namespace

bool run_limits(const Options& options, Json& json) {
  json.add("width", std::uint64_t{options.width});
  json.add("maximum", std::uint64_t{options.maximum});
  bool good = true;
  for (const std::string& limit : options.limits.empty() ? limit_names() : options.limits) {
    good = Limits(options, json).run(limit) && good;
  }
  return good;
}

}  // namespace dapltest
