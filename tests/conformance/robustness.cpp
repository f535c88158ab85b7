// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "handle_calls.h"
#include "harness.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Bad arguments of every function: the rob_ lines of the checklist (checklist.cpp).
// (rob_layout is in tests/abi.)
namespace conformance {

namespace {

// The handle must be refused. If the IA lacks the function, the call may return that instead.
void expect_refused(const Call& call, World& world, DAT_HANDLE handle, const std::string& what) {
  const DAT_RETURN rc = call.run(world, handle);
  const bool refused =
      DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_HANDLE) || is_unsupported(rc) ||
      (call.in_structure && DAT_GET_TYPE(rc) == static_cast<DAT_RETURN>(DAT_INVALID_PARAMETER));
  BOOST_CHECK_MESSAGE(refused, call.name << " of " << what << " -> " << describe(rc));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(robustness)

BOOST_AUTO_TEST_CASE(rob_fuzz_handles_null, *covers("rob_fuzz_handles")) {
  World world;
  for (const Call& call : all_calls())
    if (!call.null_is_legal) expect_refused(call, world, DAT_HANDLE_NULL, "null");
}

BOOST_AUTO_TEST_CASE(rob_fuzz_handles_wrong_type) {
  World world;
  for (const Call& call : all_calls())
    for (int type = 0; type < kTypes; ++type)
      if (call.takes.count(static_cast<Type>(type)) == 0 && world.live[type] != DAT_HANDLE_NULL)
        expect_refused(call, world, world.live[type],
                       std::string("the handle of a ") + kTypeNames[type]);
}

BOOST_AUTO_TEST_CASE(rob_fuzz_handles_stale) {
  World world;
  for (const Call& call : all_calls())
    for (const Type type : call.takes)
      if (world.stale[type] != DAT_HANDLE_NULL)
        expect_refused(call, world, world.stale[type],
                       std::string("a handle that was freed: ") + kTypeNames[type]);
}

// Readable memory that is no object. The data path is not tested, because it spends no instruction
// on checking for that.
BOOST_AUTO_TEST_CASE(rob_fuzz_handles_no_objects, *covers("rob_fuzz_handles")) {
  static const std::set<std::string> data_path{"dat_ep_post_send",
                                               "dat_ep_post_send_with_invalidate",
                                               "dat_ep_post_recv",
                                               "dat_ep_post_rdma_read",
                                               "dat_ep_post_rdma_read_to_rmr",
                                               "dat_ep_post_rdma_write",
                                               "dat_rmr_bind",
                                               "dat_srq_post_recv",
                                               "dat_evd_dequeue"};
  World world;
  static const std::array<std::uint64_t, 64> zeroed{};
  static const std::string text(256, 'x');
  std::array<void*, 256> pointers{};  // larger than a provider's table
  pointers.fill(pointers.data());
  char* const evd = static_cast<char*>(world.live[kEvd]);
  const std::vector<std::pair<const void*, const char*>> handles{
      {reinterpret_cast<void*>(~std::uintptr_t{0}), "-1"},
      {reinterpret_cast<void*>(~std::uintptr_t{7}), "-8"},
      {zeroed.data(), "zeroed memory"},
      {text.data(), "text"},
      {pointers.data(), "pointers"},
      {evd + 1, "an EVD and 1 byte"},
      {evd + 8, "an EVD and 8 bytes"},
      {reinterpret_cast<const char*>(zeroed.data()) + 3, "an odd address"}};
  for (const Call& call : all_calls()) {
    if (data_path.count(call.name) != 0) continue;
    for (const auto& [handle, what] : handles)
      expect_refused(call, world, const_cast<void*>(handle), what);
  }
}

// Small numbers, like IA handles, that refer to no object; among them DAT_EVD_OUT_OF_SCOPE.
BOOST_AUTO_TEST_CASE(rob_fuzz_handles_numbers) {
  World world;
  for (const Call& call : all_calls())
    for (const std::uintptr_t number : {2U, 63U, 1000U, 4095U}) {
      const auto handle = reinterpret_cast<DAT_HANDLE>(number);
      DAT_HANDLE_TYPE type{};
      if (dat_get_handle_type(handle, &type) == DAT_SUCCESS) continue;  // an open IA
      expect_refused(call, world, handle, "the number " + std::to_string(number));
    }
}

// Unknown flag bits of posts are ignored; known ones take effect.
void post_with_flags(const Pair& pair, const Buffer& buffer, unsigned value) {
  const auto flags = not_an_enumerator<DAT_COMPLETION_FLAGS>(value & 0xfffffff0U);
  DAT_LMR_TRIPLET segments[4];  // transfers do not overlap
  for (std::size_t i = 0; i < 4; ++i) segments[i] = buffer.local(64, i * 64);
  const DAT_RMR_TRIPLET read_from = buffer.remote(64, 256), write_to = buffer.remote(64, 320);
  const DAT_EP_HANDLE ep = pair.active.ep;
  REQUIRE_OK(dat_ep_post_recv(pair.passive.ep, 1, &segments[0], cookie(1), flags));
  REQUIRE_OK(dat_ep_post_send(ep, 1, &segments[1], cookie(2), flags));
  REQUIRE_OK(dat_ep_post_rdma_read(ep, 1, &segments[2], cookie(3), &read_from, flags));
  REQUIRE_OK(dat_ep_post_rdma_write(ep, 1, &segments[3], cookie(4), &write_to, flags));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  for (const std::uint64_t posted : {2, 3, 4})
    expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, posted);
}

// A memory type must be one of the enumerators; unknown privileges and address types are ignored.
void create_lmrs(const Pair& pair, Buffer& buffer, unsigned value) {
  DAT_HANDLE out = DAT_HANDLE_NULL;
  DAT_REGION_DESCRIPTION region{};
  region.for_va = buffer.bytes.data();
  const auto create = [&](DAT_MEM_TYPE type, DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type) {
    return dat_lmr_create(pair.ia, type, region, 64, pair.pz, privileges, va_type, &out, nullptr,
                          nullptr, nullptr, nullptr);
  };
  CHECK_TYPE(create(not_an_enumerator<DAT_MEM_TYPE>(value), DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA),
             DAT_INVALID_PARAMETER);
  REQUIRE_OK(
      create(DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, not_an_enumerator<DAT_VA_TYPE>(value)));
  REQUIRE_OK(dat_lmr_free(out));
  REQUIRE_OK(create(DAT_MEM_TYPE_VIRTUAL,
                    not_an_enumerator<DAT_MEM_PRIV_FLAGS>(value | DAT_MEM_PRIV_ALL_FLAG),
                    DAT_VA_TYPE_VA));
  REQUIRE_OK(dat_lmr_free(out));
}

void connect_with(const Pair& pair, unsigned value) {
  End idle;
  idle.create(pair.ia, pair.pz, nullptr);
  const auto connect = [&](DAT_QOS qos, DAT_CONNECT_FLAGS how) {
    return dat_ep_connect(idle.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0,
                          nullptr, qos, how);
  };
  CHECK_TYPE_OR(connect(not_an_enumerator<DAT_QOS>(value), DAT_CONNECT_DEFAULT_FLAG),
                DAT_INVALID_PARAMETER, DAT_MODEL_NOT_SUPPORTED);
  CHECK_TYPE(connect(DAT_QOS_BEST_EFFORT, not_an_enumerator<DAT_CONNECT_FLAGS>(value)),
             DAT_INVALID_PARAMETER);
  BOOST_CHECK_EQUAL(ep_state(idle.ep), DAT_EP_STATE_UNCONNECTED);
}

// Masks with bits that belong to no field.
void query_beyond_all_fields(const Pair& pair, const Buffer& buffer) {
  const auto beyond = [](auto mask) {
    return not_an_enumerator<decltype(mask)>(static_cast<unsigned>(mask) | 0x40000000U);
  };
  DAT_EVD_PARAM evd_param{};
  REQUIRE_OK(dat_evd_query(pair.cr_evd, beyond(DAT_EVD_FIELD_ALL), &evd_param));
  DAT_PZ_PARAM pz_param{};
  REQUIRE_OK(dat_pz_query(pair.pz, beyond(DAT_PZ_FIELD_ALL), &pz_param));
  DAT_LMR_PARAM lmr_param{};
  REQUIRE_OK(dat_lmr_query(buffer.lmr, beyond(DAT_LMR_FIELD_ALL), &lmr_param));
  DAT_PSP_PARAM psp_param{};
  REQUIRE_OK(dat_psp_query(pair.psp, beyond(DAT_PSP_FIELD_ALL), &psp_param));
}

BOOST_AUTO_TEST_CASE(rob_invalid_enum_values) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 6 * 64);
  DAT_HANDLE out = DAT_HANDLE_NULL;
  pair.connect();
  for (const unsigned value : {0x40U, 0x80U, 0x12345600U, 0x80000000U, 0xFFFFFFFFU}) {
    BOOST_TEST_CONTEXT("value 0x" << std::hex << value) {
      CHECK_TYPE(dat_ia_close(pair.ia, not_an_enumerator<DAT_CLOSE_FLAGS>(value)),
                 DAT_INVALID_PARAMETER);
      post_with_flags(pair, buffer, value);
      CHECK_TYPE(dat_psp_create(pair.ia, fresh_conn_qual(), pair.cr_evd,
                                not_an_enumerator<DAT_PSP_FLAGS>(value), &out),
                 DAT_INVALID_PARAMETER);
      create_lmrs(pair, buffer, value);
      REQUIRE_OK(dat_evd_create(pair.ia, 8, DAT_HANDLE_NULL,
                                not_an_enumerator<DAT_EVD_FLAGS>(value & ~0x1f0U), &out));
      REQUIRE_OK(dat_evd_free(out));
      connect_with(pair, value);
    }
  }
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_CONNECTED);
  query_beyond_all_fields(pair, buffer);
}

// Every descriptor that the provider opens must be closed in programs that the application
// executes.
BOOST_AUTO_TEST_CASE(rob_fork_exec) {
  const auto descriptors = [] {
    std::set<int> result;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      result.insert(std::atoi(entry.path().filename().c_str()));
    return result;
  };
  const std::set<int> before = descriptors();
  Pair pair;
  pair.connect();
  Cno cno;
  DAT_FD fd = -1;
  const DAT_RETURN rc = dat_cno_fd_create(pair.ia, &fd, cno.out());
  BOOST_CHECK(rc == DAT_SUCCESS || is_unsupported(rc));
  int opened = 0;
  for (const int descriptor : descriptors()) {
    const int flags = ::fcntl(descriptor, F_GETFD);
    if (before.count(descriptor) != 0 || flags == -1) continue;  // opened before, or for listing
    ++opened;
    BOOST_CHECK_MESSAGE((flags & FD_CLOEXEC) != 0,
                        "descriptor " << descriptor << " is inherited: "
                                      << std::filesystem::read_symlink("/proc/self/fd/" +
                                                                       std::to_string(descriptor)));
  }
  if (fd >= 0) BOOST_CHECK_GE(opened, 1);
}

// All functions of the API, including those of 2.0 that other libraries lack.
constexpr const char* kFunctions[] = {"dat_cno_create",
                                      "dat_cno_fd_create",
                                      "dat_cno_free",
                                      "dat_cno_modify_agent",
                                      "dat_cno_query",
                                      "dat_cno_trigger",
                                      "dat_cno_wait",
                                      "dat_cr_accept",
                                      "dat_cr_handoff",
                                      "dat_cr_query",
                                      "dat_cr_reject",
                                      "dat_csp_create",
                                      "dat_csp_free",
                                      "dat_csp_query",
                                      "dat_ep_common_connect",
                                      "dat_ep_connect",
                                      "dat_ep_create",
                                      "dat_ep_create_with_srq",
                                      "dat_ep_disconnect",
                                      "dat_ep_dup_connect",
                                      "dat_ep_free",
                                      "dat_ep_get_status",
                                      "dat_ep_modify",
                                      "dat_ep_post_rdma_read",
                                      "dat_ep_post_rdma_read_to_rmr",
                                      "dat_ep_post_rdma_write",
                                      "dat_ep_post_recv",
                                      "dat_ep_post_send",
                                      "dat_ep_post_send_with_invalidate",
                                      "dat_ep_query",
                                      "dat_ep_recv_query",
                                      "dat_ep_reset",
                                      "dat_ep_set_watermark",
                                      "dat_evd_clear_unwaitable",
                                      "dat_evd_create",
                                      "dat_evd_dequeue",
                                      "dat_evd_disable",
                                      "dat_evd_enable",
                                      "dat_evd_free",
                                      "dat_evd_modify_cno",
                                      "dat_evd_post_se",
                                      "dat_evd_query",
                                      "dat_evd_resize",
                                      "dat_evd_set_unwaitable",
                                      "dat_evd_wait",
                                      "dat_extension_op",
                                      "dat_get_consumer_context",
                                      "dat_get_handle_type",
                                      "dat_ia_close",
                                      "dat_ia_openv",
                                      "dat_ia_query",
                                      "dat_lmr_create",
                                      "dat_lmr_free",
                                      "dat_lmr_query",
                                      "dat_lmr_sync_rdma_read",
                                      "dat_lmr_sync_rdma_write",
                                      "dat_psp_create",
                                      "dat_psp_create_any",
                                      "dat_psp_free",
                                      "dat_psp_query",
                                      "dat_pz_create",
                                      "dat_pz_free",
                                      "dat_pz_query",
                                      "dat_registry_add_provider",
                                      "dat_registry_list_providers",
                                      "dat_registry_providers_related",
                                      "dat_registry_remove_provider",
                                      "dat_rmr_bind",
                                      "dat_rmr_create",
                                      "dat_rmr_create_for_ep",
                                      "dat_rmr_free",
                                      "dat_rmr_query",
                                      "dat_rsp_create",
                                      "dat_rsp_free",
                                      "dat_rsp_query",
                                      "dat_set_consumer_context",
                                      "dat_srq_create",
                                      "dat_srq_free",
                                      "dat_srq_post_recv",
                                      "dat_srq_query",
                                      "dat_srq_resize",
                                      "dat_srq_set_lw",
                                      "dat_strerror"};

BOOST_AUTO_TEST_CASE(rob_stub_entries, *covers("ofa_1_stubs_exported")) {
  for (const char* const name : kFunctions)
    BOOST_CHECK_MESSAGE(::dlsym(RTLD_DEFAULT, name) != nullptr, name << " is not exported");
}

// Exactly the functions that the IA says it lacks are refused as not implemented.
BOOST_AUTO_TEST_CASE(rob_lacking_is_consistent) {
  Pair pair;
  Rmr rmr;
  BOOST_CHECK_EQUAL(is_unsupported(dat_rmr_create(pair.pz, rmr.out())), pair.ia.attr.max_rmrs == 0);
  Srq srq;
  DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
  BOOST_CHECK_EQUAL(is_unsupported(dat_srq_create(pair.ia, pair.pz, &attr, srq.out())),
                    pair.ia.attr.max_srqs == 0);
  DAT_COUNT count = 0;
  BOOST_CHECK_EQUAL(is_unsupported(dat_ep_recv_query(pair.active.ep, &count, &count)),
                    pair.ia.provider().ep_recv_info_supported == 0);
  BOOST_CHECK_EQUAL(is_unsupported(dat_ep_set_watermark(pair.active.ep, DAT_WATERMARK_INFINITE, 4)),
                    (pair.ia.provider().srq_watermarks_supported & 6) == 0);
  if (srq != DAT_HANDLE_NULL)
    BOOST_CHECK_EQUAL(is_unsupported(dat_srq_set_lw(srq, 1)),
                      (pair.ia.provider().srq_watermarks_supported & 1) == 0);
  // No provider has these operations.
  for (const int operation : {0x0800, 0x0FFF, 0x7FFF0FFF})
    BOOST_CHECK(
        is_unsupported(dat_extension_op(pair.active.ep, static_cast<DAT_EXTENDED_OP>(operation))));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
