// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace udapl::verbs {

// The DAPL_* variables that a consumer may set, read once when an adapter is opened (docs:
// docs/environment.md). Numbers are in C syntax. A value that is not a number, or out of range for
// its field, is traced and ignored. Immutable.
struct Environment {
  // The value of a variable, or null.
  using Lookup = std::function<const char*(const char* name)>;
  // Reads the environment of the process; in a set-uid program, every variable counts as unset.
  static const char* of_process(const char* name) noexcept;

  static Environment from(const Lookup& lookup);

  std::uint32_t arp_timeout_ms = 4000;    // DAPL_CM_ARP_TIMEOUT_MS, per try
  std::uint32_t arp_retries = 15;         // DAPL_CM_ARP_RETRY_COUNT, after the first try
  std::uint32_t route_timeout_ms = 4000;  // DAPL_CM_ROUTE_TIMEOUT_MS, per try
  std::uint32_t route_retries = 15;       // DAPL_CM_ROUTE_RETRY_COUNT
  std::uint32_t rtu_timeout_ms = 15000;   // DAPL_CM_RTU_TIMEOUT_MS
  std::uint32_t drain_timeout_ms = 5000;  // DAPL_DRAIN_TIMEOUT_MS; 0: no limit
  std::uint8_t tos = 0;                   // DAPL_CM_TOS; 0: not set
  std::uint8_t retry_count = 7;           // DAPL_ACK_RETRY, 0..7
  std::uint8_t rnr_retry = 7;             // DAPL_RNR_RETRY, 0..7 (7: forever)
  // Set only if the variable is set; they override the choice of the connection manager.
  std::optional<std::uint8_t> ack_timer;  // DAPL_ACK_TIMER, 4.096 us * 2^n, 0..31
  std::optional<std::uint8_t> rnr_timer;  // DAPL_RNR_TIMER, IB code 0..31
  std::optional<std::uint32_t> path_mtu;  // DAPL_IB_MTU, bytes: 256, 512, 1024, 2048 or 4096
  std::optional<std::uint16_t> pkey;      // DAPL_IB_PKEY; not 0
  std::optional<std::uint32_t> max_work;  // DAPL_WR_MAX: cap of max_dto_per_ep
  std::uint32_t max_inline = 64;          // DAPL_MAX_INLINE, bytes asked for at QP creation
};

// A variable that is set but has no effect on an adapter, and why.
struct Ineffective {
  const char* name;
  const char* why;
};
// How the adapter is addressed.
enum class Addressing : std::uint8_t { kGid, kIpOnInfiniBand, kIpOnEthernet };
[[nodiscard]] std::vector<Ineffective> ineffective(const Environment::Lookup& lookup,
                                                   Addressing addressing);

}  // namespace udapl::verbs
