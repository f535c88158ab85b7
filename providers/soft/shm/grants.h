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
// access. After the first permitted access to an STag over the ring, and if the peer can reach our
// memory through the kernel (peer_memory.h), its rights are stored in a slot of the shared pages.
// From then on the peer finds the slot, marks it as in use, checks it again, and copies. To revoke
// the rights, the owner empties the slot and then waits until it is not in use. docs/adr/0035. The
// memory of the next receive is granted in the same way, for one message. docs/adr/0080.
namespace udapl::soft::shm {

struct alignas(64) GrantSlot {
  // Written by the owner of the memory. The other fields do not change while `stag` is set, nor
  // after it was cleared until `user` is 0.
  std::atomic<std::uint32_t> stag;  // 0: empty
  std::atomic<std::uint32_t> rights;
  std::atomic<std::uint64_t> to;       // the first byte, as the peer addresses it
  std::atomic<std::uint64_t> length;   // bytes
  std::atomic<std::uint64_t> address;  // of the first byte, in the owner's process
  // Written by the peer: the thread that accesses the memory or is about to; 0: none.
  std::atomic<std::uint32_t> user;
};
static_assert(sizeof(GrantSlot) == 64, "the layout of shared pages");

// With 64 STags in use, as those of a pool of buffers, few sets of places are full.
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

// The next receives, by the number of the message that will take them.
inline constexpr std::uint32_t kOffers = 16;
using OfferSlots = std::array<GrantSlot, kOffers>;
// The right to write into a receive only when all messages before its own are placed, because they
// could be for the same memory. For other receives, kRemoteWrite is granted.
inline constexpr std::uint32_t kPlaceInTurn = 1U << 31;

// Whether the process at the other end of a unix socket is visible and belongs to our user.
[[nodiscard]] bool is_of_our_user(int socket) noexcept;

// A process, identified by its start time as well, because its pid may be reused later.
class Process {
 public:
  // The process at the other end of a unix socket; invalid if it is of another user, not visible
  // from here, or gone, or if /proc does not show it.
  [[nodiscard]] static Process at_end_of(int socket) noexcept;
  [[nodiscard]] bool valid() const noexcept { return pid_ != 0; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // Whether its thread `tid`, which was about to copy or was copying, may still be doing so. False
  // if the thread is gone, or was stopped after the copy. Reads /proc, and returns true if that
  // fails.
  [[nodiscard]] bool may_still_copy(std::uint32_t tid) const noexcept;
  bool operator==(const Process&) const noexcept = default;

 private:
  pid_t pid_ = 0;
  unsigned long long start_ = 0;  // its start time, which tells it from a successor
};

// Threads of peers that have been in the middle of an access for long: collected under the lock of
// the MrTable, examined without it.
class Users {
 public:
  void add(const Process& process, std::uint32_t thread) noexcept {
    if (count_ != users_.size()) users_[count_++] = {process, thread};
  }
  // Keeps those that cannot be copying any longer.
  void keep_gone() noexcept;
  [[nodiscard]] bool contain(const Process& process, std::uint32_t thread) const noexcept;

 private:
  struct User {
    Process process;
    std::uint32_t thread = 0;
  };
  static constexpr std::size_t kMax = 16;  // the others are examined later
  std::array<User, kMax> users_;
  std::size_t count_ = 0;
};

// The grants to the peer of one connection, and their slots. Used by the MrTable under its lock,
// which tracks the grants of each of its entries; only has() may be called by any thread. Outlives
// its connection while the peer is accessing some of the memory.
class Grants {
 public:
  struct Grant {
    Grants* owner = nullptr;
    GrantSlot* slot = nullptr;
    std::atomic<std::uint32_t> stag{0};  // 0: free
    std::uint32_t entry = 0;             // index in the MrTable
    bool withdrawn = false;
    Grant* next = nullptr;  // grant of the same entry
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
  // Returns a place for a grant of this STag: a free one, or one whose grant was withdrawn and must
  // be freed first. Returns null if the peer is accessing the memory of all candidates.
  [[nodiscard]] Grant* place_for(std::uint32_t stag) noexcept;
  // The grants of receives, each for a message of the peer; `stag` is the message's number.
  [[nodiscard]] std::span<Grant> offers() noexcept { return std::span(grants_).last(kOffers); }
  [[nodiscard]] Grant& offer_for(std::uint32_t number) noexcept {
    return offers()[number % kOffers];
  }
  void give(Grant& grant, std::uint32_t stag, std::uint32_t entry, const Range& range) noexcept;
  // No access begins after this.
  static void withdraw(Grant& grant) noexcept;
  // Whether an access that had begun may still be in progress, unless by one of the threads that
  // have `gone`.
  [[nodiscard]] static bool in_use(const Grant& grant, const Users& gone) noexcept;
  // Adds the thread that uses the grant, if there is one.
  static void add_user(const Grant& grant, Users& users) noexcept;
  void free(Grant& grant) noexcept;  // REQUIRES: withdrawn, not in use, in no list

  [[nodiscard]] std::span<Grant> all() noexcept { return grants_; }
  [[nodiscard]] bool empty() const noexcept { return given_ == 0; }

  // When the connection is gone: keeps the pages that contain the slots.
  void keep(Region pages) noexcept { pages_ = std::move(pages); }
  std::unique_ptr<Grants> next;  // list of those whose connection is gone
  std::uint64_t qp = 0;          // the ScopeId of the connection's QP; 0: nothing was granted

 private:
  Process peer_;
  std::array<Grant, kGrantSlots + kOffers> grants_;
  std::size_t given_ = 0;
  std::size_t victim_ = 0;
  Region pages_;
};

}  // namespace udapl::soft::shm
