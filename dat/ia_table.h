// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/mutex.h"
#include "common/result.h"

namespace udapl::dat {

// Maps the IA handles that applications hold (numbers 1, 2, ...) to the providers' own IA pointers
// and back. One per process, owned by the API layer, which never destroys it, so that it can be
// used before constructors and after destructors have run.
//
// Thread safe. Lookups take no lock in either direction; insert and remove do. Never calls out.
//
// Invariants: 0 is never a handle (it would be DAT_HANDLE_NULL). The capacity starts at kBlock and
// grows by kBlock, blocks are never freed. The lowest free number is used first.
class IaTable {
 public:
  static constexpr std::size_t kBlock = 64;
  // Below the lowest address that Linux lets a process map, so no number is ever a valid pointer.
  static constexpr std::size_t kMaxHandles = 65536;

  constexpr IaTable() noexcept : blocks_{&first_block_} {}
  ~IaTable();
  IaTable(const IaTable&) = delete;
  IaTable& operator=(const IaTable&) = delete;

  // Assigns a number to `provider_ia`. INSUFFICIENT_RESOURCES if no number is free, or if out of
  // memory.
  Result<DAT_IA_HANDLE> insert(DAT_IA_HANDLE provider_ia) noexcept;

  // Frees a number in use.
  void remove(DAT_IA_HANDLE handle) noexcept;

  // Claims a number for closing. Returns true to one caller only, until cancel_close. The number
  // still maps to its pointer. The provider may reuse the pointer for a new IA at any time: it maps
  // to this number only if no other number has it.
  [[nodiscard]] bool begin_close(DAT_IA_HANDLE handle) noexcept;
  void cancel_close(DAT_IA_HANDLE handle) noexcept;

  // The provider's pointer for a number in use; null for anything else.
  [[nodiscard]] DAT_IA_HANDLE pointer_of(DAT_HANDLE handle) const noexcept {
    const Slot* slot = slot_of(handle);
    // acquire: pairs with insert, the provider's object is complete.
    return slot == nullptr ? nullptr : slot->provider_ia.load(std::memory_order_acquire);
  }

  // The number of a provider's pointer; null if it is not in the table.
  [[nodiscard]] DAT_IA_HANDLE number_of(DAT_IA_HANDLE provider_ia) const noexcept;

  // Like pointer_of, but a provider's pointer of an open IA is accepted too and returned unchanged:
  // OpenFabrics providers put such pointers into asynchronous error events.
  [[nodiscard]] DAT_IA_HANDLE resolve(DAT_IA_HANDLE handle) const noexcept {
    const DAT_IA_HANDLE pointer = pointer_of(handle);
    if (pointer != nullptr) [[likely]]
      return pointer;
    return is_number(handle) || number_of(handle) == nullptr ? nullptr : handle;
  }

  // Returns true if the handle can only be a number, in use or not, or null: it must not be
  // dereferenced.
  [[nodiscard]] static bool is_number(DAT_HANDLE handle) noexcept {
    return index_of(handle) < kMaxHandles;
  }

  // dats_get_ia_handle: maps a number to its pointer and a pointer to its number.
  DAT_RETURN translate(DAT_IA_HANDLE handle, DAT_IA_HANDLE* other) const noexcept;

 private:
  struct Slot {
    std::atomic<DAT_IA_HANDLE> provider_ia{nullptr};
    std::atomic<bool> closing{false};
  };
  struct Block {
    std::array<Slot, kBlock> slots{};
  };

  static std::uintptr_t index_of(DAT_HANDLE handle) noexcept {
    return reinterpret_cast<std::uintptr_t>(handle);
  }
  static DAT_IA_HANDLE handle_of(std::uintptr_t index) noexcept {
    return reinterpret_cast<DAT_IA_HANDLE>(index);
  }

  // Null if the handle is null or not below the capacity.
  [[nodiscard]] const Slot* slot_of(DAT_HANDLE handle) const noexcept {
    const std::uintptr_t index = index_of(handle);
    if (index - 1 >= kMaxHandles - 1) return nullptr;
    const Block* block = blocks_[index / kBlock].load(std::memory_order_acquire);
    return block == nullptr ? nullptr : &block->slots[index % kBlock];
  }
  [[nodiscard]] Slot* slot_of(DAT_HANDLE handle) noexcept {
    return const_cast<Slot*>(static_cast<const IaTable*>(this)->slot_of(handle));
  }

  std::array<std::atomic<Block*>, kMaxHandles / kBlock> blocks_;  // null from the capacity on
  Block first_block_;
  Mutex mutex_;                                              // serialises insert and remove
  std::uintptr_t lowest_free_ UDAPL_GUARDED_BY(mutex_) = 1;  // no lower index is free
};

}  // namespace udapl::dat
