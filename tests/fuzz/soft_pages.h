// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/fd.h"
#include "providers/soft/shm/rings.h"
#include "soft_sinks.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace udapl::fuzz {

inline constexpr std::size_t kSize = 512;        // of a request
inline constexpr std::size_t kLarge = 4096;      // of one that may be lent to the peer
inline constexpr std::size_t kShared = 300'000;  // ... and of which both sides may copy a part
inline constexpr std::uint32_t kWindow = 4096;   // small, so that frames wrap around its end

// The peer's mapping of the shared pages.
class Pages {
 public:
  explicit Pages(const soft::shm::Region& shared)
      : region_(soft::shm::Region::adopt(Fd(::dup(shared.fd())), soft::shm::Layout::kSize)) {
    require(region_.valid());
    out().window = kWindow;
  }
  // Appends bytes to the stream; the first of them belong into the porch. Rings the bell if the
  // reader sleeps.
  void put(std::span<const std::byte> bytes, int bell) {
    for (const std::byte b : bytes) {
      (head_ < porch().size() ? porch()[head_] : data()[head_ % kWindow]) = b;
      ++head_;
    }
    out().head = head_;
    if (out().reader_sleeps.exchange(0) != 0) ring(bell);
  }
  // Appends the beginning of a frame, payload that is lent in the state `copied_to`, and the end of
  // the frame.
  void lend(std::span<const std::byte> front, std::uint32_t payload, std::uint32_t copied_to,
            std::size_t end, int bell) {
    soft::shm::LoanControl& loans = layout().loans[0];
    soft::shm::LoanSlot& slot = loans.slots[lent_ % soft::shm::kLoanSlots];
    slot.position = head_ + front.size();
    slot.address = reinterpret_cast<std::uintptr_t>(memory().data());
    slot.length = payload;
    slot.copied_to = copied_to;
    loans.lent = ++lent_;
    std::vector<std::byte> bytes(front.begin(), front.end());
    bytes.resize(front.size() + end);
    put(bytes, bell);
  }
  static void ring(int bell) { ::send(bell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); }
  void set(unsigned field, std::uint64_t value) {
    soft::shm::RingControl& ring = field % 2 == 0 ? out() : in();
    const auto word = static_cast<std::uint32_t>(value);
    soft::shm::LoanControl& loans = layout().loans[field % 2];
    soft::shm::LoanSlot& loan = loans.slots[word / 2 % soft::shm::kLoanSlots];
    switch (field / 2 % kFields) {
      case 0:
        ring.head = value;
        break;
      case 1:
        ring.tail = value;
        break;
      case 2:
        ring.base = value;
        break;
      case 3:
        ring.window = word;
        break;
      case 4:
        ring.end = word;
        break;
      case 5:
        ring.writer_sleeps = word;
        break;
      case 6:
        ring.delivered = value;
        break;
      case 7:  // the peer claims that it can access our memory
        layout().greeting[0].reaches = word;
        break;
      case 8:  // the peer claims to be using a grant
        layout().granted[1][word % soft::shm::kGrantSlots].user = thread(word);
        break;
      case 9:  // a field that only our side should write
        layout().granted[1][word % soft::shm::kGrantSlots].stag = word;
        break;
      case 10:
        loans.lent = word;
        break;
      case 11:
        loans.returned = word;
        break;
      case 12:
        loans.welcome = word;
        break;
      case 13:
        loans.refused = word;
        break;
      case 14:
        loans.reads = word;
        break;
      case 15:
        loan.position = value / 2;
        break;
      case 16:
        loan.length = word / 2;
        break;
      case 17:
        loan.copied_to = word % 8 == 0 ? word / 8 % 4 * soft::shm::kTaken : word / 64;
        break;
      case 18:
        ring.reader_sleeps = word;
        break;
      case 19:
        ring.acknowledged = value;
        break;
      case 20:
        ring.awaited = value;
        break;
      case 21:
        ring.latest_from = value;
        break;
      case 22:
        ring.latest.at(word % soft::shm::kLatestWords) = value;
        break;
      case 23:
        loan.address = address(word / 64);
        break;
      case 24:
        set_greeting(layout().greeting[field % 2], word % 8, value / 8);
        break;
      case 25:
        set_grant(layout().granted[field % 2], value);
        break;
      case 26:
        set_offer(layout().offers[field % 2], value);
        break;
      default:
        layout().ends[field % 2].at(word % soft::shm::kLoanSlots) = value;
        break;
    }
  }
  // Whether our side has offered a receive.
  [[nodiscard]] bool has_offer() {
    const soft::shm::OfferSlots& ours = layout().offers[1];
    return std::any_of(ours.begin(), ours.end(), [](const auto& slot) { return slot.stag != 0; });
  }
  // The peer's memory, to which its grants refer.
  static std::span<std::byte> memory() {
    static std::vector<std::byte> memory(2 * kShared);
    return memory;
  }
  void poke(std::size_t place, std::uint8_t value) { data()[place % kWindow] = std::byte{value}; }
  void poke_porch(std::size_t place, std::uint8_t value) {
    porch()[place % porch().size()] = std::byte{value};
  }
  void poke_spare(std::size_t place, std::uint8_t value) {
    region_.bytes()[soft::shm::Layout::kSparesAt + place] = std::byte{value};
  }
  void greet() { soft::shm::greet(layout().greeting[0]); }

 private:
  static constexpr unsigned kFields = 28;

  // 0, or a thread that does not exist: one of this process would be waited for.
  static std::uint32_t thread(std::uint32_t choice) {
    return choice % 8 == 0 ? 0 : choice | 1U << 30;
  }
  // In the peer's process.
  static std::uint64_t address(std::uint32_t choice) {
    switch (choice % 4) {
      case 0:
        return 4096;
      case 1:
        return ~std::uint64_t{0};
      default:
        return reinterpret_cast<std::uintptr_t>(memory().data()) + choice / 4 % kSize;
    }
  }
  static void set_greeting(soft::shm::Greeting& greeting, unsigned what, std::uint64_t value) {
    switch (what) {
      case 0:
        greeting.nonce_at = value;
        break;
      case 1:
      case 2:
        greeting.nonce.at(what - 1) = value;
        break;
      case 3:
        greeting.fixed = static_cast<std::uint32_t>(value);
        break;
      default:
        greeting.reaches = static_cast<std::uint32_t>(value);
        break;
    }
  }
  // A request refers to its target by STag 1 and offset 0.
  static void set_grant(soft::shm::GrantSlots& slots, std::uint64_t value) {
    const auto word = static_cast<std::uint32_t>(value / 64);
    soft::shm::GrantSlot& slot =
        slots.at(soft::shm::grant_places(1) + value % soft::shm::kGrantPlaces);
    switch (value / soft::shm::kGrantPlaces % 8) {
      case 0:
        slot.stag = 1;
        slot.rights = ~0U;
        slot.to = 0;
        slot.length = kLarge;
        slot.address = address(word);
        break;
      case 1:
        slot.stag = word;
        break;
      case 2:
        slot.rights = word;
        break;
      case 3:
        slot.to = std::uint64_t{0} - word % kSize;
        break;
      case 4:
        slot.length = value / 64;
        break;
      case 5:
        slot.length = ~std::uint64_t{0};
        break;
      case 6:
        slot.address = address(word);
        break;
      default:
        slot.user = thread(word);
        break;
    }
  }
  // An offer of the peer, or any change to one of ours, for one of the first messages.
  static void set_offer(soft::shm::OfferSlots& slots, std::uint64_t value) {
    const auto word = static_cast<std::uint32_t>(value / 64);
    soft::shm::GrantSlot& slot = slots.at(word % soft::shm::kOffers);
    switch (value % 8) {
      case 0:
        slot.stag = word % 16;
        break;
      case 1:
        slot.user = thread(word);
        break;
      case 2:
        slot.rights = word;
        break;
      case 3:
        slot.length = word % (2 * kShared - kSize);
        break;
      default:
        slot.rights = ~0U;
        slot.to = 0;
        slot.length = kShared;
        slot.address = address(word / 16);
        slot.stag = word % 16;
        break;
    }
  }
  soft::shm::RingControl& out() { return layout().control[0]; }
  soft::shm::RingControl& in() { return layout().control[1]; }
  soft::shm::Layout& layout() {
    return *reinterpret_cast<soft::shm::Layout*>(region_.bytes().data());
  }
  std::span<std::byte> porch() { return layout().porch[0]; }
  std::span<std::byte> data() { return region_.bytes().subspan(soft::shm::Layout::kRingsAt); }

  soft::shm::Region region_;
  std::uint32_t lent_ = 0;
  std::uint64_t head_ = 0;
};

}  // namespace udapl::fuzz
