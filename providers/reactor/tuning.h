// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

// The numbers by which a reactor decides. Those of the lease are in lease.h.
namespace udapl::tuning {

// ---- PollPolicy: polls that find nothing -------------------------------------------------------
// The first kEagerPolls make a turn each, then only every kStride-th.
inline constexpr std::uint32_t kEagerPolls = 4;
inline constexpr std::uint32_t kStride = 4;
// A long yield makes the peer wait long, so that it yields, too: hence the patience. If
// kImpatientAfter finds in a row came after a brief yield, there is none, except for one in
// kPatientAgain: then the peers take turns on the same processors.
inline constexpr std::uint32_t kPatientPolls = 32;        // before the first yield, if others ran
inline constexpr std::uint32_t kContendedStride = 4;      // between yields, if others ran briefly
inline constexpr std::uint32_t kLongYieldStride = 12;     // ... if they ran for long
inline constexpr std::uint32_t kUncontendedStride = 512;  // before each yield, if none ran
inline constexpr std::uint32_t kImpatientAfter = 2;
inline constexpr std::uint32_t kPatientAgain = 8;
// Others ran during a yield if it took this long and the kernel has counted a switch. While they
// run, every kYieldsPerCheck-th yield finds out.
inline constexpr auto kContendedYield = std::chrono::microseconds(1);
inline constexpr std::uint32_t kYieldsPerCheck = 16;
// One that never yields runs until the kernel takes its processor away, some milliseconds.
inline constexpr auto kLongYield = std::chrono::microseconds(200);
// After this many polls in a row that find a leader asleep, the leader is asked to make way.
inline constexpr std::uint32_t kBlockedPolls = 64;

static_assert(kEagerPolls % kStride == 0);  // the strides begin where the eager polls end
static_assert(kContendedStride % kStride == 0 && kPatientPolls % kStride == 0);
static_assert(kContendedStride < kUncontendedStride && kPatientPolls < kUncontendedStride);

// ---- HotHandler --------------------------------------------------------------------------------
// While polling: if kHot times in a row the only ready handler was the expected one, that is called
// directly (look), until it has found nothing kColdAfter times in a row. Meanwhile epoll is polled
// only in place of every kLooksPerWait-th look. A look that is not quiet (Handler::Look) counts as
// kQuietPerLook. While they are quiet, only the polls of epoll are part of a turn.
inline constexpr std::uint32_t kHot = 4;
inline constexpr std::uint32_t kColdAfter = 256;
inline constexpr std::uint32_t kLooksPerWait = 32;
inline constexpr std::uint32_t kQuietPerLook = 4;

// ---- PollerSet ---------------------------------------------------------------------------------
// A poller rests when this many turns have asked it in vain. If more than kManyPollers are awake
// and have input in no known order, to search them takes longer than to be woken by a descriptor:
// then each rests after the first turn, until kGlanced are left, and so on for the next kCrowdedFor
// finds. If there are at most kFewPollers, all stay awake as long as a thread polls; new ones are
// woken after some of its turns.
inline constexpr std::uint32_t kRestAfter = 4096;
inline constexpr std::uint32_t kCrowdedFor = 8192;
inline constexpr std::size_t kManyPollers = 512;
inline constexpr std::size_t kFewPollers = 8;
// If many are awake, a glance checks kGlanced signs, the first kGlancedNext of them behind the
// poller that was served last, and a turn asks kAskedPerTurn pollers: neither takes longer the
// more there are.
inline constexpr std::size_t kGlanced = 64;
inline constexpr std::size_t kGlancedNext = 8;
inline constexpr std::size_t kAskedPerTurn = 128;
// While connections are used in a known order: each asked displaces a line that the next needs. And
// fewer while polls wait for the expected one, whose input may have arrived meanwhile.
inline constexpr std::size_t kAskedInOrder = 16;
inline constexpr std::size_t kAskedWaiting = 4;
// If the last n guesses which poller has input next were right, as many glances check only that
// one, kTrusted at most: some 2 us.
inline constexpr std::uint32_t kTrusted = 64;
// The order is known while the right guesses, kMostOrder at most, less kOrderPerWrongGuess for each
// wrong one, are kKnownOrder at least.
inline constexpr std::uint32_t kKnownOrder = 16;
inline constexpr std::uint32_t kOrderPerWrongGuess = 8;
inline constexpr std::uint32_t kMostOrder = 256;
// One poller with a quiet sign is called in every kTurnsPerQuietCall-th turn.
inline constexpr std::uint32_t kTurnsPerQuietCall = 8;

static_assert(kFewPollers < kGlanced && kGlanced < kManyPollers);
static_assert(kGlancedNext < kGlanced);

// ---- TurnPolicy --------------------------------------------------------------------------------
// After this many turns without a wait or the service thread, the application counts as polling.
inline constexpr std::uint32_t kHabit = 8;
// While a poller is awake, a polling thread only checks the signs in most polls, and makes a turn
// at the latest after kGlancesPerTurn of them. Epoll is polled in every kTurnsPerWait-th turn
// that finds nothing, and half as often each time it reports nothing, down to every
// kFoundPerWait-th. If some pollers rest, whose wake-ups arrive through epoll, each turn that
// finds nothing polls epoll: after kGlancesIfSomeRest polls, and after twice as many each time it
// reports nothing, up to kGlancesPerTurn. Of the turns that find something, every
// kFoundPerWait-th polls epoll.
// A poller that has input is called in place of a turn, kServesPerTurn times in a row.
inline constexpr std::uint32_t kServesPerTurn = 16;
inline constexpr std::uint32_t kGlancesPerTurn = 16;
inline constexpr std::uint32_t kGlancesIfSomeRest = 2;
inline constexpr std::uint32_t kTurnsPerWait = 4;
inline constexpr std::uint32_t kFoundPerWait = 64;
// After this many turns that found something, the timers are checked.
inline constexpr std::uint32_t kTimersPerFound = 8;
// If there are few pollers, those that rest are woken after kWakeFewAfter turns, and again after
// each kWakeFewEvery.
inline constexpr std::uint32_t kWakeFewAfter = 32;
inline constexpr std::uint32_t kWakeFewEvery = 1024;

static_assert(kFoundPerWait % kTurnsPerWait == 0);  // waits are counted in parts of kFoundPerWait
static_assert(kGlancesIfSomeRest <= kGlancesPerTurn);
static_assert(kHabit <= kWakeFewAfter && kWakeFewAfter < kWakeFewEvery);
static_assert(kWakeFewEvery % kServesPerTurn == 0);
static_assert(kServesPerTurn % kHabit == 0);  // such a turn renews the lease

// ---- Reactor -----------------------------------------------------------------------------------
// A thread that releases the role runs deferred calls at most this often; any others are left to
// the next driving thread.
inline constexpr int kReleaseRounds = 8;
// After this many short waits in a row that the same descriptor has ended, leaders sleep on that
// descriptor.
inline constexpr std::uint32_t kManyWakes = 32;
// After this many, of any length, the leader leaves a descriptor that can be left.
inline constexpr std::uint32_t kLeavingWakes = 8;
inline constexpr auto kShortWait = std::chrono::milliseconds(2);
inline constexpr int kEventsPerTurn = 64;
// A wait that ends within this time polls until then. A sleep would take longer: it ends up to 50
// us late, and before it all pollers are put to rest.
inline constexpr auto kPolledWait = std::chrono::microseconds(50);
// A lease ends if another thread polls what polls do not drive, and none has driven for this long.
inline constexpr auto kUnusedLease = std::chrono::microseconds(30);
// A leader that has seen this many waits of other threads end, but not its own, makes way.
inline constexpr std::uint32_t kServedByIdle = 8;

}  // namespace udapl::tuning
