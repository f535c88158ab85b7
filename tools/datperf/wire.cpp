// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "wire.h"

namespace datperf {

namespace {

using Words = std::array<std::uint32_t, kWords>;

WireBytes to_bytes(const Words& words) {
  WireBytes bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(words[i / 4] >> (24 - 8 * (i % 4)));
  return bytes;
}

// Returns nullopt unless the bytes start with the magic number. Providers may append zeroes.
std::optional<Words> to_words(std::span<const std::byte> bytes) {
  if (bytes.size() < kWords * 4) return std::nullopt;
  Words words{};
  for (std::size_t i = 0; i < kWords * 4; ++i)
    words[i / 4] = words[i / 4] << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  if (words[0] != kMagic) return std::nullopt;
  return words;
}

std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint64_t join(std::uint32_t upper, std::uint32_t lower) {
  return std::uint64_t{upper} << 32 | lower;
}

bool within(std::uint32_t value, std::uint32_t most) { return value >= 1 && value <= most; }

}  // namespace

WireBytes encode(const Hello& hello) {
  const Case& what = hello.what;
  const auto kinds = static_cast<std::uint32_t>(hello.role) << 24 |
                     static_cast<std::uint32_t>(what.measure) << 16 |
                     static_cast<std::uint32_t>(what.operation) << 8 |
                     static_cast<std::uint32_t>(what.waiting);
  return to_bytes({kMagic, kinds, what.size, what.window, what.endpoints, high(hello.group),
                   low(hello.group), high(hello.address), low(hello.address), hello.context});
}

std::optional<Hello> hello_of(std::span<const std::byte> bytes) {
  const std::optional<Words> words = to_words(bytes);
  if (!words) return std::nullopt;
  const Words& w = *words;
  const auto kind = [&](unsigned shift) { return w[1] >> shift & 0xff; };
  if (kind(24) > static_cast<std::uint32_t>(Role::kMember) || kind(16) >= kMeasures.size() ||
      kind(8) >= kOperations.size() || kind(0) >= kWaitings.size() || !within(w[2], kMaxSize) ||
      !within(w[3], kMaxWindow) || !within(w[4], kMaxEndpoints))
    return std::nullopt;
  Hello hello;
  hello.role = static_cast<Role>(kind(24));
  hello.what = {static_cast<Measure>(kind(16)),
                static_cast<Operation>(kind(8)),
                static_cast<Waiting>(kind(0)),
                w[2],
                w[3],
                w[4],
                1};
  hello.group = join(w[5], w[6]);
  hello.address = join(w[7], w[8]);
  hello.context = w[9];
  return hello;
}

WireBytes encode(const Invitation& invitation) {
  return to_bytes({kMagic, high(invitation.address), low(invitation.address), invitation.context});
}

std::optional<Invitation> invitation_of(std::span<const std::byte> bytes) {
  const std::optional<Words> words = to_words(bytes);
  if (!words) return std::nullopt;
  return Invitation{join((*words)[1], (*words)[2]), (*words)[3]};
}

}  // namespace datperf
