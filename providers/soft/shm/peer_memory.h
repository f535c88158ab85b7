// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/shm/grants.h"
#include "providers/soft/shm/kernel_copy.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>
#include <sys/uio.h>

// Access to the memory of a peer on this host by process_vm_readv and process_vm_writev: RDMA Reads
// and Writes without any thread of the peer. Tries once, at first use, whether the kernel permits
// this.
namespace udapl::soft::shm {

// What one side publishes about itself in the shared pages.
struct Greeting {
  // A random number, and its address in this side's memory: a peer that reads the number there has
  // found the right process and may read it. 0: the peer must not try.
  alignas(128) std::atomic<std::uint64_t> nonce_at;
  std::array<std::atomic<std::uint64_t>, 2> nonce;
  std::atomic<std::uint32_t> reaches;  // 1: this side can reach the other's memory and wants grants
  std::atomic<std::uint32_t> fixed;    // 1: this side's memory has the same addresses in every run
};

// Publishes our random number and its address. Must be called only if the peer belongs to the same
// user. Thread-safe.
void greet(Greeting& ours) noexcept;

// The sizes, in bytes, for which direct copies take less time than messages.
struct Thresholds {
  std::size_t write_from = 0;   // shorter Writes to a peer that is awake go through the ring
  std::size_t read_from = 0;    // shorter Reads from a peer that is awake go through the ring
  std::size_t asleep_most = 0;  // longer accesses go through the ring, although the peer must wake
  std::size_t borrow_from = 0;  // shorter payload of messages goes through the ring
};
[[nodiscard]] Thresholds thresholds(const CopyCosts& costs) noexcept;

// The peer's memory, for one connection. Not thread-safe.
class PeerMemory {
 public:
  struct Access {
    bool write = false;
    std::uint32_t stag = 0;
    std::uint64_t to = 0;
    std::uint32_t length = 0;  // > 0
    std::uint32_t right = 0;   // the grant must have one of these rights
    bool receive = false;      // `stag` is the number of a message, `to` an offset in its receive
  };

  // `bell`: the unix socket that is connected to the peer.
  PeerMemory(const Greeting& theirs, Greeting& ours, GrantSlots& granted, OfferSlots& offers,
             int bell) noexcept
      : theirs_(theirs), ours_(ours), granted_(granted), offers_(offers), bell_(bell) {}

  // Whether direct access is possible and takes less time than a message. `asleep`: whether the
  // peer sleeps; a peer that is awake could handle a message at once.
  [[nodiscard]] bool suits(const Access& access, bool asleep) noexcept;
  // Copies to or from `local`, which has room for the access and which the caller has pinned. The
  // last eight bytes of the destination become visible last. Returns false if the caller must do
  // the whole access in another way; some bytes may have been copied.
  [[nodiscard]] bool copy(const Access& access, std::span<const iovec> local) noexcept;

  // Whether a grant seems to permit the access.
  [[nodiscard]] bool granted(const Access& access) noexcept;

  // The least number of bytes that is worth borrowing (loans.h); 0: none.
  [[nodiscard]] std::size_t borrows_from() noexcept;
  // Copies from `address` of the peer into all of `local`, in any order. Returns false if that
  // failed permanently; some bytes may have been copied.
  [[nodiscard]] bool fetch(std::uint64_t address, std::span<const iovec> local) noexcept;

 private:
  enum class State : std::uint8_t { kUntried, kReached, kOutOfReach };
  void try_once() noexcept;
  void give_up(const char* why, int error) noexcept;
  [[nodiscard]] const Remote& process_for(std::uint64_t address) const noexcept;
  [[nodiscard]] GrantSlot* find(const Access& access) noexcept;
  [[nodiscard]] bool copy_some(GrantSlot& slot, const Access& access,
                               std::span<const iovec> local) noexcept;

  const Greeting& theirs_;
  Greeting& ours_;
  GrantSlots& granted_;
  OfferSlots& offers_;
  const int bell_;
  State state_ = State::kUntried;
  Remote peer_;      // the peer's process, with its mark
  Remote unmarked_;  // the same without the mark
  Thresholds thresholds_;
};

}  // namespace udapl::soft::shm
