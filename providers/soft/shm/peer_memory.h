// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/shm/grants.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>
#include <sys/uio.h>

// The memory of a peer on this host, by process_vm_readv and process_vm_writev: RDMA Reads and
// Writes that the peer's threads have no part in. The kernel permits it or not; whether it does is
// tried once, when it would be used first.
namespace udapl::soft::shm {

// What one side says of itself in the shared pages.
struct Greeting {
  // A number made by chance, and where it lies in its memory: who reads that number there has the
  // right process and may read it. 0: nobody is to try.
  alignas(128) std::atomic<std::uint64_t> nonce_at;
  std::array<std::atomic<std::uint64_t>, 2> nonce;
  std::atomic<std::uint32_t> reaches;  // 1: it reaches the other's memory and wants grants
};

// Says who we are, with an address of ours: to a process of our user only. Thread-safe.
void greet(Greeting& ours) noexcept;

// What process_vm_readv costs here beside memcpy, measured when it is asked for first, some 100 us.
// Thread-safe.
struct CopyCosts {
  double call_us = 0;        // one of eight bytes
  double per_64k_us = 0;     // one of 64 KiB
  double memcpy_64k_us = 0;  // as much by memcpy, in the caches
};
[[nodiscard]] const CopyCosts& copy_costs() noexcept;

// When to do it, by these costs. Bytes.
struct Thresholds {
  std::size_t write_from = 0;   // to a peer that is awake; less goes through the ring
  std::size_t read_from = 0;    // from one that is awake
  std::size_t asleep_most = 0;  // more is worth waking the peer
  std::size_t borrow_from = 0;  // of a message: less goes through the ring
};
[[nodiscard]] Thresholds thresholds(const CopyCosts& costs) noexcept;

// Of one connection. Not thread-safe.
class PeerMemory {
 public:
  struct Access {
    bool write = false;
    std::uint32_t stag = 0;
    std::uint64_t to = 0;
    std::uint32_t length = 0;  // > 0
    std::uint32_t right = 0;   // that the grant must have
  };

  // `bell`: the unix socket that the peer is at the other end of.
  PeerMemory(const Greeting& theirs, Greeting& ours, GrantSlots& granted, int bell) noexcept
      : theirs_(theirs), ours_(ours), granted_(granted), bell_(bell) {}

  // Is it worth while? The peer sleeps, or is awake and could do it at once.
  [[nodiscard]] bool suits(const Access& access, bool asleep) noexcept;
  // Copies to or from `local`, which has room for the access and is pinned by the caller. The last
  // eight bytes of where it goes become visible last. False: it has to be done another way, from
  // the beginning; some bytes may have been copied.
  [[nodiscard]] bool copy(const Access& access, std::span<const iovec> local) noexcept;

  // As many bytes or more are worth borrowing (loans.h); 0: we cannot, or it never is.
  [[nodiscard]] std::size_t borrows_from() noexcept;
  // Copies from `address` of the peer into `local`, all of it, in any order. False: some bytes may
  // have been copied, and there is no use in trying again.
  [[nodiscard]] bool fetch(std::uint64_t address, std::span<const iovec> local) noexcept;

 private:
  enum class State : std::uint8_t { kUntried, kReached, kOutOfReach };
  void try_once() noexcept;
  void give_up(const char* why, int error) noexcept;
  [[nodiscard]] GrantSlot* find(std::uint32_t stag) noexcept;
  [[nodiscard]] ssize_t move(bool write, std::uint64_t to, std::size_t body, std::size_t tail,
                             std::span<const iovec> local) const noexcept;
  [[nodiscard]] bool copy_some(GrantSlot& slot, const Access& access,
                               std::span<const iovec> local) noexcept;

  const Greeting& theirs_;
  Greeting& ours_;
  GrantSlots& granted_;
  const int bell_;
  State state_ = State::kUntried;
  pid_t pid_ = 0;
  Thresholds thresholds_;
};

}  // namespace udapl::soft::shm
