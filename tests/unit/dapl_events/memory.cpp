// SPDX-License-Identifier: MIT OR GPL-2.0-only
// PZ, LMR, RMR.
#include "tests/unit/dapl_events/support.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "dapl/memory/shared_mapping.h"

namespace udapl::test {

namespace {

struct Region {
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
};

struct MemoryFixture : Fixture {
  DAT_RETURN create(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what, DAT_VLEN length,
                    unsigned privileges = DAT_MEM_PRIV_ALL_FLAG,
                    DAT_VA_TYPE va_type = DAT_VA_TYPE_VA) {
    region = Region{};
    return ia->lmr_create_func(
        ia.raw, type, what, length, pz, static_cast<DAT_MEM_PRIV_FLAGS>(privileges), va_type,
        &region.lmr, &region.lmr_context, &region.rmr_context, &region.length, &region.address);
  }
  DAT_RETURN create_va(void* address, DAT_VLEN length, unsigned privileges = DAT_MEM_PRIV_ALL_FLAG,
                       DAT_VA_TYPE va_type = DAT_VA_TYPE_VA) {
    DAT_REGION_DESCRIPTION what{};
    what.for_va = address;
    return create(DAT_MEM_TYPE_VIRTUAL, what, length, privileges, va_type);
  }
  DAT_RETURN create_shared(void* address, DAT_VLEN length) {
    DAT_REGION_DESCRIPTION what{};
    what.for_shared_memory = {address, &name};
    return create(DAT_MEM_TYPE_SHARED_VIRTUAL, what, length);
  }

  DAT_PZ_HANDLE pz = ia.pz();
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  char name[DAT_LMR_COOKIE_SIZE] = {};
  Region region;
};

// Mapped pages of this process, unmapped by the destructor.
class Pages {
 public:
  Pages(std::size_t size, int flags)
      : size_(size),
        address_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0)) {
    BOOST_REQUIRE(address_ != MAP_FAILED);
  }
  ~Pages() { ::munmap(address_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] char* get() const { return static_cast<char*>(address_); }

 private:
  std::size_t size_;
  void* address_;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memory_objects, MemoryFixture)

BOOST_AUTO_TEST_CASE(pz_is_queried_and_refuses_bad_arguments) {
  DAT_PZ_PARAM param{};
  REQUIRE_OK(ia->pz_query_func(pz, DAT_PZ_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  REQUIRE_OK(ia->pz_query_func(pz, any_value<DAT_PZ_PARAM_MASK>(2), &param));
  CHECK_ERROR(ia->pz_query_func(pz, DAT_PZ_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->pz_create_func(ia.raw, nullptr), DAT_INVALID_PARAMETER);
  DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
  CHECK_ERROR(ia->pz_create_func(pz, &made), DAT_INVALID_HANDLE);
  fake::settings().fail_from = 1;
  CHECK_ERROR(ia->pz_create_func(ia.raw, &made), DAT_INSUFFICIENT_RESOURCES);
  fake::settings().fail_from = 0;
  std::vector<DAT_PZ_HANDLE> all;
  for (int i = 1; i < 16; ++i) all.push_back(ia.pz());
  CHECK_ERROR(ia->pz_create_func(ia.raw, &made), DAT_INSUFFICIENT_RESOURCES);
  for (const DAT_PZ_HANDLE each : all) REQUIRE_OK(ia->pz_free_func(each));
  REQUIRE_OK(create_va(memory.data(), 10));
  CHECK_CODE(ia->pz_free_func(pz), invalid_state(DAT_INVALID_STATE_PZ_IN_USE));
  REQUIRE_OK(ia->lmr_free_func(region.lmr));
  REQUIRE_OK(ia->pz_free_func(pz));
  CHECK_ERROR(ia->pz_free_func(pz), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(lmr_query_returns_the_requested_attributes) {
  REQUIRE_OK(create_va(memory.data() + 3, 100, DAT_MEM_PRIV_ALL_FLAG));
  BOOST_CHECK(region.lmr_context != 0);
  BOOST_CHECK(region.rmr_context != 0);
  BOOST_CHECK_EQUAL(region.length, 100U);
  BOOST_CHECK_EQUAL(region.address, reinterpret_cast<DAT_VADDR>(memory.data() + 3));
  DAT_LMR_PARAM param;
  std::memset(&param, 0xA5, sizeof param);
  REQUIRE_OK(ia->lmr_query_func(region.lmr, DAT_LMR_FIELD_LENGTH, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.mem_type, DAT_MEM_TYPE_VIRTUAL);
  BOOST_CHECK_EQUAL(param.region_desc.for_va, memory.data() + 3);
  BOOST_CHECK_EQUAL(param.length, 100U);
  BOOST_CHECK_EQUAL(param.pz_handle, pz);
  BOOST_CHECK_EQUAL(static_cast<int>(param.mem_priv), 0x33);
  BOOST_CHECK_EQUAL(param.va_type, DAT_VA_TYPE_VA);
  BOOST_CHECK_EQUAL(param.lmr_context, region.lmr_context);
  BOOST_CHECK_EQUAL(param.rmr_context, region.rmr_context);
  BOOST_CHECK_EQUAL(param.registered_size, 100U);
  BOOST_CHECK_EQUAL(param.registered_address, region.address);
  REQUIRE_OK(ia->lmr_query_func(region.lmr, any_value<DAT_LMR_PARAM_MASK>(0x800), &param));
  CHECK_ERROR(ia->lmr_query_func(region.lmr, DAT_LMR_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(ia->lmr_free_func(region.lmr));
  CHECK_ERROR(ia->lmr_free_func(region.lmr), DAT_INVALID_HANDLE);
  REQUIRE_OK(create_va(memory.data(), 1, DAT_MEM_PRIV_LOCAL_READ_FLAG));
  BOOST_CHECK(region.rmr_context != 0);
}

BOOST_AUTO_TEST_CASE(bad_lmr_arguments_are_refused) {
  CHECK_ERROR(create_va(nullptr, 10), DAT_INVALID_PARAMETER);
  CHECK_ERROR(create_va(memory.data(), ~DAT_VLEN{0}), DAT_INVALID_PARAMETER);  // wraps
  CHECK_ERROR(create_va(memory.data(), (DAT_VLEN{1} << 40) + 1), DAT_INVALID_PARAMETER);
  REQUIRE_OK(create_va(memory.data(), 10, 0x80));
  REQUIRE_OK(create_va(memory.data(), 10, 0x40));  // remote atomics of the IB extension
  REQUIRE_OK(create_va(memory.data(), 10, 0x33, any_value<DAT_VA_TYPE>(2)));
  DAT_REGION_DESCRIPTION what{};
  what.for_va = memory.data();
  CHECK_ERROR(create(any_value<DAT_MEM_TYPE>(3), what, 10), DAT_INVALID_PARAMETER);
  const auto call = [&](DAT_IA_HANDLE on, DAT_PZ_HANDLE zone, DAT_LMR_HANDLE* lmr) {
    return ia->lmr_create_func(on, DAT_MEM_TYPE_VIRTUAL, what, 10, zone, DAT_MEM_PRIV_ALL_FLAG,
                               DAT_VA_TYPE_VA, lmr, nullptr, nullptr, nullptr, nullptr);
  };
  const OpenIa other;
  CHECK_ERROR(call(pz, pz, &region.lmr), DAT_INVALID_HANDLE);
  CHECK_ERROR(call(ia.raw, ia.raw, &region.lmr), DAT_INVALID_HANDLE);
  CHECK_ERROR(call(ia.raw, other.pz(), &region.lmr), DAT_INVALID_HANDLE);
  CHECK_ERROR(call(ia.raw, pz, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(call(ia.raw, pz, &region.lmr));  // the other results are optional
  fake::settings().fail_from = 1;
  CHECK_ERROR(call(ia.raw, pz, &region.lmr), DAT_INSUFFICIENT_RESOURCES);
}

BOOST_AUTO_TEST_CASE(lmr_types_that_the_transport_lacks) {
  fake::settings().attributes.zero_based_va = false;
  fake::settings().attributes.shared_memory_lmr = false;
  fake::settings().attributes.extension = DAT_EXTENSION_NONE;
  const OpenIa poor;
  const DAT_PZ_HANDLE zone = poor.pz();
  const Pages shared(4096, MAP_SHARED);
  const auto call = [&](DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what, int privileges,
                        DAT_VA_TYPE va_type) {
    return poor->lmr_create_func(poor.raw, type, what, 10, zone,
                                 static_cast<DAT_MEM_PRIV_FLAGS>(privileges), va_type, &region.lmr,
                                 nullptr, nullptr, nullptr, nullptr);
  };
  DAT_REGION_DESCRIPTION va{};
  va.for_va = memory.data();
  DAT_REGION_DESCRIPTION named{};
  named.for_shared_memory = {shared.get(), &name};
  CHECK_ERROR(call(DAT_MEM_TYPE_VIRTUAL, va, 0x33, DAT_VA_TYPE_ZB), DAT_MODEL_NOT_SUPPORTED);
  CHECK_ERROR(call(DAT_MEM_TYPE_SHARED_VIRTUAL, named, 0x33, DAT_VA_TYPE_VA),
              DAT_MODEL_NOT_SUPPORTED);
  REQUIRE_OK(call(DAT_MEM_TYPE_VIRTUAL, va, 0x40, DAT_VA_TYPE_VA));
  DAT_PROVIDER_ATTR attr{};
  REQUIRE_OK(poor->ia_query_func(poor.raw, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
  BOOST_CHECK_EQUAL(static_cast<int>(attr.lmr_mem_types_supported), 1);
}

BOOST_AUTO_TEST_CASE(lmr_of_an_lmr) {
  REQUIRE_OK(create_va(memory.data() + 8, 200, DAT_MEM_PRIV_LOCAL_READ_FLAG, DAT_VA_TYPE_ZB));
  const Region source = region;
  DAT_REGION_DESCRIPTION what{};
  what.for_lmr_handle = source.lmr;
  REQUIRE_OK(create(DAT_MEM_TYPE_LMR, what, 0, DAT_MEM_PRIV_ALL_FLAG));  // the length is ignored
  BOOST_CHECK_EQUAL(region.length, 200U);
  BOOST_CHECK_EQUAL(region.address, source.address);
  BOOST_CHECK(region.lmr_context != source.lmr_context);
  BOOST_CHECK(region.rmr_context != 0);
  DAT_LMR_PARAM param{};
  REQUIRE_OK(ia->lmr_query_func(region.lmr, DAT_LMR_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.mem_type, DAT_MEM_TYPE_LMR);
  BOOST_CHECK_EQUAL(param.region_desc.for_lmr_handle, source.lmr);
  BOOST_CHECK_EQUAL(param.length, 200U);
  REQUIRE_OK(ia->lmr_free_func(source.lmr));  // may be freed first
  CHECK_ERROR(create(DAT_MEM_TYPE_LMR, what, 0), DAT_INVALID_HANDLE);
  const OpenIa other;
  what.for_lmr_handle = region.lmr;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  CHECK_ERROR(other->lmr_create_func(other.raw, DAT_MEM_TYPE_LMR, what, 0, other.pz(),
                                     DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, nullptr, nullptr,
                                     nullptr, nullptr),
              DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(only_shared_memory_is_registered_as_such) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Pages shared(4 * page, MAP_SHARED);
  const Pages own(4 * page, MAP_PRIVATE);
  REQUIRE_OK(create_shared(shared.get() + 5, 2 * page));
  BOOST_CHECK_EQUAL(region.length, 2 * page);
  CHECK_ERROR(create_shared(own.get(), page), DAT_INVALID_STATE);
  CHECK_ERROR(create_shared(shared.get(), 0), DAT_INVALID_PARAMETER);
  DAT_REGION_DESCRIPTION unnamed{};
  unnamed.for_shared_memory = {shared.get(), nullptr};
  CHECK_ERROR(create(DAT_MEM_TYPE_SHARED_VIRTUAL, unnamed, page), DAT_INVALID_PARAMETER);

  const auto is_shared = [](const char* address, std::size_t length) {
    return dapl::is_shared_mapping(reinterpret_cast<DAT_VADDR>(address), length);
  };
  BOOST_CHECK(is_shared(shared.get(), 4 * page));
  BOOST_CHECK(is_shared(shared.get() + 4 * page - 1, 1));
  BOOST_REQUIRE_EQUAL(::mprotect(shared.get() + page, page, PROT_READ), 0);  // now three mappings
  BOOST_CHECK(is_shared(shared.get(), 4 * page));
  BOOST_REQUIRE_EQUAL(::munmap(shared.get() + page, page), 0);  // a hole
  BOOST_CHECK(!is_shared(shared.get(), 4 * page));
  BOOST_CHECK(is_shared(shared.get(), page));
  BOOST_CHECK(is_shared(shared.get() + 2 * page, 2 * page));
  BOOST_REQUIRE(::mmap(shared.get() + page, page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
  BOOST_CHECK(!is_shared(shared.get(), 4 * page));  // a private page in between
  BOOST_CHECK(!is_shared(own.get(), 1));
  const char local = 0;
  BOOST_CHECK(!is_shared(&local, 1));
}

// Without a free descriptor the mappings cannot be read. Memory that is not known to be shared is
// refused.
BOOST_AUTO_TEST_CASE(shared_memory_that_cannot_be_inspected) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Pages shared(page, MAP_SHARED);
  rlimit before{};
  BOOST_REQUIRE_EQUAL(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  const Traced traced;
  BOOST_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const DAT_RETURN code = create_shared(shared.get(), page);
  BOOST_REQUIRE_EQUAL(::setrlimit(RLIMIT_NOFILE, &before), 0);
  CHECK_ERROR(code, DAT_INVALID_STATE);
  BOOST_CHECK(traced.has(trace::kError, "/proc/self/maps: Too many open files"));
  REQUIRE_OK(create_shared(shared.get(), page));
}

// Memory beyond the last mapping of the process is not shared.
BOOST_AUTO_TEST_CASE(shared_memory_behind_everything) {
  constexpr DAT_VADDR kLastPage = ~DAT_VADDR{0xFFF};
  BOOST_CHECK(!dapl::is_shared_mapping(kLastPage, 4096));
  CHECK_ERROR(create_shared(reinterpret_cast<void*>(kLastPage), 4096), DAT_INVALID_STATE);
}

BOOST_AUTO_TEST_CASE(sync_needs_only_a_valid_ia) {
  const DAT_LMR_TRIPLET unknown{1, 100, 77};
  for (const auto sync : {ia->lmr_sync_rdma_read_func, ia->lmr_sync_rdma_write_func}) {
    REQUIRE_OK(sync(ia.raw, nullptr, 0));
    REQUIRE_OK(sync(ia.raw, nullptr, 1));
    REQUIRE_OK(sync(ia.raw, &unknown, 1));
    CHECK_ERROR(sync(pz, &unknown, 1), DAT_INVALID_HANDLE);
  }
}

BOOST_AUTO_TEST_CASE(rmr_is_queried_and_refuses_bad_arguments) {
  DAT_RMR_HANDLE by_pz = DAT_HANDLE_NULL;
  DAT_RMR_HANDLE by_ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(pz, &by_pz));
  REQUIRE_OK(ia->rmr_create_for_ep_func(pz, &by_ep));
  CHECK_ERROR(ia->rmr_create_func(pz, nullptr), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->rmr_create_func(ia.raw, &by_pz), DAT_INVALID_HANDLE);
  DAT_RMR_PARAM param;
  std::memset(&param, 0xA5, sizeof param);
  REQUIRE_OK(ia->rmr_query_func(by_pz, DAT_RMR_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.ia_handle, ia.number);
  BOOST_CHECK_EQUAL(param.pz_handle, pz);
  BOOST_CHECK_EQUAL(param.rmr_scope, DAT_RMR_SCOPE_PZ);
  BOOST_CHECK_EQUAL(param.rmr_context, 0U);
  BOOST_CHECK_EQUAL(param.lmr_triplet.segment_length, 0U);
  REQUIRE_OK(ia->rmr_query_func(by_ep, DAT_RMR_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.rmr_scope, DAT_RMR_SCOPE_EP);
  REQUIRE_OK(ia->rmr_query_func(by_ep, any_value<DAT_RMR_PARAM_MASK>(0x80), &param));
  CHECK_ERROR(ia->rmr_query_func(by_ep, DAT_RMR_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  CHECK_CODE(ia->pz_free_func(pz), invalid_state(DAT_INVALID_STATE_PZ_IN_USE));
  fake::settings().fail_from = 1;
  DAT_RMR_HANDLE made = DAT_HANDLE_NULL;
  CHECK_ERROR(ia->rmr_create_func(pz, &made), DAT_INSUFFICIENT_RESOURCES);
  fake::settings().fail_from = 0;
  REQUIRE_OK(ia->rmr_free_func(by_pz));
  REQUIRE_OK(ia->rmr_free_func(by_ep));
  CHECK_ERROR(ia->rmr_free_func(by_ep), DAT_INVALID_HANDLE);
  REQUIRE_OK(ia->pz_free_func(pz));
}

BOOST_AUTO_TEST_CASE(rmr_scopes_that_the_transport_lacks) {
  fake::settings().attributes.rmr_scope = DAT_RMR_SCOPE_PZ;
  const OpenIa pz_only;
  DAT_RMR_HANDLE made = DAT_HANDLE_NULL;
  const DAT_PZ_HANDLE zone = pz_only.pz();
  REQUIRE_OK(pz_only->rmr_create_func(zone, &made));
  CHECK_ERROR(pz_only->rmr_create_for_ep_func(zone, &made), DAT_MODEL_NOT_SUPPORTED);
  fake::settings().attributes.max_rmrs = 0;
  const OpenIa none;
  CHECK_ERROR(none->rmr_create_func(none.pz(), &made), DAT_MODEL_NOT_SUPPORTED);
}

BOOST_AUTO_TEST_CASE(object_limits_of_the_transport) {
  fake::settings().attributes.max_lmrs = 1;
  fake::settings().attributes.max_rmrs = 1;
  const OpenIa few;
  const DAT_PZ_HANDLE zone = few.pz();
  DAT_REGION_DESCRIPTION where{};
  where.for_va = memory.data();
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  const auto create_lmr = [&] {
    return few->lmr_create_func(few.raw, DAT_MEM_TYPE_VIRTUAL, where, 8, zone,
                                DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, nullptr, nullptr,
                                nullptr, nullptr);
  };
  REQUIRE_OK(create_lmr());
  const DAT_LMR_HANDLE only_lmr = lmr;
  CHECK_CODE(create_lmr(), dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION));
  REQUIRE_OK(few->lmr_free_func(only_lmr));
  REQUIRE_OK(create_lmr());
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(few->rmr_create_func(zone, &rmr));
  const DAT_RMR_HANDLE only_rmr = rmr;
  CHECK_CODE(few->rmr_create_func(zone, &rmr),
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION));
  REQUIRE_OK(few->rmr_free_func(only_rmr));
  REQUIRE_OK(few->rmr_create_func(zone, &rmr));
}

// An LMR with a bound RMR cannot be freed; freeing the RMR unbinds it.
BOOST_AUTO_TEST_CASE(a_bound_rmr_keeps_its_lmr) {
  REQUIRE_OK(create_va(memory.data(), 100));
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(pz, &rmr));
  const DAT_EVD_HANDLE evd =
      ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG | DAT_EVD_CONNECTION_FLAG, 64);
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, evd, evd, evd, nullptr, &ep));
  transport::SocketAddress peer = fake::Network::address();
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->psp_create_func(ia.raw, 99, ia.evd(DAT_EVD_CR_FLAG), DAT_PSP_CONSUMER_FLAG, &psp));
  REQUIRE_OK(ia->ep_connect_func(ep, peer.get(), 99, kForever, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                 DAT_CONNECT_DEFAULT_FLAG));
  fake::Qp* const qp = fake::Qp::of(ep);
  BOOST_REQUIRE(qp != nullptr);
  qp->establish();
  fake::Scheduler::instance().run();
  DAT_EVENT event{};
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_REQUIRE_EQUAL(static_cast<int>(event.event_number), 0x4001);

  const DAT_LMR_TRIPLET range{region.address + 10, 20, region.lmr_context};
  DAT_RMR_COOKIE user{};
  user.as_64 = 5;
  DAT_RMR_CONTEXT context = 0;
  REQUIRE_OK(ia->rmr_bind_func(rmr, region.lmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                               DAT_VA_TYPE_VA, ep, user, DAT_COMPLETION_DEFAULT_FLAG, &context));
  BOOST_CHECK(context != 0);
  REQUIRE_OK(ia->evd_dequeue_func(evd, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), 0x1001);
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.rmr_handle, rmr);
  BOOST_CHECK_EQUAL(event.event_data.rmr_completion_event_data.user_cookie.as_64, 5U);
  DAT_RMR_PARAM param{};
  REQUIRE_OK(ia->rmr_query_func(rmr, DAT_RMR_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.lmr_triplet.virtual_address, region.address + 10);
  BOOST_CHECK_EQUAL(param.lmr_triplet.segment_length, 20U);
  BOOST_CHECK_EQUAL(static_cast<int>(param.mem_priv), 2);
  BOOST_CHECK_EQUAL(param.rmr_context, context);
  CHECK_CODE(ia->lmr_free_func(region.lmr),
             DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_LMR_IN_USE);
  REQUIRE_OK(ia->rmr_free_func(rmr));
  REQUIRE_OK(ia->lmr_free_func(region.lmr));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
