// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// MrTable: grants of direct memory access to peers on this host, and their revocation.
#include "providers/soft/mr_table.h"
#include "providers/soft/shm/rings.h"
#include "tests/unit/soft/support.h"

#include <pthread.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

namespace udapl::soft::test {
namespace {

constexpr ScopeId kPd = 7;
constexpr ScopeId kQp = 70;
constexpr std::size_t kSize = 4096;

// The shared pages of a connection whose two ends are in this process.
struct Peer {
  shm::Region region = shm::Region::make(shm::Layout::kSize);
  shm::Layout& layout = *reinterpret_cast<shm::Layout*>(region.bytes().data());
  shm::GrantSlots& slots = layout.granted[0];
  Fd bell;
  std::unique_ptr<shm::Grants> grants;

  Peer() {
    BOOST_REQUIRE(region.valid());
    std::array<int, 2> ends{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    bell = Fd(ends[0]);
    ::close(ends[1]);
    const shm::Process self = shm::Process::at_end_of(bell.get());
    BOOST_REQUIRE(self.valid());
    grants = std::make_unique<shm::Grants>(slots, layout.offers[0], self);
    shm::greet(layout.greeting[0]);
  }
  // The slot of an STag, or null if there is none.
  shm::GrantSlot* slot(std::uint32_t stag) {
    for (shm::GrantSlot& slot : slots) {
      if (slot.stag == stag) return &slot;
    }
    return nullptr;
  }
};

struct Fixture {
  MrTable table;
  std::vector<std::byte> memory = std::vector<std::byte>(kSize);
  Peer peer;

  MrRef reg(DAT_VA_TYPE type = DAT_VA_TYPE_VA) {
    auto ref = table.register_memory(
        kPd, {reinterpret_cast<DAT_VADDR>(memory.data()), memory.size(), kAll, type});
    BOOST_REQUIRE(ref.ok());
    return *ref;
  }
  std::uint32_t stag(MrRef ref) { return table.rmr_context(ref); }
  shm::GrantSlot* grant(std::uint32_t stag, ScopeId pd = kPd, ScopeId qp = kQp) {
    table.grant({stag, 0, 1, kRemoteWrite, pd, qp}, *peer.grants);
    return peer.slot(stag);
  }
};

BOOST_FIXTURE_TEST_SUITE(grants, Fixture)

BOOST_AUTO_TEST_CASE(a_grant_describes_what_the_entry_allows) {
  const MrRef ref = reg();
  const shm::GrantSlot* const slot = grant(stag(ref));
  BOOST_REQUIRE(slot != nullptr);
  BOOST_TEST(slot->address == reinterpret_cast<std::uintptr_t>(memory.data()));
  BOOST_TEST(slot->to == slot->address);
  BOOST_TEST(slot->length == kSize);
  BOOST_TEST((slot->rights & kRemoteRights) == kRemoteRights);
  BOOST_TEST(peer.grants->has(stag(ref)));
  table.revoke(ref);
  BOOST_TEST(slot->stag == 0U);
  BOOST_TEST(peer.grants->empty());

  const MrRef zero_based = reg(DAT_VA_TYPE_ZB);
  BOOST_TEST(grant(stag(zero_based))->to == 0U);
  table.revoke(zero_based);
}

BOOST_AUTO_TEST_CASE(nothing_is_granted_that_access_would_refuse) {
  const MrRef ref = reg();
  const std::uint32_t old = stag(ref);
  BOOST_TEST(grant(old, kPd + 1) == nullptr);
  table.revoke(ref);
  BOOST_TEST(grant(old) == nullptr);
}

BOOST_AUTO_TEST_CASE(there_are_more_registrations_than_slots) {
  std::vector<MrRef> refs;
  for (std::size_t i = 0; i < 4 * shm::kGrantSlots; ++i) {
    refs.push_back(reg());
    BOOST_REQUIRE(grant(stag(refs.back())) != nullptr);
  }
  std::size_t granted = 0;
  for (const MrRef ref : refs) {
    if (peer.grants->has(stag(ref)) != (peer.slot(stag(ref)) != nullptr)) BOOST_FAIL("two truths");
    if (peer.grants->has(stag(ref))) ++granted;
  }
  BOOST_TEST(granted <= shm::kGrantSlots);
  BOOST_TEST(granted >= shm::kGrantSlots / 2);
  for (const MrRef ref : refs) table.revoke(ref);
  BOOST_TEST(peer.grants->empty());
}

// Each access to one that is not granted needs a thread of this process.
BOOST_AUTO_TEST_CASE(a_pool_of_registrations_is_granted_together) {
  constexpr std::size_t kPool = 64;
  std::vector<MrRef> refs;
  for (std::size_t i = 0; i < kPool; ++i) refs.push_back(reg());
  for (const MrRef ref : refs) grant(stag(ref));
  std::size_t granted = 0;
  for (const MrRef ref : refs) granted += peer.grants->has(stag(ref)) ? 1 : 0;
  BOOST_TEST(granted >= kPool * 3 / 4);
  for (const MrRef ref : refs) table.revoke(ref);
}

BOOST_AUTO_TEST_CASE(a_slot_in_use_by_the_peer_is_not_reused) {
  const MrRef first = reg();
  shm::GrantSlot* const slot = grant(stag(first));
  slot->user = static_cast<std::uint32_t>(::gettid());
  std::vector<MrRef> refs;
  for (std::size_t i = 0; i < 4 * shm::kGrantSlots; ++i) {
    refs.push_back(reg());
    grant(stag(refs.back()));
  }
  BOOST_TEST(slot->stag == stag(first));
  slot->user = 0;
  for (const MrRef ref : refs) table.revoke(ref);
  table.revoke(first);
}

BOOST_AUTO_TEST_CASE(revocation_waits_for_the_peer) {
  const MrRef ref = reg();
  shm::GrantSlot* const slot = grant(stag(ref));
  slot->user = static_cast<std::uint32_t>(::gettid());
  auto revoked = std::async(std::launch::async, [&] { table.revoke(ref); });
  BOOST_TEST((revoked.wait_for(50ms) == std::future_status::timeout));
  BOOST_TEST(slot->stag == 0U);
  slot->user = 0;
  BOOST_TEST((revoked.wait_for(kPatience) == std::future_status::ready));
}

// The owner of the memory may be cancelled meanwhile. Revoking is noexcept, and sleeps.
BOOST_AUTO_TEST_CASE(revocation_is_no_cancellation_point) {
  const MrRef ref = reg();
  shm::GrantSlot* const slot = grant(stag(ref));
  slot->user = static_cast<std::uint32_t>(::gettid());
  std::atomic<bool> cancelled{false};
  std::atomic<bool> revoked{false};
  std::thread revoker([&] {
    while (!cancelled) {  // no cancellation point
    }
    table.revoke(ref);
    revoked = true;
  });
  BOOST_TEST(::pthread_cancel(revoker.native_handle()) == 0);
  cancelled = true;
  std::this_thread::sleep_for(50ms);
  BOOST_TEST(!revoked);
  slot->user = 0;
  revoker.join();
  BOOST_TEST(revoked);
  BOOST_TEST(peer.grants->empty());
}

BOOST_AUTO_TEST_CASE(revocation_does_not_wait_for_a_gone_thread) {
  const MrRef ref = reg();
  shm::GrantSlot* const slot = grant(stag(ref));
  std::thread([&] { slot->user = static_cast<std::uint32_t>(::gettid()); }).join();
  auto revoked = std::async(std::launch::async, [&] { table.revoke(ref); });
  BOOST_TEST((revoked.wait_for(kPatience) == std::future_status::ready));
  BOOST_TEST(peer.grants->empty());
}

BOOST_AUTO_TEST_CASE(window_is_granted_and_ends_with_its_connection) {
  const MrRef ref = reg();
  auto window = table.create_window(kPd, transport::WindowScope::kQp);
  BOOST_REQUIRE(window.ok());
  const auto bind = [&](std::uint32_t length) {
    MrTable::PendingBind bound;
    REQUIRE_OK(table.prepare_bind(
        kPd, *window, &ref,
        {nullptr,
         nullptr,
         {reinterpret_cast<DAT_VADDR>(memory.data()), length, MrTable::lmr_context(ref)},
         DAT_MEM_PRIV_REMOTE_READ_FLAG,
         DAT_VA_TYPE_VA},
        bound));
    BOOST_REQUIRE(table.commit_bind(bound, kQp));
    return bound.stag;
  };
  const std::uint32_t first = bind(100);
  BOOST_TEST(grant(first, kPd, kQp + 1) == nullptr);
  const shm::GrantSlot* slot = grant(first);
  BOOST_REQUIRE(slot != nullptr);
  BOOST_TEST(slot->length == 100U);
  BOOST_TEST((slot->rights & kRemoteRights) == kRemoteRead);
  const std::uint32_t second = bind(50);  // rebinding invalidates the earlier STag
  BOOST_TEST(peer.slot(first) == nullptr);
  BOOST_TEST(grant(second)->length == 50U);
  BOOST_TEST((table.invalidate(second, kPd, kQp) == Refusal::kNone));
  BOOST_TEST(peer.slot(second) == nullptr);
  BOOST_TEST(grant(bind(10)) != nullptr);
  table.unbind_all(kQp);
  BOOST_TEST(peer.grants->empty());
  table.destroy_window(*window);
  table.revoke(ref);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_connection_revokes_all_grants) {
  const MrRef first = reg();
  const MrRef second = reg();
  grant(stag(first));
  grant(stag(second));
  peer.grants->keep(std::move(peer.region));
  table.end_grants(std::move(peer.grants));  // unmaps its pages
  table.revoke(first);
  table.revoke(second);
}

// A peer in the middle of an access does not delay the end of the connection, but freeing the
// memory waits for it.
BOOST_AUTO_TEST_CASE(access_in_progress_outlasts_the_connection) {
  const MrRef ref = reg();
  shm::GrantSlot* const slot = grant(stag(ref));
  slot->user = static_cast<std::uint32_t>(::gettid());
  peer.grants->keep(std::move(peer.region));
  table.end_grants(std::move(peer.grants));
  BOOST_TEST(slot->stag == 0U);  // the pages are still mapped
  auto revoked = std::async(std::launch::async, [&] { table.revoke(ref); });
  BOOST_TEST((revoked.wait_for(50ms) == std::future_status::timeout));
  slot->user = 0;
  BOOST_TEST((revoked.wait_for(kPatience) == std::future_status::ready));
}

// It delays the reset and the destruction of the QP, however, and no other QP.
BOOST_AUTO_TEST_CASE(ended_connection_is_waited_for) {
  const MrRef ref = reg();
  shm::GrantSlot* const slot = grant(stag(ref));
  slot->user = static_cast<std::uint32_t>(::gettid());
  peer.grants->keep(std::move(peer.region));
  table.end_grants(std::move(peer.grants));
  table.wait_ended(kQp + 1);
  auto waited = std::async(std::launch::async, [&] { table.wait_ended(kQp); });
  BOOST_TEST((waited.wait_for(50ms) == std::future_status::timeout));
  slot->user = 0;
  BOOST_TEST((waited.wait_for(kPatience) == std::future_status::ready));
  table.wait_ended(kQp);
  table.revoke(ref);
}

BOOST_AUTO_TEST_CASE(ended_connection_of_a_gone_thread_delays_none) {
  const MrRef ref = reg();
  shm::GrantSlot* const slot = grant(stag(ref));
  slot->user = static_cast<std::uint32_t>(::gettid());
  peer.grants->keep(std::move(peer.region));
  table.end_grants(std::move(peer.grants));
  std::thread([&] { slot->user = static_cast<std::uint32_t>(::gettid()); }).join();
  table.wait_ended(kQp);
  table.revoke(ref);
}

BOOST_AUTO_TEST_CASE(more_peers_than_are_examined_at_once) {
  const MrRef ref = reg();
  std::vector<Peer> peers(40);
  for (Peer& each : peers) {
    table.grant({stag(ref), 0, 1, kRemoteWrite, kPd, kQp}, *each.grants);
    shm::GrantSlot* const slot = each.slot(stag(ref));
    std::thread([&] { slot->user = static_cast<std::uint32_t>(::gettid()); }).join();
  }
  table.revoke(ref);
  for (const Peer& each : peers) BOOST_TEST(each.grants->empty());
}

// ---- the next receives --------------------------------------------------------------------------

struct OfferFixture : Fixture {
  shm::GrantSlot& slot_of(std::uint32_t number) {
    return peer.layout.offers[0][number % shm::kOffers];
  }
  shm::GrantSlot& slot = slot_of(1);
  const MrRef ref = reg();

  void offer(std::uint32_t number, const MrRef& memory_ref, bool at_once = true) {
    const Segment receive{memory.data() + number, 100, memory_ref};
    table.offer({receive, 0, number, at_once, kQp}, *peer.grants);
  }
};

BOOST_FIXTURE_TEST_CASE(a_receive_is_offered_until_its_place_is_needed, OfferFixture) {
  const MrRef other = reg();
  for (std::uint32_t number = 1; number < 20 * shm::kOffers; ++number) {
    const bool at_once = number % 2 == 0;
    offer(number, number % 3 == 0 ? other : ref, at_once);
    const shm::GrantSlot& next = slot_of(number);
    BOOST_TEST(next.stag == number);
    BOOST_TEST(next.address == reinterpret_cast<std::uintptr_t>(memory.data()) + number);
    BOOST_TEST(next.length == 100U);
    BOOST_TEST(next.rights == (at_once ? kRemoteWrite : shm::kPlaceInTurn));
    if (number > 1) BOOST_TEST(slot_of(number - 1).stag == number - 1);
  }
  grant(stag(ref));
  table.end_offers(*peer.grants);
  for (const shm::GrantSlot& each : peer.layout.offers[0]) BOOST_TEST(each.stag == 0U);
  offer(1, ref);
  offer(2, ref);
  offer(3, other);
  table.revoke(ref);
  BOOST_TEST(slot_of(1).stag == 0U);
  BOOST_TEST(slot_of(2).stag == 0U);
  BOOST_TEST(slot_of(3).stag == 3U);
  offer(1, ref);  // no longer registered
  BOOST_TEST(slot.stag == 0U);
  offer(0, other);  // as an empty slot
  BOOST_TEST(slot_of(0).stag == 0U);
  offer(1, other);
  BOOST_TEST(slot.stag == 1U);
  table.revoke(other);
  BOOST_TEST(peer.grants->empty());
}

BOOST_FIXTURE_TEST_CASE(memory_of_an_offered_receive_that_is_being_written, OfferFixture) {
  offer(1, ref);
  slot.user = static_cast<std::uint32_t>(::gettid());
  auto revoked = std::async(std::launch::async, [&] { table.revoke(ref); });
  BOOST_TEST((revoked.wait_for(50ms) == std::future_status::timeout));
  BOOST_TEST(slot.stag == 0U);
  const MrRef other = reg();
  offer(1 + shm::kOffers, other);  // the slot is in use
  BOOST_TEST(slot.stag == 0U);
  slot.user = 0;
  BOOST_TEST((revoked.wait_for(kPatience) == std::future_status::ready));
  offer(1 + shm::kOffers, other);
  BOOST_TEST(slot.stag == 1 + shm::kOffers);
  table.revoke(other);
}

// When its message has arrived, and for good.
BOOST_FIXTURE_TEST_CASE(an_offer_ends, OfferFixture) {
  table.end_offers(*peer.grants);
  offer(1, ref);
  slot.user = static_cast<std::uint32_t>(::gettid());
  table.end_offers(*peer.grants);  // a peer that lies is not waited for
  BOOST_TEST(slot.stag == 0U);
  BOOST_TEST(!peer.grants->empty());
  slot.user = 0;
  table.end_offers(*peer.grants);
  BOOST_TEST(peer.grants->empty());
  offer(1 + shm::kOffers, ref);
  BOOST_TEST(slot.stag == 1 + shm::kOffers);
  table.revoke(ref);
}

// Before the receives are flushed.
BOOST_FIXTURE_TEST_CASE(an_offer_is_taken_back, OfferFixture) {
  table.take_back_offers(*peer.grants);
  offer(1, ref);
  offer(2, ref);
  slot.user = static_cast<std::uint32_t>(::gettid());
  std::jthread writer([&] {
    while (slot.stag != 0 || slot_of(2).stag != 0) {
    }
    memory[0] = std::byte{1};
    slot.user = 0;
  });
  table.take_back_offers(*peer.grants);
  BOOST_TEST((memory[0] == std::byte{1}));
  table.revoke(ref);
}

// A thread that has died does not delay it for long, nor does a peer that pretends to write for
// ever; but the memory of the latter is not freed.
BOOST_FIXTURE_TEST_CASE(offers_that_are_not_given_back, OfferFixture) {
  offer(1, ref);
  std::thread([&] { slot.user = static_cast<std::uint32_t>(::gettid()); }).join();
  table.take_back_offers(*peer.grants);
  slot.user = static_cast<std::uint32_t>(::gettid());
  table.take_back_offers(*peer.grants);
  auto revoked = std::async(std::launch::async, [&] { table.revoke(ref); });
  BOOST_TEST((revoked.wait_for(50ms) == std::future_status::timeout));
  slot.user = 0;
  BOOST_TEST((revoked.wait_for(kPatience) == std::future_status::ready));
}

BOOST_FIXTURE_TEST_CASE(offers_end_with_the_connection, OfferFixture) {
  offer(1, ref);
  slot.user = static_cast<std::uint32_t>(::gettid());
  peer.grants->keep(std::move(peer.region));
  table.end_grants(std::move(peer.grants));
  auto waited = std::async(std::launch::async, [&] { table.wait_ended(kQp); });
  BOOST_TEST((waited.wait_for(50ms) == std::future_status::timeout));
  slot.user = 0;
  BOOST_TEST((waited.wait_for(kPatience) == std::future_status::ready));
  table.revoke(ref);
}

// Threads write continuously while memory is registered, granted and revoked: no byte changes after
// revoke() has returned.
BOOST_AUTO_TEST_CASE(nothing_is_written_after_revocation) {
  std::atomic<std::uint32_t> current{0};
  std::atomic<bool> stop{false};
  std::atomic<long> copies{0};
  std::vector<Peer> peers(2);
  std::vector<std::thread> threads;
  for (Peer& each : peers) {
    threads.emplace_back([&] {
      shm::PeerMemory reach(each.layout.greeting[0], each.layout.greeting[1], each.slots,
                            each.layout.offers[0], each.bell.get());
      std::vector<std::byte> bytes(kSize, std::byte{0x77});
      const iovec piece{bytes.data(), bytes.size()};
      const shm::PeerMemory::Access any{.write = true, .length = kSize, .right = kRemoteWrite};
      if (!reach.suits(any, true)) return;
      while (!stop) {
        shm::PeerMemory::Access access = any;
        access.stag = current;
        access.to = reinterpret_cast<std::uintptr_t>(memory.data());
        if (access.stag != 0 && reach.copy(access, {&piece, 1})) ++copies;
      }
    });
  }
  for (int i = 0; i < 500; ++i) {
    const MrRef ref = reg();
    for (Peer& each : peers) table.grant({stag(ref), 0, 1, kRemoteWrite, kPd, kQp}, *each.grants);
    current = stag(ref);
    const long before = copies;
    BOOST_REQUIRE(eventually([&] { return copies != before; }));
    table.revoke(ref);
    std::fill(memory.begin(), memory.end(), std::byte{0});
    std::this_thread::sleep_for(std::chrono::microseconds(i % 50));
    if (std::ranges::any_of(memory, [](std::byte b) { return b != std::byte{0}; }))
      BOOST_FAIL("written after revocation " << i);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test
