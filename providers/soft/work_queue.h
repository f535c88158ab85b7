// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/types.h"
#include "providers/soft/iwarp/inbound.h"
#include "providers/soft/iwarp/rdmap.h"
#include "providers/soft/kept_pin.h"
#include "providers/soft/mr_table.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

// The work of a Qp: requests, receives, and answers that are owed to the peer. Nothing here is
// thread-safe: the lock of the owner protects it. The constructors allocate all memory.
namespace udapl::soft {

constexpr std::uint32_t count_of(int value) noexcept {
  return static_cast<std::uint32_t>(std::max(value, 0));
}

// An array that is not initialized, so that its pages take memory only when they are used.
struct Deallocate {
  void operator()(void* memory) const noexcept { ::operator delete(memory); }
};
template <class T>
using Untouched = std::unique_ptr<T[], Deallocate>;
template <class T>
[[nodiscard]] Untouched<T> make_untouched(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  return Untouched<T>(static_cast<T*>(::operator new(count * sizeof(T))));
}

// A ring buffer of T, with a fixed number of segments for each item. Positions never decrease.
// at(p) is valid for head <= p < tail.
template <class T>
class WorkRing {
 public:
  WorkRing(std::uint32_t depth, std::uint32_t max_segments)
      : depth_(depth),
        mask_(std::bit_ceil(depth == 0 ? 1U : depth) - 1),
        max_segments_(max_segments),
        items_(make_untouched<T>(std::size_t{mask_} + 1)),
        segments_(max_segments == 0
                      ? nullptr
                      : make_untouched<Segment>((std::size_t{mask_} + 1) * max_segments)) {}

  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint32_t max_segments() const noexcept { return max_segments_; }
  [[nodiscard]] std::uint64_t head() const noexcept { return head_; }
  [[nodiscard]] std::uint64_t tail() const noexcept { return tail_; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(tail_ - head_);
  }
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] bool full() const noexcept { return size() >= depth_; }

  [[nodiscard]] T& at(std::uint64_t position) noexcept { return items_[position & mask_]; }
  [[nodiscard]] const T& at(std::uint64_t at) const noexcept { return items_[at & mask_]; }
  [[nodiscard]] Segment* segments(std::uint64_t position) noexcept {
    return segments_.get() + (position & mask_) * max_segments_;
  }
  // The free slot behind the last item; push() adds it to the ring. REQUIRES: !full().
  [[nodiscard]] T& next() noexcept { return at(tail_); }
  void push() noexcept { ++tail_; }
  void pop() noexcept { ++head_; }
  void clear() noexcept { head_ = tail_ = 0; }

 private:
  std::uint32_t depth_;
  std::uint32_t mask_;
  std::uint32_t max_segments_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  Untouched<T> items_;
  Untouched<Segment> segments_;
};

// Moves all items to the empty ring `to`, which must have room for them.
template <class T>
void move_all(WorkRing<T>& from, WorkRing<T>& to) noexcept {
  for (; !from.empty(); from.pop(), to.push()) {
    to.next() = from.at(from.head());
    std::copy_n(from.segments(from.head()), to.next().segment_count, to.segments(to.tail()));
  }
}

enum class RequestKind : std::uint8_t {
  kSend,
  kWrite,
  kWriteImmediate,  // an RDMA Write and an Immediate Data message
  kRead,
  kFetchAdd,
  kCompareSwap,
  kBind
};
// Whether the peer's answer completes a request of this kind.
constexpr bool expects_response(RequestKind kind) noexcept {
  return kind == RequestKind::kRead || kind == RequestKind::kFetchAdd ||
         kind == RequestKind::kCompareSwap;
}
[[nodiscard]] DAT_DTOS operation_of(RequestKind kind) noexcept;

// A posted request. If a short message cannot be sent at once, its payload is copied here, so that
// programs may reuse the memory after the post, as they may with an adapter that takes short
// messages inline (adr 0048).
struct Request {
  static constexpr std::uint32_t kMaxCopied = 64;  // bytes

  transport::WorkId id;
  transport::WorkFlags flags;
  RequestKind kind;
  bool invalidate;  // Send: the peer invalidates `stag`
  bool write_sent;  // kWriteImmediate: the first of its two messages is built
  bool done;        // it has succeeded; only the completion remains to be reported
  bool copied;      // the payload is in `copy`; the segments are not used
  std::uint16_t segment_count;
  std::uint32_t length;              // bytes moved
  DAT_DTO_COMPLETION_STATUS status;  // why it failed; DAT_DTO_SUCCESS if it has not
  std::uint32_t stag;                // of the peer's memory, like `to`
  std::uint64_t to;
  std::uint64_t end;         // once built: its end in the outgoing stream
  std::uint64_t operand[2];  // the number to add; compare and swap; the immediate data
  union {
    MrTable::PendingBind bind;  // kBind, which has no payload
    std::byte copy[kMaxCopied];
  };
};

// Whether the consumer sees the completion of a request even if it succeeds.
constexpr bool is_seen(transport::WorkFlags flags) noexcept {
  return (flags & (transport::kSignalled | transport::kUnseen)) == transport::kSignalled;
}
constexpr bool is_seen(const Request& request) noexcept { return is_seen(request.flags); }

// A posted receive.
struct Receive {
  transport::WorkId id;
  transport::WorkFlags flags;
  std::uint16_t segment_count;
  bool cut_off;        // a segment reached beyond its LMR, and was shortened
  std::uint64_t room;  // bytes that it can hold
  ScopeId pd;          // the PD that its segments were checked against; unused in an SRQ
};

// An answer that we owe the peer, to an RDMA Read or an atomic.
struct Response {
  bool atomic;
  std::uint32_t msn;  // of the Read Request
  std::uint64_t end;  // once built: its end in the outgoing stream
  iwarp::ReadRequest request;
  union {
    Segment source;                // a Read of more than 0 bytes
    iwarp::AtomicResponse answer;  // an atomic
  };
};

// Checks and translates the segment list of a request, leaving out empty segments. On success, sets
// `count` and `total` (bytes). INVALID_PARAMETER if there are more than `max` segments; otherwise
// the errors of MrTable::resolve.
[[nodiscard]] DAT_RETURN resolve_list(const MrTable& memory, ScopeId pd, std::uint32_t right,
                                      std::span<const DAT_LMR_TRIPLET> list, std::uint32_t max,
                                      Segment* out, std::uint16_t& count,
                                      std::uint64_t& total) noexcept;

// The same for a receive. As in the packaged library (libdapl2), a segment may reach beyond its
// LMR. The receive then ends where the LMR does, and a longer message fails.
[[nodiscard]] DAT_RETURN resolve_receive(const MrTable& memory, ScopeId pd,
                                         std::span<const DAT_LMR_TRIPLET> list, std::uint32_t max,
                                         Segment* out, Receive& receive) noexcept;

// Copies a byte stream that arrives in order into a list of segments.
class Scatter {
 public:
  void start(std::span<const Segment> segments) noexcept {
    segments_ = segments;
    index_ = 0;
    offset_ = 0;
  }
  // Returns false if the memory is no longer registered; then nothing more may be placed. REQUIRES:
  // `bytes` fit into the rest of the segments.
  [[nodiscard]] bool place(MrTable& memory, KeptPin& kept,
                           std::span<const std::byte> bytes) noexcept;
  // Lets `payload` read the next bytes of the stream into the current segment, at most to its end.
  // Returns false as place() does. REQUIRES: the segments are not full.
  [[nodiscard]] bool fill(MrTable& memory, iwarp::Payload& payload) noexcept;

 private:
  std::span<const Segment> segments_;
  std::size_t index_ = 0;
  std::uint32_t offset_ = 0;  // into the current segment
};

}  // namespace udapl::soft
