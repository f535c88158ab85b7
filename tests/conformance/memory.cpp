// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>

// Protection zones and local memory regions: section 10.3 of the checklist (checklist.cpp).
namespace conformance {

namespace {

// The arguments of dat_lmr_create, with defaults for those that a test does not vary.
struct Registration {
  DAT_RETURN create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
                    DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges,
                    DAT_VA_TYPE va_type = DAT_VA_TYPE_VA) {
    return dat_lmr_create(ia, type, region, length, pz, privileges, va_type, lmr.out(),
                          &lmr_context, &rmr_context, &registered_length, &registered_address);
  }
  LmrHandle lmr;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0xA5A5A5A5;
  DAT_VLEN registered_length = 0;
  DAT_VADDR registered_address = 0;
};

DAT_REGION_DESCRIPTION virtual_region(void* address) {
  DAT_REGION_DESCRIPTION region{};
  region.for_va = address;
  return region;
}

constexpr auto kLocal =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);

// A message arrives for a receive whose memory is no longer registered. Returns the status of the
// receive.
DAT_DTO_COMPLETION_STATUS receive_into_freed(Pair& pair) {
  const Buffer out(pair.ia, pair.pz, 64);
  Buffer gone(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(gone, 64, 1));
  REQUIRE_OK(dat_lmr_free(gone.lmr.release()));
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  return expect_dto_failure(pair.passive.recv_evd, 1);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(pz_query_and_free) {
  Ia ia;
  const Pz pz = make_pz(ia);
  DAT_PZ_PARAM param{};
  REQUIRE_OK(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param));
  BOOST_CHECK(param.ia_handle == ia.handle);
  CHECK_TYPE(dat_pz_query(pz, DAT_PZ_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_pz_create(ia, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(
    pz_free_busy, *covers("pz_free_busy_ep pz_free_busy_lmr pz_free_busy_rmr pz_free_busy_srq")) {
  Ia ia;
  const Pz pz = make_pz(ia);
  {
    End end;
    end.create(ia, pz, nullptr);
    CHECK_TYPE(dat_pz_free(pz), DAT_INVALID_STATE);
  }
  {
    const Buffer buffer(ia, pz, 64);
    CHECK_TYPE(dat_pz_free(pz), DAT_INVALID_STATE);
  }
  {
    Rmr rmr;
    if (dat_rmr_create(pz, rmr.out()) == DAT_SUCCESS)
      CHECK_TYPE(dat_pz_free(pz), DAT_INVALID_STATE);
  }
  Srq srq;
  DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
  if (dat_srq_create(ia, pz, &attr, srq.out()) == DAT_SUCCESS)
    CHECK_TYPE(dat_pz_free(pz), DAT_INVALID_STATE);
}

// Only the rights that the privileges need are needed.
BOOST_AUTO_TEST_CASE(lmr_create_unusable_memory) {
  Ia ia;
  const Pz pz = make_pz(ia);
  constexpr std::size_t kPart = 1U << 20;
  void* const mapped = ::mmap(nullptr, 3 * kPart, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(mapped != MAP_FAILED);
  char* const bytes = static_cast<char*>(mapped);
  const auto create = [&](void* address, std::size_t length, unsigned privileges) {
    Registration made;
    return made.create(ia, DAT_MEM_TYPE_VIRTUAL, virtual_region(address), length, pz,
                       static_cast<DAT_MEM_PRIV_FLAGS>(privileges));
  };
  constexpr unsigned kRead = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG;
  BOOST_CHECK_EQUAL(create(bytes, 3 * kPart, kRead), DAT_SUCCESS);
  CHECK_TYPE(create(bytes, 8, kLocal), DAT_PRIVILEGES_VIOLATION);
  CHECK_TYPE(create(bytes, 3 * kPart, kRead | DAT_MEM_PRIV_REMOTE_WRITE_FLAG),
             DAT_PRIVILEGES_VIOLATION);
  BOOST_REQUIRE_EQUAL(::mprotect(bytes, kPart, PROT_READ | PROT_WRITE), 0);
  BOOST_CHECK_EQUAL(create(bytes, kPart, kLocal), DAT_SUCCESS);
  CHECK_TYPE(create(bytes + kPart - 8, 16, kLocal), DAT_PRIVILEGES_VIOLATION);
  BOOST_REQUIRE_EQUAL(::munmap(bytes + kPart, kPart), 0);
  CHECK_TYPE(create(bytes, 3 * kPart, kRead), DAT_PRIVILEGES_VIOLATION);  // with a hole
  CHECK_TYPE(create(bytes + kPart, 8, kRead), DAT_PRIVILEGES_VIOLATION);
  BOOST_CHECK_EQUAL(create(bytes + 2 * kPart, kPart, kRead), DAT_SUCCESS);
  BOOST_REQUIRE_EQUAL(::munmap(bytes, 3 * kPart), 0);
}

BOOST_AUTO_TEST_CASE(lmr_create_virtual, *covers("lmr_create_remote_ctx lmr_query_all")) {
  Ia ia;
  const Pz pz = make_pz(ia);
  std::array<char, 1000> bytes{};
  Registration made;
  REQUIRE_OK(made.create(ia, DAT_MEM_TYPE_VIRTUAL, virtual_region(bytes.data()), bytes.size(), pz,
                         DAT_MEM_PRIV_ALL_FLAG));
  const auto address = reinterpret_cast<DAT_VADDR>(bytes.data());
  BOOST_CHECK_LE(made.registered_address, address);
  BOOST_CHECK_GE(made.registered_address + made.registered_length, address + bytes.size());
  BOOST_CHECK_NE(made.rmr_context, 0U);
  DAT_LMR_PARAM param{};
  REQUIRE_OK(dat_lmr_query(made.lmr, DAT_LMR_FIELD_ALL, &param));
  BOOST_CHECK(param.ia_handle == ia.handle);
  BOOST_CHECK_EQUAL(param.mem_type, DAT_MEM_TYPE_VIRTUAL);
  BOOST_CHECK(param.region_desc.for_va == bytes.data());
  BOOST_CHECK_EQUAL(param.length, bytes.size());
  BOOST_CHECK(param.pz_handle == pz);
  BOOST_CHECK_EQUAL(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
  BOOST_CHECK_EQUAL(param.lmr_context, made.lmr_context);
  BOOST_CHECK_EQUAL(param.rmr_context, made.rmr_context);
  BOOST_CHECK_EQUAL(param.registered_size, made.registered_length);
  BOOST_CHECK_EQUAL(param.registered_address, made.registered_address);
  CHECK_TYPE(dat_lmr_query(made.lmr, DAT_LMR_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_CASE(lmr_create_refused, *covers("lmr_create_bad_priv")) {
  Ia ia;
  const Pz pz = make_pz(ia);
  char byte = 0;
  Registration made;
  const DAT_REGION_DESCRIPTION region = virtual_region(&byte);
  CHECK_TYPE(made.create(ia, DAT_MEM_TYPE_VIRTUAL, virtual_region(nullptr), 1, pz, kLocal),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(made.create(ia, DAT_MEM_TYPE_VIRTUAL, region, ~DAT_VLEN{0}, pz, kLocal),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(made.create(ia, not_an_enumerator<DAT_MEM_TYPE>(77), region, 1, pz, kLocal),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(made.create(ia, DAT_MEM_TYPE_VIRTUAL, region, 1, DAT_HANDLE_NULL, kLocal),
             DAT_INVALID_HANDLE);
}

// OpenFabrics ignores these arguments, and programs pass such values.
BOOST_AUTO_TEST_CASE(lmr_create_careless, *covers("lmr_create_zero_length lmr_create_bad_priv")) {
  Ia ia;
  const Pz pz = make_pz(ia);
  std::array<char, 64> bytes{};
  for (unsigned bit = 8; bit < 32; ++bit) {
    Registration made;
    REQUIRE_OK(made.create(ia, DAT_MEM_TYPE_VIRTUAL, virtual_region(bytes.data()), bytes.size(), pz,
                           not_an_enumerator<DAT_MEM_PRIV_FLAGS>(kLocal | 1U << bit)));
    DAT_LMR_PARAM param{};
    REQUIRE_OK(dat_lmr_query(made.lmr, DAT_LMR_FIELD_ALL, &param));
    BOOST_CHECK_EQUAL(param.mem_priv & DAT_MEM_PRIV_ALL_FLAG, kLocal);
  }
  for (char* const start : {bytes.data() + 1, static_cast<char*>(nullptr)}) {
    Registration made;
    REQUIRE_OK(
        made.create(ia, DAT_MEM_TYPE_VIRTUAL, virtual_region(start), 0, pz, DAT_MEM_PRIV_ALL_FLAG));
    DAT_LMR_PARAM param{};
    REQUIRE_OK(dat_lmr_query(made.lmr, DAT_LMR_FIELD_ALL, &param));
    BOOST_CHECK_EQUAL(param.length, 0U);
    BOOST_CHECK_EQUAL(param.registered_size, 0U);
    BOOST_CHECK(param.region_desc.for_va == start);
  }
}

// The specification has 0. Programs of one provider take a context of 0 for a failure.
BOOST_AUTO_TEST_CASE(lmr_create_no_remote_ctx) {
  Ia ia;
  const Pz pz = make_pz(ia);
  std::array<char, 64> bytes{};
  Registration made;
  REQUIRE_OK(made.create(ia, DAT_MEM_TYPE_VIRTUAL, virtual_region(bytes.data()), bytes.size(), pz,
                         kLocal));
  BOOST_CHECK_NE(made.rmr_context, 0U);
  DAT_LMR_PARAM param{};
  REQUIRE_OK(dat_lmr_query(made.lmr, DAT_LMR_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.rmr_context, made.rmr_context);
}

BOOST_AUTO_TEST_CASE(lmr_create_from_lmr, *covers("lmr_from_lmr_source_freed")) {
  Pair pair;
  auto source = std::make_unique<Buffer>(pair.ia, pair.pz, 64);
  const std::span<std::uint8_t> bytes = source->bytes;
  DAT_REGION_DESCRIPTION region{};
  region.for_lmr_handle = source->lmr;
  Registration derived;
  const DAT_RETURN rc =
      derived.create(pair.ia, DAT_MEM_TYPE_LMR, region, 0, pair.pz, DAT_MEM_PRIV_ALL_FLAG);
  if (skip_unless(rc == DAT_SUCCESS || (DAT_GET_TYPE(rc) != DAT_NOT_IMPLEMENTED &&
                                        DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED),
                  "the provider cannot make an LMR from an LMR"))
    return;
  REQUIRE_OK(rc);
  BOOST_CHECK_EQUAL(derived.registered_length, bytes.size());
  REQUIRE_OK(dat_lmr_free(source->lmr.release()));
  Buffer in(pair.ia, pair.pz, 64);
  pair.connect();
  source->fill(9);
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  DAT_LMR_TRIPLET segment{};
  segment.virtual_address = reinterpret_cast<DAT_VADDR>(bytes.data());
  segment.segment_length = 64;
  segment.lmr_context = derived.lmr_context;
  REQUIRE_OK(dat_ep_post_send(pair.active.ep, 1, &segment, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(in.holds(9, 64));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(lmr_create_shared_cookie, *covers("lmr_create_shared_unsupported")) {
  Ia ia;
  const Pz pz = make_pz(ia);
  constexpr std::size_t kSize = 8192;
  void* const shared =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(shared != MAP_FAILED);
  char id[40] = {};
  std::memcpy(id, "a\0b", 3);  // embedded zeros count
  DAT_REGION_DESCRIPTION region{};
  region.for_shared_memory.virtual_address = shared;
  region.for_shared_memory.shared_memory_id = &id;
  {
    Registration first;
    Registration second;
    const DAT_RETURN rc = first.create(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, kSize, pz, kLocal);
    const bool supported =
        DAT_GET_TYPE(rc) != DAT_MODEL_NOT_SUPPORTED && DAT_GET_TYPE(rc) != DAT_NOT_IMPLEMENTED;
    if (!skip_unless(supported, "no shared-virtual LMRs")) {
      REQUIRE_OK(rc);
      REQUIRE_OK(second.create(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, kSize, pz, kLocal));
      std::vector<char> private_memory(kSize);
      region.for_shared_memory.virtual_address = private_memory.data();
      Registration not_shared;
      CHECK_TYPE(not_shared.create(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, kSize, pz, kLocal),
                 DAT_INVALID_STATE);
    }
  }
  ::munmap(shared, kSize);
}

BOOST_AUTO_TEST_CASE(lmr_create_zb, *covers("ofa_1_zero_based")) {
  Pair pair;
  std::vector<std::uint8_t> bytes(128);
  Registration made;
  const DAT_RETURN rc = made.create(pair.ia, DAT_MEM_TYPE_VIRTUAL, virtual_region(bytes.data()),
                                    bytes.size(), pair.pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
  if (pair.ia.attr.zb_supported == DAT_FALSE) {
    CHECK_TYPE_OR(rc, DAT_MODEL_NOT_SUPPORTED, DAT_NOT_IMPLEMENTED);
    return;
  }
  REQUIRE_OK(rc);
  Buffer out(pair.ia, pair.pz, 64);
  out.fill(3);
  pair.connect();
  DAT_RMR_TRIPLET remote{};
  remote.virtual_address = 32;  // relative to the start of the region
  remote.segment_length = 64;
  remote.rmr_context = made.rmr_context;
  REQUIRE_OK(pair.active.post_write(out, remote, 1));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  REQUIRE_OK(pair.active.post_read(out, remote, 2));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
  // The events of the end order this thread after the one that stored the bytes.
  pair.disconnect();
  BOOST_CHECK(std::equal(out.bytes.begin(), out.bytes.end(), bytes.begin() + 32));
}

BOOST_AUTO_TEST_CASE(lmr_free_then_local_post) {
  Pair pair;
  Buffer in(pair.ia, pair.pz, 64);
  Buffer gone(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
  REQUIRE_OK(dat_lmr_free(gone.lmr.release()));
  const DAT_RETURN rc = pair.active.post_send(gone, 64, 2);
  if (rc == DAT_SUCCESS)
    expect_dto(pair.active.request_evd, DAT_DTO_ERR_LOCAL_PROTECTION, 2);
  else
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(rc), static_cast<DAT_RETURN>(DAT_PRIVILEGES_VIOLATION));
}

BOOST_AUTO_TEST_CASE(lmr_free_then_remote) {
  Pair pair;
  Buffer here(pair.ia, pair.pz, 64);
  Buffer gone(pair.ia, pair.pz, 64);
  pair.connect();
  REQUIRE_OK(pair.active.post_read(here, gone.remote(64), 1));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 1);
  REQUIRE_OK(dat_lmr_free(gone.lmr.release()));
  REQUIRE_OK(pair.active.post_read(here, gone.remote(64), 2));
  expect_dto(pair.active.request_evd, DAT_DTO_ERR_REMOTE_ACCESS, 2);
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
}

BOOST_AUTO_TEST_CASE(lmr_freed_under_posted_receive) {
  Pair pair;
  receive_into_freed(pair);
  expect_connection_end(pair.passive.connect_evd);
  expect_connection_end(pair.active.connect_evd);
}

BOOST_AUTO_TEST_CASE(lmr_freed_under_posted_receive_status) {
  Pair pair;
  BOOST_CHECK_EQUAL(receive_into_freed(pair), DAT_DTO_ERR_LOCAL_PROTECTION);
}

BOOST_AUTO_TEST_CASE(lmr_sync, *covers("lmr_sync_valid lmr_sync_bad_range")) {
  Ia ia;
  const Pz pz = make_pz(ia);
  const Buffer buffer(ia, pz, 64);
  const DAT_LMR_TRIPLET good[] = {buffer.local(64), buffer.local(10, 20)};
  REQUIRE_OK(dat_lmr_sync_rdma_read(ia, good, 2));
  REQUIRE_OK(dat_lmr_sync_rdma_write(ia, good, 2));
  if (skip_unless(ia.provider().lmr_sync_req == DAT_FALSE, "the IA has to synchronise")) return;
  // The count is 0, so the segments do not matter.
  const DAT_LMR_TRIPLET beyond = buffer.local(65);
  REQUIRE_OK(dat_lmr_sync_rdma_read(ia, &beyond, 1));
  DAT_LMR_TRIPLET unknown = buffer.local(8);
  unknown.lmr_context ^= 0x00100000;
  REQUIRE_OK(dat_lmr_sync_rdma_write(ia, &unknown, 1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
