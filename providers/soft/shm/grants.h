// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/shm/region.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <sys/types.h>

// Grants let a peer on this host access registered memory directly, without a message for each
// access (docs/adr/0035). When the peer's first access to an STag over the ring was permitted, and
// the peer can reach our memory through the kernel (peer_memory.h), the owner of the memory stores
// the memory's address and rights in a slot of the shared pages. For each later access, the peer
// finds the slot, marks it as in use, checks it again, and copies. To revoke the rights, the owner
// empties the slot and then waits until the peer no longer uses it. The memory of the next receives
// is granted in the same way, each for one message (docs/adr/0080, docs/adr/0093).
namespace udapl::soft::shm {

struct alignas(64) GrantSlot {
  // Written by the owner of the memory. The owner does not change the other fields while `stag` is
  // set, nor after it has cleared `stag` until `user` is 0.
  std::atomic<std::uint32_t> stag;  // 0: empty
  std::atomic<std::uint32_t> rights;
  std::atomic<std::uint64_t> to;       // the first byte, as the peer addresses it
  std::atomic<std::uint64_t> length;   // bytes
  std::atomic<std::uint64_t> address;  // of the first byte, in the owner's process
  // Written by the peer: the id of its thread that accesses the memory or is about to; 0: none.
  std::atomic<std::uint32_t> user;
};
static_assert(sizeof(GrantSlot) == 64, "the layout of shared pages");

// Twice the number of STags that a pool of 64 registered buffers has: then few sets of places are
// full.
inline constexpr std::size_t kGrantSlots = 128;
using GrantSlots = std::array<GrantSlot, kGrantSlots>;

// The number of slots that may hold a given STag: few, since all of them are searched.
inline constexpr std::size_t kGrantPlaces = 4;
[[nodiscard]] constexpr std::size_t grant_places(std::uint32_t stag) noexcept {
  constexpr std::uint32_t kSpread = 0x9e3779b1;  // the golden ratio: spreads neighbours
  constexpr int kSetBits = 5;
  static_assert((kGrantPlaces << kSetBits) == kGrantSlots);
  return (stag * kSpread >> (32 - kSetBits)) * kGrantPlaces;
}

// The slots of the next receives. The message that will take the receive selects its slot.
inline constexpr std::uint32_t kOffers = 16;
using OfferSlots = std::array<GrantSlot, kOffers>;
// The right to write into a receive only when all messages before its message are placed: some of
// them could be placed in the same memory. For receives whose memory no earlier message can use,
// kRemoteWrite is granted instead.
inline constexpr std::uint32_t kPlaceInTurn = 1U << 31;

// Whether the process at the other end of a unix socket is visible and belongs to our user.
[[nodiscard]] bool is_of_our_user(int socket) noexcept;

// A process, identified by its start time as well, because its pid may be reused later.
class Process {
 public:
  // The process at the other end of a unix socket. Invalid if that process belongs to another user,
  // is not visible from here, or is gone, or if /proc does not show it.
  [[nodiscard]] static Process at_end_of(int socket) noexcept;
  [[nodiscard]] bool valid() const noexcept { return pid_ != 0; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // Whether thread `tid` of the process, which has marked a slot as in use, may still be going to
  // copy or copying. False if the thread is gone, or was stopped after the copy. Reads /proc, and
  // returns true if that fails.
  [[nodiscard]] bool may_still_copy(std::uint32_t tid) const noexcept;
  bool operator==(const Process&) const noexcept = default;

 private:
  pid_t pid_ = 0;
  unsigned long long start_ = 0;  // its start time, which tells it from a successor
};

// Threads of peers that have marked grants as in use for a long time. They are collected under the
// lock of the MrTable, and examined without it.
class Users {
 public:
  void add(const Process& process, std::uint32_t thread) noexcept {
    if (count_ != users_.size()) users_[count_++] = {process, thread};
  }
  // Keeps only the threads that cannot be copying any longer.
  void keep_gone() noexcept;
  [[nodiscard]] bool contain(const Process& process, std::uint32_t thread) const noexcept;

 private:
  struct User {
    Process process;
    std::uint32_t thread = 0;
  };
  static constexpr std::size_t kMax = 16;  // add() ignores further threads
  std::array<User, kMax> users_;
  std::size_t count_ = 0;
};

// The grants to the peer of one connection, and their slots. Used by the MrTable, which tracks the
// grants of each of its entries, under its lock; only has() needs no lock. Outlives its connection
// as long as the peer accesses some of the memory.
class Grants {
 public:
  struct Grant {
    Grants* owner = nullptr;
    GrantSlot* slot = nullptr;
    std::atomic<std::uint32_t> stag{0};  // 0: free
    std::uint32_t entry = 0;             // index in the MrTable
    bool withdrawn = false;
    Grant* next = nullptr;  // the next grant for the same entry
  };
  struct Range {
    std::uint64_t to = 0;
    std::uint64_t length = 0;
    std::uint64_t address = 0;
    std::uint32_t rights = 0;
  };

  // `offers`: the slots of offers().
  Grants(GrantSlots& slots, OfferSlots& offers, const Process& peer) noexcept;

  [[nodiscard]] bool has(std::uint32_t stag) const noexcept;
  // Returns a place for a grant of this STag: a free one, or one whose grant place_for() has
  // withdrawn and the caller must free first. Returns null if the grants of all places are in use.
  [[nodiscard]] Grant* place_for(std::uint32_t stag) noexcept;
  // The grants of receives, each for a message of the peer; `stag` is the message's number.
  [[nodiscard]] std::span<Grant> offers() noexcept { return std::span(grants_).last(kOffers); }
  [[nodiscard]] Grant& offer_for(std::uint32_t number) noexcept {
    return offers()[number % kOffers];
  }
  void give(Grant& grant, std::uint32_t stag, std::uint32_t entry, const Range& range) noexcept;
  // No access begins after this.
  static void withdraw(Grant& grant) noexcept;
  // Whether the peer may be accessing the memory. A thread in `gone` no longer does, even if the
  // slot still names it.
  [[nodiscard]] static bool in_use(const Grant& grant, const Users& gone) noexcept;
  // Adds the thread that uses the grant, if there is one.
  static void add_user(const Grant& grant, Users& users) noexcept;
  void free(Grant& grant) noexcept;  // REQUIRES: withdrawn, not in use, in no list

  [[nodiscard]] std::span<Grant> all() noexcept { return grants_; }
  [[nodiscard]] bool empty() const noexcept { return given_ == 0; }

  // Called when the connection has ended: keeps the pages that contain the slots.
  void keep(Region pages) noexcept { pages_ = std::move(pages); }
  std::unique_ptr<Grants> next;  // in the MrTable's list of grants of ended connections
  std::uint64_t qp = 0;          // the ScopeId of the connection's QP; 0: nothing was granted

 private:
  Process peer_;
  std::array<Grant, kGrantSlots + kOffers> grants_;
  std::size_t given_ = 0;
  std::size_t victim_ = 0;
  Region pages_;
};

}  // namespace udapl::soft::shm
