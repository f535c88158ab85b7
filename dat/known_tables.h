// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace udapl::dat {

// The provider tables that objects of this process point at: those that were registered and those
// of opened IAs. A consumer's handle is treated as an object if its first word points to one of
// them. One per process, owned by the API layer, never destroyed; tables are never removed, since
// stale handles still point to them. Thread-safe without locks.
class KnownTables {
 public:
  static constexpr std::size_t kSlots = 4096;

  constexpr KnownTables() noexcept = default;
  KnownTables(const KnownTables&) = delete;
  KnownTables& operator=(const KnownTables&) = delete;

  // If there is no free slot, the table is checked by read_table() at each use instead.
  void add(const DAT_PROVIDER* table) noexcept {
    for (std::size_t i = 0; i < kSlots; ++i) {
      std::atomic<const DAT_PROVIDER*>& slot = slots_[(hash(table) + i) % kSlots];
      const DAT_PROVIDER* there = nullptr;
      if (slot.compare_exchange_strong(there, table, std::memory_order_relaxed) || there == table)
        return;
    }
  }
  [[nodiscard]] bool has(const DAT_PROVIDER* table) const noexcept {
    for (std::size_t i = 0; i < kSlots; ++i) {
      const DAT_PROVIDER* const there =
          slots_[(hash(table) + i) % kSlots].load(std::memory_order_relaxed);
      if (there == table) return table != nullptr;
      if (there == nullptr) return false;
    }
    return false;
  }

 private:
  static std::size_t hash(const DAT_PROVIDER* table) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(table);
    return (address >> 4U) ^ (address >> 16U);
  }

  std::array<std::atomic<const DAT_PROVIDER*>, kSlots> slots_{};
};

// Whether an object can be at `handle`: it is neither an IA's number nor an impossible pointer.
// Does not dereference it.
[[nodiscard]] inline bool is_object_address(DAT_HANDLE handle) noexcept {
  constexpr std::uintptr_t kLowest = 65536;  // IaTable::kMaxHandles
#if defined(__x86_64__)
  constexpr std::uintptr_t kBeyond = std::uintptr_t{1} << 47U;
#elif UINTPTR_MAX > 0xffffffffU
  constexpr std::uintptr_t kBeyond = std::uintptr_t{1} << 52U;
#else
  constexpr std::uintptr_t kBeyond = UINTPTR_MAX;
#endif
  auto address = reinterpret_cast<std::uintptr_t>(handle);
#if defined(__aarch64__)
  address &= (std::uintptr_t{1} << 56U) - 1;  // the processor ignores the top byte: it may be a tag
#endif
  return address >= kLowest && address < kBeyond && address % alignof(void*) == 0;
}

// Copies a table that was not registered: a provider may use one for its own objects. `table` may
// be any address: returns false if the memory there cannot be read, or cannot be a table. Slow.
[[nodiscard]] bool read_table(const DAT_PROVIDER* table, DAT_PROVIDER& copy) noexcept;
// Whether the address is in a library or in the program, as that of a function must be.
[[nodiscard]] bool is_function(const void* address) noexcept;

}  // namespace udapl::dat
