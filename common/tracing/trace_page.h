// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

// The levels of one library, in a page of their own, so that the page can be shared with a tool in
// another process (docs/adr/0020). The library reads it at every trace point; neither side waits.
namespace udapl::trace {

#if defined(__x86_64__) || defined(__i386__)
inline constexpr std::size_t kPageSize = 4096;
#else
inline constexpr std::size_t kPageSize = 65536;  // the largest page of other architectures
#endif

inline constexpr std::uint32_t kPageMagic = 0x55445452;  // "UDTR"
inline constexpr std::uint32_t kPageVersion = 1;
// The name of a page's descriptor: this prefix, then the component.
inline constexpr char kPageName[] = "udapl-trace:";

// Any value is a legal level, since a trace point only compares it.
struct alignas(kPageSize) Page {
  std::uint32_t magic = kPageMagic;
  std::uint32_t version = kPageVersion;
  std::atomic<std::int32_t> threshold;    // a point is on if its level is not above this
  std::atomic<std::int32_t> text_level;   // of text records
  std::atomic<std::int32_t> probe_level;  // of records for the probe library; -1: not loaded

  constexpr explicit Page(std::int32_t level) noexcept
      : threshold(level), text_level(level), probe_level(-1) {}

  // Both may run in several processes at a time; the last one to run sets the right threshold.
  void set_text_level(std::int32_t level) noexcept {
    text_level.store(level, std::memory_order_relaxed);
    settle();
  }
  void set_probe_level(std::int32_t level) noexcept {
    probe_level.store(level, std::memory_order_relaxed);
    settle();
  }

 private:
  void settle() noexcept {
    threshold.store(std::max(text_level.load(std::memory_order_relaxed),
                             probe_level.load(std::memory_order_relaxed)),
                    std::memory_order_relaxed);
  }
};
static_assert(sizeof(Page) == kPageSize);
static_assert(std::atomic<std::int32_t>::is_always_lock_free);

}  // namespace udapl::trace
