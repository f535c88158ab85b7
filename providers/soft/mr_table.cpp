// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/mr_table.h"

#include "common/mutex.h"
#include "providers/soft/mr_entry.h"

#include <algorithm>
#include <new>

namespace udapl::soft {
namespace {

// An lmr_context contains the low bits of the generation. These are never all zero, so that no
// context is 0.
constexpr std::uint32_t next_generation(std::uint32_t generation) noexcept {
  ++generation;
  return (generation & kGenerationMask) == 0 ? generation + 1 : generation;
}

}  // namespace

MrTable::MrTable(std::uint32_t max_entries)
    : max_entries_(std::min(max_entries, kMaxEntries)),
      buckets_(static_cast<std::uint32_t*>(std::calloc(kBuckets, sizeof(std::uint32_t)))),
      chunks_(new std::atomic<Entry*>[kMaxEntries / kChunkSize]()) {
  if (buckets_ == nullptr) throw std::bad_alloc();
}

MrTable::~MrTable() {
  for (std::uint32_t i = 0; i < kMaxEntries / kChunkSize; ++i)
    delete[] chunks_[i].load(std::memory_order_relaxed);
}

// ---- entries -----------------------------------------------------------------------------------

MrTable::Entry* MrTable::find(std::uint32_t index) const noexcept {
  if (index >= kMaxEntries) return nullptr;
  // acquire: pairs with the store in allocate(), so the entries are constructed.
  Entry* const chunk = chunks_[index >> kChunkBits].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &chunk[index & (kChunkSize - 1)];
}

MrTable::Entry& MrTable::at(std::uint32_t index) const noexcept {
  Entry* const chunk = chunks_[index >> kChunkBits].load(std::memory_order_acquire);
  return chunk[index & (kChunkSize - 1)];
}

Result<std::uint32_t> MrTable::allocate(Kind kind, ScopeId pd) {
  std::unique_ptr<Entry[]> spare;  // allocated without the lock, once it turns out to be needed
  for (;;) {
    {
      const ScopedLock lock(lock_);
      std::uint32_t index = free_head_;
      if (index != kNone) {
        free_head_ = at(index).next;
        if (free_head_ == kNone) free_tail_ = kNone;
      } else if (created_ < max_entries_) {
        std::atomic<Entry*>& chunk = chunks_[created_ >> kChunkBits];
        if (chunk.load(std::memory_order_relaxed) == nullptr && spare != nullptr)
          chunk.store(spare.release(), std::memory_order_release);
        if (chunk.load(std::memory_order_relaxed) != nullptr) index = created_++;
      } else {
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
      }
      if (index != kNone) {
        Entry& entry = at(index);
        entry.kind.store(kind, std::memory_order_release);
        entry.pd.store(pd, std::memory_order_release);
        entry.windows.store(0, std::memory_order_relaxed);
        entry.latest.store(0, std::memory_order_relaxed);
        ++entry.life;
        return index;
      }
    }
    spare = std::make_unique<Entry[]>(kChunkSize);
  }
}

void MrTable::release(std::uint32_t index) noexcept {
  Entry& entry = at(index);
  entry.kind.store(Kind::kFree, std::memory_order_release);
  ++entry.life;
  entry.next = kNone;
  if (free_tail_ == kNone)
    free_head_ = index;
  else
    at(free_tail_).next = index;
  free_tail_ = index;
}

std::uint32_t MrTable::new_stag() noexcept {
  std::uint32_t stag = stags_.next();
  while (lookup(stag) != kNone) stag = stags_.next();  // still in use after 2^32 others
  return stag;
}

// Buckets hold index + 1.
std::uint32_t MrTable::lookup(std::uint32_t stag) const noexcept {
  if (stag == 0) return kNone;
  std::uint32_t index = buckets_[stag % kBuckets] - 1;
  while (index != kNone && at(index).stag.load(std::memory_order_relaxed) != stag)
    index = at(index).next;
  return index;
}

void MrTable::publish(std::uint32_t index, std::uint32_t stag) noexcept {
  Entry& entry = at(index);
  entry.stag.store(stag, std::memory_order_relaxed);
  if (stag != 0) {
    std::uint32_t& bucket = buckets_[stag % kBuckets];
    entry.next = bucket - 1;
    bucket = index + 1;
  }
  entry.generation = next_generation(entry.generation);
  entry.current.store(entry.generation, std::memory_order_seq_cst);
}

void MrTable::withdraw(std::uint32_t index) noexcept {
  Entry& entry = at(index);
  // seq_cst, as in pin(): either the thread that pins sees the 0, or this thread sees its pin.
  entry.current.store(0, std::memory_order_seq_cst);
  for (auto* grant = entry.grants.load(std::memory_order_relaxed); grant != nullptr;
       grant = grant->next)
    shm::Grants::withdraw(*grant);
  const std::uint32_t stag = entry.stag.exchange(0, std::memory_order_relaxed);
  if (stag == 0) return;
  std::uint32_t& bucket = buckets_[stag % kBuckets];
  if (bucket - 1 == index) {
    bucket = entry.next + 1;
  } else {
    std::uint32_t before = bucket - 1;
    while (at(before).next != index) before = at(before).next;
    at(before).next = entry.next;
  }
  entry.next = kNone;
}

MrTable::Pin MrTable::pin(MrRef ref) noexcept {
  Entry* const entry = ref.generation == 0 ? nullptr : find(ref.index);
  if (entry == nullptr) return Pin();
  entry->users.fetch_add(1, std::memory_order_seq_cst);
  Pin held(&entry->users);
  if (entry->current.load(std::memory_order_seq_cst) != ref.generation) return Pin();
  return held;
}

// ---- registrations -----------------------------------------------------------------------------

Result<MrRef> MrTable::register_memory(ScopeId pd, const transport::MrInit& init) {
  Result<std::uint32_t> index = allocate(Kind::kRegistration, pd);
  if (!index.ok()) return index.status();
  // A process can always send from memory that it has registered, as on verbs devices, which have
  // no local read right: existing programs send from memory that they registered for writing only.
  const auto rights = static_cast<std::uint32_t>(init.privileges) | kLocalRead;
  const ScopedLock lock(lock_);
  Entry& entry = at(*index);
  entry.address.store(init.address, std::memory_order_release);
  entry.length.store(init.length, std::memory_order_release);
  entry.rights.store(rights, std::memory_order_release);
  entry.zero_based.store(init.va_type == DAT_VA_TYPE_ZB, std::memory_order_release);
  publish(*index, new_stag());
  return MrRef{*index, entry.generation};
}

DAT_LMR_CONTEXT MrTable::lmr_context(MrRef ref) noexcept {
  return ref.index << kGenerationBits | (ref.generation & kGenerationMask);
}

DAT_RMR_CONTEXT MrTable::rmr_context(MrRef ref) const noexcept {
  return at(ref.index).stag.load(std::memory_order_relaxed);
}

bool MrTable::has_windows(MrRef ref) const noexcept {
  return at(ref.index).windows.load(std::memory_order_acquire) != 0;
}

void MrTable::revoke(MrRef ref) noexcept {
  Entry& entry = at(ref.index);
  if (has_windows(ref)) unbind_windows_of(ref);
  {
    const ScopedLock lock(lock_);
    withdraw(ref.index);
  }
  ask_keepers(entry, ref);
  wait_unused(entry);
  const ScopedLock lock(lock_);
  release(ref.index);
}

void MrTable::add(Keeper& keeper) noexcept {
  const ScopedLock lock(keepers_lock_);
  keepers_.push_back(keeper);
}

void MrTable::remove(Keeper& keeper) noexcept {
  const ScopedLock lock(keepers_lock_);
  keepers_.erase(keepers_.iterator_to(keeper));
}

// Asks each keeper only once: pin() fails for an entry that was withdrawn, so no keeper gets a new
// pin.
void MrTable::ask_keepers(const Entry& entry, MrRef ref) noexcept {
  if (entry.users.load(std::memory_order_seq_cst) == 0) return;
  const ScopedLock lock(keepers_lock_);
  for (Keeper& keeper : keepers_) {
    keeper.let_go(ref);
    if (entry.users.load(std::memory_order_relaxed) == 0) break;
  }
}

// ---- local access ------------------------------------------------------------------------------

[[gnu::always_inline]] inline DAT_RETURN MrTable::resolve_to(End end,
                                                             const DAT_LMR_TRIPLET& segment,
                                                             ScopeId pd, std::uint32_t right,
                                                             Segment& out) const noexcept {
  const std::uint32_t index = segment.lmr_context >> kGenerationBits;
  const Entry* const entry = find(index);
  if (entry == nullptr) [[unlikely]]
    return dat_error(DAT_PRIVILEGES_VIOLATION);
  const std::uint32_t generation = entry->current.load(std::memory_order_acquire);
  const Kind kind = entry->kind.load(std::memory_order_acquire);
  const ScopeId owner = entry->pd.load(std::memory_order_acquire);
  const std::uint64_t address = entry->address.load(std::memory_order_acquire);
  const std::uint64_t length = entry->length.load(std::memory_order_acquire);
  const std::uint32_t rights = entry->rights.load(std::memory_order_acquire);
  const bool zero_based = entry->zero_based.load(std::memory_order_acquire);
  if (generation == 0 || kind != Kind::kRegistration ||
      (generation & kGenerationMask) != (segment.lmr_context & kGenerationMask) ||
      entry->current.load(std::memory_order_relaxed) != generation) [[unlikely]]
    return dat_error(DAT_PRIVILEGES_VIOLATION);
  if (pd != 0 && owner != pd) [[unlikely]]
    return dat_error(DAT_PROTECTION_VIOLATION);

  // For an address below the start, the offset wraps to a value larger than any length.
  const std::uint64_t offset = segment.virtual_address - (zero_based ? 0 : address);
  if (offset > length) [[unlikely]]
    return dat_error(DAT_INVALID_PARAMETER);
  out.length = segment.segment_length;
  if (segment.segment_length > length - offset) [[unlikely]] {
    if (end == End::kSegment) return dat_error(DAT_INVALID_PARAMETER);
    out.length = static_cast<std::uint32_t>(length - offset);
  }
  if ((rights & right) != right) [[unlikely]]
    return dat_error(DAT_PRIVILEGES_VIOLATION);
  out.address = reinterpret_cast<std::byte*>(address + offset);
  out.ref = {index, generation};
  return DAT_SUCCESS;
}

DAT_RETURN MrTable::resolve(const DAT_LMR_TRIPLET& segment, ScopeId pd, std::uint32_t right,
                            Segment& out) const noexcept {
  return resolve_to(End::kSegment, segment, pd, right, out);
}

DAT_RETURN MrTable::resolve_receive(const DAT_LMR_TRIPLET& segment, ScopeId pd,
                                    Segment& out) const noexcept {
  return resolve_to(End::kRegistration, segment, pd, kLocalWrite, out);
}

MrTable::Extent MrTable::extent(MrRef ref) const noexcept {
  const Entry& entry = at(ref.index);
  Extent extent;
  if (entry.kind.load(std::memory_order_relaxed) != Kind::kRegistration) return extent;
  const std::uint64_t address = entry.address.load(std::memory_order_relaxed);
  extent.context = lmr_context(ref);
  extent.rights = entry.rights.load(std::memory_order_relaxed);
  extent.pd = entry.pd.load(std::memory_order_relaxed);
  extent.start = entry.zero_based.load(std::memory_order_relaxed) ? 0 : address;
  extent.length = entry.length.load(std::memory_order_relaxed);
  extent.memory = reinterpret_cast<std::byte*>(address);
  return extent;
}

// ---- remote access -----------------------------------------------------------------------------

Refusal MrTable::access(const Access& request, Segment& out, Pin& pin) noexcept {
  Entry* entry = nullptr;
  Pin held;
  ScopeId bound_qp = 0;
  {
    const ScopedLock lock(lock_);
    out.ref.index = lookup(request.stag);
    if (out.ref.index == kNone) return Refusal::kInvalidStag;
    entry = &at(out.ref.index);
    // A thread that withdraws the entry acquires the lock later, and then sees this pin.
    entry->users.fetch_add(1, std::memory_order_seq_cst);
    held = Pin(&entry->users);
    out.ref.generation = entry->generation;
    if (entry->kind.load(std::memory_order_relaxed) == Kind::kWindow &&
        entry->scope == transport::WindowScope::kQp)
      bound_qp = entry->qp;
  }
  if (bound_qp != 0 && bound_qp != request.qp) return Refusal::kNotThisStream;
  const Refusal refusal = check(*entry, request, out);
  if (refusal == Refusal::kNone) pin = std::move(held);
  return refusal;
}

Refusal MrTable::access_kept(MrRef kept, const Access& request, Segment& out) const noexcept {
  out.ref = kept;
  return check(at(kept.index), request, out);
}

bool MrTable::is_registration(MrRef ref) const noexcept {
  return at(ref.index).kind.load(std::memory_order_relaxed) == Kind::kRegistration;
}

// REQUIRES: the entry is pinned, or found valid under the lock.
Refusal MrTable::check(const Entry& entry, const Access& request, Segment& out) noexcept {
  if (entry.pd.load(std::memory_order_relaxed) != request.pd) return Refusal::kNotThisStream;
  if (request.to + request.length < request.to) return Refusal::kToWrap;
  const std::uint64_t address = entry.address.load(std::memory_order_relaxed);
  const std::uint64_t length = entry.length.load(std::memory_order_relaxed);
  const std::uint64_t offset =
      request.to - (entry.zero_based.load(std::memory_order_relaxed) ? 0 : address);
  if (offset > length || request.length > length - offset) return Refusal::kBounds;
  if ((entry.rights.load(std::memory_order_relaxed) & request.right) != request.right)
    return Refusal::kAccess;
  out.address = reinterpret_cast<std::byte*>(address + offset);
  out.length = request.length;
  return Refusal::kNone;
}

}  // namespace udapl::soft
