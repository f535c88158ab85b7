// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "common/unshared_fd.h"
#include "providers/soft/shm/byte_ring.h"
#include "providers/soft/shm/grants.h"
#include "providers/soft/shm/loans.h"
#include "providers/soft/shm/peer_memory.h"
#include "providers/soft/shm/region.h"

namespace udapl::soft::shm {

// The memory of one connection: a page with the ring controls, the greetings, the loan controls and
// the porches of both sides; four pages with the grants of both sides, and one with what only large
// messages need; the two rings; and the spare memory for loans that the lender has to copy. The
// maker, the side that created the memory, writes into the first ring and reads from the second. A
// connection with little traffic uses the first page only.
struct Layout {
  static constexpr std::size_t kPage = 4096;
  // Idle connections give the pages of their rings back, so the rings begin at a page boundary, for
  // any page size that the processor may have.
#if defined(__x86_64__) || defined(__i386__)
  static constexpr std::size_t kRingsAt = 6 * kPage;
#else
  static constexpr std::size_t kRingsAt = 64 * 1024;
#endif
  static constexpr std::size_t kPorchSize = 512;
  // The rings are large, because a side that seldom gets a processor moves at most one ring of
  // bytes each time that it runs. Pages are allocated only when used.
  static constexpr std::size_t kRingSize = 8 * 1024 * 1024;
  static constexpr std::size_t kFirstWindow = 1024 * 1024;
  static constexpr std::size_t kSparesAt = kRingsAt + 2 * kRingSize;
  // An odd number of pages. A poll checks the first page of each connection: if these pages were at
  // even distances, those of many connections would compete for half of a TLB's places, or fewer.
  static constexpr std::size_t kSize = kSparesAt + 2 * kSpareSize + kPage;
  std::array<RingControl, 2> control;
  std::array<Greeting, 2> greeting;
  std::array<LoanControl, 2> loans;  // by writing side
  std::array<std::array<std::byte, kPorchSize>, 2> porch;
  alignas(kPage) std::array<GrantSlots, 2> granted;  // by granting side
  std::array<LoanEnds, 2> ends;                      // by writing side
  std::array<OfferSlots, 2> offers;                  // the next receives of each side
};
static_assert(sizeof(Layout) <= Layout::kRingsAt);
static_assert(offsetof(Layout, granted) == Layout::kPage);
static_assert(Layout::kSize / Layout::kPage % 2 == 1);

// One side's mapping of the memory, and the unix socket that is the bell. Input on the socket means
// "check the rings"; its end means that the peer is gone. Invalid if default-constructed.
class Rings {
 public:
  Rings() noexcept = default;
  // `region`: Layout::kSize bytes, in which the maker has marked both readers as asleep. `maker`:
  // whether this side is the maker.
  Rings(UnsharedFd bell, Region region, bool maker) noexcept
      : bell_(std::move(bell)), region_(std::move(region)), maker_(maker) {
    region_.close_fd();
  }

  [[nodiscard]] bool valid() const noexcept { return region_.valid(); }
  [[nodiscard]] int bell() const noexcept { return bell_.get(); }
  [[nodiscard]] RingWriter writer() const noexcept {
    return {control(maker_), memory(maker_), Layout::kFirstWindow};
  }
  [[nodiscard]] RingReader reader() const noexcept {
    const RingMemory<std::byte> theirs = memory(!maker_);
    return {control(!maker_), {theirs.porch, theirs.data}};
  }
  [[nodiscard]] Lender lender() const noexcept {
    return {loans(maker_), ends(maker_), spare(maker_)};
  }
  [[nodiscard]] Borrower borrower() const noexcept {
    return {loans(!maker_), ends(!maker_), spare(!maker_)};
  }
  // The control of the ring that this side writes.
  [[nodiscard]] RingControl& written() const noexcept { return control(maker_); }
  [[nodiscard]] Greeting& our_greeting() const noexcept { return layout().greeting[side(maker_)]; }
  [[nodiscard]] const Greeting& their_greeting() const noexcept {
    return layout().greeting[side(!maker_)];
  }
  [[nodiscard]] GrantSlots& granted_by_us() const noexcept {
    return layout().granted[side(maker_)];
  }
  [[nodiscard]] GrantSlots& granted_by_them() const noexcept {
    return layout().granted[side(!maker_)];
  }
  [[nodiscard]] OfferSlots& our_offers() const noexcept { return layout().offers[side(maker_)]; }
  [[nodiscard]] OfferSlots& their_offers() const noexcept { return layout().offers[side(!maker_)]; }
  // Returns the pages that this side writes to the kernel. REQUIRES: the peer has read everything
  // and has returned all loans.
  void release_pages() const noexcept {
    Region::release_pages(memory(maker_).data);
    Region::release_pages(spare(maker_));
  }
  // Gives the memory to the caller, which needs it longer. Only the bell remains.
  [[nodiscard]] Region take_region() noexcept { return std::move(region_); }

 private:
  [[nodiscard]] static constexpr std::size_t side(bool makers) noexcept { return makers ? 0 : 1; }
  [[nodiscard]] Layout& layout() const noexcept {
    return *reinterpret_cast<Layout*>(region_.bytes().data());
  }
  [[nodiscard]] RingControl& control(bool makers) const noexcept {
    return layout().control[side(makers)];
  }
  [[nodiscard]] LoanControl& loans(bool makers) const noexcept {
    return layout().loans[side(makers)];
  }
  [[nodiscard]] LoanEnds& ends(bool makers) const noexcept { return layout().ends[side(makers)]; }
  [[nodiscard]] std::span<std::byte> spare(bool makers) const noexcept {
    return region_.bytes().subspan(Layout::kSparesAt + (makers ? 0 : kSpareSize), kSpareSize);
  }
  [[nodiscard]] RingMemory<std::byte> memory(bool makers) const noexcept {
    return {layout().porch[side(makers)],
            region_.bytes().subspan(Layout::kRingsAt + (makers ? 0 : Layout::kRingSize),
                                    Layout::kRingSize)};
  }

  UnsharedFd bell_;
  Region region_;
  bool maker_ = false;
};

}  // namespace udapl::soft::shm
