// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/unit/soft/support.h"

#include <future>

namespace udapl::soft::test {
namespace {

using transport::WindowScope;
constexpr ScopeId kPd = 7;
constexpr ScopeId kQp = 70;

struct Fixture {
  MrTable table;
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  DAT_VADDR base = reinterpret_cast<DAT_VADDR>(memory.data());

  std::unique_ptr<Mr> reg(DAT_MEM_PRIV_FLAGS rights = kLocalOnly, ScopeId pd = kPd) {
    auto ref = table.register_memory(pd, {base, memory.size(), rights, DAT_VA_TYPE_VA});
    BOOST_REQUIRE(ref.ok());
    return std::make_unique<Mr>(table, *ref);
  }
  std::unique_ptr<Window> window(WindowScope scope = WindowScope::kPd, ScopeId pd = kPd) {
    auto index = table.create_window(pd, scope);
    BOOST_REQUIRE(index.ok());
    return std::make_unique<Window>(table, *index);
  }
  transport::BindRequest request(Window& w, Mr* mr, DAT_VADDR address, std::uint32_t length,
                                 int rights = DAT_MEM_PRIV_REMOTE_READ_FLAG |
                                              DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
                                 DAT_VA_TYPE type = DAT_VA_TYPE_VA) {
    return {&w,
            mr,
            {address, length, mr == nullptr ? 0 : mr->lmr_context()},
            static_cast<DAT_MEM_PRIV_FLAGS>(rights),
            type};
  }
  DAT_RETURN prepare(const transport::BindRequest& r, MrTable::PendingBind& out, ScopeId pd = kPd) {
    const MrRef ref = r.mr == nullptr ? MrRef{} : static_cast<Mr*>(r.mr)->ref();
    return table.prepare_bind(pd, static_cast<Window*>(r.window)->index(),
                              r.mr == nullptr ? nullptr : &ref, r, out);
  }
  DAT_RMR_CONTEXT bind(const transport::BindRequest& r, ScopeId qp = kQp) {
    MrTable::PendingBind pending;
    REQUIRE_OK(prepare(r, pending));
    BOOST_REQUIRE(table.commit_bind(pending, qp));
    return pending.stag;
  }
  Refusal access(std::uint32_t stag, std::uint64_t to, std::uint32_t length,
                 std::uint32_t right = kRemoteWrite, ScopeId pd = kPd, ScopeId qp = kQp) {
    Segment out{};
    MrTable::Pin pin;
    return table.access({stag, to, length, right, pd, qp}, out, pin);
  }
};

BOOST_FIXTURE_TEST_SUITE(windows, Fixture)

BOOST_AUTO_TEST_CASE(binding_grants_exactly_its_range_and_rights) {
  auto mr = reg();
  auto w = window();
  BOOST_TEST(w->rmr_context() == 0U);
  BOOST_TEST(!w->binding().has_value());
  const auto stag = bind(request(*w, mr.get(), base + 1000, 100, DAT_MEM_PRIV_REMOTE_READ_FLAG));
  BOOST_TEST(w->rmr_context() == stag);
  BOOST_TEST((access(stag, base + 1000, 100, kRemoteRead) == Refusal::kNone));
  BOOST_TEST((access(stag, base + 999, 1, kRemoteRead) == Refusal::kBounds));
  BOOST_TEST((access(stag, base + 1000, 101, kRemoteRead) == Refusal::kBounds));
  BOOST_TEST((access(stag, base + 1000, 1, kRemoteWrite) == Refusal::kAccess));
  BOOST_TEST((access(stag, base + 1000, 1, kRemoteRead, kPd + 1) == Refusal::kNotThisStream));
  BOOST_TEST((access(stag, base + 1000, 1, kRemoteRead, kPd, kQp + 1) == Refusal::kNone));
  const auto binding = w->binding();
  BOOST_REQUIRE(binding.has_value());
  BOOST_TEST(binding->range.virtual_address == base + 1000);
  BOOST_TEST(binding->privileges == DAT_MEM_PRIV_REMOTE_READ_FLAG);
}

BOOST_AUTO_TEST_CASE(a_windows_context_is_no_lmr_context) {
  auto mr = reg();
  auto w = window();
  const auto stag = bind(request(*w, mr.get(), base, 100));
  Segment out{};
  BOOST_TEST(table.resolve({base, 10, stag}, kPd, 0, out) == dat_error(DAT_PRIVILEGES_VIOLATION));
  // No LMR context names the window, whatever its index.
  for (DAT_LMR_CONTEXT context = 0; context < 0x8000; ++context) {
    if (context != mr->lmr_context())
      BOOST_REQUIRE(table.resolve({base, 10, context}, kPd, 0, out) != DAT_SUCCESS);
  }
}

BOOST_AUTO_TEST_CASE(zero_based_window) {
  auto mr = reg();
  auto w = window();
  const auto stag =
      bind(request(*w, mr.get(), base + 1000, 100, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_ZB));
  Segment out{};
  MrTable::Pin pin;
  BOOST_TEST((table.access({stag, 10, 90, kRemoteWrite, kPd, kQp}, out, pin) == Refusal::kNone));
  BOOST_TEST((out.address == memory.data() + 1010));
  BOOST_TEST((access(stag, 10, 91) == Refusal::kBounds));
}

BOOST_AUTO_TEST_CASE(qp_scope_works_over_its_qp_only) {
  auto mr = reg();
  auto w = window(WindowScope::kQp);
  const auto stag = bind(request(*w, mr.get(), base, 100));
  BOOST_TEST((access(stag, base, 1) == Refusal::kNone));
  BOOST_TEST((access(stag, base, 1, kRemoteWrite, kPd, kQp + 1) == Refusal::kNotThisStream));
}

BOOST_AUTO_TEST_CASE(bad_binds_are_refused) {
  auto mr = reg(DAT_MEM_PRIV_LOCAL_READ_FLAG);
  auto other_mr = reg(kLocalOnly, kPd + 1);
  auto w = window();
  auto other_w = window(WindowScope::kPd, kPd + 1);
  MrTable::PendingBind p;
  constexpr int kRead = DAT_MEM_PRIV_REMOTE_READ_FLAG;
  constexpr int kWrite = DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
  BOOST_TEST(prepare(request(*w, mr.get(), base, 4097, kRead), p) ==
             dat_error(DAT_INVALID_PARAMETER));
  BOOST_TEST(prepare(request(*w, mr.get(), base - 1, 10, kRead), p) ==
             dat_error(DAT_INVALID_PARAMETER));
  BOOST_TEST(prepare(request(*w, mr.get(), base, 10, kWrite), p) ==
             dat_error(DAT_PRIVILEGES_VIOLATION));
  BOOST_TEST(prepare(request(*w, other_mr.get(), base, 10, kRead), p) ==
             dat_error(DAT_PROTECTION_VIOLATION));
  BOOST_TEST(prepare(request(*other_w, mr.get(), base, 10, kRead), p) ==
             dat_error(DAT_PROTECTION_VIOLATION));
  BOOST_TEST(prepare(request(*w, nullptr, base, 10, kRead), p) == dat_error(DAT_INVALID_PARAMETER));
  auto wrong_context = request(*w, mr.get(), base, 10, kRead);
  wrong_context.range.lmr_context = other_mr->lmr_context();
  BOOST_TEST(prepare(wrong_context, p) == dat_error(DAT_INVALID_PARAMETER));
  BOOST_TEST(!mr->has_windows());
  BOOST_TEST(w->rmr_context() == 0U);
}

BOOST_AUTO_TEST_CASE(rebind_invalidates_the_old_context) {
  auto mr = reg();
  auto w = window();
  const auto first = bind(request(*w, mr.get(), base, 100));
  MrTable::PendingBind pending;
  REQUIRE_OK(prepare(request(*w, mr.get(), base + 100, 100), pending));
  BOOST_TEST(pending.stag != first);
  BOOST_TEST((access(first, base, 1) == Refusal::kNone));  // until the bind is executed
  BOOST_TEST((access(pending.stag, base + 100, 1) == Refusal::kInvalidStag));
  BOOST_REQUIRE(table.commit_bind(pending, kQp));
  BOOST_TEST((access(first, base, 1) == Refusal::kInvalidStag));
  BOOST_TEST((access(pending.stag, base + 100, 1) == Refusal::kNone));
}

BOOST_AUTO_TEST_CASE(unbind_releases_the_registration) {
  auto mr = reg();
  auto w = window();
  const auto stag = bind(request(*w, mr.get(), base, 100));
  BOOST_TEST(mr->has_windows());
  BOOST_TEST(bind(request(*w, nullptr, 0, 0)) == 0U);
  BOOST_TEST(!mr->has_windows());
  BOOST_TEST(w->rmr_context() == 0U);
  BOOST_TEST(!w->binding().has_value());
  BOOST_TEST((access(stag, base, 1) == Refusal::kInvalidStag));
}

BOOST_AUTO_TEST_CASE(posted_bind_holds_the_registration) {
  auto mr = reg();
  auto w = window();
  const auto stag = bind(request(*w, mr.get(), base, 100));
  MrTable::PendingBind pending;
  REQUIRE_OK(prepare(request(*w, mr.get(), base, 50), pending));
  table.cancel_bind(pending);
  BOOST_TEST(mr->has_windows());  // the old binding remains in force
  BOOST_TEST((access(stag, base, 100) == Refusal::kNone));
  w.reset();
  BOOST_TEST(!mr->has_windows());
  BOOST_TEST((access(stag, base, 1) == Refusal::kInvalidStag));
}

// Regression: the STag of a bind that was flushed was reported, though the old binding was in
// force.
BOOST_AUTO_TEST_CASE(flushed_binds_leave_the_earlier_context) {
  auto mr = reg();
  auto w = window();
  const auto stag = bind(request(*w, mr.get(), base, 100));
  MrTable::PendingBind first;
  MrTable::PendingBind second;
  REQUIRE_OK(prepare(request(*w, mr.get(), base, 50), first));
  REQUIRE_OK(prepare(request(*w, mr.get(), base, 60), second));
  BOOST_TEST(w->rmr_context() == second.stag);
  table.cancel_bind(first);
  BOOST_TEST(w->rmr_context() == second.stag);
  table.cancel_bind(second);
  BOOST_TEST(w->rmr_context() == stag);
  REQUIRE_OK(prepare(request(*w, nullptr, 0, 0), first));
  BOOST_TEST(w->rmr_context() == 0U);
  table.cancel_bind(first);
  BOOST_TEST(w->rmr_context() == stag);

  auto unbound = window();
  REQUIRE_OK(prepare(request(*unbound, mr.get(), base, 50), first));
  table.cancel_bind(first);
  BOOST_TEST(unbound->rmr_context() == 0U);
}

BOOST_AUTO_TEST_CASE(bind_of_a_destroyed_object_fails) {
  auto mr = reg();
  auto w = window();
  MrTable::PendingBind pending;
  REQUIRE_OK(prepare(request(*w, mr.get(), base, 50), pending));
  w.reset();
  w = window();  // in the same table entry or another
  BOOST_TEST(!table.commit_bind(pending, kQp));
  BOOST_TEST(!mr->has_windows());
  REQUIRE_OK(prepare(request(*w, mr.get(), base, 50), pending));
  mr.reset();
  BOOST_TEST(!table.commit_bind(pending, kQp));
  BOOST_TEST(!w->binding().has_value());
}

// Programs free an RMR without waiting for the completion of its unbind.
BOOST_AUTO_TEST_CASE(unbind_of_a_destroyed_window_succeeds) {
  auto mr = reg();
  auto w = window();
  bind(request(*w, mr.get(), base, 50));
  MrTable::PendingBind pending;
  REQUIRE_OK(prepare(request(*w, nullptr, 0, 0), pending));
  w.reset();
  BOOST_TEST(!mr->has_windows());
  w = window();
  const auto stag = bind(request(*w, mr.get(), base, 50));
  BOOST_TEST(table.commit_bind(pending, kQp));
  BOOST_TEST((access(stag, base, 1) == Refusal::kNone));
}

BOOST_AUTO_TEST_CASE(destroyed_registration_ends_its_bindings) {
  auto mr = reg();
  auto w = window();
  const auto stag = bind(request(*w, mr.get(), base, 50));
  mr.reset();
  BOOST_TEST((access(stag, base, 1) == Refusal::kInvalidStag));
  BOOST_TEST(!w->binding().has_value());
}

BOOST_AUTO_TEST_CASE(peer_invalidates_only_windows_of_its_qp) {
  auto mr = reg(kAll);
  auto shared = window(WindowScope::kPd);
  auto own = window(WindowScope::kQp);
  const auto shared_stag = bind(request(*shared, mr.get(), base, 50));
  const auto own_stag = bind(request(*own, mr.get(), base, 50));
  BOOST_TEST((table.invalidate(mr->rmr_context(), kPd, kQp) == Refusal::kAccess));
  BOOST_TEST((table.invalidate(shared_stag, kPd, kQp) == Refusal::kAccess));
  BOOST_TEST((table.invalidate(own_stag, kPd + 1, kQp) == Refusal::kNotThisStream));
  BOOST_TEST((table.invalidate(own_stag, kPd, kQp + 1) == Refusal::kNotThisStream));
  BOOST_TEST((table.invalidate(12345, kPd, kQp) == Refusal::kInvalidStag));
  BOOST_TEST((access(own_stag, base, 1) == Refusal::kNone));
  BOOST_TEST((table.invalidate(own_stag, kPd, kQp) == Refusal::kNone));
  BOOST_TEST((access(own_stag, base, 1) == Refusal::kInvalidStag));
  BOOST_TEST(!own->binding().has_value());
  BOOST_TEST((table.invalidate(own_stag, kPd, kQp) == Refusal::kInvalidStag));
  BOOST_TEST((access(shared_stag, base, 1) == Refusal::kNone));
}

BOOST_AUTO_TEST_CASE(end_of_a_connection_unbinds_what_has_its_scope) {
  auto mr = reg();
  std::vector<std::unique_ptr<Window>> all;
  std::vector<DAT_RMR_CONTEXT> own;
  for (int i = 0; i < 600; ++i) {
    all.push_back(window(WindowScope::kQp));
    own.push_back(bind(request(*all.back(), mr.get(), base, 50), i % 3 == 0 ? kQp : kQp + 1));
  }
  auto shared = window(WindowScope::kPd);
  const auto shared_stag = bind(request(*shared, mr.get(), base, 50));
  table.unbind_all(kQp);
  for (int i = 0; i < 600; ++i) {
    const ScopeId qp = i % 3 == 0 ? kQp : kQp + 1;
    const bool alive = access(own[i], base, 1, kRemoteWrite, kPd, qp) == Refusal::kNone;
    BOOST_REQUIRE_EQUAL(alive, i % 3 != 0);
  }
  BOOST_TEST((access(shared_stag, base, 1) == Refusal::kNone));
}

// The counterpart of mr_table's test, for rebinding: no access through the old binding is made or
// in progress when commit_bind has returned.
BOOST_AUTO_TEST_CASE(nothing_uses_the_old_binding_after_rebind) {
  auto mr = reg();
  auto w = window();
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> stag{0};
  std::atomic<int> copies{0};
  auto writer = std::async(std::launch::async, [&] {
    while (!stop) {
      Segment out{};
      MrTable::Pin pin;
      if (table.access({stag.load(), 0, 64, kRemoteWrite, kPd, kQp}, out, pin) == Refusal::kNone) {
        std::memset(out.address, 0xEE, 64);
        ++copies;
      }
    }
  });
  std::size_t at = 0;
  for (int round = 0; round < 2000 || (copies < 100 && round < 200000); ++round) {
    const std::size_t next = (at + 64) % 4096;
    stag = bind(
        request(*w, mr.get(), base + next, 64, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_ZB));
    std::memset(memory.data() + at, 0, 64);  // no longer bound
    for (std::size_t i = at; i < at + 64; ++i) BOOST_REQUIRE(memory[i] == std::byte{0});
    at = next;
  }
  stop = true;
  writer.get();
  BOOST_TEST(copies.load() >= 100);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
