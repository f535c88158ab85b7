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
// If other threads run when this one yields, it polls kPatientPolls times after a find before it
// yields, because a long yield makes the peer wait, which then yields as well. After
// kImpatientAfter finds in a row that each came after a brief yield, the peers evidently take turns
// on the same processors: then only kContendedStride polls precede the yield, except after every
// kPatientAgain-th find.
inline constexpr std::uint32_t kPatientPolls = 32;        // before the first yield, if others ran
inline constexpr std::uint32_t kContendedStride = 4;      // between yields, if others ran briefly
inline constexpr std::uint32_t kLongYieldStride = 12;     // ... if they ran for long
inline constexpr std::uint32_t kUncontendedStride = 512;  // before each yield, if none ran
inline constexpr std::uint32_t kImpatientAfter = 2;
inline constexpr std::uint32_t kPatientAgain = 8;
// Others ran during a yield if it took this long and the kernel has counted a context switch. While
// others run, only every kYieldsPerCheck-th yield asks the kernel.
inline constexpr auto kContendedYield = std::chrono::microseconds(1);
inline constexpr std::uint32_t kYieldsPerCheck = 16;
// A yield took long if it took this long: the other thread ran until the kernel preempted it, some
// milliseconds.
inline constexpr auto kLongYield = std::chrono::microseconds(200);
// After this many polls in a row that find a leader asleep, the leader is asked to make way.
inline constexpr std::uint32_t kBlockedPolls = 64;

static_assert(kEagerPolls % kStride == 0);  // the strides begin where the eager polls end
static_assert(kContendedStride % kStride == 0 && kPatientPolls % kStride == 0);
static_assert(kContendedStride < kUncontendedStride && kPatientPolls < kUncontendedStride);

// ---- HotHandler --------------------------------------------------------------------------------
// If, while a thread polls, the only ready handler was the expected one kHot times in a row, it is
// hot: polls call its look() directly, until that has found nothing kColdAfter times in a row.
// Meanwhile epoll is polled only instead of every kLooksPerWait-th look. A look that is not quiet
// (Handler::Look) counts as kQuietPerLook. While looks are quiet, only polls of epoll make a turn.
inline constexpr std::uint32_t kHot = 4;
inline constexpr std::uint32_t kColdAfter = 256;
inline constexpr std::uint32_t kLooksPerWait = 32;
inline constexpr std::uint32_t kQuietPerLook = 4;

// ---- PollerSet ---------------------------------------------------------------------------------
// A poller rests when this many turns have asked it in vain. If more than kManyPollers are awake
// and have input in no known order, a search takes longer than a wake-up by a descriptor: then each
// poller rests after one turn in vain, until only kGlanced are awake; this applies to the next
// kCrowdedFor finds. If there are at most kFewPollers, all stay awake as long as a thread polls,
// and resting ones are woken after some of its turns.
inline constexpr std::uint32_t kRestAfter = 4096;
inline constexpr std::uint32_t kCrowdedFor = 8192;
inline constexpr std::size_t kManyPollers = 512;
inline constexpr std::size_t kFewPollers = 8;
// If many are awake, a glance checks kGlanced signs, the first kGlancedNext of them after the
// poller that was served last, and a turn asks kAskedPerTurn pollers: so neither takes longer with
// more pollers.
inline constexpr std::size_t kGlanced = 64;
inline constexpr std::size_t kGlancedNext = 8;
inline constexpr std::size_t kAskedPerTurn = 128;
// Turns ask fewer pollers while connections are used in a known order, because each displaces a
// cache line that the next call needs; and still fewer while polls wait for the expected poller,
// whose input may have arrived meanwhile.
inline constexpr std::size_t kAskedInOrder = 16;
inline constexpr std::size_t kAskedWaiting = 4;
// If the last n guesses of the next poller were right, the next n glances (at most kTrusted, which
// take some 2 us) check only the guessed poller.
inline constexpr std::uint32_t kTrusted = 64;
// A right guess adds 1 to a score of at most kMostOrder, a wrong one subtracts kOrderPerWrongGuess.
// The order is known while the score is at least kKnownOrder.
inline constexpr std::uint32_t kKnownOrder = 16;
inline constexpr std::uint32_t kOrderPerWrongGuess = 8;
inline constexpr std::uint32_t kMostOrder = 256;
// Every kTurnsPerQuietCall-th turn calls one poller with a quiet sign.
inline constexpr std::uint32_t kTurnsPerQuietCall = 8;

static_assert(kFewPollers < kGlanced && kGlanced < kManyPollers);
static_assert(kGlancedNext < kGlanced);

// ---- WriteAhead, Sign --------------------------------------------------------------------------
// The bytes that are fetched at once: as many lines as a processor has requests under way.
inline constexpr std::uint32_t kFetchedAtOnce = 1024;

// ---- TurnPolicy --------------------------------------------------------------------------------
// After this many turns in a row, with neither a wait nor a turn of the service thread in between,
// the application counts as polling (habitually).
inline constexpr std::uint32_t kHabit = 8;
// While a poller is awake, most polls only check the signs, and a turn follows after at most
// kGlancesPerTurn of them. If all pollers are awake, every kTurnsPerWait-th turn that finds nothing
// polls epoll, and half as many each time epoll reports nothing, down to every kFoundPerWait-th. If
// some pollers rest, whose wake-ups arrive through epoll, each turn that finds nothing polls epoll;
// the turns come after kGlancesIfSomeRest polls, and after twice as many each time epoll reports
// nothing, up to kGlancesPerTurn. Of the turns that find something, every kFoundPerWait-th polls
// epoll.
// A poller that has input is called instead of a turn, up to kServesPerTurn times in a row.
inline constexpr std::uint32_t kServesPerTurn = 16;
inline constexpr std::uint32_t kGlancesPerTurn = 16;
inline constexpr std::uint32_t kGlancesIfSomeRest = 2;
inline constexpr std::uint32_t kTurnsPerWait = 4;
inline constexpr std::uint32_t kFoundPerWait = 64;
// After this many turns that found something, the timers are checked.
inline constexpr std::uint32_t kTimersPerFound = 8;
// If there are few pollers, resting ones are woken after kWakeFewAfter turns in a row, and again
// after every kWakeFewEvery.
inline constexpr std::uint32_t kWakeFewAfter = 32;
inline constexpr std::uint32_t kWakeFewEvery = 1024;

static_assert(kFoundPerWait % kTurnsPerWait == 0);  // turns without epoll add up to kFoundPerWait
static_assert(kGlancesIfSomeRest <= kGlancesPerTurn);
static_assert(kHabit <= kWakeFewAfter && kWakeFewAfter < kWakeFewEvery);
static_assert(kWakeFewEvery % kServesPerTurn == 0);
static_assert(kServesPerTurn % kHabit == 0);  // so that the turn after them renews the lease

// ---- Reactor -----------------------------------------------------------------------------------
// A thread that releases the role runs the queued deferred calls at most this often; the next
// driving thread runs those that are still queued.
inline constexpr int kReleaseRounds = 8;
// After this many short waits in a row that the same descriptor has ended, leaders sleep directly
// on that descriptor.
inline constexpr std::uint32_t kManyWakes = 32;
// After this many such waits of any length, a leader leaves without a lease if the handler permits
// it (Handler::can_be_left).
inline constexpr std::uint32_t kLeavingWakes = 8;
inline constexpr auto kShortWait = std::chrono::milliseconds(2);
inline constexpr int kEventsPerTurn = 64;
// A wait whose deadline is nearer than this polls until then. A sleep would take longer: it ends up
// to 50 us late, and all pollers are put to rest before it.
inline constexpr auto kPolledWait = std::chrono::microseconds(50);
// A lease ends if a thread makes polls that do not drive, and no thread has driven for this long.
inline constexpr auto kUnusedLease = std::chrono::microseconds(30);
// A leader that has seen this many waits of other threads end, but not its own, makes way.
inline constexpr std::uint32_t kServedByIdle = 8;

}  // namespace udapl::tuning
