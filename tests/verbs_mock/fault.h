// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

// Counting, for both doubles: calls that can fail, and objects that live. Thread-safe. Exported by
// the double of libibverbs to that of librdmacm.
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
  kCmEvent,  // got and not acknowledged
  kCount
};

}  // namespace verbs_mock

extern "C" {
// To be asked first by `call`, a function that can fail: true and errno = `error` if it must.
bool verbs_mock_fault(const char* call, int error) noexcept;
// One of those that verbs_mock_lose_resolutions() wants lost?
bool verbs_mock_loses_resolution() noexcept;
void verbs_mock_note_tos(unsigned tos) noexcept;
// verbs_mock_delay_disconnect().
unsigned verbs_mock_disconnect_delay() noexcept;
// verbs_mock_lose_farewells().
bool verbs_mock_farewells_lost() noexcept;
// Is the device reached by IP addresses?
bool verbs_mock_has_ip() noexcept;
// Where the IP addresses are.
std::uint8_t verbs_mock_active_port() noexcept;
// The InfiniBand port that has this GID; 0: none.
std::uint8_t verbs_mock_port_with_gid(const void* gid) noexcept;
// Index of the partition; negative: none of the device's.
int verbs_mock_index_of_pkey(std::uint16_t pkey) noexcept;
// An object of this kind came (+1) or went (-1).
void verbs_mock_count(verbs_mock::Kind kind, int change) noexcept;
}
