// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/mr_table.h"

#include "tests/unit/soft/support.h"

#include <future>

namespace udapl::soft::test {
namespace {

constexpr ScopeId kPd = 7;
constexpr ScopeId kQp = 70;

struct Fixture {
  MrTable table;
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  DAT_VADDR base = reinterpret_cast<DAT_VADDR>(memory.data());

  MrRef reg(DAT_MEM_PRIV_FLAGS rights = kAll, DAT_VA_TYPE type = DAT_VA_TYPE_VA) {
    auto ref = table.register_memory(kPd, {base, memory.size(), rights, type});
    BOOST_REQUIRE(ref.ok());
    return *ref;
  }
  DAT_RETURN resolve(DAT_VADDR address, std::size_t length, DAT_LMR_CONTEXT context,
                     ScopeId pd = kPd, std::uint32_t right = kLocalRead) {
    Segment out{};
    return table.resolve({address, static_cast<DAT_SEG_LENGTH>(length), context}, pd, right, out);
  }
  Refusal access(std::uint32_t stag, std::uint64_t to, std::uint32_t length,
                 std::uint32_t right = kRemoteWrite, ScopeId pd = kPd, ScopeId qp = kQp) {
    Segment out{};
    MrTable::Pin pin;
    return table.access({stag, to, length, right, pd, qp}, out, pin);
  }
};

BOOST_FIXTURE_TEST_SUITE(mr_table, Fixture)

BOOST_AUTO_TEST_CASE(local_segment_inside_is_translated) {
  const MrRef ref = reg();
  Segment out{};
  REQUIRE_OK(table.resolve({base + 100, 50, MrTable::lmr_context(ref)}, kPd, kLocalWrite, out));
  BOOST_TEST((out.address == memory.data() + 100));
  BOOST_TEST(out.length == 50U);
  CHECK_OK(resolve(base, 4096, MrTable::lmr_context(ref)));
  CHECK_OK(resolve(base + 4095, 1, MrTable::lmr_context(ref)));
}

BOOST_AUTO_TEST_CASE(local_segment_one_byte_outside_is_refused) {
  const DAT_LMR_CONTEXT context = MrTable::lmr_context(reg());
  const DAT_RETURN invalid = dat_error(DAT_INVALID_PARAMETER);
  BOOST_TEST(resolve(base - 1, 1, context) == invalid);
  BOOST_TEST(resolve(base - 1, 2, context) == invalid);
  BOOST_TEST(resolve(base, 4097, context) == invalid);
  BOOST_TEST(resolve(base + 4095, 2, context) == invalid);
  BOOST_TEST(resolve(base + 4097, 1, context) == invalid);
  BOOST_TEST(resolve(0, UINT32_MAX, context) == invalid);
  BOOST_TEST(resolve(UINT64_MAX, 2, context) == invalid);
  BOOST_TEST(resolve(UINT64_MAX - 10, UINT32_MAX, context) == invalid);
}

BOOST_AUTO_TEST_CASE(receive_segment_ends_with_its_registration) {
  const DAT_LMR_CONTEXT context = MrTable::lmr_context(reg());
  Segment out{};
  const auto length = [&](DAT_VADDR address, std::uint32_t bytes) {
    CHECK_OK(table.resolve_receive({address, bytes, context}, kPd, out));
    return out.length;
  };
  BOOST_TEST(length(base, 4096) == 4096U);
  BOOST_TEST(length(base, 4097) == 4096U);
  BOOST_TEST(length(base + 4000, UINT32_MAX) == 96U);
  BOOST_TEST((out.address == memory.data() + 4000));
  BOOST_TEST(length(base + 4096, 1) == 0U);
  const DAT_RETURN invalid = dat_error(DAT_INVALID_PARAMETER);
  BOOST_TEST(table.resolve_receive({base + 4097, 1, context}, kPd, out) == invalid);
  BOOST_TEST(table.resolve_receive({base - 1, 2, context}, kPd, out) == invalid);
  const DAT_LMR_CONTEXT read_only = MrTable::lmr_context(reg(DAT_MEM_PRIV_LOCAL_READ_FLAG));
  BOOST_TEST(table.resolve_receive({base, 5000, read_only}, kPd, out) ==
             dat_error(DAT_PRIVILEGES_VIOLATION));
}

BOOST_AUTO_TEST_CASE(local_checks_come_in_the_documented_order) {
  const DAT_LMR_CONTEXT context = MrTable::lmr_context(reg(DAT_MEM_PRIV_LOCAL_READ_FLAG));
  // The order of the checks: context, domain, range, privilege (docs/semantics.md#local-memory).
  BOOST_TEST(resolve(base, 5000, context ^ 1, kPd + 1, kLocalWrite) ==
             dat_error(DAT_PRIVILEGES_VIOLATION));
  BOOST_TEST(resolve(base, 5000, context, kPd + 1, kLocalWrite) ==
             dat_error(DAT_PROTECTION_VIOLATION));
  BOOST_TEST(resolve(base, 5000, context, kPd, kLocalWrite) == dat_error(DAT_INVALID_PARAMETER));
  BOOST_TEST(resolve(base, 10, context, kPd, kLocalWrite) == dat_error(DAT_PRIVILEGES_VIOLATION));
  CHECK_OK(resolve(base, 10, context, kPd, kLocalRead));
}

BOOST_AUTO_TEST_CASE(contexts_that_name_nothing_are_refused) {
  const DAT_LMR_CONTEXT context = MrTable::lmr_context(reg());
  for (const DAT_LMR_CONTEXT bad :
       {DAT_LMR_CONTEXT{0}, ~DAT_LMR_CONTEXT{0}, context + 1, context + 0x1000, context ^ 0x800})
    BOOST_TEST(resolve(base, 1, bad) == dat_error(DAT_PRIVILEGES_VIOLATION));
}

BOOST_AUTO_TEST_CASE(context_of_a_freed_registration_stays_dead) {
  const MrRef first = reg();
  const DAT_LMR_CONTEXT context = MrTable::lmr_context(first);
  const std::uint32_t stag = table.rmr_context(first);
  table.revoke(first);
  for (int i = 0; i < 100; ++i) {
    const MrRef again = reg();
    BOOST_TEST(MrTable::lmr_context(again) != context);
    BOOST_TEST(table.rmr_context(again) != stag);
    BOOST_TEST(resolve(base, 1, context) == dat_error(DAT_PRIVILEGES_VIOLATION));
    BOOST_TEST((access(stag, base, 1) == Refusal::kInvalidStag));
    table.revoke(again);
  }
}

BOOST_AUTO_TEST_CASE(remote_access_checks_come_in_order) {
  const MrRef ref = reg(static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG));
  const std::uint32_t stag = table.rmr_context(ref);
  BOOST_REQUIRE(stag != 0U);
  BOOST_TEST((access(stag + 1, UINT64_MAX, 2, kRemoteWrite, kPd + 1) == Refusal::kInvalidStag));
  BOOST_TEST((access(0, base, 1) == Refusal::kInvalidStag));
  BOOST_TEST((access(stag, UINT64_MAX, 2, kRemoteWrite, kPd + 1) == Refusal::kNotThisStream));
  BOOST_TEST((access(stag, UINT64_MAX, 2) == Refusal::kToWrap));
  BOOST_TEST((access(stag, base + 4096, 1) == Refusal::kBounds));
  BOOST_TEST((access(stag, base - 1, 2) == Refusal::kBounds));
  BOOST_TEST((access(stag, base, 4097) == Refusal::kBounds));
  BOOST_TEST((access(stag, base, 1) == Refusal::kAccess));
  BOOST_TEST((access(stag, base, 4096, kRemoteRead) == Refusal::kNone));
  BOOST_TEST((access(stag, base, 1, kRemoteAtomic) == Refusal::kAccess));
}

BOOST_AUTO_TEST_CASE(without_remote_rights_peers_are_refused) {
  const std::uint32_t stag = table.rmr_context(reg(kLocalOnly));
  BOOST_REQUIRE(stag != 0U);
  for (const auto right : {kRemoteRead, kRemoteWrite, kRemoteAtomic})
    BOOST_TEST((access(stag, base, 1, right) == Refusal::kAccess));
}

BOOST_AUTO_TEST_CASE(zero_based_offsets_count_from_the_start) {
  const MrRef ref = reg(kAll, DAT_VA_TYPE_ZB);
  Segment out{};
  MrTable::Pin pin;
  BOOST_TEST((table.access({table.rmr_context(ref), 96, 4000, kRemoteWrite, kPd, kQp}, out, pin) ==
              Refusal::kNone));
  BOOST_TEST((out.address == memory.data() + 96));
  BOOST_TEST((access(table.rmr_context(ref), 97, 4000) == Refusal::kBounds));
  BOOST_TEST((access(table.rmr_context(ref), base, 1) == Refusal::kBounds));
  CHECK_OK(resolve(10, 4086, MrTable::lmr_context(ref)));
  BOOST_TEST(resolve(10, 4087, MrTable::lmr_context(ref)) == dat_error(DAT_INVALID_PARAMETER));
}

BOOST_AUTO_TEST_CASE(registration_may_end_at_the_top_of_memory) {
  auto ref = table.register_memory(kPd, {UINT64_MAX - 100, 100, kAll, DAT_VA_TYPE_VA});
  BOOST_REQUIRE(ref.ok());
  const std::uint32_t stag = table.rmr_context(*ref);
  BOOST_TEST((access(stag, UINT64_MAX - 100, 100) == Refusal::kNone));
  BOOST_TEST((access(stag, UINT64_MAX - 100, 101) == Refusal::kToWrap));
  BOOST_TEST((access(stag, UINT64_MAX, 1) == Refusal::kToWrap));
  BOOST_TEST((access(stag, 0, 1) == Refusal::kBounds));
  BOOST_TEST(resolve(5, 1, MrTable::lmr_context(*ref)) == dat_error(DAT_INVALID_PARAMETER));
}

BOOST_AUTO_TEST_CASE(full_table_refuses_and_recovers) {
  MrTable small(3);
  std::vector<MrRef> refs;
  for (int i = 0; i < 3; ++i) {
    auto ref = small.register_memory(kPd, {base, 10, kAll, DAT_VA_TYPE_VA});
    BOOST_REQUIRE(ref.ok());
    refs.push_back(*ref);
  }
  BOOST_TEST(small.register_memory(kPd, {base, 10, kAll, DAT_VA_TYPE_VA}).status().type() ==
             static_cast<DAT_RETURN>(DAT_INSUFFICIENT_RESOURCES));
  BOOST_TEST(!small.create_window(kPd, transport::WindowScope::kPd).ok());
  small.revoke(refs[1]);
  BOOST_TEST(small.register_memory(kPd, {base, 10, kAll, DAT_VA_TYPE_VA}).ok());
}

BOOST_AUTO_TEST_CASE(many_registrations_are_all_found) {
  std::vector<MrRef> refs;
  for (int i = 0; i < 20000; ++i) refs.push_back(reg());
  for (std::size_t i = 0; i < refs.size(); i += 2) table.revoke(refs[i]);
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const bool alive = i % 2 == 1;
    BOOST_REQUIRE_EQUAL(resolve(base, 1, MrTable::lmr_context(refs[i])) == DAT_SUCCESS, alive);
    if (alive) BOOST_REQUIRE((access(table.rmr_context(refs[i]), base, 1) == Refusal::kNone));
  }
}

BOOST_AUTO_TEST_CASE(revoke_waits_for_pins) {
  const MrRef ref = reg();
  Segment out{};
  MrTable::Pin remote_pin;
  BOOST_REQUIRE((table.access({table.rmr_context(ref), base, 8, kRemoteWrite, kPd, kQp}, out,
                              remote_pin) == Refusal::kNone));
  MrTable::Pin local_pin = table.pin(out.ref);
  BOOST_REQUIRE(static_cast<bool>(local_pin));

  std::atomic<bool> revoked{false};
  std::thread revoker([&] {
    table.revoke(ref);
    revoked = true;
  });
  while (static_cast<bool>(table.pin(out.ref))) std::this_thread::yield();  // until it has begun
  BOOST_TEST(!revoked.load());
  BOOST_TEST(!static_cast<bool>(table.pin(out.ref)));  // no new pins meanwhile
  remote_pin = MrTable::Pin();
  std::this_thread::sleep_for(20ms);
  BOOST_TEST(!revoked.load());
  local_pin = MrTable::Pin();
  revoker.join();
  BOOST_TEST(revoked.load());
}

// Three threads copy by STag, context and reference while memory is registered and revoked. After
// revoke() has returned, the owner writes to the memory without any synchronisation of its own: a
// copy still in progress is a data race, which the thread sanitizer reports or the contents show.
BOOST_AUTO_TEST_CASE(nothing_touches_memory_after_revoke) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> stag{0};
  std::atomic<DAT_LMR_CONTEXT> context{0};
  std::atomic<int> copies{0};
  auto remote_writer = [&] {
    while (!stop) {
      Segment out{};
      MrTable::Pin pin;
      if (table.access({stag.load(), base, 64, kRemoteWrite, kPd, kQp}, out, pin) ==
          Refusal::kNone) {
        std::memset(out.address, 0xEE, 64);
        ++copies;
      }
    }
  };
  auto local_writer = [&] {
    while (!stop) {
      Segment out{};
      if (table.resolve({base + 64, 64, context.load()}, kPd, kLocalWrite, out) != DAT_SUCCESS)
        continue;
      const MrTable::Pin pin = table.pin(out.ref);
      if (!pin) continue;
      std::memset(out.address, 0xEE, 64);
      ++copies;
    }
  };
  auto one = std::async(std::launch::async, remote_writer);
  auto two = std::async(std::launch::async, local_writer);
  for (int round = 0; round < 2000 || (copies < 100 && round < 200000); ++round) {
    const MrRef ref = reg();
    stag = table.rmr_context(ref);
    context = MrTable::lmr_context(ref);
    if (round % 8 == 0) std::this_thread::yield();
    table.revoke(ref);
    std::memset(memory.data(), 0, 128);
    for (int i = 0; i < 128; ++i) BOOST_REQUIRE(memory[i] == std::byte{0});
  }
  stop = true;
  one.get();
  two.get();
  BOOST_TEST(copies.load() >= 100);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
