// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

// Counts calls that can fail, and existing objects, for both doubles. Thread-safe. Exported by the
// double of libibverbs to that of librdmacm.
namespace verbs_mock {

enum class Kind {
  kContext,
  kPd,
  kThreadDomain,
  kMr,
  kMw,
  kCompChannel,
  kCq,
  kSrq,
  kQp,
  kCmChannel,
  kCmId,
  kCmEvent,  // delivered and not acknowledged
  kCount
};

}  // namespace verbs_mock

extern "C" {
// Called first by each function `call` that can fail. Returns true, with errno = `error`, if it
// must fail.
bool verbs_mock_fault(const char* call, int error) noexcept;
// Whether this resolution is one of those to be lost, see verbs_mock_lose_resolutions().
bool verbs_mock_loses_resolution() noexcept;
void verbs_mock_note_tos(unsigned tos) noexcept;
// See verbs_mock_delay_disconnect().
unsigned verbs_mock_disconnect_delay() noexcept;
// See verbs_mock_lose_disconnects().
bool verbs_mock_disconnects_lost() noexcept;
// See verbs_mock_set_siw().
bool verbs_mock_is_siw() noexcept;
// Whether the device has IP addresses.
bool verbs_mock_has_ip() noexcept;
// The port that has the IP addresses.
std::uint8_t verbs_mock_active_port() noexcept;
// The InfiniBand port that has this GID; 0: none.
std::uint8_t verbs_mock_port_with_gid(const void* gid) noexcept;
// The index of the partition; negative: the device is not in it.
int verbs_mock_index_of_pkey(std::uint16_t pkey) noexcept;
// An object of this kind was created (+1) or destroyed (-1).
void verbs_mock_count(verbs_mock::Kind kind, int change) noexcept;
}
