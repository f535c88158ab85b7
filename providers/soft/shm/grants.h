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

// How a peer on this host comes to touch registered memory without asking each time. When it has
// been let at an STag once, over the ring, and can reach our memory by the kernel's means
// (peer_memory.h), what it may do there is written into a slot of the shared pages. From then on it
// looks into the slot, says in it that it is at it, looks again, and copies; who revokes empties
// the slot and then waits until it is not in use. docs/adr/0035.
namespace udapl::soft::shm {

struct alignas(64) GrantSlot {
  // Written by the owner of the memory. The rest does not change while `stag` is there, nor before
  // `user` is 0 once it is not.
  std::atomic<std::uint32_t> stag;  // 0: empty
  std::atomic<std::uint32_t> rights;
  std::atomic<std::uint64_t> to;       // the first byte, as the peer names it
  std::atomic<std::uint64_t> length;   // bytes
  std::atomic<std::uint64_t> address;  // of the first byte, in the owner's process
  // Written by the peer: the thread that is at the memory or about to be; 0: none.
  std::atomic<std::uint32_t> user;
};
static_assert(sizeof(GrantSlot) == 64, "the layout of shared pages");

inline constexpr std::size_t kGrantSlots = 32;
using GrantSlots = std::array<GrantSlot, kGrantSlots>;

// The slots in which an STag may be: a few, so that all are looked at.
inline constexpr std::size_t kGrantPlaces = 4;
[[nodiscard]] constexpr std::size_t grant_places(std::uint32_t stag) noexcept {
  constexpr std::uint32_t kSpread = 0x9e3779b1;  // the golden ratio: neighbours part
  constexpr int kSetBits = 3;
  static_assert((kGrantPlaces << kSetBits) == kGrantSlots);
  return (stag * kSpread >> (32 - kSetBits)) * kGrantPlaces;
}

// Whether the process at the other end of a unix socket is visible and belongs to our user.
[[nodiscard]] bool is_of_our_user(int socket) noexcept;

// A process that was seen once; its number may be another one's later.
class Process {
 public:
  // The one at the other end of a unix socket; invalid if it is not of our user, cannot be seen
  // from here, or has gone, or if /proc is not there to tell of it.
  [[nodiscard]] static Process at_end_of(int socket) noexcept;
  [[nodiscard]] bool valid() const noexcept { return pid_ != 0; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  // May its thread `tid`, which was about to copy or did, still be doing that? False: it has gone,
  // or was stopped behind the copy.
  [[nodiscard]] bool may_still_copy(std::uint32_t tid) const noexcept;

 private:
  pid_t pid_ = 0;
  unsigned long long start_ = 0;  // its start time, which its successor does not have
};

// What the peer of one connection has been granted, and the slots where it says so. Used by the
// MrTable, under its lock, which knows for each entry the grants of it; but has() is for everybody.
// Outlives its connection while the peer is at some of the memory.
class Grants {
 public:
  struct Grant {
    Grants* owner = nullptr;
    GrantSlot* slot = nullptr;
    std::atomic<std::uint32_t> stag{0};  // 0: free
    std::uint32_t entry = 0;             // of the table
    bool withdrawn = false;
    Grant* next = nullptr;  // of the same entry
  };
  struct Range {
    std::uint64_t to = 0;
    std::uint64_t length = 0;
    std::uint64_t address = 0;
    std::uint32_t rights = 0;
  };

  Grants(GrantSlots& slots, const Process& peer) noexcept;

  [[nodiscard]] bool has(std::uint32_t stag) const noexcept;
  // A place for it: a free one, or one whose grant was withdrawn and is to be freed first. Null:
  // the peer is at the memory of all.
  [[nodiscard]] Grant* place_for(std::uint32_t stag) noexcept;
  void give(Grant& grant, std::uint32_t stag, std::uint32_t entry, const Range& range) noexcept;
  // No access begins any more.
  static void withdraw(Grant& grant) noexcept;
  // One that had begun may not be over. `long_since`: it has been so for long, so look at what the
  // peer does.
  [[nodiscard]] static bool in_use(const Grant& grant, bool long_since) noexcept;
  void free(Grant& grant) noexcept;  // REQUIRES: withdrawn, not in use, in no list

  [[nodiscard]] std::span<Grant> all() noexcept { return grants_; }
  [[nodiscard]] bool empty() const noexcept { return given_ == 0; }

  // The connection has gone: keeps the pages that the slots are in.
  void keep(Region pages) noexcept { pages_ = std::move(pages); }
  std::unique_ptr<Grants> next;  // of those whose connection has gone

 private:
  Process peer_;
  std::array<Grant, kGrantSlots> grants_;
  std::size_t given_ = 0;
  std::size_t victim_ = 0;
  Region pages_;
};

}  // namespace udapl::soft::shm
