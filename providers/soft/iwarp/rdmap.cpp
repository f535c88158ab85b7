// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/soft/iwarp/rdmap.h"

namespace udapl::iwarp {
namespace {

// RFC 7306 §5.1.1: a set mask bit is the top bit of a field, whose carry is not passed on.
std::uint64_t masked_add(std::uint64_t a, std::uint64_t b, std::uint64_t mask) noexcept {
  if (mask == 0) return a + b;
  // Add without the top bit of each field, so that no carry leaves a field, then add the top bits.
  const std::uint64_t low = (a & ~mask) + (b & ~mask);
  return low ^ ((a ^ b) & mask);
}

}  // namespace

void encode(const ReadRequest& in, std::byte* out) noexcept {
  out = store32(out, in.sink_stag);
  out = store64(out, in.sink_to);
  out = store32(out, in.size);
  out = store32(out, in.source_stag);
  store64(out, in.source_to);
}

ReadRequest decode_read_request(const std::byte* in) noexcept {
  return {load32(in), load64(in + 4), load32(in + 12), load32(in + 16), load64(in + 20)};
}

void encode(const AtomicRequest& in, std::byte* out) noexcept {
  out = store32(out, static_cast<std::uint32_t>(in.op));
  out = store32(out, in.request_id);
  out = store32(out, in.stag);
  out = store64(out, in.to);
  out = store64(out, in.add_swap);
  out = store64(out, in.add_swap_mask);
  out = store64(out, in.compare);
  store64(out, in.compare_mask);
}

AtomicRequest decode_atomic_request(const std::byte* in) noexcept {
  return {static_cast<AtomicOp>(load8(in + 3) & 0x0F),
          load32(in + 4),
          load32(in + 8),
          load64(in + 12),
          load64(in + 20),
          load64(in + 28),
          load64(in + 36),
          load64(in + 44)};
}

void encode(const AtomicResponse& in, std::byte* out) noexcept {
  out = store32(out, in.request_id);
  store64(out, in.original);
}

AtomicResponse decode_atomic_response(const std::byte* in) noexcept {
  return {load32(in), load64(in + 4)};
}

ImmediateBytes encode(const WriteImmediate& in) noexcept {
  ImmediateBytes out;
  store32(store32(out.data(), in.immediate), in.write_length);
  return out;
}

WriteImmediate decode_write_immediate(const ImmediateBytes& in) noexcept {
  return {load32(in.data()), load32(in.data() + 4)};
}

std::uint64_t apply(const AtomicRequest& request, std::uint64_t original) noexcept {
  if (request.op == AtomicOp::kFetchAdd) {
    return masked_add(original, request.add_swap, request.add_swap_mask);
  }
  if (((original ^ request.compare) & request.compare_mask) != 0) return original;
  return (original & ~request.add_swap_mask) | (request.add_swap & request.add_swap_mask);
}

}  // namespace udapl::iwarp
